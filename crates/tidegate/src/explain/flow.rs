//! One flow, put to the same code that the data plane asks.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use serde::Serialize;
use tidegate_plan::{
    Admission, ApplicationProtocol, Certificate, Connection, Decision, Expects, Fate, Flow, Hello, Hostname,
    HttpVersion, ListenerHandle, ListenerId, NameOf, Plan, Reason, Request, RouteId, Rule, RuleHandle, Step,
    Tables, Transport, decide, normal_path,
};

use crate::arguments::FlowOptions;
use crate::explain::backends::{self, Share};
use crate::explain::request::{self, Forwarded};
use crate::meaning::Meaning;
use crate::output::Error;

/// What would become of a flow.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Explanation {
    pub(crate) flow: Asked,
    /// Whether the request was looked at.
    pub(crate) http: bool,
    pub(crate) routed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<Reason>,
    /// What the client sees where it is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) answer: Option<String>,
    pub(crate) steps: Vec<Step>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) listener: Option<Taken>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) certificate: Option<Certificate>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) route: Option<Chosen>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) request: Option<Forwarded>,
    pub(crate) backends: Vec<Share>,
}

/// The flow as it was asked for, with what was left out filled in.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Asked {
    pub(crate) local: SocketAddr,
    pub(crate) transport: Transport,
    pub(crate) tls: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sni: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) alpn: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) client: Option<IpAddr>,
    /// Looked at only where the connection carries HTTP.
    pub(crate) request: AskedRequest,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AskedRequest {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) host: Option<String>,
    pub(crate) method: String,
    pub(crate) path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) query: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) headers: Vec<(String, String)>,
}

/// The listener that took the flow.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Taken {
    pub(crate) id: ListenerId,
    pub(crate) handling: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) hostname: Option<Hostname>,
    /// What ALPN gives, on an HTTPS listener.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) http_version: Option<&'static str>,
    /// What ALPN gives, where TLS is terminated for bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) protocol: Option<ApplicationProtocol>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) client_certificates: Option<&'static str>,
}

/// The rule that carries the flow.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Chosen {
    pub(crate) id: RouteId,
    pub(crate) rule: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    /// The match that applied, in words; none where there is nothing to match.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) matched: Option<String>,
}

pub(crate) fn explain(plan: &Plan, options: &FlowOptions) -> Result<Explanation, Error> {
    let tables = Tables::new(plan);
    let asked = Asked::new(&tables, options)?;
    let alpn: Vec<&[u8]> = asked.alpn.iter().map(String::as_bytes).collect();
    let connection = Connection {
        local: asked.local,
        transport: asked.transport,
        hello: asked.tls.then_some(Hello { sni: asked.sni.as_deref(), alpn: &alpn }),
    };
    let AskedRequest { host, method, path, query, headers } = &asked.request;
    let request = Request { host: host.as_deref(), method, path, query: query.as_deref(), headers };
    let mut steps = Vec::new();
    let decision = decide(&tables, &Flow { connection, request: Some(request) }, &mut steps);
    Ok(match decision {
        Ok(decision) => routed(plan, &tables, asked, steps, &decision),
        Err(refusal) => {
            let http = steps.iter().any(|step| matches!(step, Step::Name { of: NameOf::Host, .. }));
            Explanation {
                http,
                routed: false,
                reason: Some(refusal.reason),
                answer: Some(answer(refusal.reason, http, refusal.rule, asked.transport)),
                listener: refusal.listener.map(|listener| Taken::new(listener, None, None)),
                certificate: None,
                route: refusal.rule.map(|rule| Chosen::new(rule, None)),
                request: None,
                backends: Vec::new(),
                steps,
                flow: asked,
            }
        }
    })
}

fn routed(
    plan: &Plan,
    tables: &Tables,
    asked: Asked,
    steps: Vec<Step>,
    decision: &Decision<'_>,
) -> Explanation {
    let (listener, rule, which) = match (&decision.admission, &decision.request) {
        (Admission::Stream { listener, rule, .. }, _) => (Some(*listener), Some(*rule), None),
        (_, Some(matched)) => (Some(matched.listener), Some(matched.rule), Some(matched.which)),
        (admission, None) => (admission.listener(), None, None),
    };
    let (certificate, version, protocol) = match &decision.admission {
        Admission::Stream { certificate, protocol, .. } => (*certificate, None, *protocol),
        Admission::Https { certificate, version, .. } => (Some(*certificate), Some(*version), None),
        Admission::Http => (None, None, None),
    };
    let forwarded = decision.request.as_ref().map(|matched| request::forwarded(&asked.request, matched));
    let redirected = forwarded.as_ref().is_some_and(|forwarded| forwarded.redirect.is_some());
    let mut backends = match (listener, rule) {
        (Some(listener), Some(rule)) if !redirected => {
            backends::shares(plan, tables, listener, rule, protocol)
        }
        _ => Vec::new(),
    };
    if let Some(matched) = &decision.request {
        backends::ask(&mut backends, tables, &asked.request, matched);
    }
    let failed = rule.filter(|_| !redirected).and_then(|rule| failure(rule, &backends));
    let http = decision.request.is_some();
    Explanation {
        http,
        routed: failed.is_none(),
        reason: failed,
        answer: failed.map(|reason| answer(reason, http, rule, asked.transport)),
        listener: listener.map(|listener| Taken::new(listener, version, protocol)),
        certificate: certificate.cloned(),
        route: rule.map(|rule| Chosen::new(rule, which)),
        request: forwarded,
        backends,
        steps,
        flow: asked,
    }
}

impl Explanation {
    pub(crate) fn name_references(&mut self, meaning: &Meaning) {
        let message = self.route.as_ref().and_then(|route| meaning.unresolved(&route.id));
        let Some(message) = message else { return };
        for share in self.backends.iter_mut().filter(|share| share.is_unresolved()) {
            share.remarks.push(message.to_owned());
        }
    }
}

/// Why all of the traffic fails, where it does.
fn failure(rule: &RuleHandle, backends: &[Share]) -> Option<Reason> {
    if let Fate::Failed(reason) = rule.group().fate() {
        return Some(reason);
    }
    let mut weighted = backends.iter().filter(|share| share.weight > 0).peekable();
    let first = weighted.peek().and_then(|share| share.fails);
    if weighted.all(|share| share.fails.is_some()) { first } else { None }
}

/// What the client sees of a refusal.
pub(crate) fn answer(reason: Reason, http: bool, rule: Option<&RuleHandle>, transport: Transport) -> String {
    if transport == Transport::Udp {
        "the datagram is dropped".to_owned()
    } else if !http {
        "the connection is closed".to_owned()
    } else if rule.is_some_and(|rule| matches!(rule.rule(), Rule::Grpc(_))) {
        format!("gRPC status {}", reason.grpc_status())
    } else {
        format!("HTTP status {}", reason.http_status())
    }
}

impl Asked {
    fn new(tables: &Tables, options: &FlowOptions) -> Result<Self, Error> {
        let port = options.port.ok_or_else(|| Error::Usage("--port is missing".to_owned()))?;
        let transport = if options.udp { Transport::Udp } else { Transport::Tcp };
        let address = options.address.unwrap_or_else(|| address(tables, port, transport));
        let local = SocketAddr::new(address, port);
        // A client that asks a TLS port for a host names it in its ClientHello.
        let named =
            options.host.as_deref().filter(|_| tables.expects(local, transport) == Some(Expects::Hello));
        let named = named.map(without_port).filter(|name| Hostname::parse(name).is_ok());
        let sni = match (&options.sni, options.no_sni) {
            (Some(sni), _) => Some(sni.clone()),
            (None, true) => None,
            (None, false) => named.map(str::to_owned),
        };
        let written = options.path_and_query.as_deref().unwrap_or("/");
        let (path, query) = match written.split_once('?') {
            Some((path, query)) => (path, Some(query.to_owned())),
            None => (written, None),
        };
        // As the data plane does before it asks.
        let path = normal_path(path)
            .map_err(|error| Error::Usage(format!("{error}: such a request is answered with 400")))?;
        let parameters =
            options.query.iter().map(|(name, value)| format!("{}={}", encoded(name), encoded(value)));
        let query: Vec<String> = query.into_iter().chain(parameters).collect();
        Ok(Self {
            local,
            transport,
            tls: !options.udp && (sni.is_some() || options.no_sni || !options.alpn.is_empty()),
            alpn: options.alpn.clone(),
            client: options.client_ip,
            request: AskedRequest {
                host: options.host.clone().or_else(|| sni.clone()),
                method: options.method.clone(),
                path: path.into_owned(),
                query: (!query.is_empty()).then(|| query.join("&")),
                headers: options.header.clone(),
            },
            sni,
        })
    }
}

/// The address that a client would use where none is given: any, or one of those that alone are answered on.
fn address(tables: &Tables, port: u16, transport: Transport) -> IpAddr {
    let sockets = tables.sockets().filter(|socket| socket.1 == port && socket.2 == transport);
    let addresses: Vec<Option<IpAddr>> = sockets.map(|socket| socket.0).collect();
    let any = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    if addresses.contains(&None) { any } else { addresses.into_iter().flatten().min().unwrap_or(any) }
}

fn without_port(host: &str) -> &str {
    host.rsplit_once(':')
        .filter(|(_, port)| port.bytes().all(|b| b.is_ascii_digit()))
        .map_or(host, |(name, _)| name)
}

/// As a part of a query.
pub(crate) fn encoded(text: &str) -> String {
    let kept = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~".contains(byte);
    text.bytes()
        .map(|byte| if kept(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

impl Taken {
    fn new(
        listener: &ListenerHandle,
        version: Option<HttpVersion>,
        protocol: Option<&ApplicationProtocol>,
    ) -> Self {
        let rule = listener.handling.server_tls().and_then(|tls| tls.client_certificates.as_ref());
        Self {
            id: listener.id.clone(),
            handling: listener.handling.as_str(),
            hostname: listener.hostname.clone(),
            http_version: version.map(|version| match version {
                HttpVersion::Http1 => "HTTP/1.1",
                HttpVersion::Http2 => "HTTP/2",
            }),
            protocol: protocol.cloned(),
            client_certificates: rule.map(|rule| if rule.allow_insecure { "optional" } else { "required" }),
        }
    }
}

impl Chosen {
    fn new(rule: &RuleHandle, which: Option<usize>) -> Self {
        let matched = which.and_then(|which| match rule.rule() {
            Rule::Http(rule) => rule.matches.get(which).map(ToString::to_string),
            Rule::Grpc(rule) => rule.matches.get(which).map(ToString::to_string),
            Rule::Stream(_) => None,
        });
        Self {
            id: rule.route().id.clone(),
            rule: rule.index(),
            name: rule.name().map(str::to_owned),
            matched,
        }
    }
}
