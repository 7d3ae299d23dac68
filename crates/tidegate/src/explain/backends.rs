//! The backends of a rule: their shares, their endpoints, and how they are spoken to.

use serde::Serialize;
use tidegate_plan::{
    Addresses, AlternativeName, ApplicationProtocol, Backend, BackendTls, Endpoint, EndpointState, Handling,
    ListenerHandle, Matched, Plan, Protocol, Reason, RetryBudget, RuleHandle, Tables, Target, Trust,
    Upstream, WeightedBackend,
};

use crate::explain::flow::AskedRequest;
use crate::explain::request;
use crate::words;

/// What one backend gets.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Share {
    pub(crate) backend: String,
    pub(crate) weight: u32,
    pub(crate) percent: f64,
    /// Why this share fails, where it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fails: Option<Reason>,
    pub(crate) endpoints: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) upstream: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) remarks: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) filters: Vec<String>,
    /// What an HTTP backend is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) request: Option<String>,
}

impl Share {
    /// Whether the reference leads to no backend at all.
    pub(crate) fn is_unresolved(&self) -> bool {
        self.backend == UNRESOLVED
    }
}

const UNRESOLVED: &str = "an invalid reference";

pub(crate) fn shares(
    plan: &Plan,
    tables: &Tables,
    listener: &ListenerHandle,
    rule: &RuleHandle,
    agreed: Option<&ApplicationProtocol>,
) -> Vec<Share> {
    let total = rule.group().total();
    rule.group().0.iter().map(|weighted| share(plan, tables, listener, weighted, total, agreed)).collect()
}

/// Says what each backend is asked for, where the flow is an HTTP request.
pub(crate) fn ask(shares: &mut [Share], tables: &Tables, asked: &AskedRequest, matched: &Matched<'_>) {
    // As the data plane does it: by the route, or by what the request says of itself.
    let headers = asked.headers.iter();
    let headers = headers.filter_map(|(name, value)| Some((name.parse().ok()?, value.parse().ok()?)));
    let is_grpc = matched.is_grpc() || tidegate_http::answer::is_grpc(&headers.collect());
    for (share, weighted) in shares.iter_mut().zip(&matched.rule.group().0) {
        // Nobody is asked where nobody is connected to.
        let (Target::Backend(id), None) = (&weighted.target, share.fails) else { continue };
        let backend = tables.backend(id);
        let tls = backend.is_some_and(|backend| matches!(backend.upstream, Upstream::Tls(_)));
        let http2 = is_grpc || backend.is_some_and(|backend| backend.protocol == Protocol::Http2);
        let scheme = if tls { "https" } else { "http" };
        let version = if http2 { " over HTTP/2" } else { "" };
        let url = request::upstream(asked, matched, &weighted.filters, scheme);
        share.request = Some(format!("{url}{version}"));
    }
}

fn share(
    plan: &Plan,
    tables: &Tables,
    listener: &ListenerHandle,
    weighted: &WeightedBackend,
    total: u64,
    agreed: Option<&ApplicationProtocol>,
) -> Share {
    let mut share = Share {
        backend: String::new(),
        weight: weighted.weight,
        percent: weighted.percent(total),
        fails: weighted.failure(),
        endpoints: Vec::new(),
        upstream: None,
        remarks: Vec::new(),
        filters: weighted.filters.iter().map(request::filter).collect(),
        request: None,
    };
    let Target::Backend(id) = &weighted.target else {
        UNRESOLVED.clone_into(&mut share.backend);
        return share;
    };
    share.backend = id.to_string();
    let Some(backend) = tables.backend(id) else {
        share.fails = Some(Reason::BackendNotFound);
        return share;
    };
    let passed = matches!(listener.handling, Handling::Passthrough);
    if let (Upstream::Refuse(reason), false) = (&backend.upstream, passed) {
        share.fails = Some(*reason);
        return share;
    }
    match &backend.addresses {
        Addresses::Dns { hostname, port } => share.endpoints.push(format!("{hostname}:{port} (by DNS)")),
        Addresses::Endpoints(id) => {
            let endpoints = plan.endpoints.get(id).map_or(&[][..], |endpoints| &endpoints.endpoints);
            if endpoints.is_empty() {
                share.fails = Some(Reason::NoEndpoints);
            }
            share.endpoints = endpoints.iter().map(endpoint).collect();
        }
    }
    share.remarks = remarks(backend);
    if passed {
        share.upstream = Some("bytes as they are".to_owned());
        if backend.upstream != Upstream::Plain {
            share.remarks.push("a passthrough listener does not use the BackendTLSPolicy".to_owned());
        }
        return share;
    }
    share.upstream = Some(upstream(&backend.upstream));
    if let Upstream::Tls(tls) = &backend.upstream {
        let of_gateway = tables.gateway(&listener.id.gateway).and_then(|own| own.client_certificate.as_ref());
        let shown = tls.client_certificate.as_ref().or(of_gateway);
        share.remarks.extend(
            shown.map(|shown| format!("shows the client certificate of {}", words::certificate(shown))),
        );
        let carried = agreed.filter(|_| tls.alpn.is_empty());
        share
            .remarks
            .extend(carried.map(|agreed| format!("offers {agreed} by ALPN, as agreed on with the client")));
    }
    share
}

pub(crate) fn endpoint(endpoint: &Endpoint) -> String {
    let address = std::net::SocketAddr::new(endpoint.address, endpoint.port);
    match endpoint.state {
        EndpointState::Ready => address.to_string(),
        EndpointState::Terminating => format!("{address} (terminating)"),
    }
}

/// How a backend is spoken to.
pub(crate) fn upstream(upstream: &Upstream) -> String {
    match upstream {
        Upstream::Plain => "plaintext".to_owned(),
        Upstream::Tls(tls) => tls_words(tls),
        Upstream::Refuse(reason) => format!("refused: {}", reason.text()),
    }
}

/// In the order of preference.
pub(crate) fn protocols(names: &[ApplicationProtocol]) -> String {
    names.iter().map(ApplicationProtocol::as_str).collect::<Vec<_>>().join(", ")
}

fn tls_words(tls: &BackendTls) -> String {
    let trust = match &tls.trust {
        Trust::Bundles(bundles) => {
            let bundles: Vec<&str> =
                bundles.iter().map(|bundle| bundle.0.get(..12).unwrap_or(&bundle.0)).collect();
            format!("checked against CA bundle {}", words::all_of(&bundles))
        }
        Trust::System => "checked against the system's CAs".to_owned(),
        Trust::Unverified => "not checked".to_owned(),
    };
    let names: Vec<String> = tls
        .names
        .iter()
        .map(|name| match name {
            AlternativeName::Dns(name) => name.to_string(),
            AlternativeName::Uri(uri) => uri.clone(),
        })
        .collect();
    let names = if names.is_empty() { String::new() } else { format!(", must name {}", names.join(" or ")) };
    let version = tls.minimum_version.map(|version| format!(", at least TLS {version}")).unwrap_or_default();
    let own = protocols(&tls.alpn);
    let alpn = if own.is_empty() { own } else { format!(", offering {own} by ALPN for bytes") };
    format!("TLS with server name {}, {trust}{names}{version}{alpn}", tls.sni)
}

fn remarks(backend: &Backend) -> Vec<String> {
    let mut remarks = Vec::new();
    if let Some(affinity) = backend.affinity {
        remarks
            .push(format!("a client address keeps its endpoint for {}", request::seconds(affinity.timeout)));
    }
    if backend.prefer_close {
        remarks.push("endpoints in the same zone go first".to_owned());
    }
    remarks.extend(backend.session.as_ref().map(request::session));
    remarks.extend(backend.retry_budget.map(retry_budget));
    remarks
}

/// How many requests may be tried again.
pub(crate) fn retry_budget(budget: RetryBudget) -> String {
    let RetryBudget { percent, interval, minimum, minimum_interval } = budget;
    let (interval, minimum_interval) = (request::seconds(interval), request::seconds(minimum_interval));
    format!("retries: {percent} % of requests in {interval}, and {minimum} in {minimum_interval} in any case")
}
