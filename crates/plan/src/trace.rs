//! How a decision came about, step by step, for `explain`, the page and the journal of refused connections.
//!
//! The decision itself is the same code with and without: a step is built only where somebody listens.

use std::fmt;

use serde::Serialize;

use crate::{ApplicationProtocol, BackendId, Hostname, ListenerId, Reason, RouteId, Transport};

/// Takes the steps of a decision.
pub trait Trace {
    /// The closure builds the step; it is not called, and nothing is allocated, where nobody listens.
    fn step(&mut self, step: impl FnOnce() -> Step);
}

/// Nobody listens.
impl Trace for () {
    #[inline(always)]
    fn step(&mut self, _: impl FnOnce() -> Step) {}
}

/// Keeps every step.
impl Trace for Vec<Step> {
    fn step(&mut self, step: impl FnOnce() -> Step) {
        self.push(step());
    }
}

/// Its `Display` is a sentence for people, its JSON is for machines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "step", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Step {
    /// Who answers where the client connected to.
    Socket {
        address: std::net::SocketAddr,
        transport: Transport,
        listeners: Vec<ListenerId>,
        more: usize,
    },
    /// A name as the client wrote it and as it is looked up; not at all if it is no hostname.
    Name {
        of: NameOf,
        written: Option<String>,
        read: Option<String>,
    },
    /// The listener with the most specific hostname for the name.
    Listener {
        listener: ListenerId,
        hostname: Option<Hostname>,
        handling: String,
    },
    /// No listener there takes the name; these are the names that they take.
    NoListener {
        listeners: Vec<Offer<ListenerId>>,
        more: usize,
    },
    /// No route of the listener takes the name; these are the names that they take.
    NoRoute {
        routes: Vec<Offer<RouteId>>,
        more: usize,
    },
    /// The listener keeps its names and serves none of them.
    ListenerRefuses {
        listener: ListenerId,
        reason: Reason,
    },
    /// The best listener for the request's host is not the one that took the connection.
    OtherListener {
        connection: ListenerId,
        host: Option<ListenerId>,
    },
    /// The routes of the listener that were written for this hostname are looked at.
    Hostname {
        hostname: Option<Hostname>,
        routes: Vec<RouteId>,
        more: usize,
    },
    /// One match of a rule was tried; `miss` is why it does not apply.
    Match {
        route: RouteId,
        rule: usize,
        name: Option<String>,
        which: usize,
        on: String,
        miss: Option<Miss>,
    },
    /// Nothing under this hostname applies; these matches were there to be met, perhaps not all of them.
    NoMatch {
        hostname: Option<Hostname>,
        offers: Vec<String>,
        more: usize,
    },
    /// The route that carries the traffic, and those that wait behind it.
    Route {
        route: RouteId,
        behind: Vec<RouteId>,
        more: usize,
    },
    /// The certificate that is shown, and the name in it that was meant; none: it is the listener's first.
    Certificate {
        secret: String,
        name: Option<Hostname>,
    },
    /// What the listener says is spoken inside its TLS, and which of it the client offers.
    Protocol {
        spoken: Vec<ApplicationProtocol>,
        agreed: Option<ApplicationProtocol>,
    },
    /// Whose turn it is of the backends that the route names.
    Backend {
        backend: BackendId,
    },
    Refused {
        reason: Reason,
    },
}

/// Who was there for other names; without hostnames, for any.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Offer<T> {
    pub of: T,
    pub hostnames: Vec<Hostname>,
    /// How many hostnames there are besides.
    pub more: usize,
}

impl<T> Offer<T> {
    const SHOWN: usize = 8;

    pub(crate) fn new(of: T, hostnames: &[Hostname]) -> Self {
        let more = hostnames.len().saturating_sub(Self::SHOWN);
        Self { of, hostnames: hostnames.iter().take(Self::SHOWN).cloned().collect(), more }
    }
}

impl<T: fmt::Display> fmt::Display for Offer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.hostnames.as_slice() {
            [] => write!(f, "{} has no hostname", self.of),
            some => {
                let names: Vec<&str> = some.iter().map(Hostname::as_str).collect();
                write!(f, "{} is for {}", self.of, names.join(", "))?;
                if self.more > 0 { write!(f, " and {} more", self.more) } else { Ok(()) }
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum NameOf {
    ServerName,
    Host,
}

/// Why a match does not apply to a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "miss", rename_all = "camelCase")]
pub enum Miss {
    Path,
    Method { wants: String },
    Header { name: String },
    Query { name: String },
    GrpcService,
    GrpcMethod,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket { address, transport, listeners, more } => {
                let transport = if *transport == Transport::Udp { "UDP" } else { "TCP" };
                match listeners.as_slice() {
                    [] => write!(f, "no listener answers on {address} over {transport}"),
                    some => write!(f, "on {address} over {transport} answer: {}", Words(some, *more)),
                }
            }
            Self::Name { of, written, read } => {
                let of = match of {
                    NameOf::ServerName => "server name",
                    NameOf::Host => "host",
                };
                match (written, read) {
                    (None, _) => write!(f, "the client gives no {of}"),
                    (Some(written), None) => write!(f, "the {of} {written:?} is no hostname"),
                    (Some(written), Some(read)) if written == read => write!(f, "the {of} is {read}"),
                    (Some(written), Some(read)) => write!(f, "the {of} {written:?} is read as {read}"),
                }
            }
            Self::Listener { listener, hostname, handling } => match hostname {
                Some(hostname) => {
                    write!(
                        f,
                        "listener {listener} ({handling}) takes it: {hostname} is the most specific hostname"
                    )
                }
                None => {
                    write!(f, "listener {listener} ({handling}) takes it: it has no hostname and takes any")
                }
            },
            Self::NoListener { listeners, more } => {
                write!(f, "no listener takes it: {}", Words(listeners, *more))
            }
            Self::NoRoute { routes, .. } if routes.is_empty() => f.write_str("the listener has no routes"),
            Self::NoRoute { routes, more } => {
                write!(f, "no route of the listener takes it: {}", Words(routes, *more))
            }
            Self::ListenerRefuses { listener, reason } => {
                write!(f, "listener {listener} keeps the name but serves nothing: {}", reason.text())
            }
            Self::OtherListener { connection, host: Some(host) } => {
                write!(f, "the connection belongs to listener {connection}, the host to listener {host}")
            }
            Self::OtherListener { connection, host: None } => {
                write!(f, "the connection belongs to listener {connection}, the host to no listener")
            }
            Self::Hostname { hostname: Some(hostname), routes, more } => {
                write!(f, "routes written for {hostname}: {}", Words(routes, *more))
            }
            Self::Hostname { hostname: None, routes, more } => {
                write!(f, "routes written for no hostname, which take any: {}", Words(routes, *more))
            }
            Self::Match { route, rule, name, which, on, miss } => {
                write!(f, "{route} rule {rule}")?;
                if let Some(name) = name {
                    write!(f, " ({name})")?;
                }
                write!(f, " match {which} [{on}]: ")?;
                match miss {
                    None => f.write_str("applies"),
                    Some(miss) => write!(f, "does not apply, {miss}"),
                }
            }
            Self::NoMatch { hostname, offers, more } => {
                let offers = Words(offers, *more);
                match hostname {
                    Some(hostname) => write!(f, "no rule for {hostname} applies; there are: {offers}"),
                    None => write!(f, "no rule for any hostname applies; there are: {offers}"),
                }
            }
            Self::Route { route, behind, .. } if behind.is_empty() => write!(f, "{route} carries it"),
            Self::Route { route, behind, more } => {
                write!(f, "{route} carries it; it is older or first by name before {}", Words(behind, *more))
            }
            Self::Certificate { secret, name: Some(name) } => {
                write!(f, "the certificate of Secret {secret} is shown: it is good for {name}")
            }
            Self::Certificate { secret, name: None } => {
                write!(
                    f,
                    "the certificate of Secret {secret} is shown: none names the server, and it is the first"
                )
            }
            Self::Protocol { agreed: Some(agreed), .. } => {
                write!(f, "client and listener agree on {agreed} by ALPN")
            }
            Self::Protocol { spoken, agreed: None } => {
                write!(f, "nothing is agreed on by ALPN; the listener takes {}", Words(spoken, 0))
            }
            Self::Backend { backend } => write!(f, "it is for {backend}"),
            Self::Refused { reason } => write!(f, "refused: {}", reason.text()),
        }
    }
}

impl fmt::Display for Miss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path => f.write_str("the path differs"),
            Self::Method { wants } => write!(f, "the method is not {wants}"),
            Self::Header { name } => write!(f, "the header {name} is missing or differs"),
            Self::Query { name } => write!(f, "the query parameter {name} is missing or differs"),
            Self::GrpcService => f.write_str("the gRPC service differs"),
            Self::GrpcMethod => f.write_str("the gRPC method differs"),
        }
    }
}

/// A list and how many more there are.
struct Words<'a, T>(&'a [T], usize);

impl<T: fmt::Display> fmt::Display for Words<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, item) in self.0.iter().enumerate() {
            write!(f, "{}{item}", if index > 0 { "; " } else { "" })?;
        }
        if self.1 > 0 { write!(f, "; and {} more", self.1) } else { Ok(()) }
    }
}
