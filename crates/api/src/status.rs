//! What is written back: conditions and the status of each kind.
//!
//! `lastTransitionTime` is missing on purpose: only who writes a status knows when it changed.

pub mod merge;

use std::sync::Arc;

use serde::Serialize;

use crate::Kind;
use crate::refs::ParentReference;
use crate::scalar::port_number;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    #[serde(rename = "type")]
    pub kind: ConditionType,
    pub status: ConditionStatus,
    pub reason: Reason,
    pub message: String,
    pub observed_generation: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum ConditionStatus {
    True,
    False,
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum ConditionType {
    Accepted,
    Programmed,
    ResolvedRefs,
    Conflicted,
    OverlappingTLSConfig,
    InsecureFrontendValidationMode,
    DefaultGateway,
    AddressesAssigned,
    SupportedVersion,
    PartiallyInvalid,
    /// Of our own, for listeners whose Gateway has an issuer.
    #[serde(rename = "gateway.tidegate.io/CertificatesIssued")]
    CertificatesIssued,
}

/// Declares the reasons and the list of them all.
macro_rules! reasons {
    ($(#[$doc:meta])* pub enum Reason { $($reason:ident,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        pub enum Reason { $($reason,)+ }

        impl Reason {
            pub const ALL: &'static [Self] = &[$(Self::$reason,)+];
        }
    };
}

reasons! {
/// Every reason that a condition of ours can have.
pub enum Reason {
    Accepted,
    AddressNotAssigned,
    AddressNotUsable,
    AddressesAssigned,
    BackendNotFound,
    CertificatesIssued,
    ConfigurationChanged,
    Conflicted,
    DefaultGateway,
    HostnameConflict,
    Invalid,
    InvalidCACertificateKind,
    InvalidCACertificateRef,
    InvalidCertificateRef,
    InvalidClientCertificateRef,
    InvalidKind,
    InvalidParameters,
    InvalidRouteKinds,
    IssuanceFailed,
    ListenersNotResolved,
    ListenersNotValid,
    NoConflicts,
    NoMatchingListenerHostname,
    NoMatchingParent,
    NoValidCACertificate,
    NotAllowed,
    NotAllowedByListeners,
    NotAssigned,
    OverlappingHostnames,
    ParentNotAccepted,
    ParentNotProgrammed,
    PartiallyAssigned,
    Pending,
    PortUnavailable,
    Programmed,
    ProtocolConflict,
    RefNotPermitted,
    ResolvedRefs,
    SupportedVersion,
    TargetNotFound,
    UnsupportedAddress,
    UnsupportedProtocol,
    UnsupportedValue,
    UnsupportedVersion,
}
}

/// The status of one object, as far as it is ours to write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Status {
    GatewayClass(GatewayClassStatus),
    Gateway(GatewayStatus),
    ListenerSet(ListenerSetStatus),
    Route(RouteStatus),
    Policy(PolicyStatus),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewayClassStatus {
    pub conditions: Vec<Condition>,
    pub supported_features: Vec<SupportedFeature>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct SupportedFeature {
    pub name: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewayStatus {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<StatusAddress>,
    pub conditions: Vec<Condition>,
    pub listeners: Vec<ListenerStatus>,
    pub attached_listener_sets: i32,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StatusAddress {
    #[serde(rename = "type")]
    pub kind: String,
    pub value: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListenerStatus {
    pub name: Arc<str>,
    pub supported_kinds: Vec<GroupKind>,
    pub attached_routes: i32,
    pub conditions: Vec<Condition>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GroupKind {
    pub group: String,
    pub kind: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListenerSetStatus {
    pub conditions: Vec<Condition>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub listeners: Vec<ListenerStatus>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RouteStatus {
    pub parents: Vec<RouteParentStatus>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RouteParentStatus {
    pub parent_ref: ParentRefStatus,
    pub controller_name: Arc<str>,
    pub conditions: Vec<Condition>,
}

/// A reference to a parent with group and kind written out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ParentRefStatus {
    pub group: String,
    pub kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub section_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
}

impl From<&ParentReference> for ParentRefStatus {
    fn from(parent: &ParentReference) -> Self {
        Self {
            group: parent.group.to_string(),
            kind: parent.kind.to_string(),
            namespace: parent.namespace.as_ref().map(ToString::to_string),
            name: parent.name.to_string(),
            section_name: parent.section_name.as_ref().map(ToString::to_string),
            port: parent.port.map(port_number),
        }
    }
}

/// How many ancestors the status of a policy has room for, or that of an XBackend, which speaks the same way.
#[must_use]
pub const fn most_ancestors(kind: Kind) -> usize {
    match kind {
        Kind::XBackend => 32,
        _ => 16,
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PolicyStatus {
    pub ancestors: Vec<PolicyAncestorStatus>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyAncestorStatus {
    pub ancestor_ref: ParentRefStatus,
    pub controller_name: Arc<str>,
    pub conditions: Vec<Condition>,
}
