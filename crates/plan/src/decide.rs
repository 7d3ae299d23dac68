//! The one place where it is decided who takes traffic. The data plane asks in two steps, [`Tables::admit`] for a
//! connection and [`Tables::matched`] for a request; [`decide`] asks both, for whoever wants to know beforehand.

use crate::decision::{Admission, Decision, HttpVersion, Matched, Refusal};
use crate::flow::{Connection, Flow, Hello, Inbound, Request};
use crate::tables::{Answering, Entry, Expects, Few, Host, ListenerTable, Routes, Specificity, Tables};
use crate::trace::{NameOf, Offer, Step, Trace};
use crate::{ApplicationProtocol, Certificate, Hostname, ListenerHandle, Name, Reason, RuleHandle};

/// Where a flow goes, or why it goes nowhere.
pub fn decide<'t>(
    tables: &'t Tables,
    flow: &Flow<'_>,
    trace: &mut impl Trace,
) -> Result<Decision<'t>, Refusal<'t>> {
    let admission = tables.admit(&flow.connection, trace)?;
    let inbound = |https| Inbound { local: flow.connection.local, https };
    let on = match &admission {
        Admission::Stream { .. } => None,
        Admission::Http => Some(inbound(None)),
        Admission::Https { listener, .. } => Some(inbound(Some(&listener.id))),
    };
    let request = match (on, &flow.request) {
        (Some(inbound), Some(request)) => Some(tables.matched(&inbound, request, trace)?),
        _ => None,
    };
    Ok(Decision { admission, request })
}

impl Tables {
    /// What is to be done with a connection or a datagram flow.
    pub fn admit<'t>(
        &'t self,
        connection: &Connection<'_>,
        trace: &mut impl Trace,
    ) -> Result<Admission<'t>, Refusal<'t>> {
        let answering = self.answering(connection.local, connection.transport);
        trace.step(|| socket_step(connection, answering.as_ref()));
        let admission = match answering {
            None => Err(Refusal::new(Reason::NoListener)),
            Some(answering) => match answering.expects {
                Expects::Hello => admit_tls(&answering, connection.hello.as_ref(), trace),
                Expects::Http => Ok(Admission::Http),
                Expects::Bytes => admit_bytes(&answering, trace),
            },
        };
        traced(admission, trace)
    }

    /// The rule that a request on an admitted connection matches.
    pub fn matched<'t>(
        &'t self,
        inbound: &Inbound<'_>,
        request: &Request<'_>,
        trace: &mut impl Trace,
    ) -> Result<Matched<'t>, Refusal<'t>> {
        traced(self.find_rule(inbound, request, trace), trace)
    }

    fn find_rule<'t>(
        &'t self,
        inbound: &Inbound<'_>,
        request: &Request<'_>,
        trace: &mut impl Trace,
    ) -> Result<Matched<'t>, Refusal<'t>> {
        let name = request.host.and_then(Name::from_host);
        trace.step(|| name_step(NameOf::Host, request.host, name.as_ref()));
        let answering =
            self.answering(inbound.local, crate::Transport::Tcp).ok_or(Refusal::new(Reason::NoListener))?;
        let best = answering.by_host(name.as_ref(), inbound.https.is_some());
        if let Some(connection) = inbound.https
            && best.is_none_or(|best| best.listener.id != *connection)
        {
            trace.step(|| Step::OtherListener {
                connection: connection.clone(),
                host: best.map(|best| best.listener.id.clone()),
            });
            let reason = best.map_or(Reason::NoListenerForHost, |_| Reason::Misdirected);
            return Err(Refusal { listener: best.map(|best| &best.listener), ..Refusal::new(reason) });
        }
        let Some(table) = best else {
            trace.step(|| no_listener_step(&answering));
            return Err(Refusal::new(Reason::NoListenerForHost));
        };
        let listener = &table.listener;
        check_listener(table, trace)?;
        let Routes::Http(hosts) = &table.routes else {
            trace.step(|| no_route_step(std::iter::empty()));
            return Err(Refusal::by_listener(Reason::NoRoute, listener));
        };
        let mut named = false;
        let entry = hosts.find(name.as_ref(), |specificity, host| {
            named = true;
            find_in_host(host, specificity, name.as_ref(), request, trace)
        });
        let reason = if named { Reason::NoMatchingRule } else { Reason::NoRoute };
        let Some(entry) = entry else {
            if !named {
                let all = || hosts.iter().flat_map(|host| host.entries().map(|entry| &entry.rule));
                trace.step(|| no_route_step(all()));
            }
            return Err(Refusal::by_listener(reason, listener));
        };
        match entry.refuse {
            Some(reason) => Err(Refusal { reason, listener: Some(listener), rule: Some(&entry.rule) }),
            None => Ok(Matched { listener, rule: &entry.rule, which: entry.which() }),
        }
    }
}

/// The listener by its server name; then, unless it speaks HTTP, the route by the same name.
fn admit_tls<'t>(
    answering: &Answering<'t>,
    hello: Option<&Hello<'_>>,
    trace: &mut impl Trace,
) -> Result<Admission<'t>, Refusal<'t>> {
    let hello = hello.ok_or(Refusal::new(Reason::NotTls))?;
    let name = hello.sni.and_then(Name::from_sni);
    trace.step(|| name_step(NameOf::ServerName, hello.sni, name.as_ref()));
    let Some(table) = answering.by_server_name(name.as_ref()) else {
        trace.step(|| no_listener_step(answering));
        return Err(Refusal::new(if hello.sni.is_none() { Reason::NoSni } else { Reason::NoListenerForSni }));
    };
    let listener = &table.listener;
    check_listener(table, trace)?;
    if let Routes::Tls(rules) = &table.routes {
        let terminates = table.certificates.is_some();
        let protocol = if terminates { application_protocol(listener, hello.alpn, trace)? } else { None };
        let few = rules.find(name.as_ref(), |specificity, few| {
            trace.step(|| hostname_step(specificity, name.as_ref(), few.iter()));
            Some(few)
        });
        let Some(few) = few else {
            trace.step(|| no_route_step(rules.iter().flat_map(Few::iter)));
            return Err(Refusal::by_listener(Reason::NoRoute, listener));
        };
        trace.step(|| route_step(few.first(), few.rest()));
        let certificate = if terminates { Some(certificate(table, name.as_ref(), trace)?) } else { None };
        return Ok(Admission::Stream { listener, rule: few.first(), certificate, protocol });
    }
    let version = http_version(hello.alpn).ok_or(Refusal::by_listener(Reason::NoCommonProtocol, listener))?;
    Ok(Admission::Https { listener, certificate: certificate(table, name.as_ref(), trace)?, version })
}

/// The oldest route of the listener carries everything.
fn admit_bytes<'t>(answering: &Answering<'t>, trace: &mut impl Trace) -> Result<Admission<'t>, Refusal<'t>> {
    let table = answering.stream().ok_or(Refusal::new(Reason::NoListener))?;
    check_listener(table, trace)?;
    let listener = &table.listener;
    match &table.routes {
        Routes::Stream(Some(rules)) => {
            trace.step(|| route_step(rules.first(), rules.rest()));
            Ok(Admission::Stream { listener, rule: rules.first(), certificate: None, protocol: None })
        }
        _ => Err(Refusal::by_listener(Reason::NoRoute, listener)),
    }
}

fn check_listener<'t>(table: &'t ListenerTable, trace: &mut impl Trace) -> Result<(), Refusal<'t>> {
    let listener = &table.listener;
    trace.step(|| Step::Listener {
        listener: listener.id.clone(),
        hostname: listener.hostname.clone(),
        handling: listener.handling.as_str().to_owned(),
    });
    let Some(reason) = table.refuse else { return Ok(()) };
    trace.step(|| Step::ListenerRefuses { listener: listener.id.clone(), reason });
    Err(Refusal::by_listener(reason, listener))
}

fn certificate<'t>(
    table: &'t ListenerTable,
    name: Option<&Name<'_>>,
    trace: &mut impl Trace,
) -> Result<&'t Certificate, Refusal<'t>> {
    let all = table.listener.handling.server_tls().map_or(&[][..], |tls| &tls.certificates);
    let chosen = table.certificates.as_ref().and_then(|certificates| certificates.choose(all, name));
    let chosen = chosen.ok_or(Refusal::by_listener(Reason::NoCertificate, &table.listener))?;
    trace.step(|| {
        let meant = |own: &&Hostname| name.is_some_and(|name| own.matches(name.as_str()));
        let named = chosen.names.iter().filter(meant).min().cloned();
        Step::Certificate { secret: chosen.secret.to_string(), name: named }
    });
    Ok(chosen)
}

/// What client and listener both name, as the listener prefers it. A client that offers nothing gets nothing; one
/// that offers only what is not spoken here is refused (RFC 7301 3.2), lest it takes one protocol for another.
fn application_protocol<'t>(
    listener: &'t ListenerHandle,
    offered: &[&[u8]],
    trace: &mut impl Trace,
) -> Result<Option<&'t ApplicationProtocol>, Refusal<'t>> {
    let spoken = listener.handling.server_tls().map_or(&[][..], |tls| &tls.alpn);
    if spoken.is_empty() {
        return Ok(None);
    }
    let agreed = spoken.iter().find(|own| offered.contains(&own.as_bytes()));
    trace.step(|| Step::Protocol { spoken: spoken.to_vec(), agreed: agreed.cloned() });
    if agreed.is_none() && !offered.is_empty() {
        return Err(Refusal::by_listener(Reason::NoCommonProtocol, listener));
    }
    Ok(agreed)
}

/// What client and server both speak, HTTP/2 before HTTP/1.1; a client that does not say gets HTTP/1.1.
fn http_version(offered: &[&[u8]]) -> Option<HttpVersion> {
    if offered.contains(&&b"h2"[..]) {
        Some(HttpVersion::Http2)
    } else if offered.is_empty() || offered.contains(&&b"http/1.1"[..]) || offered.contains(&&b"http/1.0"[..])
    {
        Some(HttpVersion::Http1)
    } else {
        None
    }
}

#[inline]
fn find_in_host<'t>(
    host: &'t Host,
    specificity: Specificity,
    name: Option<&Name<'_>>,
    request: &Request<'_>,
    trace: &mut impl Trace,
) -> Option<&'t Entry> {
    trace.step(|| hostname_step(specificity, name, host.entries().map(|entry| &entry.rule)));
    let entry = host.find(request, trace);
    if entry.is_none() {
        trace.step(|| {
            let (offers, more) = shown(host.entries().map(Entry::describe));
            Step::NoMatch { hostname: written_as(specificity, name), offers, more }
        });
    }
    entry
}

fn traced<'t, T>(result: Result<T, Refusal<'t>>, trace: &mut impl Trace) -> Result<T, Refusal<'t>> {
    if let Err(refusal) = &result {
        trace.step(|| Step::Refused { reason: refusal.reason });
    }
    result
}

/// What a step shows of a list that may be long: the first of it in order, and how many more there are.
fn shown<T: Ord>(items: impl Iterator<Item = T>) -> (Vec<T>, usize) {
    const SHOWN: usize = 16;
    let mut items: Vec<T> = items.collect();
    items.sort();
    items.dedup();
    let more = items.len().saturating_sub(SHOWN);
    items.truncate(SHOWN);
    (items, more)
}

fn socket_step(connection: &Connection<'_>, answering: Option<&Answering<'_>>) -> Step {
    let tables = answering.into_iter().flat_map(Answering::listeners);
    let (listeners, more) = shown(tables.map(|table| table.listener.id.clone()));
    Step::Socket { address: connection.local, transport: connection.transport, listeners, more }
}

fn no_listener_step(answering: &Answering<'_>) -> Step {
    let offers = answering.listeners().map(|table| {
        let listener = &table.listener;
        Offer::new(listener.id.clone(), listener.hostname.as_slice())
    });
    let (listeners, more) = shown(offers);
    Step::NoListener { listeners, more }
}

fn no_route_step<'t>(rules: impl Iterator<Item = &'t RuleHandle>) -> Step {
    let offers = rules.map(|rule| Offer::new(rule.route().id.clone(), &rule.route().hostnames));
    let (routes, more) = shown(offers);
    Step::NoRoute { routes, more }
}

fn name_step(of: NameOf, written: Option<&str>, read: Option<&Name<'_>>) -> Step {
    Step::Name { of, written: written.map(str::to_owned), read: read.map(Name::to_string) }
}

fn hostname_step<'t>(
    specificity: Specificity,
    name: Option<&Name<'_>>,
    rules: impl Iterator<Item = &'t RuleHandle>,
) -> Step {
    let (routes, more) = shown(rules.map(|rule| rule.route().id.clone()));
    Step::Hostname { hostname: written_as(specificity, name), routes, more }
}

fn route_step(first: &RuleHandle, rest: &[RuleHandle]) -> Step {
    let (behind, more) = shown(rest.iter().map(|rule| rule.route().id.clone()));
    Step::Route { route: first.route().id.clone(), behind, more }
}

/// The hostname that was found for the name.
fn written_as(specificity: Specificity, name: Option<&Name<'_>>) -> Option<Hostname> {
    let name = name?.as_str();
    match specificity {
        Specificity::Any => None,
        Specificity::Exact => Hostname::parse(name).ok(),
        Specificity::Wildcard(labels) => {
            let (dot, _) = name.rmatch_indices('.').nth(usize::from(labels) - 1)?;
            Hostname::parse(&format!("*{}", &name[dot..])).ok()
        }
    }
}
