//! Filters of HTTPRoute, GRPCRoute and listeners: what happens to a request besides being routed.

mod auth;
mod cors;
mod headers;
mod mirror;
mod rewrite;

pub use auth::{AuthProtocol, ExternalAuth, ForwardBody, GrpcAuth, HttpAuth};
pub use cors::{Cors, CorsMethod};
pub use headers::{HeaderModifier, HttpHeader};
pub use mirror::{Fraction, RequestMirror};
pub use rewrite::{PathModifier, PathModifierType, RedirectStatus, RequestRedirect, Scheme, UrlRewrite};

use crate::read::{Place, record, words};
use crate::refs::LocalObjectReference;
use crate::rules::field_fits;

record! {
    pub struct HttpFilter {
        pub kind: HttpFilterType = "type",
        pub request_header_modifier: Option<HeaderModifier> = "requestHeaderModifier",
        pub response_header_modifier: Option<HeaderModifier> = "responseHeaderModifier",
        pub request_mirror: Option<RequestMirror> = "requestMirror",
        pub request_redirect: Option<RequestRedirect> = "requestRedirect",
        pub url_rewrite: Option<UrlRewrite> = "urlRewrite",
        pub cors: Option<Cors> = "cors",
        pub external_auth: Option<ExternalAuth> = "externalAuth",
        pub extension_ref: Option<LocalObjectReference> = "extensionRef",
    }
    rules: [http_filter_field_fits_type("type")]
}

words! {
    pub enum HttpFilterType {
        RequestHeaderModifier = "RequestHeaderModifier",
        ResponseHeaderModifier = "ResponseHeaderModifier",
        RequestMirror = "RequestMirror",
        RequestRedirect = "RequestRedirect",
        UrlRewrite = "URLRewrite",
        Cors = "CORS",
        ExternalAuth = "ExternalAuth",
        ExtensionRef = "ExtensionRef",
    }
}

record! {
    pub struct GrpcFilter {
        pub kind: GrpcFilterType = "type",
        pub request_header_modifier: Option<HeaderModifier> = "requestHeaderModifier",
        pub response_header_modifier: Option<HeaderModifier> = "responseHeaderModifier",
        pub request_mirror: Option<RequestMirror> = "requestMirror",
        pub extension_ref: Option<LocalObjectReference> = "extensionRef",
    }
    rules: [grpc_filter_field_fits_type("type")]
}

words! {
    pub enum GrpcFilterType {
        RequestHeaderModifier = "RequestHeaderModifier",
        ResponseHeaderModifier = "ResponseHeaderModifier",
        RequestMirror = "RequestMirror",
        ExtensionRef = "ExtensionRef",
    }
}

fn http_filter_field_fits_type(filter: &HttpFilter, place: &mut Place<'_>) {
    let fields = [
        ("RequestHeaderModifier", "requestHeaderModifier"),
        ("ResponseHeaderModifier", "responseHeaderModifier"),
        ("RequestMirror", "requestMirror"),
        ("RequestRedirect", "requestRedirect"),
        ("URLRewrite", "urlRewrite"),
        ("CORS", "cors"),
        ("ExternalAuth", "externalAuth"),
        ("ExtensionRef", "extensionRef"),
    ];
    field_fits(place, "type", filter.kind.as_str(), &fields);
}

/// The fields that only HTTP has are unknown ones here, no more.
fn grpc_filter_field_fits_type(filter: &GrpcFilter, place: &mut Place<'_>) {
    let fields = [
        ("RequestHeaderModifier", "requestHeaderModifier"),
        ("ResponseHeaderModifier", "responseHeaderModifier"),
        ("RequestMirror", "requestMirror"),
        ("ExtensionRef", "extensionRef"),
    ];
    field_fits(place, "type", filter.kind.as_str(), &fields);
}

/// What has a list `filters`.
pub(crate) trait Filtered {
    /// The type of each filter, as it is written.
    fn filter_types(&self) -> Vec<&'static str>;
}

/// Mirrors, checks and extensions may come several times; where two of another type stand, nobody could say
/// which of them counts.
pub(crate) fn filters_are_not_repeated(filtered: &impl Filtered, place: &mut Place<'_>) {
    const REPEATABLE: &[&str] = &["RequestMirror", "ExternalAuth", "ExtensionRef"];
    let types = filtered.filter_types();
    for (index, kind) in types.iter().enumerate().filter(|(_, kind)| !REPEATABLE.contains(kind)) {
        if let Some(first) = types.iter().take(index).position(|earlier| earlier == kind) {
            place.wrong(
                &format!("filters[{index}].type"),
                format!("a second {kind} filter, after filters[{first}]"),
                "put what both say into one filter",
            );
        }
    }
}

pub(crate) fn redirect_and_rewrite_exclude_each_other(filtered: &impl Filtered, place: &mut Place<'_>) {
    let types = filtered.filter_types();
    let find = |wanted: &str| types.iter().position(|kind| *kind == wanted);
    if let (Some(redirect), Some(rewrite)) = (find("RequestRedirect"), find("URLRewrite")) {
        let (first, second) = (redirect.min(rewrite), redirect.max(rewrite));
        place.wrong(
            &format!("filters[{second}].type"),
            format!(
                "{} beside the {} of filters[{first}]: a request is redirected or rewritten, not both",
                types[second], types[first]
            ),
            "remove one of the two filters, or put them into rules of their own",
        );
    }
}
