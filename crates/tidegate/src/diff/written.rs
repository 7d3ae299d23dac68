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
