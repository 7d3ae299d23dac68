//! Filters, and the backends that they name.

use std::collections::BTreeSet;

use tidegate_api::filter::{
    AuthProtocol, Cors, ExternalAuth, GrpcFilter, HeaderModifier, HttpFilter, HttpHeader, PathModifier,
    RequestMirror, RequestRedirect,
};
use tidegate_api::refs::{BackendObjectReference, LocalObjectReference};
use tidegate_api::scalar::{HeaderName, port_number};
use tidegate_api::status::Reason;
use tidegate_plan::{
    BackendId, Filter, Fraction, Header, HeaderChange, PathChange, Reason as Refusal, Redirect, Rewrite,
    Target,
};

use super::{Usage, resolve_backend};
use crate::conditions::{Fault, kind_name};
use crate::lookup::{Lookup, Referrer};

/// What the rules of a route gather on their way.
pub(crate) struct Context<'a> {
    pub(crate) referrer: Referrer<'a>,
    pub(crate) lookup: &'a Lookup<'a>,
    pub(crate) faults: Vec<Fault>,
    pub(crate) backends: BTreeSet<BackendId>,
    /// What no data plane can do; the rules that ask for it answer 500.
    pub(crate) impossible: Vec<String>,
    /// Why the rule at hand cannot be carried out.
    pub(crate) refuse: Option<Refusal>,
}

impl<'a> Context<'a> {
    pub(crate) fn new(referrer: Referrer<'a>, lookup: &'a Lookup<'a>) -> Self {
        Self {
            referrer,
            lookup,
            faults: Vec::new(),
            backends: BTreeSet::new(),
            impossible: Vec::new(),
            refuse: None,
        }
    }

    pub(super) fn begin_rule(&mut self) {
        self.refuse = None;
    }

    /// Where a reference leads, noting what is wrong with it under `field`, and that it is used.
    pub(super) fn target(&mut self, reference: &BackendObjectReference, usage: Usage, field: &str) -> Target {
        let resolved = resolve_backend(reference, usage, &self.referrer, self.lookup);
        self.faults.extend(resolved.fault.map(|fault| fault.at(field)));
        self.backends.extend(resolved.backend);
        resolved.target
    }

    /// There are no filters of our own: a rule with one answers 500 rather than without it.
    fn extension(&mut self, reference: Option<&LocalObjectReference>, field: &str) {
        let what = reference.map_or_else(String::new, |reference| {
            kind_name(reference.group.as_str(), reference.kind.as_str())
        });
        let message = format!(
            "{field}.extensionRef: {what} is not a filter that is known here; the rule answers 500 until it is removed"
        );
        self.faults.push(Fault::new(Reason::InvalidKind, message));
        self.refuse = Some(Refusal::FilterUnsupported);
    }
}

/// What the API server takes, in the standard channel at least, and no message can carry.
impl Context<'_> {
    fn cannot(&mut self, field: &str, why: &str) {
        self.impossible.push(format!("{field} {why}; the rule answers 500 until it is corrected"));
        self.refuse = Some(Refusal::FilterInvalid);
    }

    fn check_headers(&mut self, modifier: &HeaderModifier, field: &str) {
        for (list, headers) in [("set", &*modifier.set), ("add", &*modifier.add)] {
            for (index, header) in headers.iter().enumerate() {
                if header.value.bytes().any(|byte| byte.is_ascii_control() && byte != b'\t') {
                    let field = format!("{field}.{list}[{index}].value");
                    self.cannot(&field, "has a line break or another control character");
                }
            }
        }
        for (index, name) in modifier.remove.iter().enumerate() {
            if HeaderName::new(name).is_none() {
                self.cannot(&format!("{field}.remove[{index}]"), "is no name of a header");
            }
        }
    }
}

pub(super) fn http(filters: &[HttpFilter], field: &str, context: &mut Context<'_>) -> Vec<Filter> {
    let mut translated = Vec::new();
    for (index, filter) in filters.iter().enumerate() {
        let field = format!("{field}[{index}]");
        // The type says which of them is set; reading the object has made sure of it.
        if let Some(change) = &filter.request_header_modifier {
            context.check_headers(change, &format!("{field}.requestHeaderModifier"));
            translated.push(Filter::RequestHeaders(header_change(change)));
        } else if let Some(change) = &filter.response_header_modifier {
            context.check_headers(change, &format!("{field}.responseHeaderModifier"));
            translated.push(Filter::ResponseHeaders(header_change(change)));
        } else if let Some(request) = &filter.request_mirror {
            translated.push(mirror(request, &field, context));
        } else if let Some(request) = &filter.request_redirect {
            translated.push(Filter::Redirect(redirect(request)));
        } else if let Some(rewrite) = &filter.url_rewrite {
            translated.push(Filter::Rewrite(Rewrite {
                hostname: rewrite.hostname.as_ref().map(|hostname| hostname.0.clone()),
                path: rewrite.path.as_ref().and_then(path_change),
            }));
        } else if let Some(rule) = &filter.cors {
            translated.push(Filter::Cors(cors(rule)));
        } else if let Some(auth) = &filter.external_auth {
            translated.push(Filter::ExternalAuth(external_auth(auth, &field, context)));
        } else {
            context.extension(filter.extension_ref.as_ref(), &field);
        }
    }
    translated
}

pub(super) fn grpc(filters: &[GrpcFilter], field: &str, context: &mut Context<'_>) -> Vec<Filter> {
    let mut translated = Vec::new();
    for (index, filter) in filters.iter().enumerate() {
        let field = format!("{field}[{index}]");
        if let Some(change) = &filter.request_header_modifier {
            context.check_headers(change, &format!("{field}.requestHeaderModifier"));
            translated.push(Filter::RequestHeaders(header_change(change)));
        } else if let Some(change) = &filter.response_header_modifier {
            context.check_headers(change, &format!("{field}.responseHeaderModifier"));
            translated.push(Filter::ResponseHeaders(header_change(change)));
        } else if let Some(request) = &filter.request_mirror {
            translated.push(mirror(request, &field, context));
        } else {
            context.extension(filter.extension_ref.as_ref(), &field);
        }
    }
    translated
}

fn header_change(modifier: &HeaderModifier) -> HeaderChange {
    let header = |header: &HttpHeader| Header {
        name: header.name.as_str().to_ascii_lowercase(),
        value: header.value.to_string(),
    };
    HeaderChange {
        set: modifier.set.iter().map(header).collect(),
        add: modifier.add.iter().map(header).collect(),
        remove: modifier.remove.iter().map(|name| name.to_ascii_lowercase()).collect(),
    }
}

fn mirror(mirror: &RequestMirror, field: &str, context: &mut Context<'_>) -> Filter {
    let number = |number: i64| u32::try_from(number).expect("read as an int32 that is not negative");
    let share = match (&mirror.percent, &mirror.fraction) {
        (Some(percent), _) => Fraction { numerator: number(percent.get()), denominator: 100 },
        (None, Some(fraction)) => Fraction {
            numerator: number(fraction.numerator.get()),
            denominator: number(fraction.denominator.get()),
        },
        (None, None) => Fraction::ALL,
    };
    Filter::Mirror {
        target: context.target(
            &mirror.backend_ref,
            Usage::Requests,
            &format!("{field}.requestMirror.backendRef"),
        ),
        share,
    }
}

fn redirect(redirect: &RequestRedirect) -> Redirect {
    Redirect {
        scheme: redirect.scheme.map(|scheme| scheme.as_str().to_owned()),
        hostname: redirect.hostname.as_ref().map(|hostname| hostname.0.clone()),
        port: redirect.port.map(port_number),
        path: redirect.path.as_ref().and_then(path_change),
        status: redirect.status_code.and_then(|code| u16::try_from(code.get()).ok()).unwrap_or(302),
    }
}

fn path_change(modifier: &PathModifier) -> Option<PathChange> {
    let full = modifier.replace_full_path.as_ref().map(|path| PathChange::Full(path.to_string()));
    full.or_else(|| modifier.replace_prefix_match.as_ref().map(|path| PathChange::Prefix(path.to_string())))
}

fn cors(cors: &Cors) -> tidegate_plan::Cors {
    let names = |names: &[HeaderName]| names.iter().map(ToString::to_string).collect();
    tidegate_plan::Cors {
        allow_origins: cors.allow_origins.iter().map(ToString::to_string).collect(),
        allow_credentials: cors.allow_credentials,
        allow_methods: cors.allow_methods.iter().map(ToString::to_string).collect(),
        allow_headers: names(&cors.allow_headers),
        expose_headers: names(&cors.expose_headers),
        max_age: u32::try_from(cors.max_age.get()).expect("read as a positive int32"),
    }
}

pub(crate) fn external_auth(
    auth: &ExternalAuth,
    field: &str,
    context: &mut Context<'_>,
) -> tidegate_plan::ExternalAuth {
    let lower = |names: &[String]| names.iter().map(|name| name.to_ascii_lowercase()).collect::<Vec<_>>();
    let (grpc, http) = (auth.grpc.as_ref(), auth.http.as_ref());
    let request_headers = match (grpc, http) {
        (Some(grpc), _) => lower(&grpc.allowed_headers),
        (None, Some(http)) => lower(&http.allowed_headers),
        (None, None) => Vec::new(),
    };
    tidegate_plan::ExternalAuth {
        target: context.target(
            &auth.backend_ref,
            Usage::Requests,
            &format!("{field}.externalAuth.backendRef"),
        ),
        grpc: auth.protocol == AuthProtocol::Grpc,
        path: http.map_or_else(String::new, |http| http.path.to_string()),
        request_headers,
        response_headers: http.map_or_else(Vec::new, |http| lower(&http.allowed_response_headers)),
        body_limit: auth
            .forward_body
            .as_ref()
            .and_then(|body| u32::try_from(body.max_size.get()).ok())
            .unwrap_or(0),
    }
}
