//! HTTPRoute: which requests go to which backends, and what happens to them on the way.

mod matches;

pub(crate) use matches::has_url_path_characters;
pub use matches::{HttpMatch, HttpMethod, HttpPathMatch, HttpValueMatch, PathMatchType, ValueMatchType};

use tidegate_plan::Hostname;

use crate::filter::{
    Filtered, HttpFilter, PathModifier, PathModifierType, filters_are_not_repeated,
    redirect_and_rewrite_exclude_each_other,
};
use crate::kind::{Resource, Spec};
use crate::read::{List, Place, Whole, record};
use crate::refs::{BackendObjectReference, GATEWAY_GROUP};
use crate::route::{Parents, Weight, default_weight, too_many_matches};
use crate::rules::{Ruled, each_once, rule_names_are_unique};
use crate::scalar::{Duration, SectionName};
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
    rules: [
        http_rules_are_not_an_empty_list("rules?"),
        rule_names_are_unique("rules[].name"),
        http_matches_are_at_most_128("rules[].matches?"),
    ]
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
    rules: [
        filters_are_not_repeated("filters[].type"),
        redirect_and_rewrite_exclude_each_other("filters[].type"),
        redirect_has_no_backends("filters[]?", "backendRefs?"),
        replaced_prefix_is_matched(
            "matches[].path.type",
            "filters[].requestRedirect.path.type",
            "filters[].urlRewrite.path.type",
        ),
        replaced_prefix_of_backend_is_matched(
            "matches[].path.type",
            "backendRefs[].filters[].requestRedirect.path.type",
            "backendRefs[].filters[].urlRewrite.path.type",
        ),
    ]
}

record! {
    pub struct HttpBackendRef {
        flatten pub backend: BackendObjectReference,
        pub weight: Weight = "weight" or default_weight(),
        pub filters: List<HttpFilter, 0, 16> = "filters",
    }
    rules: [
        filters_are_not_repeated("filters[].type"),
        redirect_and_rewrite_exclude_each_other("filters[].type"),
    ]
}

record! {
    pub struct HttpTimeouts {
        pub request: Option<Duration> = "request",
        pub backend_request: Option<Duration> = "backendRequest",
    }
    rules: [backend_timeout_is_within_request_timeout]
}

record! {
    pub struct HttpRetry {
        pub codes: Vec<Whole<400, 599>> = "codes",
        pub attempts: Whole<0, { i32::MAX as i64 }> = "attempts" or Whole::new(1).expect("in range"),
        pub backoff: Option<Duration> = "backoff",
    }
    rules: [retry_codes_are_unique("codes")]
}

impl Ruled for HttpRouteSpec {
    fn rule_names(&self) -> Vec<Option<&SectionName>> {
        self.rules.iter().map(|rule| rule.name.as_ref()).collect()
    }
}

impl Filtered for HttpRule {
    fn filter_types(&self) -> Vec<&'static str> {
        self.filters.iter().map(|filter| filter.kind.as_str()).collect()
    }
}

impl Filtered for HttpBackendRef {
    fn filter_types(&self) -> Vec<&'static str> {
        self.filters.iter().map(|filter| filter.kind.as_str()).collect()
    }
}

fn http_rules_are_not_an_empty_list(route: &HttpRouteSpec, place: &mut Place<'_>) {
    if route.rules.is_empty() && place.has("rules") {
        place.wrong(
            "rules",
            "an empty list of rules",
            "write a rule, or leave `rules` out for one that matches everything",
        );
    }
}

fn http_matches_are_at_most_128(route: &HttpRouteSpec, place: &mut Place<'_>) {
    let count = |(index, rule): (usize, &HttpRule)| {
        // A rule that leaves `matches` out has the one for `/`.
        if place.has(&format!("rules[{index}].matches")) { rule.matches.len() } else { 1 }
    };
    let total = route.rules.iter().enumerate().map(count).sum();
    too_many_matches(total, place);
}

fn redirect_has_no_backends(rule: &HttpRule, place: &mut Place<'_>) {
    let redirect = rule.filters.iter().position(|filter| filter.request_redirect.is_some());
    if let Some(index) = redirect.filter(|_| !rule.backend_refs.is_empty()) {
        place.wrong(
            "backendRefs",
            format!("filters[{index}] redirects every request of this rule, so none would reach a backend"),
            "remove `backendRefs`, or the RequestRedirect filter",
        );
    }
}

/// A prefix can only be replaced where it is known which one was matched.
fn replaced_prefix_is_matched(rule: &HttpRule, place: &mut Place<'_>) {
    if !matches_one_prefix(rule, place) {
        for field in replaced_prefixes(&rule.filters) {
            place.wrong(&field, PREFIX_UNKNOWN, MATCH_ONE_PREFIX);
        }
    }
}

fn replaced_prefix_of_backend_is_matched(rule: &HttpRule, place: &mut Place<'_>) {
    if matches_one_prefix(rule, place) {
        return;
    }
    let replaced: Vec<(usize, String)> = rule
        .backend_refs
        .iter()
        .enumerate()
        .flat_map(|(index, backend)| {
            replaced_prefixes(&backend.filters).into_iter().map(move |field| (index, field))
        })
        .collect();
    // The CRDs' rule only looks where one backend does it.
    let is_one = replaced.iter().all(|(index, _)| *index == replaced[0].0);
    for (index, field) in replaced {
        let field = format!("backendRefs[{index}].{field}");
        if is_one {
            place.wrong(&field, PREFIX_UNKNOWN, MATCH_ONE_PREFIX);
        } else {
            place.warn(&field, PREFIX_UNKNOWN, MATCH_ONE_PREFIX);
        }
    }
}

const PREFIX_UNKNOWN: &str = "a prefix is replaced, but this rule does not match by exactly one path prefix";
const MATCH_ONE_PREFIX: &str =
    "give the rule exactly one item in `matches`, with `path.type: PathPrefix`, or write ReplaceFullPath";

fn matches_one_prefix(rule: &HttpRule, place: &Place<'_>) -> bool {
    match &*rule.matches {
        [] => !place.has("matches"),
        [one] => one.path.kind == PathMatchType::PathPrefix,
        _ => false,
    }
}

/// Where in `filters` a prefix is replaced.
fn replaced_prefixes(filters: &[HttpFilter]) -> Vec<String> {
    let replaces = |path: &Option<PathModifier>| {
        path.as_ref().is_some_and(|path| path.kind == PathModifierType::ReplacePrefixMatch)
    };
    let mut fields = Vec::new();
    for (index, filter) in filters.iter().enumerate() {
        if filter.request_redirect.as_ref().is_some_and(|redirect| replaces(&redirect.path)) {
            fields.push(format!("filters[{index}].requestRedirect.path"));
        }
        if filter.url_rewrite.as_ref().is_some_and(|rewrite| replaces(&rewrite.path)) {
            fields.push(format!("filters[{index}].urlRewrite.path"));
        }
    }
    fields
}

fn backend_timeout_is_within_request_timeout(timeouts: &HttpTimeouts, place: &mut Place<'_>) {
    if let (Some(request), Some(backend)) = (timeouts.request, timeouts.backend_request)
        && !request.is_zero()
        && backend > request
    {
        place.wrong(
            "backendRequest",
            "longer than `request`, so it would never be reached",
            "write at most what `request` says; `request: 0s` is no limit",
        );
    }
}

fn retry_codes_are_unique(retry: &HttpRetry, place: &mut Place<'_>) {
    each_once(place, "codes", "", retry.codes.iter().map(|code| code.get()));
}
