//! One match of one rule, compiled, and its place among those that apply to the same request.

use std::cmp::Reverse;
use std::sync::Arc;

use crate::tables::condition::{Conditions, Expected, Unmet};
use crate::tables::few::Few;
use crate::tables::index::Index;
use crate::tables::print::Print;
use crate::tables::text::Text;
use crate::trace::{Step, Trace};
use crate::{
    GrpcMatch, HttpMatch, PathMatch, Reason, Request, RouteHandle, RouteId, Rule, RuleHandle, Rules,
    TextMatch,
};

/// Small, because a listener may have very many and most say nothing but a path.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) rule: RuleHandle,
    /// Which of the rule's matches this is.
    which: u16,
    pub(crate) refuse: Option<Reason>,
    /// What the request must meet beside the path under which the entry is found.
    terms: Option<Arc<Terms>>,
}

#[derive(Debug)]
struct Terms {
    rank: Rank,
    target: Target,
    conditions: Conditions,
}

/// What must be compared of the path after the entry was found under it.
#[derive(Debug)]
enum Target {
    /// Nothing: exact paths and prefixes are found by hash.
    Path,
    Pattern(Expected),
    Grpc {
        service: Option<Expected>,
        method: Option<Expected>,
    },
}

/// The smaller goes first. Entries are compared only with those that are kept under the same path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    /// A longer pattern first, then with a method before without, more headers, more query parameters.
    Http {
        pattern: Reverse<usize>,
        method: Reverse<bool>,
        headers: Reverse<usize>,
        query: Reverse<usize>,
    },
    Grpc {
        service: Naming,
        method: Naming,
        headers: Reverse<usize>,
    },
}

impl Rank {
    /// Of an HTTP match that says nothing but a path.
    const PLAIN: Self =
        Self::Http { pattern: Reverse(0), method: Reverse(false), headers: Reverse(0), query: Reverse(0) };
}

/// How closely a gRPC name is given: word for word, by a pattern, not at all; among equals the longer first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Naming {
    Exact(Reverse<usize>),
    Pattern(Reverse<usize>),
    Any,
}

/// Everything a route of HTTP or gRPC has to say, rule by rule and match by match.
pub(crate) fn compile(route: &RouteHandle) -> Vec<Entry> {
    let count = match &route.rules {
        Rules::Http(rules) => rules.len(),
        Rules::Grpc(rules) => rules.len(),
        Rules::Stream(_) => 0,
    };
    let rules = (0..count).filter_map(|index| RuleHandle::new(route.clone(), index));
    rules.flat_map(|rule| of_rule(&rule)).collect()
}

fn of_rule(rule: &RuleHandle) -> Vec<Entry> {
    let entry = |which, refuse, terms: Terms| {
        let terms = (terms.rank != Rank::PLAIN).then(|| Arc::new(terms));
        Entry { rule: rule.clone(), which, refuse, terms }
    };
    match rule.rule() {
        Rule::Http(http) => {
            let matches = (0..).zip(&http.matches);
            matches.map(|(which, matched)| entry(which, http.refuse, of_http(matched))).collect()
        }
        Rule::Grpc(grpc) => {
            let matches = (0..).zip(&grpc.matches);
            matches.map(|(which, matched)| entry(which, grpc.refuse, of_grpc(matched))).collect()
        }
        Rule::Stream(_) => Vec::new(),
    }
}

fn of_http(matched: &HttpMatch) -> Terms {
    let conditions = Conditions::of_http(matched);
    let (pattern, target) = match &matched.path {
        PathMatch::Exact(_) | PathMatch::Prefix(_) => (0, Target::Path),
        PathMatch::Regex(pattern) => (pattern.chars().count(), Target::Pattern(Expected::pattern(pattern))),
    };
    let rank = Rank::Http {
        pattern: Reverse(pattern),
        method: Reverse(conditions.has_method()),
        headers: Reverse(conditions.headers()),
        query: Reverse(conditions.query()),
    };
    Terms { rank, target, conditions }
}

fn of_grpc(matched: &GrpcMatch) -> Terms {
    let naming = |name: &Option<TextMatch>| match name {
        Some(TextMatch::Exact(text)) => Naming::Exact(Reverse(text.chars().count())),
        Some(TextMatch::Regex(text)) => Naming::Pattern(Reverse(text.chars().count())),
        None => Naming::Any,
    };
    let conditions = Conditions::of_grpc(matched);
    let rank = Rank::Grpc {
        service: naming(&matched.service),
        method: naming(&matched.method),
        headers: Reverse(conditions.headers()),
    };
    let (service, method) =
        (matched.service.as_ref().map(Expected::new), matched.method.as_ref().map(Expected::new));
    Terms { rank, target: Target::Grpc { service, method }, conditions }
}

impl Entry {
    /// Whether this one is looked at before the other.
    pub(crate) fn before(&self, other: &Self) -> bool {
        let rank = |entry: &Self| entry.terms.as_ref().map_or(Rank::PLAIN, |terms| terms.rank);
        let place = |entry: &Self| (entry.rule.index(), entry.which);
        let age = by_age(self.rule.route(), other.rule.route());
        rank(self).cmp(&rank(other)).then(age).then_with(|| place(self).cmp(&place(other))).is_lt()
    }

    /// Why it does not apply to the request; `None`: it does.
    #[inline]
    pub(crate) fn unmet(&self, request: &Request<'_>) -> Option<Unmet<'_>> {
        let terms = self.terms.as_ref()?;
        match &terms.target {
            Target::Path => {}
            Target::Pattern(pattern) => {
                if !pattern.matches(request.path.as_bytes()) {
                    return Some(Unmet::Path);
                }
            }
            Target::Grpc { service, method } => {
                let asked = grpc_names(request.path);
                let is = |wanted: &Option<Expected>, asked: Option<&str>| match (wanted, asked) {
                    (None, _) => true,
                    (Some(wanted), Some(asked)) => wanted.matches(asked.as_bytes()),
                    (Some(_), None) => false,
                };
                if !is(service, asked.map(|(service, _)| service)) {
                    return Some(Unmet::GrpcService);
                }
                if !is(method, asked.map(|(_, method)| method)) {
                    return Some(Unmet::GrpcMethod);
                }
            }
        }
        terms.conditions.unmet(request)
    }

    pub(crate) fn which(&self) -> usize {
        usize::from(self.which)
    }

    pub(crate) fn http(&self) -> Option<&HttpMatch> {
        match self.rule.rule() {
            Rule::Http(rule) => rule.matches.get(self.which()),
            Rule::Grpc(_) | Rule::Stream(_) => None,
        }
    }

    pub(crate) fn grpc(&self) -> Option<&GrpcMatch> {
        match self.rule.rule() {
            Rule::Grpc(rule) => rule.matches.get(self.which()),
            Rule::Http(_) | Rule::Stream(_) => None,
        }
    }

    pub(crate) fn is_of(&self, route: &RouteId) -> bool {
        self.rule.route().id == *route
    }

    /// What the match asks for, in words.
    pub(crate) fn describe(&self) -> String {
        match (self.http(), self.grpc()) {
            (Some(matched), _) => matched.to_string(),
            (_, Some(matched)) => matched.to_string(),
            (None, None) => String::new(),
        }
    }
}

/// The older route first, then the one first by namespace and name.
pub(crate) fn by_age(route: &RouteHandle, other: &RouteHandle) -> std::cmp::Ordering {
    route.created.cmp(&other.created).then_with(|| route.id.object.cmp(&other.id.object))
}

/// Service and method of a gRPC request.
pub(crate) fn grpc_names(path: &str) -> Option<(&str, &str)> {
    path.strip_prefix('/')?.split_once('/').filter(|(_, method)| !method.contains('/'))
}

/// The first that applies. The entries come in their order.
#[inline]
pub(crate) fn first_match<'t>(
    entries: impl Iterator<Item = &'t Entry>,
    request: &Request<'_>,
    trace: &mut impl Trace,
) -> Option<&'t Entry> {
    for entry in entries {
        let unmet = entry.unmet(request);
        trace.step(|| Step::Match {
            route: entry.rule.route().id.clone(),
            rule: entry.rule.index(),
            name: entry.rule.name().map(str::to_owned),
            which: entry.which(),
            on: entry.describe(),
            miss: unmet.map(Unmet::to_miss),
        });
        if unmet.is_none() {
            return Some(entry);
        }
    }
    None
}

/// Entries by a text that must be met word for word.
pub(crate) type ByText = Index<Text, Few<Entry>>;

#[inline]
pub(crate) fn get<'t>(map: &'t ByText, text: &[u8]) -> Option<&'t Few<Entry>> {
    map.get(Print::of(text), |key| key.as_bytes() == text)
}

/// Whether the text is new.
pub(crate) fn add(map: &mut ByText, text: &str, entry: &Entry) -> bool {
    let text = Text::new(text);
    match map.get_mut(&text) {
        Some(few) => {
            few.insert(entry.clone(), Entry::before);
            false
        }
        None => {
            map.insert(text, Few::new(entry.clone()));
            true
        }
    }
}

/// Whether the text is gone altogether.
pub(crate) fn remove(map: &mut ByText, text: &str, route: &RouteId) -> bool {
    let text = Text::new(text);
    let emptied = map.get_mut(&text).is_some_and(|few| !few.remove(|entry| entry.is_of(route)));
    if emptied {
        map.remove(&text);
    }
    emptied
}

pub(crate) fn add_sorted(entries: &mut Vec<Entry>, entry: &Entry) {
    let at = entries.partition_point(|other| !entry.before(other));
    entries.insert(at, entry.clone());
}
