//! The flows that manifests are written for: one for each socket, name and match, made so that nothing more specific
//! takes it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use tidegate_plan::{
    Admission, Connection, Decision, Flow, GrpcMatch, Handling, Hello, Hostname, HttpMatch, Listener,
    ListenerHandle, PathMatch, Refusal, Request, Route, Rules, TextMatch, Transport, ValueMatch, decide,
};

use crate::diff::Side;
use crate::explain::flow::encoded;

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
    /// Set where a pattern keeps anyone from making up a request that meets it: the rest of the match alone is met.
    pub(crate) partly: bool,
    method: String,
    path: String,
    query: Option<String>,
    headers: Vec<(String, String)>,
}

/// What each place is asked with.
pub(crate) type Places = BTreeMap<Place, Asks>;

pub(crate) fn places(sides: [&Side<'_>; 2]) -> Places {
    let mut places = Places::new();
    for side in sides {
        for route in &side.routes {
            for listener in side.listeners_of(route) {
                add(&mut places, listener, route);
            }
        }
    }
    for side in sides {
        for listener in side.listeners.values() {
            add_names(&mut places, listener, sides);
        }
    }
    places
}

fn add(places: &mut Places, listener: &Listener, route: &Route) {
    let asks: Vec<(Option<String>, Asks)> = match &route.rules {
        Rules::Stream(_) => vec![(None, Asks::nothing())],
        Rules::Http(rules) => {
            let matches = rules.iter().flat_map(|rule| &rule.matches);
            matches.map(|matched| (Some(matched.to_string()), Asks::http(matched))).collect()
        }
        Rules::Grpc(rules) => {
            let matches = rules.iter().flat_map(|rule| &rule.matches);
            matches.map(|matched| (Some(matched.to_string()), Asks::grpc(matched))).collect()
        }
    };
    for place in Place::of(listener) {
        for hostname in common(listener.hostname.as_ref(), &route.hostnames) {
            for (matched, asks) in &asks {
                let place = Place { hostname: hostname.clone(), matched: matched.clone(), ..place.clone() };
                places.insert(place, asks.clone());
            }
        }
    }
}

/// A listener takes its names from wider ones, whether it has routes or not.
fn add_names(places: &mut Places, listener: &Listener, sides: [&Side<'_>; 2]) {
    for place in Place::of(listener) {
        let [old, new] = sides.map(|side| place.listener(side).map(|listener| &listener.id));
        if old != new {
            let wider: Vec<(Place, Asks)> = place.wider(places).collect();
            for (place, asks) in wider {
                places.entry(place).or_insert(asks);
            }
        }
        // Without a route, HTTP answers alike whether a listener has the name or not; TLS does not. A port that only
        // one side has is told as such.
        let told = listener.handling == Handling::Http
            || sides.iter().any(|side| side.tables.expects(place.local(), place.transport).is_none())
            || place.named(places).next().is_some();
        if !told {
            places.insert(place, Asks::nothing());
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
    /// Where a listener answers, for its own hostname and before any request: one for each address.
    pub(crate) fn of(listener: &Listener) -> impl Iterator<Item = Self> {
        addresses(listener).into_iter().map(|address| Self {
            port: listener.port,
            transport: listener.handling.transport(),
            address,
            hostname: listener.hostname.clone(),
            matched: None,
        })
    }

    /// What is asked at this very name.
    fn named<'p>(&self, places: &'p Places) -> impl Iterator<Item = (&'p Place, &'p Asks)> {
        let name = Self { matched: None, ..self.clone() };
        places.range(name.clone()..).take_while(move |(place, _)| {
            (place.port, place.transport, place.address, &place.hostname)
                == (name.port, name.transport, name.address, &name.hostname)
        })
    }

    /// The names that stand for this one too, the most specific first.
    pub(crate) fn wider_names(&self) -> Vec<Option<Hostname>> {
        let base = self.hostname.as_ref().map_or("", Hostname::base);
        let suffixes = base.match_indices('.').map(|(dot, _)| &base[dot..]);
        let wildcards = suffixes.filter_map(|suffix| Hostname::parse(&format!("*{suffix}")).ok()).map(Some);
        wildcards.chain(self.hostname.is_some().then_some(None)).collect()
    }

    /// What is asked at names that stand for this one too, asked here.
    fn wider(&self, places: &Places) -> impl Iterator<Item = (Self, Asks)> {
        let names = self.wider_names();
        let addresses = BTreeSet::from([self.address, None]);
        addresses.into_iter().flat_map(move |address| {
            let wide =
                names.iter().map(|hostname| Self { address, hostname: hostname.clone(), ..self.clone() });
            let asked = wide.flat_map(|wide| wide.named(places).collect::<Vec<_>>());
            let here = |(place, asks): (&Self, &Asks)| {
                (Self { matched: place.matched.clone(), ..self.clone() }, asks.clone())
            };
            asked.map(here).collect::<Vec<_>>()
        })
    }

    /// A name that this place stands for and nothing more specific is likely to.
    fn name(&self) -> String {
        match &self.hostname {
            None => "any-name.invalid".to_owned(),
            Some(hostname) if hostname.is_wildcard() => format!("any-name-below.{}", hostname.base()),
            Some(hostname) => hostname.to_string(),
        }
    }

    fn local(&self) -> SocketAddr {
        SocketAddr::new(self.address.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)), self.port)
    }

    fn connection<'n>(&self, name: &'n str) -> Connection<'n> {
        Connection {
            local: self.local(),
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

    /// The listener that takes the name on one side.
    pub(crate) fn listener<'t>(&self, side: &'t Side<'_>) -> Option<&'t ListenerHandle> {
        match self.ask(side, &Asks::nothing()) {
            Ok(Decision { request: Some(matched), .. }) => Some(matched.listener),
            Ok(Decision { admission, .. }) => admission.listener(),
            Err(Refusal { listener, .. }) => listener,
        }
    }
}

impl Asks {
    pub(crate) fn nothing() -> Self {
        // A method that no rule can ask for.
        let method = "ANY".to_owned();
        Self { partly: false, method, path: "/".to_owned(), query: None, headers: Vec::new() }
    }

    fn http(matched: &HttpMatch) -> Self {
        let path = match &matched.path {
            PathMatch::Exact(path) => Some(path.clone()),
            PathMatch::Prefix(prefix) => Some(format!("{}/any-path-below", prefix.trim_end_matches('/'))),
            PathMatch::Regex(_) => None,
        };
        let (headers, query) = (pairs(&matched.headers), pairs(&matched.query));
        let exact = headers.len() == matched.headers.len() && query.len() == matched.query.len();
        let query: Vec<String> =
            query.iter().map(|(name, value)| format!("{}={}", encoded(name), encoded(value))).collect();
        let nothing = Self::nothing();
        Self {
            partly: path.is_none() || !exact,
            method: matched.method.clone().unwrap_or(nothing.method),
            path: path.unwrap_or(nothing.path),
            query: (!query.is_empty()).then(|| query.join("&")),
            headers,
        }
    }

    fn grpc(matched: &GrpcMatch) -> Self {
        let headers = pairs(&matched.headers);
        let mut partly = headers.len() < matched.headers.len();
        let mut name = |wanted: &Option<TextMatch>, any: &str| match wanted {
            Some(TextMatch::Exact(name)) => name.clone(),
            Some(TextMatch::Regex(_)) => {
                partly = true;
                any.to_owned()
            }
            None => any.to_owned(),
        };
        let (service, method) = (name(&matched.service, "any.Service"), name(&matched.method, "AnyMethod"));
        let path = format!("/{service}/{method}");
        Self { partly, method: "POST".to_owned(), path, query: None, headers }
    }
}

/// Those that are given word for word.
fn pairs(wanted: &[ValueMatch]) -> Vec<(String, String)> {
    let pair = |wanted: &ValueMatch| match &wanted.value {
        TextMatch::Exact(value) => Some((wanted.name.clone(), value.clone())),
        TextMatch::Regex(_) => None,
    };
    wanted.iter().filter_map(pair).collect()
}
