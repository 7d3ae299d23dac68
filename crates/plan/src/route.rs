//! Routes: for which names and requests they speak and to which group of backends they lead.

use serde::{Deserialize, Serialize};

use crate::http::{Filter, GrpcMatch, HttpMatch, Retry, SessionPersistence, Timeouts};
use crate::{BackendId, Hostname, ListenerId, Reason, RouteId};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Route {
    pub id: RouteId,
    /// Seconds since the epoch; the older of two equal routes wins, then the one first by namespace and name.
    pub created: i64,
    /// The listeners that accepted it, sorted.
    pub listeners: Vec<ListenerId>,
    /// As written: which of two routes is more specific is asked of these, not of their intersection with
    /// the listener's. Empty: every name of the listener.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hostnames: Vec<Hostname>,
    pub rules: Rules,
}

impl Route {
    /// The backends of one rule.
    #[must_use]
    pub fn group(&self, rule: usize) -> Option<&Group> {
        match &self.rules {
            Rules::Http(rules) => rules.get(rule).map(|rule| &rule.backends),
            Rules::Grpc(rules) => rules.get(rule).map(|rule| &rule.backends),
            Rules::Stream(only) => (rule == 0).then_some(&only.backends),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Rules {
    Http(Vec<HttpRule>),
    Grpc(Vec<GrpcRule>),
    /// TLS, TCP and UDP: one rule, nothing to match.
    Stream(StreamRule),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpRule {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Never empty: a rule without matches has the one that matches everything.
    pub matches: Vec<HttpMatch>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub filters: Vec<Filter>,
    pub backends: Group,
    #[serde(default, skip_serializing_if = "Timeouts::is_none")]
    pub timeouts: Timeouts,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionPersistence>,
    /// Set when the rule cannot be carried out as written (an unknown filter): it answers 500.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refuse: Option<Reason>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GrpcRule {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Never empty.
    pub matches: Vec<GrpcMatch>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub filters: Vec<Filter>,
    pub backends: Group,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionPersistence>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refuse: Option<Reason>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StreamRule {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub backends: Group,
}

/// Backends that share traffic by weight. The weight is dealt first; a backend that is invalid or has no
/// endpoints keeps its share and fails it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Group(pub Vec<WeightedBackend>);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WeightedBackend {
    pub weight: u32,
    pub target: Target,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub filters: Vec<Filter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Target {
    Backend(BackendId),
    /// A reference that does not resolve.
    Invalid(Reason),
}
