//! What the rule makes of an HTTP request before a backend sees it.

use std::time::Duration;

use serde::Serialize;
use tidegate_plan::{
    ExternalAuth, Filter, Handling, Header, HeaderChange, Matched, PathChange, Redirected, Rule, SessionKey,
    SessionPersistence, Target, Timeouts,
};

use crate::explain::flow::AskedRequest;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Forwarded {
    /// In words, in the order in which they stand in the rule.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) filters: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) redirect: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) limits: Vec<String>,
}

pub(crate) fn forwarded(asked: &AskedRequest, matched: &Matched<'_>) -> Forwarded {
    let https = matches!(matched.listener.handling, Handling::Https(_));
    let scheme = if https { "https" } else { "http" };
    let (name, _) = split_port(asked.host.as_deref().unwrap_or_default());
    let filters = matched.rule.filters();
    let redirect = filters.iter().find_map(|filter| match filter {
        Filter::Redirect(redirect) => {
            let request = Redirected {
                scheme,
                host: name,
                path: &asked.path,
                query: asked.query.as_deref(),
                port: matched.listener.port,
                matched: matched.path(),
            };
            Some(format!("{} to {}", redirect.status, redirect.location(&request)))
        }
        _ => None,
    });
    let of_listener = matched.listener.external_auth.iter();
    let of_listener = of_listener.map(|auth| format!("of the listener: {}", permission(auth)));
    let filters = of_listener.chain(filters.iter().map(filter)).collect();
    Forwarded { filters, redirect, limits: limits(matched) }
}

/// What a backend is asked for. Where rule and backend both rewrite, the backend's word counts.
pub(crate) fn upstream(
    asked: &AskedRequest,
    matched: &Matched<'_>,
    of_backend: &[Filter],
    scheme: &str,
) -> String {
    let rewrites = || {
        of_backend.iter().chain(matched.rule.filters()).filter_map(|filter| match filter {
            Filter::Rewrite(rewrite) => Some(rewrite),
            _ => None,
        })
    };
    let host = rewrites().find_map(|rewrite| rewrite.hostname.as_ref().map(ToString::to_string));
    let host = host.unwrap_or_else(|| asked.host.clone().unwrap_or_default());
    let path = match rewrites().find_map(|rewrite| rewrite.path.as_ref()) {
        Some(change) => change.apply(&asked.path, matched.path()),
        None => asked.path.clone(),
    };
    let query = asked.query.as_ref().map(|query| format!("?{query}")).unwrap_or_default();
    format!("{} {scheme}://{host}{path}{query}", asked.method)
}

/// The host, and its port with the colon.
fn split_port(host: &str) -> (&str, &str) {
    match host.rfind(':').filter(|at| host[at + 1..].bytes().all(|byte| byte.is_ascii_digit())) {
        Some(at) => host.split_at(at),
        None => (host, ""),
    }
}

/// One filter in words.
pub(crate) fn filter(filter: &Filter) -> String {
    match filter {
        Filter::RequestHeaders(change) => format!("request headers: {}", headers(change)),
        Filter::ResponseHeaders(change) => format!("response headers: {}", headers(change)),
        Filter::Redirect(redirect) => format!("redirect with status {}", redirect.status),
        Filter::Rewrite(rewrite) => {
            let host = rewrite.hostname.as_ref().map(|host| format!("host {host}"));
            let path = rewrite.path.as_ref().map(|path| match path {
                PathChange::Full(path) => format!("path {path}"),
                PathChange::Prefix(prefix) => {
                    format!("prefix {}", if prefix.is_empty() { "/" } else { prefix })
                }
            });
            format!("rewrite to {}", host.into_iter().chain(path).collect::<Vec<_>>().join(", "))
        }
        Filter::Mirror { target: to, share } => {
            format!("mirror {} of {} requests to {}", share.numerator, share.denominator, target(to))
        }
        Filter::Cors(cors) => format!("CORS for {}", cors.allow_origins.join(", ")),
        Filter::ExternalAuth(auth) => permission(auth),
    }
}

fn permission(auth: &ExternalAuth) -> String {
    format!("ask {} for permission", target(&auth.target))
}

pub(crate) fn target(target: &Target) -> String {
    match target {
        Target::Backend(id) => id.to_string(),
        Target::Invalid(reason) => format!("nowhere ({})", reason.text()),
    }
}

fn headers(change: &HeaderChange) -> String {
    // A value may have been written with anything in it.
    let words = |header: &Header| format!("{}={}", header.name, header.value.escape_debug());
    let set = change.set.iter().map(|header| format!("set {}", words(header)));
    let add = change.add.iter().map(|header| format!("add {}", words(header)));
    let remove = change.remove.iter().map(|name| format!("remove {name}"));
    set.chain(add).chain(remove).collect::<Vec<_>>().join(", ")
}

fn limits(matched: &Matched<'_>) -> Vec<String> {
    let (timeouts, retry, session) = match matched.rule.rule() {
        Rule::Http(rule) => (rule.timeouts, rule.retry.as_ref(), rule.session.as_ref()),
        Rule::Grpc(rule) => (Timeouts::default(), None, rule.session.as_ref()),
        Rule::Stream(_) => return Vec::new(),
    };
    let timeout = |what: &str, time: Option<Duration>| {
        time.map(|time| {
            if time.is_zero() {
                format!("no {what} timeout")
            } else {
                format!("{what} timeout {}", seconds(time))
            }
        })
    };
    let retry = retry.map(|retry| {
        let codes: Vec<String> = retry.codes.iter().map(ToString::to_string).collect();
        let codes = if codes.is_empty() { String::new() } else { format!(" on {}", codes.join(", ")) };
        format!("{} retries{codes}", retry.attempts.unwrap_or(1))
    });
    let session = session.map(self::session);
    let times = [timeout("request", timeouts.request), timeout("backend", timeouts.backend_request)];
    times.into_iter().chain([retry, session]).flatten().collect()
}

/// By what a client is known again and comes back to its endpoint.
pub(crate) fn session(session: &SessionPersistence) -> String {
    let end = session.absolute_timeout.map(|time| format!(", for {}", seconds(time))).unwrap_or_default();
    match &session.key {
        SessionKey::Cookie(cookie) => {
            let name =
                cookie.name.as_ref().map(|name| format!(" {}", name.escape_debug())).unwrap_or_default();
            let path = cookie.path.as_ref().map(|path| format!(", path {}", path.escape_debug()));
            let kept = if cookie.permanent { ", kept by the browser" } else { "" };
            format!("sessions by cookie{name}{}{kept}{end}", path.unwrap_or_default())
        }
        SessionKey::Header(name) => format!("sessions by header {name}{end}"),
    }
}

pub(crate) fn seconds(time: Duration) -> String {
    format!("{} s", time.as_secs_f64())
}
