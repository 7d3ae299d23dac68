//! What is served, for the person who starts it: listeners, names, routes and backends, and what is not and why.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};

use tidegate_api::ObjectKey;
use tidegate_plan::{Group, Listener, ListenerId, Plan, Route, Rules, Target, Transport};
use tidegate_proxy::{Settings, SocketState};

use crate::check::findings;
use crate::conditions;
use crate::layout::{Table, paragraph};
use crate::meaning::Meaning;
use crate::output::{BAD, STRONG, styled};
use crate::words;

/// So many routes of a listener are named; a folder may have ten thousand.
const SHOWN: usize = 8;

/// `sockets` is what is bound; without, what would be.
pub(crate) fn render(meaning: &Meaning, settings: &Settings, sockets: Option<&[SocketState]>) -> String {
    let plan = &meaning.translation().plan;
    let routes = by_listener(plan);
    let mut gateways: BTreeMap<String, Table> = BTreeMap::new();
    for listener in plan.listeners().filter(|listener| listener.refuse.is_none()) {
        let gateway = format!("Gateway {}", listener.id.gateway);
        let table = gateways
            .entry(gateway)
            .or_insert_with(|| Table::new(2, &["LISTENER", "ADDRESS", "PROTOCOL", "HOSTNAME"]));
        let set = listener.id.listener_set.as_ref().map(|set| format!(" ({set})")).unwrap_or_default();
        let mut remarks: Vec<String> = Vec::new();
        match routes.get(&listener.id) {
            Some(found) => {
                remarks.extend(found.first.iter().map(|route| line(route)));
                remarks.extend((found.more > 0).then(|| format!("and {} more routes", found.more)));
            }
            None => remarks.push("no route".to_owned()),
        }
        let hostname = match listener.handling.transport() {
            Transport::Tcp if listener.handling.as_str() != "TCP" => {
                words::hostname(listener.hostname.as_ref())
            }
            _ => "-",
        };
        let cells = vec![
            format!("{}{set}", listener.id.name).into(),
            addresses(listener, settings, sockets).into(),
            listener.handling.as_str().into(),
            hostname.into(),
        ];
        table.row(cells, remarks);
    }
    let mut text = String::new();
    for (gateway, table) in &gateways {
        let _ = write!(text, "{}\n{}\n", styled(STRONG, gateway), table.render());
    }
    if gateways.is_empty() {
        text.push_str("No listener is served.\n\n");
    }
    text.push_str(&refused(meaning));
    text.trim_end().to_owned() + "\n"
}

fn addresses(listener: &Listener, settings: &Settings, sockets: Option<&[SocketState]>) -> String {
    let wanted: &[IpAddr] = if listener.addresses.is_empty() { &settings.bind } else { &listener.addresses };
    let Some(sockets) = sockets else {
        let Some(port) = listener.port.checked_add(settings.port_offset) else {
            return format!("port {}: beyond 65535 with the offset", listener.port);
        };
        let all: Vec<SocketAddr> = wanted.iter().map(|ip| SocketAddr::new(*ip, port)).collect();
        return words::all_of(&all);
    };
    let (mut bound, mut failed): (Vec<SocketAddr>, bool) = (Vec::new(), false);
    for socket in sockets {
        let meant = socket.port == listener.port
            && socket.transport == listener.handling.transport()
            && match socket.address {
                Some(ip) => listener.addresses.contains(&ip),
                None => listener.addresses.is_empty(),
            };
        match &socket.state {
            Ok(addresses) if meant => bound.extend(addresses),
            Err(_) if meant => failed = true,
            _ => {}
        }
    }
    match (bound.is_empty(), failed) {
        (false, false) => words::all_of(&bound),
        (false, true) => format!("{} (not all)", words::all_of(&bound)),
        (true, _) => format!("port {}: not bound", listener.port),
    }
}

#[derive(Default)]
struct Routes<'a> {
    first: Vec<&'a Route>,
    more: usize,
}

fn by_listener(plan: &Plan) -> BTreeMap<&ListenerId, Routes<'_>> {
    let mut routes: BTreeMap<&ListenerId, Routes<'_>> = BTreeMap::new();
    for route in plan.routes() {
        for listener in &route.listeners {
            let found = routes.entry(listener).or_default();
            if found.first.len() < SHOWN {
                found.first.push(route);
            } else {
                found.more += 1;
            }
        }
    }
    routes
}

/// `www.example.com: HTTPRoute default/www to Service default/web:80`.
fn line(route: &Route) -> String {
    let names = if route.hostnames.is_empty() {
        String::new()
    } else {
        format!("{}: ", words::some_of(&route.hostnames, 3))
    };
    let groups: Vec<&Group> = match &route.rules {
        Rules::Http(rules) => rules.iter().map(|rule| &rule.backends).collect(),
        Rules::Grpc(rules) => rules.iter().map(|rule| &rule.backends).collect(),
        Rules::Stream(rule) => vec![&rule.backends],
    };
    let mut backends: Vec<String> = Vec::new();
    for group in groups {
        let total = group.total();
        for weighted in &group.0 {
            let target = match &weighted.target {
                Target::Backend(id) => id.to_string(),
                Target::Invalid(reason) => format!("nothing ({})", reason.text()),
            };
            let share = if group.0.len() > 1 {
                format!(" {} %", (weighted.percent(total) * 10.0).round() / 10.0)
            } else {
                String::new()
            };
            let words = format!("{target}{share}");
            if !backends.contains(&words) {
                backends.push(words);
            }
        }
    }
    let to = if backends.is_empty() { "no backend".to_owned() } else { words::some_of(&backends, 4) };
    format!("{names}{} to {to}", route.id)
}

fn refused(meaning: &Meaning) -> String {
    let found = findings::find(meaning);
    if found.is_empty() {
        return String::new();
    }
    let statuses: BTreeMap<String, ObjectKey> =
        meaning.statuses().map(|(key, _)| (key.to_string(), key.clone())).collect();
    let mut text = format!("{}\n", styled(BAD, "Not served as written"));
    for finding in found {
        let status = statuses.get(&finding.what).and_then(|key| meaning.status(key));
        let sets = status.map(conditions::sets).unwrap_or_default();
        let mut messages: Vec<String> = Vec::new();
        for set in sets.into_iter().filter(|set| conditions::worst(set) == conditions::Health::Bad) {
            messages.extend(conditions::messages(set));
        }
        messages.dedup();
        let place = finding.place.map(|place| format!(" ({place})")).unwrap_or_default();
        let _ = writeln!(text, "  {}{place}", finding.what);
        for message in messages {
            text.push_str(&paragraph(6, &message));
        }
    }
    text
}
