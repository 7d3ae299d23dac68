//! What a translation gives.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Serialize;
use tidegate_api::ObjectKey;
use tidegate_api::status::{ParentRefStatus, Status};
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

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Note {
    pub message: String,
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
    Acme,
    Embedded,
    CertManager { name: String, kind: String, group: String },
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
pub struct LeftOut {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<Hostname>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<RouteId>,
    pub why: WhyLeftOut,
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
}
