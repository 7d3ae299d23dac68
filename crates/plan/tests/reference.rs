//! The compiled tables decide as a reader of the specification would who goes through the whole plan each time.

#[path = "support/random.rs"]
mod random;
#[path = "support/mod.rs"]
mod support;

use std::cmp::Reverse;
use std::net::SocketAddr;

use proptest::collection::vec;
use proptest::prelude::*;
use random::{ASKED, asking, listener, route};
use support::*;
use tidegate_plan::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn the_listener_for_a_server_name(parts in vec(listener(), 0..7)) {
        let plan = plan(parts);
        let tables = Tables::new(&plan);
        for (sni, address) in ASKED.iter().map(Some).chain([None]).flat_map(|sni| [(sni, "10.0.0.1"), (sni, "10.0.0.2")]) {
            let local = local(address, 443);
            let sni = sni.copied();
            let expected = best_listener(&plan, local, sni.and_then(read).as_deref(), Handling::reads_hello);
            let got = tables.admit(&hello_to(local, sni), &mut ());
            let taken = match &got {
                Ok(admission) => admission.listener().map(|listener| &listener.id),
                Err(refusal) => refusal.listener.map(|listener| &listener.id),
            };
            prop_assert_eq!(taken, expected.map(|listener| &listener.id), "{:?} at {}", sni, address);
        }
    }

    #[test]
    fn the_route_for_a_server_name(parts in vec(prop_oneof![listener(), route()], 0..14)) {
        let plan = plan(parts);
        let tables = Tables::new(&plan);
        for sni in ASKED {
            let connection = hello(Some(sni));
            let name = read(sni);
            let expected = best_listener(&plan, connection.local, name.as_deref(), Handling::reads_hello)
                .filter(|listener| listener.refuse.is_none() && !matches!(listener.handling, Handling::Https(_)))
                .and_then(|listener| {
                    let routes = routes_of(&plan, listener, name.as_deref());
                    let routes = routes.into_iter().filter(|(_, route)| route.id.kind == RouteKind::Tls);
                    routes.min_by_key(|(hostname, route)| (*hostname, route.created, &route.id.object))
                })
                .map(|(_, route)| &route.id);
            let got = tables.admit(&connection, &mut ());
            let taken = match &got {
                Ok(Admission::Stream { rule, .. }) => Some(&rule.route().id),
                _ => None,
            };
            prop_assert_eq!(taken, expected, "{}", sni);
        }
    }

    #[test]
    fn the_rule_for_a_request(
        parts in vec(prop_oneof![1 => listener(), 2 => route()], 0..16),
        requests in vec(asking(), 8),
    ) {
        let plan = plan(parts);
        let tables = Tables::new(&plan);
        for asking in requests {
            let request = asking.request();
            let local = local("10.0.0.1", 80);
            let name = read(&asking.host);
            let expected = best_listener(&plan, local, name.as_deref(), |handling| matches!(handling, Handling::Http))
                .filter(|listener| listener.refuse.is_none())
                .and_then(|listener| {
                    let candidates = routes_of(&plan, listener, name.as_deref()).into_iter();
                    let matches = candidates.flat_map(|(hostname, route)| matches_of(hostname, route, &request));
                    matches.min_by(|(key, _), (other, _)| key.cmp(other))
                })
                .map(|(_, place)| place);
            let got = tables.matched(&Inbound { local, https: None }, &request, &mut ());
            let taken = got.ok().map(|matched| {
                (matched.rule.route().id.clone(), matched.rule.index(), matched.which)
            });
            prop_assert_eq!(taken, expected, "{:?}", asking);
        }
    }
}

/// The name as everybody reads it; `None` for what is no hostname.
fn read(text: &str) -> Option<String> {
    let text = text.strip_suffix('.').unwrap_or(text).to_lowercase();
    (!text.contains("..")).then_some(text)
}

/// More specific first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Specific {
    Exact,
    Wildcard(Reverse<usize>),
    Any,
}

/// How well a hostname fits a name.
fn fit(hostname: Option<&Hostname>, name: Option<&str>) -> Option<Specific> {
    match (hostname, name) {
        (None, _) => Some(Specific::Any),
        (Some(hostname), Some(name)) if hostname.as_str() == name => Some(Specific::Exact),
        (Some(hostname), Some(name)) if name.ends_with(hostname.as_str().strip_prefix('*')?) => {
            Some(Specific::Wildcard(Reverse(hostname.as_str().len())))
        }
        (Some(_), _) => None,
    }
}

fn best_listener<'p>(
    plan: &'p Plan,
    local: SocketAddr,
    name: Option<&str>,
    counts: impl Fn(&Handling) -> bool,
) -> Option<&'p Listener> {
    let answers =
        |listener: &&Listener| listener.addresses.is_empty() || listener.addresses.contains(&local.ip());
    let candidates =
        plan.listeners().filter(|listener| listener.port == local.port() && counts(&listener.handling));
    let fitting = candidates
        .filter(answers)
        .filter_map(|listener| Some((fit(listener.hostname.as_ref(), name)?, listener)));
    fitting
        .min_by_key(|(specific, listener)| (*specific, listener.addresses.is_empty(), &listener.id))
        .map(|(_, listener)| listener)
}

/// The routes that the listener may offer for the name, once for each of their hostnames that fits.
fn routes_of<'p>(plan: &'p Plan, listener: &Listener, name: Option<&str>) -> Vec<(Specific, &'p Route)> {
    let mut found = Vec::new();
    for route in plan.routes().filter(|route| route.listeners.contains(&listener.id)) {
        if route.hostnames.is_empty() {
            found.push((Specific::Any, route));
        }
        found.extend(route.hostnames.iter().filter_map(|own| Some((fit(Some(own), name)?, route))));
    }
    found
}

/// The smaller goes first: hostname, kind of route, path or gRPC names, method, headers, query, age, name, place.
type Precedence =
    (Specific, bool, [(u8, Reverse<usize>); 2], Reverse<[usize; 3]>, i64, ObjectName, usize, usize);

fn matches_of(
    hostname: Specific,
    route: &Route,
    request: &Request<'_>,
) -> Vec<(Precedence, (RouteId, usize, usize))> {
    let is_call = request.headers.value("content-type", 0).is_some();
    let mut found = Vec::new();
    let mut add = |rule, which, names: [(u8, Reverse<usize>); 2], counts: [usize; 3]| {
        let other_kind = (route.id.kind == RouteKind::Grpc) != is_call;
        let object = route.id.object.clone();
        let key = (hostname, other_kind, names, Reverse(counts), route.created, object, rule, which);
        found.push((key, (route.id.clone(), rule, which)));
    };
    match &route.rules {
        Rules::Http(rules) => {
            for (rule, which, matched) in each(rules.iter().map(|rule| &rule.matches)) {
                let path = match &matched.path {
                    PathMatch::Exact(path) if path == request.path => (0, Reverse(0)),
                    PathMatch::Regex(pattern) if whole(pattern, request.path) => (1, Reverse(pattern.len())),
                    PathMatch::Prefix(prefix) if has_prefix(request.path, prefix) => {
                        (2, Reverse(prefix.trim_end_matches('/').len()))
                    }
                    _ => continue,
                };
                let method = matched.method.as_ref().is_none_or(|method| method == request.method);
                if method && headers(&matched.headers, request) && query(&matched.query, request) {
                    let counts =
                        [usize::from(matched.method.is_some()), matched.headers.len(), matched.query.len()];
                    add(rule, which, [path, (0, Reverse(0))], counts);
                }
            }
        }
        Rules::Grpc(rules) => {
            for (rule, which, matched) in each(rules.iter().map(|rule| &rule.matches)) {
                let parts: Vec<_> = request.path.split('/').collect();
                let (service, method) = match parts.as_slice() {
                    ["", service, method] => (Some(*service), Some(*method)),
                    _ => (None, None),
                };
                let name = |wanted: &Option<TextMatch>, asked: Option<&str>| match (wanted, asked) {
                    (None, _) => Some((2, Reverse(0))),
                    (Some(TextMatch::Exact(text)), Some(asked)) if text == asked => {
                        Some((0, Reverse(text.len())))
                    }
                    (Some(TextMatch::Regex(text)), Some(asked)) if whole(text, asked) => {
                        Some((1, Reverse(text.len())))
                    }
                    (Some(_), _) => None,
                };
                if let (Some(service), Some(method)) =
                    (name(&matched.service, service), name(&matched.method, method))
                    && headers(&matched.headers, request)
                {
                    add(rule, which, [service, method], [0, matched.headers.len(), 0]);
                }
            }
        }
        Rules::Stream(_) => {}
    }
    found
}

/// All matches with the indices of their rule and of themselves.
fn each<'r, M: 'r>(rules: impl Iterator<Item = &'r Vec<M>>) -> Vec<(usize, usize, &'r M)> {
    let indexed = rules.enumerate();
    indexed
        .flat_map(|(rule, matches)| matches.iter().enumerate().map(move |(which, m)| (rule, which, m)))
        .collect()
}

fn whole(pattern: &str, text: &str) -> bool {
    regex::Regex::new(&format!("^(?:{pattern})$")).is_ok_and(|regex| regex.is_match(text))
}

fn has_prefix(path: &str, prefix: &str) -> bool {
    let prefix = prefix.trim_end_matches('/');
    prefix.is_empty()
        || path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn is(wanted: &TextMatch, text: &str) -> bool {
    match wanted {
        TextMatch::Exact(exact) => exact == text,
        TextMatch::Regex(pattern) => whole(pattern, text),
    }
}

fn headers(wanted: &[ValueMatch], request: &Request<'_>) -> bool {
    wanted.iter().all(|wanted| {
        let lines: Vec<_> = (0..).map_while(|nth| request.headers.value(&wanted.name, nth)).collect();
        !lines.is_empty() && is(&wanted.value, &String::from_utf8_lossy(&lines.join(&b',')))
    })
}

/// The random requests have one parameter that is asked for, and one escape.
fn query(wanted: &[ValueMatch], request: &Request<'_>) -> bool {
    let first = request.query.unwrap_or_default().split('&').find_map(|pair| pair.strip_prefix("q="));
    wanted.iter().all(|wanted| first.is_some_and(|value| is(&wanted.value, &value.replace("%31", "1"))))
}
