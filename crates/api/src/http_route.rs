//! HTTPRoute.

use tidegate_plan::Hostname;

use crate::filter::HttpFilter;
use crate::kind::{Resource, Spec};
use crate::read::{List, Whole, record, words};
use crate::refs::{BackendObjectReference, GATEWAY_GROUP};
use crate::route::{Parents, Weight, default_weight};
use crate::scalar::{Duration, HeaderName, SectionName};
use crate::session::SessionPersistence;

pub type HttpRoute = Resource<HttpRouteSpec>;

impl Spec for HttpRouteSpec {
    const KIND: &'static str = "HTTPRoute";
    const GROUP: &'static str = GATEWAY_GROUP;
    const VERSIONS: &'static [&'static str] = &["v1", "v1beta1"];
}

record! {
    pub struct HttpRouteSpec {
        flatten pub parents: Parents,
        pub hostnames: List<Hostname, 0, 16> = "hostnames",
        /// Empty stands for one rule that matches everything and has no backends.
        pub rules: List<HttpRule, 0, 16> = "rules",
    }
}

record! {
    pub struct HttpRule {
        pub name: Option<SectionName> = "name",
        /// Empty stands for the prefix `/`.
        pub matches: List<HttpMatch, 0, 64> = "matches",
        pub filters: List<HttpFilter, 0, 16> = "filters",
        pub backend_refs: List<HttpBackendRef, 0, 16> = "backendRefs",
        pub timeouts: Option<HttpTimeouts> = "timeouts",
        pub retry: Option<HttpRetry> = "retry",
        pub session_persistence: Option<SessionPersistence> = "sessionPersistence",
    }
}

record! {
    pub struct HttpBackendRef {
        flatten pub backend: BackendObjectReference,
        pub weight: Weight = "weight" or default_weight(),
        pub filters: List<HttpFilter, 0, 16> = "filters",
    }
}

record! {
    pub struct HttpTimeouts {
        pub request: Option<Duration> = "request",
        pub backend_request: Option<Duration> = "backendRequest",
    }
}

record! {
    pub struct HttpRetry {
        pub codes: Vec<Whole<400, 599>> = "codes",
        pub attempts: Whole<0, { i32::MAX as i64 }> = "attempts" or Whole::new(1).expect("in range"),
        pub backoff: Option<Duration> = "backoff",
    }
}

record! {
    pub struct HttpMatch {
        pub path: HttpPathMatch = "path" or HttpPathMatch { kind: PathMatchType::PathPrefix, value: "/".to_owned() },
        pub headers: List<HttpValueMatch, 0, 16> = "headers",
        pub query_params: List<HttpValueMatch, 0, 16> = "queryParams",
        pub method: Option<HttpMethod> = "method",
    }
}

record! {
    pub struct HttpPathMatch {
        pub kind: PathMatchType = "type" or PathMatchType::PathPrefix,
        pub value: String = "value" or "/".to_owned(),
    }
}

words! {
    pub enum PathMatchType {
        Exact = "Exact",
        PathPrefix = "PathPrefix",
        RegularExpression = "RegularExpression",
    }
}

record! {
    /// A header or a query parameter.
    pub struct HttpValueMatch {
        pub kind: ValueMatchType = "type" or ValueMatchType::Exact,
        pub name: HeaderName = "name",
        pub value: String = "value",
    }
}

words! {
    pub enum ValueMatchType {
        Exact = "Exact",
        RegularExpression = "RegularExpression",
    }
}

words! {
    pub enum HttpMethod {
        Get = "GET",
        Head = "HEAD",
        Post = "POST",
        Put = "PUT",
        Delete = "DELETE",
        Connect = "CONNECT",
        Options = "OPTIONS",
        Trace = "TRACE",
        Patch = "PATCH",
    }
}
