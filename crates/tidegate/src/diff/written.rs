//! The matches that are written for a name, in the order in which requests are put to them: for patterns, which no
//! request stands for.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use tidegate_plan::{GrpcMatch, HttpMatch, PathMatch, RouteHandle, RuleHandle, Rules, TextMatch};

use crate::diff::Side;
use crate::diff::probe::Place;

pub(crate) struct Written<'a> {
    pub(crate) matched: Match<'a>,
    pub(crate) words: String,
    pub(crate) rule: RuleHandle,
}

#[derive(Clone, Copy)]
pub(crate) enum Match<'a> {
    Http(&'a HttpMatch),
    Grpc(&'a GrpcMatch),
}

/// The first of each match: what is written the same further down never gets a request.
pub(crate) fn at<'a>(place: &Place, side: &Side<'a>) -> Vec<Written<'a>> {
    let Some(listener) = place.listener(side) else { return Vec::new() };
    let mut all = Vec::new();
    for hostname in [place.hostname.clone()].into_iter().chain(place.wider_names()) {
        let routes = side.routes_for(&listener.id, hostname);
        let handles = routes.iter().filter_map(|route| Some((*route, side.tables.route(&route.id)?)));
        let mut named: Vec<Written<'a>> =
            handles.flat_map(|(route, handle)| of_route(&route.rules, handle)).collect();
        // The sort keeps the order of age, and that of rules within a route.
        named.sort_by_key(|written| precedence(written.matched));
        all.extend(named);
    }
    let mut known = BTreeSet::new();
    all.retain(|written| known.insert(written.words.clone()));
    all
}

fn of_route<'a>(rules: &'a Rules, route: &RouteHandle) -> Vec<Written<'a>> {
    let matches: Vec<(usize, Match<'a>)> = match rules {
        Rules::Stream(_) => Vec::new(),
        Rules::Http(rules) => {
            let rules = rules.iter().enumerate();
            rules
                .flat_map(|(index, rule)| rule.matches.iter().map(move |own| (index, Match::Http(own))))
                .collect()
        }
        Rules::Grpc(rules) => {
            let rules = rules.iter().enumerate();
            rules
                .flat_map(|(index, rule)| rule.matches.iter().map(move |own| (index, Match::Grpc(own))))
                .collect()
        }
    };
    let written = |(index, matched): (usize, Match<'a>)| {
        Some(Written { matched, words: matched.words(), rule: RuleHandle::new(route.clone(), index)? })
    };
    matches.into_iter().filter_map(written).collect()
}

impl Match<'_> {
    pub(crate) fn words(self) -> String {
        match self {
            Self::Http(matched) => matched.to_string(),
            Self::Grpc(matched) => matched.to_string(),
        }
    }
}

/// Gateway API's order of matches under one hostname; the smaller goes first.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Precedence {
    Http { path: Naming, method: Reverse<bool>, headers: Reverse<usize>, query: Reverse<usize> },
    Grpc { service: Naming, method: Naming, headers: Reverse<usize> },
}

/// How closely a name is given; among equals the longer first.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Naming {
    Exact(Reverse<usize>),
    Pattern(Reverse<usize>),
    Prefix(Reverse<usize>),
    Any,
}

fn precedence(matched: Match<'_>) -> Precedence {
    let length = |text: &str| Reverse(text.chars().count());
    let name = |name: &Option<TextMatch>| match name {
        Some(TextMatch::Exact(text)) => Naming::Exact(length(text)),
        Some(TextMatch::Regex(text)) => Naming::Pattern(length(text)),
        None => Naming::Any,
    };
    match matched {
        Match::Http(http) => Precedence::Http {
            path: match &http.path {
                PathMatch::Exact(path) => Naming::Exact(length(path)),
                PathMatch::Regex(pattern) => Naming::Pattern(length(pattern)),
                PathMatch::Prefix(prefix) => Naming::Prefix(length(prefix.trim_end_matches('/'))),
            },
            method: Reverse(http.method.is_some()),
            headers: Reverse(http.headers.len()),
            query: Reverse(http.query.len()),
        },
        Match::Grpc(grpc) => Precedence::Grpc {
            service: name(&grpc.service),
            method: name(&grpc.method),
            headers: Reverse(grpc.headers.len()),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use tidegate_plan::{
        Body, Group, Handling, HttpRule, Inbound, Listener, ListenerId, ObjectName, Plan, Request, Route,
        RouteId, RouteKind, Tables, Timeouts, ValueMatch,
    };

    use super::*;

    fn listener() -> ListenerId {
        ListenerId { gateway: ObjectName::new("default", "gw"), listener_set: None, name: "http".into() }
    }

    fn tables(matches: &[HttpMatch]) -> Tables {
        let mut plan = Plan::default();
        plan.insert(Body::Listener(Listener {
            id: listener(),
            addresses: Vec::new(),
            port: 80,
            hostname: None,
            handling: Handling::Http,
            external_auth: Vec::new(),
            refuse: None,
        }));
        for (index, matched) in matches.iter().enumerate() {
            let rule = HttpRule {
                name: None,
                matches: vec![matched.clone()],
                filters: Vec::new(),
                backends: Group(Vec::new()),
                timeouts: Timeouts::default(),
                retry: None,
                session: None,
                refuse: None,
            };
            let object = ObjectName::new("default", index.to_string());
            plan.insert(Body::Route(Route {
                id: RouteId { kind: RouteKind::Http, object },
                created: 0,
                listeners: vec![listener()],
                hostnames: Vec::new(),
                rules: Rules::Http(vec![rule]),
            }));
        }
        Tables::new(&plan)
    }

    /// All of these are met by one request. Whichever of them are there, the decision takes the one that goes first here.
    #[test]
    fn it_is_the_order_of_the_decision() {
        let value = |name: &str| ValueMatch { name: name.into(), value: TextMatch::Exact("1".into()) };
        let paths = [
            PathMatch::Prefix("/".into()),
            PathMatch::Prefix("/a".into()),
            PathMatch::Regex("/a/.".into()),
            PathMatch::Regex("/a/[a-z]".into()),
            PathMatch::Exact("/a/b".into()),
        ];
        let mut matches = Vec::new();
        for path in paths {
            for (method, headers, query) in
                [(false, 0, 1), (true, 0, 0), (false, 2, 0), (false, 1, 1), (false, 0, 0)]
            {
                matches.push(HttpMatch {
                    path: path.clone(),
                    method: method.then(|| "GET".to_owned()),
                    headers: ["x", "y"][..headers].iter().map(|name| value(name)).collect(),
                    query: ["q"][..query].iter().map(|name| value(name)).collect(),
                });
            }
        }
        matches.sort_by_key(|matched| precedence(Match::Http(matched)));
        let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 80));
        let headers = vec![("x".to_owned(), "1".to_owned()), ("y".to_owned(), "1".to_owned())];
        let request = Request {
            host: Some("a.example"),
            method: "GET",
            path: "/a/b",
            query: Some("q=1"),
            headers: &headers,
        };
        while let Some(first) = matches.first() {
            // The last in the list is the first by name, which must not matter.
            let there: Vec<HttpMatch> = matches.iter().rev().cloned().collect();
            let tables = tables(&there);
            let taken = tables.matched(&Inbound { local, https: None }, &request, &mut ());
            let Ok(taken) = taken else { panic!("{taken:?}") };
            let Rules::Http(rules) = &taken.rule.route().rules else { panic!("another kind") };
            assert_eq!(rules[0].matches[0], *first);
            matches.remove(0);
        }
    }
}
