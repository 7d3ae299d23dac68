//! GRPCRoute: which calls go to which backends.

use tidegate_plan::Hostname;

use crate::bounded::Text;
use crate::filter::{Filtered, GrpcFilter, filters_are_not_repeated};
use crate::http_route::{HttpValueMatch, ValueMatchType};
use crate::kind::{Resource, Spec};
use crate::read::{List, Place, record};
use crate::refs::{BackendObjectReference, GATEWAY_GROUP};
use crate::route::{Parents, Weight, default_weight, too_many_matches};
use crate::rules::{Ruled, each_once, rule_names_are_unique, warn_of_equivalent_headers};
use crate::scalar::{SectionName, shorten};
use crate::session::SessionPersistence;

pub type GrpcRoute = Resource<GrpcRouteSpec>;

impl Spec for GrpcRouteSpec {
    const KIND: &'static str = "GRPCRoute";
    const GROUP: &'static str = GATEWAY_GROUP;
    const VERSIONS: &'static [&'static str] = &["v1"];
}

record! {
    pub struct GrpcRouteSpec {
        flatten pub parents: Parents,
        pub hostnames: List<Hostname, 0, 16> = "hostnames",
        pub rules: List<GrpcRule, 0, 16> = "rules",
    }
    rules: [rule_names_are_unique("rules[].name"), grpc_matches_are_at_most_128("rules[].matches?")]
}

record! {
    pub struct GrpcRule {
        pub name: Option<SectionName> = "name",
        /// Empty stands for every method.
        pub matches: List<GrpcMatch, 0, 64> = "matches",
        pub filters: List<GrpcFilter, 0, 16> = "filters",
        pub backend_refs: List<GrpcBackendRef, 0, 16> = "backendRefs",
        pub session_persistence: Option<SessionPersistence> = "sessionPersistence",
    }
    rules: [filters_are_not_repeated("filters[].type")]
}

record! {
    pub struct GrpcBackendRef {
        flatten pub backend: BackendObjectReference,
        pub weight: Weight = "weight" or default_weight(),
        pub filters: List<GrpcFilter, 0, 16> = "filters",
    }
    rules: [filters_are_not_repeated("filters[].type")]
}

record! {
    pub struct GrpcMatch {
        pub method: Option<GrpcMethodMatch> = "method",
        pub headers: List<HttpValueMatch, 0, 16> = "headers",
    }
    rules: [
        grpc_matched_headers_are_unique("headers[].name"),
        grpc_matched_headers_differ_in_more_than_case("headers[].name"),
    ]
}

record! {
    pub struct GrpcMethodMatch {
        pub kind: ValueMatchType = "type" or ValueMatchType::Exact,
        pub service: Option<Text<0, 1024>> = "service",
        pub method: Option<Text<0, 1024>> = "method",
    }
    rules: [
        method_match_names_service_or_method(),
        exact_service_is_a_name("type", "service"),
        exact_method_is_a_name("type", "method"),
    ]
}

impl Ruled for GrpcRouteSpec {
    fn rule_names(&self) -> Vec<Option<&SectionName>> {
        self.rules.iter().map(|rule| rule.name.as_ref()).collect()
    }
}

impl Filtered for GrpcRule {
    fn filter_types(&self) -> Vec<&'static str> {
        self.filters.iter().map(|filter| filter.kind.as_str()).collect()
    }
}

impl Filtered for GrpcBackendRef {
    fn filter_types(&self) -> Vec<&'static str> {
        self.filters.iter().map(|filter| filter.kind.as_str()).collect()
    }
}

fn grpc_matches_are_at_most_128(route: &GrpcRouteSpec, place: &mut Place<'_>) {
    too_many_matches(route.rules.iter().map(|rule| rule.matches.len()).sum(), place);
}

fn grpc_matched_headers_are_unique(rule: &GrpcMatch, place: &mut Place<'_>) {
    each_once(place, "headers", ".name", rule.headers.iter().map(|header| &header.name));
}

fn grpc_matched_headers_differ_in_more_than_case(rule: &GrpcMatch, place: &mut Place<'_>) {
    warn_of_equivalent_headers(place, "headers", rule.headers.iter().map(|header| &header.name));
}

fn method_match_names_service_or_method(method: &GrpcMethodMatch, place: &mut Place<'_>) {
    if method.service.is_none() && method.method.is_none() {
        place.wrong(
            "",
            "names neither a service nor a method",
            "write `service:`, `method:` or both, or leave the match out to match every call",
        );
    }
}

fn exact_service_is_a_name(method: &GrpcMethodMatch, place: &mut Place<'_>) {
    let Some(service) = method.service.as_deref().filter(|_| method.kind == ValueMatchType::Exact) else {
        return;
    };
    // A dot at the front is how protocol buffers write a full name.
    let name = service.strip_prefix('.').unwrap_or(service);
    if !name.split('.').all(is_identifier) {
        place.wrong(
            "service",
            format!("`{}` is not the name of a gRPC service", shorten(service)),
            "write package and service, such as helloworld.Greeter, or `type: RegularExpression`",
        );
    }
}

fn exact_method_is_a_name(method: &GrpcMethodMatch, place: &mut Place<'_>) {
    let Some(name) = method.method.as_deref().filter(|_| method.kind == ValueMatchType::Exact) else {
        return;
    };
    if !is_identifier(name) {
        place.wrong(
            "method",
            format!("`{}` is not the name of a gRPC method", shorten(name)),
            "write the method alone, such as SayHello, or `type: RegularExpression`",
        );
    }
}

/// `[A-Za-z_][A-Za-z_0-9]*`
fn is_identifier(text: &str) -> bool {
    !text.starts_with(|first: char| first.is_ascii_digit())
        && !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}
