//! What all routes have, and the routes that have nothing else: TLS, TCP and UDP.

use tidegate_plan::Hostname;

use crate::gateway::Scope;
use crate::kind::{Resource, Spec};
use crate::read::{List, Place, Whole, record};
use crate::refs::{BackendObjectReference, GATEWAY_GROUP, ParentReference};
use crate::rules::{
    Pointer, Pointing, Ruled, references_are_distinct, references_to_one_object_all_name_a_part,
    rule_names_are_unique,
};
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
    rules: [references_are_distinct("parentRefs"), references_to_one_object_all_name_a_part("parentRefs")]
}

impl Pointing for Parents {
    const LIST: &'static str = "parentRefs";
    const APART: &'static str = "`sectionName` or `port`";

    fn pointers(&self) -> Vec<Pointer<'_>> {
        self.parent_refs.iter().map(Pointer::from).collect()
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
        /// Never empty in v1 and v1alpha3; v1alpha2 may leave them out.
        pub hostnames: List<Hostname, 0, 1024> = "hostnames",
        /// One in v1 and v1alpha3; v1alpha2 may have more.
        pub rules: List<StreamRule, 1, 16> = "rules",
    }
    rules: [
        tls_route_has_hostnames("hostnames?"),
        stream_route_has_one_rule("rules?"),
        rule_names_are_unique("rules[].name"),
    ]
}

record! {
    pub struct TcpRouteSpec {
        flatten pub parents: Parents,
        /// One in v1; v1alpha2 may have more.
        pub rules: List<StreamRule, 1, 16> = "rules",
    }
    rules: [stream_route_has_one_rule("rules?"), rule_names_are_unique("rules[].name")]
}

record! {
    pub struct UdpRouteSpec {
        flatten pub parents: Parents,
        /// One in v1; v1alpha2 may have more.
        pub rules: List<StreamRule, 1, 16> = "rules",
    }
    rules: [stream_route_has_one_rule("rules?"), rule_names_are_unique("rules[].name")]
}

record! {
    pub struct StreamRule {
        pub name: Option<SectionName> = "name",
        pub backend_refs: List<BackendRef, 1, 16> = "backendRefs",
    }
}

impl Ruled for TlsRouteSpec {
    fn rule_names(&self) -> Vec<Option<&SectionName>> {
        self.rules.iter().map(|rule| rule.name.as_ref()).collect()
    }
}

impl Ruled for TcpRouteSpec {
    fn rule_names(&self) -> Vec<Option<&SectionName>> {
        self.rules.iter().map(|rule| rule.name.as_ref()).collect()
    }
}

impl Ruled for UdpRouteSpec {
    fn rule_names(&self) -> Vec<Option<&SectionName>> {
        self.rules.iter().map(|rule| rule.name.as_ref()).collect()
    }
}

fn tls_route_has_hostnames(route: &TlsRouteSpec, place: &mut Place<'_>) {
    if route.hostnames.is_empty() {
        wrong_since_v1alpha3(
            place,
            "hostnames",
            "a TLSRoute names the hosts that it is for, and there is none",
            "write `hostnames:` with what clients ask for, such as www.example.com or *.example.com",
        );
    }
}

fn stream_route_has_one_rule(route: &impl Ruled, place: &mut Place<'_>) {
    let count = route.rule_names().len();
    if count > 1 {
        wrong_since_v1alpha3(
            place,
            "rules",
            &format!(
                "{count} rules where one may be, because nothing tells which of them a connection is for"
            ),
            "put all backendRefs into one rule, or write a route for each",
        );
    }
}

/// v1alpha2 is served without the rules that came later, and what breaks one of them is a warning there.
fn wrong_since_v1alpha3(place: &mut Place<'_>, field: &str, message: &str, help: &str) {
    if place.version() == "v1alpha2" {
        place.warn(field, format!("{message}; v1 refuses this"), help);
    } else {
        place.wrong(field, message, help);
    }
}

/// What HTTPRoute and GRPCRoute bound over all their rules.
pub(crate) fn too_many_matches(count: usize, place: &mut Place<'_>) {
    if count > 128 {
        place.wrong(
            "rules",
            format!("{count} matches in all rules together where at most 128 may be"),
            "split the rules over several routes",
        );
    }
}
