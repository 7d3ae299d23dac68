//! GRPCRoute.

use tidegate_plan::Hostname;

use crate::filter::GrpcFilter;
use crate::http_route::{HttpValueMatch, ValueMatchType};
use crate::kind::{Resource, Spec};
use crate::read::{List, record};
use crate::refs::{BackendObjectReference, GATEWAY_GROUP};
use crate::route::{Parents, Weight, default_weight};
use crate::scalar::SectionName;
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
}

record! {
    pub struct GrpcBackendRef {
        flatten pub backend: BackendObjectReference,
        pub weight: Weight = "weight" or default_weight(),
        pub filters: List<GrpcFilter, 0, 16> = "filters",
    }
}

record! {
    pub struct GrpcMatch {
        pub method: Option<GrpcMethodMatch> = "method",
        pub headers: List<HttpValueMatch, 0, 16> = "headers",
    }
}

record! {
    pub struct GrpcMethodMatch {
        pub kind: ValueMatchType = "type" or ValueMatchType::Exact,
        pub service: Option<String> = "service",
        pub method: Option<String> = "method",
    }
}
