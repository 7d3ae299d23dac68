//! What all routes have, and the routes that have nothing else: TLS, TCP and UDP.

use tidegate_plan::Hostname;

use crate::gateway::Scope;
use crate::kind::{Resource, Spec};
use crate::read::{List, Whole, record};
use crate::refs::{BackendObjectReference, GATEWAY_GROUP, ParentReference};
use crate::scalar::SectionName;

pub type TlsRoute = Resource<TlsRouteSpec>;
pub type TcpRoute = Resource<TcpRouteSpec>;
pub type UdpRoute = Resource<UdpRouteSpec>;

impl Spec for TlsRouteSpec {
    const KIND: &'static str = "TLSRoute";
    const GROUP: &'static str = GATEWAY_GROUP;
    const VERSIONS: &'static [&'static str] = &["v1", "v1alpha3", "v1alpha2"];
}

impl Spec for TcpRouteSpec {
    const KIND: &'static str = "TCPRoute";
    const GROUP: &'static str = GATEWAY_GROUP;
    const VERSIONS: &'static [&'static str] = &["v1", "v1alpha2"];
}

impl Spec for UdpRouteSpec {
    const KIND: &'static str = "UDPRoute";
    const GROUP: &'static str = GATEWAY_GROUP;
    const VERSIONS: &'static [&'static str] = &["v1", "v1alpha2"];
}

record! {
    pub struct Parents {
        pub parent_refs: List<ParentReference, 0, 32> = "parentRefs",
        pub use_default_gateways: Scope = "useDefaultGateways" or Scope::None,
    }
}

pub type Weight = Whole<0, 1_000_000>;

pub(crate) fn default_weight() -> Weight {
    Whole::new(1).expect("in range")
}

record! {
    pub struct BackendRef {
        flatten pub backend: BackendObjectReference,
        pub weight: Weight = "weight" or default_weight(),
    }
}

record! {
    pub struct TlsRouteSpec {
        flatten pub parents: Parents,
        /// Never empty in v1; older versions may leave them out.
        pub hostnames: List<Hostname, 0, 1024> = "hostnames",
        /// One in v1; older versions may have more.
        pub rules: List<StreamRule, 1, 16> = "rules",
    }
}

record! {
    pub struct TcpRouteSpec {
        flatten pub parents: Parents,
        pub rules: List<StreamRule, 1, 16> = "rules",
    }
}

record! {
    pub struct UdpRouteSpec {
        flatten pub parents: Parents,
        pub rules: List<StreamRule, 1, 16> = "rules",
    }
}

record! {
    pub struct StreamRule {
        pub name: Option<SectionName> = "name",
        pub backend_refs: List<BackendRef, 1, 16> = "backendRefs",
    }
}
