//! What a translation gives.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use tidegate_api::status::{ParentRefStatus, Reason, Status};
use tidegate_api::{Kind, ObjectKey};
use tidegate_plan::{EndpointsId, FragmentId, Hostname, ListenerId, ObjectName, Plan, RouteId};

use crate::gateway::Infrastructure;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Translation {
    pub plan: Plan,
    /// One for each object of ours that has a status.
    pub statuses: BTreeMap<ObjectKey, Arc<Status>>,
    /// Why each route is where it is, listener by listener.
    pub attachments: BTreeMap<RouteId, Arc<RouteAttachments>>,
    /// The certificates that Gateways with an issuer ask for.
    pub wants: BTreeMap<ListenerId, Arc<Wants>>,
    /// What each accepted Gateway asks of the objects that are made for it.
    pub infrastructure: BTreeMap<ObjectName, Arc<Infrastructure>>,
    /// What is worth saying and has no place in a status.
    pub notes: BTreeMap<ObjectKey, Vec<Note>>,
}

impl Translation {
    /// The Gateways that are ours. Statuses go by kind, and routes, of which there are many, come after.
    pub fn gateways(&self) -> impl Iterator<Item = &ObjectName> {
        let first = self.statuses.keys().take_while(|key| key.kind <= Kind::Gateway);
        first.filter(|key| key.kind == Kind::Gateway).map(|key| &key.name)
    }

    /// What the listeners of a Gateway want, those of its ListenerSets too.
    pub fn wants_of(&self, gateway: &ObjectName) -> impl Iterator<Item = &Arc<Wants>> {
        let first = ListenerId { gateway: gateway.clone(), listener_set: None, name: "".into() };
        let all = self.wants.range(first..).take_while(move |(id, _)| id.gateway == *gateway);
        all.map(|(_, wants)| wants)
    }
}

/// What one change of resources changed in the translation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delta {
    pub fragments: BTreeSet<FragmentId>,
    pub endpoints: BTreeSet<EndpointsId>,
    pub statuses: BTreeSet<ObjectKey>,
    pub wants: BTreeSet<ListenerId>,
    /// Gateways that ask for something else now.
    pub infrastructure: BTreeSet<ObjectName>,
}

impl Delta {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.fragments.is_empty()
            && self.endpoints.is_empty()
            && self.statuses.is_empty()
            && self.wants.is_empty()
            && self.infrastructure.is_empty()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Set where the object is not accepted, and no Gateway is there to say it at.
    pub reason: Option<Reason>,
    pub message: String,
}

impl From<String> for Note {
    fn from(message: String) -> Self {
        Self { reason: None, message }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(reason) = self.reason {
            write!(f, "{reason:?}: ")?;
        }
        f.write_str(&self.message)
    }
}

/// For one route, each of its parents with what became of each listener there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RouteAttachments {
    pub parents: Vec<Attachment>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Attachment {
    pub parent_ref: ParentRefStatus,
    /// Every listener of the parent that could have been meant; empty where the parent is not ours or is not
    /// there.
    pub listeners: Vec<(ListenerId, Verdict)>,
}

/// What a listener says to a route.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Verdict {
    /// With the names in which listener and route meet; empty: every name.
    Attached(Vec<Hostname>),
    OtherSection,
    OtherPort,
    /// The listener's protocol, or its `allowedRoutes.kinds`, takes other kinds.
    KindNotAllowed,
    NamespaceNotAllowed,
    NoCommonHostname,
}

/// Who makes certificates for a Gateway.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Issuer {
    Acme {
        /// By the name that the operator gave it; `None`: the one for Gateways that name none.
        #[serde(skip_serializing_if = "Option::is_none")]
        account: Option<Arc<str>>,
    },
    Embedded,
    CertManager {
        name: String,
        kind: String,
        group: String,
    },
}

/// The names that a listener's certificate should have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Wants {
    pub listener: ListenerId,
    pub issuer: Issuer,
    /// Where the certificate goes: the first Secret of `certificateRefs`.
    pub secret: Option<ObjectName>,
    pub names: Vec<Wanted>,
    /// Whether something stands in for the certificate until there is one; `None`: as whoever runs this says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stand_in: Option<bool>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Wanted {
    pub name: Hostname,
    /// The routes that carry it; empty where the listener itself does.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<RouteId>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LeftOut {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<Hostname>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<RouteId>,
    pub why: WhyLeftOut,
    /// The listener that takes the name instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub taken_by: Option<ListenerId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum WhyLeftOut {
    /// A wildcard is never asked for on the word of a route.
    WildcardOfRoute,
    /// The listener's own wildcard; the names of its routes are asked for instead.
    IssuerWithoutWildcards,
    OutsideListenerHostname,
    NotOnAllowList,
    OverLimit,
    OverNamespaceLimit,
    RouteNotAccepted,
    RouteWithoutHostnames,
    Passthrough,
    /// Connections for the name come to a narrower listener of the same port, whose certificate serves them.
    NarrowerListener,
}

impl WhyLeftOut {
    /// Whether the name needs no certificate of this listener's.
    #[must_use]
    pub const fn is_served_elsewhere(self) -> bool {
        matches!(self, Self::Passthrough | Self::NarrowerListener)
    }
}
