//! The flows that manifests are written for: one for each socket, name and match, made so that nothing more specific
//! takes it.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use tidegate_plan::{
    Admission, Connection, Decision, Flow, GrpcMatch, Hello, Hostname, HttpMatch, Listener, PathMatch,
    Refusal, Request, Route, Rules, TextMatch, Transport, ValueMatch, decide,
};

use crate::diff::Side;

/// Where a kind of flow arrives and what it asks for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) port: u16,
    pub(crate) transport: Transport,
    /// `None`: every address.
    pub(crate) address: Option<IpAddr>,
    /// `None`: any name.
    pub(crate) hostname: Option<Hostname>,
    /// The match in words; `None`: there is nothing to match.
    pub(crate) matched: Option<String>,
}

/// A request that meets a match and, as far as can be told, nothing more specific.
#[derive(Clone, Debug)]
pub(crate) struct Asks {
    method: String,
    path: String,
    query: Option<String>,
    headers: Vec<(String, String)>,
}

/// What a place is asked with; `None` where a pattern keeps anyone from making up a request that meets it.
pub(crate) type Places = BTreeMap<Place, Option<Asks>>;

pub(crate) fn places(sides: &[&Side<'_>]) -> Places {
    let mut places = Places::new();
    for side in sides {
        for route in &side.routes {
            for listener in side.listeners_of(route) {
                add(&mut places, listener, route);
            }
        }
    }
    places
}

fn add(places: &mut Places, listener: &Listener, route: &Route) {
    let asks: Vec<(Option<String>, Option<Asks>)> = match &route.rules {
        Rules::Stream(_) => vec![(None, Some(Asks::nothing()))],
        Rules::Http(rules) => {
            let matches = rules.iter().flat_map(|rule| &rule.matches);
            matches.map(|matched| (Some(matched.to_string()), Asks::http(matched))).collect()
        }
        Rules::Grpc(rules) => {
            let matches = rules.iter().flat_map(|rule| &rule.matches);
            matches.map(|matched| (Some(matched.to_string()), Asks::grpc(matched))).collect()
        }
    };
    for address in addresses(listener) {
        for hostname in common(listener.hostname.as_ref(), &route.hostnames) {
            for (matched, asks) in &asks {
                let place = Place {
                    port: listener.port,
                    transport: listener.handling.transport(),
                    address,
                    hostname: hostname.clone(),
                    matched: matched.clone(),
                };
                places.insert(place, asks.clone());
            }
        }
    }
}

fn addresses(listener: &Listener) -> Vec<Option<IpAddr>> {
    if listener.addresses.is_empty() {
        vec![None]
    } else {
        listener.addresses.iter().copied().map(Some).collect()
    }
}

/// The names in which listener and route meet.
pub(crate) fn common(listener: Option<&Hostname>, route: &[Hostname]) -> Vec<Option<Hostname>> {
    match listener {
        None if route.is_empty() => vec![None],
        None => route.iter().cloned().map(Some).collect(),
        Some(own) if route.is_empty() => vec![Some(own.clone())],
        Some(own) => route.iter().filter_map(|name| own.intersection(name)).cloned().map(Some).collect(),
    }
}

impl Place {
    /// A name that this place stands for and nothing more specific is likely to.
    fn name(&self) -> String {
        match &self.hostname {
            None => "any-name.invalid".to_owned(),
            Some(hostname) if hostname.is_wildcard() => format!("any-name-below.{}", hostname.base()),
            Some(hostname) => hostname.to_string(),
        }
    }

    fn connection<'n>(&self, name: &'n str) -> Connection<'n> {
        let address = self.address.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        Connection {
            local: SocketAddr::new(address, self.port),
            transport: self.transport,
            hello: (self.transport == Transport::Tcp).then_some(Hello { sni: Some(name), alpn: &[] }),
        }
    }

    /// What one side does with such a flow.
    pub(crate) fn ask<'t>(&self, side: &'t Side<'_>, asks: &Asks) -> Result<Decision<'t>, Refusal<'t>> {
        let name = self.name();
        let request = Request {
            host: Some(&name),
            method: &asks.method,
            path: &asks.path,
            query: asks.query.as_deref(),
            headers: &asks.headers,
        };
        decide(&side.tables, &Flow { connection: self.connection(&name), request: Some(request) }, &mut ())
    }

    /// What one side takes such a connection for, before any request.
    pub(crate) fn admit<'t>(&self, side: &'t Side<'_>) -> Option<Admission<'t>> {
        side.tables.admit(&self.connection(&self.name()), &mut ()).ok()
    }

    /// The rule with these very words, first in the order of age and name: for matches that cannot be asked.
    pub(crate) fn written<'p>(&self, side: &Side<'p>) -> Option<(&'p Listener, &'p Route, usize)> {
        side.routes.iter().find_map(|&route| {
            let listener = side.listeners_of(route).find(|listener| {
                listener.port == self.port
                    && listener.handling.transport() == self.transport
                    && addresses(listener).contains(&self.address)
                    && common(listener.hostname.as_ref(), &route.hostnames).contains(&self.hostname)
            })?;
            let rule = match &route.rules {
                Rules::Stream(_) => Some(0),
                Rules::Http(rules) => rules.iter().position(|rule| self.is_among(&rule.matches)),
                Rules::Grpc(rules) => rules.iter().position(|rule| self.is_among(&rule.matches)),
            };
            rule.map(|rule| (listener, route, rule))
        })
    }

    fn is_among<M: ToString>(&self, matches: &[M]) -> bool {
        matches.iter().any(|matched| Some(matched.to_string()) == self.matched)
    }
}

impl Asks {
    fn nothing() -> Self {
        // A method that no rule can ask for.
        Self { method: "ANY".to_owned(), path: "/".to_owned(), query: None, headers: Vec::new() }
    }

    fn http(matched: &HttpMatch) -> Option<Self> {
        let path = match &matched.path {
            PathMatch::Exact(path) => path.clone(),
            PathMatch::Prefix(prefix) => format!("{}/any-path-below", prefix.trim_end_matches('/')),
            PathMatch::Regex(_) => return None,
        };
        let query: Vec<String> =
            pairs(&matched.query)?.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let nothing = Self::nothing();
        Some(Self {
            method: matched.method.clone().unwrap_or(nothing.method),
            path,
            query: (!query.is_empty()).then(|| query.join("&")),
            headers: pairs(&matched.headers)?,
        })
    }

    fn grpc(matched: &GrpcMatch) -> Option<Self> {
        let name = |wanted: &Option<TextMatch>, any: &str| match wanted {
            None => Some(any.to_owned()),
            Some(TextMatch::Exact(name)) => Some(name.clone()),
            Some(TextMatch::Regex(_)) => None,
        };
        let (service, method) = (name(&matched.service, "any.Service")?, name(&matched.method, "AnyMethod")?);
        let headers = pairs(&matched.headers)?;
        Some(Self { method: "POST".to_owned(), path: format!("/{service}/{method}"), query: None, headers })
    }
}

fn pairs(wanted: &[ValueMatch]) -> Option<Vec<(String, String)>> {
    let pair = |wanted: &ValueMatch| match &wanted.value {
        TextMatch::Exact(value) => Some((wanted.name.clone(), value.clone())),
        TextMatch::Regex(_) => None,
    };
    wanted.iter().map(pair).collect()
}
