//! Where a flow goes, as far as it makes a difference to traffic: a route may change its name and nothing happens.

use serde::Serialize;
use tidegate_plan::{
    Admission, ExternalAuth, Fate, Filter, Handling, Listener, Reason, Redirect, Refusal, Rule, RuleHandle,
    Target, Timeouts, Upstream, WeightedBackend,
};

use crate::diff::probe::{Asks, Place};
use crate::diff::refused::{Refused, rule_words};
use crate::diff::{Side, written};
use crate::words;

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub(crate) enum Destination {
    /// Also by a rule whose backends are all at fault.
    Refused(Refused),
    Routed {
        routed: Box<Routed>,
    },
    /// A pattern that this side does not have: other rules take what would meet it, and the widest of them is known.
    Left {
        left: Box<Destination>,
    },
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Routed {
    pub(crate) handling: &'static str,
    /// Who carries it; not compared.
    pub(crate) route: String,
    pub(crate) backends: Vec<Part>,
    /// Asked by the listener before any route is looked at.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) external_auth: Vec<ExternalAuth>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) filters: Vec<Filter>,
    #[serde(skip_serializing_if = "Timeouts::is_none")]
    pub(crate) timeouts: Timeouts,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) retry: Option<tidegate_plan::Retry>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) session: Option<tidegate_plan::SessionPersistence>,
}

impl PartialEq for Routed {
    fn eq(&self, other: &Self) -> bool {
        self.handling == other.handling && self.differs_in(other).next().is_none()
    }
}

impl Routed {
    /// What differs of that which a line about the way of a flow does not tell.
    pub(crate) fn differs_in<'r>(&'r self, other: &'r Self) -> impl Iterator<Item = &'static str> + 'r {
        let filters = |routed: &'r Self| routed.backends.iter().map(|part| &part.filters);
        let names = |routed: &'r Self| routed.backends.iter().map(|part| (&part.backend, part.fails));
        let shares = |routed: &'r Self| routed.backends.iter().map(|part| part.percent);
        [
            ("backends", !names(self).eq(names(other))),
            ("shares", !shares(self).eq(shares(other))),
            ("listener's external auth", self.external_auth != other.external_auth),
            ("filters", self.filters != other.filters || !filters(self).eq(filters(other))),
            ("timeouts", self.timeouts != other.timeouts),
            ("retries", self.retry != other.retry),
            ("sessions", self.session != other.session),
        ]
        .into_iter()
        .filter_map(|(what, differs)| differs.then_some(what))
    }
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Part {
    pub(crate) percent: f64,
    pub(crate) backend: String,
    /// Why its share fails, where it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fails: Option<Reason>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) filters: Vec<Filter>,
}

impl Destination {
    pub(crate) fn of(place: &Place, asks: &Asks, side: &Side<'_>) -> Self {
        let decided = Self::decided(place, asks, side);
        if asks.partly { Self::as_written(place, decided, side) } else { decided }
    }

    fn decided(place: &Place, asks: &Asks, side: &Side<'_>) -> Self {
        let (reason, rule) = match place.ask(side, asks) {
            Ok(decision) => match (&decision.admission, &decision.request) {
                (Admission::Stream { listener, rule, .. }, _) => {
                    return Self::by_rule(place, side, listener, rule);
                }
                (_, Some(matched)) => return Self::by_rule(place, side, matched.listener, matched.rule),
                (_, None) => (Reason::NoRoute, None),
            },
            Err(Refusal { reason, rule, .. }) => (reason, rule),
        };
        Self::Refused(Refused::new(place, side, reason, rule))
    }

    /// The rule that has the match in these very words, where requests come as far as to the rules.
    pub(crate) fn as_written(place: &Place, otherwise: Self, side: &Side<'_>) -> Self {
        if let Self::Refused(Refused { reason, route: None, .. }) = &otherwise
            && *reason != Reason::NoMatchingRule
        {
            return otherwise;
        }
        let rules = written::at(place, side);
        let rule = rules.iter().find(|written| place.matched.as_ref() == Some(&written.words));
        match (rule, place.listener(side), otherwise) {
            (Some(written), Some(listener), _) => Self::by_rule(place, side, listener, &written.rule),
            (_, _, Self::Refused(refused)) if refused.route.is_none() => Self::Refused(refused),
            (_, _, otherwise) => Self::Left { left: Box::new(otherwise) },
        }
    }

    fn by_rule(place: &Place, side: &Side<'_>, listener: &Listener, rule: &RuleHandle) -> Self {
        let (timeouts, retry, session, refuse) = match rule.rule() {
            Rule::Http(rule) => (rule.timeouts, rule.retry.clone(), rule.session.clone(), rule.refuse),
            Rule::Grpc(rule) => (Timeouts::default(), None, rule.session.clone(), rule.refuse),
            Rule::Stream(_) => (Timeouts::default(), None, None, None),
        };
        if let Some(reason) = refuse {
            return Self::Refused(Refused::new(place, side, reason, Some(rule)));
        }
        let redirects = rule.filters().iter().any(|filter| matches!(filter, Filter::Redirect(_)));
        if let Some(reason) = failure(side, listener, rule).filter(|_| !redirects) {
            return Self::Refused(Refused::by_backends(place, side, reason, rule));
        }
        let routed = Routed {
            handling: listener.handling.as_str(),
            route: rule_words(rule),
            backends: parts(side, listener, rule),
            external_auth: listener.external_auth.clone(),
            filters: rule.filters().to_vec(),
            timeouts,
            retry,
            session,
        };
        Self::Routed { routed: Box::new(routed) }
    }

    pub(crate) fn is_refused(&self) -> bool {
        match self {
            Self::Refused(_) => true,
            Self::Routed { .. } => false,
            Self::Left { left } => left.is_refused(),
        }
    }

    /// What differs of that which the words leave out.
    pub(crate) fn differs_in(&self, other: &Self) -> Vec<&'static str> {
        match (self, other) {
            (Self::Routed { routed }, Self::Routed { routed: other }) => routed.differs_in(other).collect(),
            (Self::Left { left }, Self::Left { left: other }) => left.differs_in(other),
            _ => Vec::new(),
        }
    }

    /// Where it goes, in a line.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::Refused(refused) => refused.words(),
            Self::Left { left } => format!("left to other rules; the widest: {}", left.words()),
            Self::Routed { routed } => {
                let redirect = routed.filters.iter().find_map(|filter| match filter {
                    Filter::Redirect(redirect) => Some(redirect_words(redirect)),
                    _ => None,
                });
                let to = redirect.unwrap_or_else(|| match routed.backends.as_slice() {
                    [] => "no backend".to_owned(),
                    [only] => only.backend.clone(),
                    several => {
                        let share = |part: &Part| format!("{:.0} % {}", part.percent, part.words());
                        words::all_of(&several.iter().map(share).collect::<Vec<_>>())
                    }
                });
                format!("{} to {to}, by {}", routed.handling, routed.route)
            }
        }
    }
}

fn redirect_words(redirect: &Redirect) -> String {
    let scheme = redirect.scheme.as_deref().map(|scheme| format!(" {scheme}")).unwrap_or_default();
    let host = redirect.hostname.as_ref().map(|host| format!(" {host}")).unwrap_or_default();
    format!("a redirect ({}{scheme}{host})", redirect.status)
}

impl Part {
    fn words(&self) -> String {
        let fails = self.fails.map(|reason| format!(" ({})", reason.text())).unwrap_or_default();
        format!("{}{fails}", self.backend)
    }
}

/// Shares rather than weights: 1 and 1 is the same as 50 and 50.
fn parts(side: &Side<'_>, listener: &Listener, rule: &RuleHandle) -> Vec<Part> {
    let total = rule.group().total();
    let part = |weighted: &WeightedBackend| Part {
        percent: weighted.percent(total),
        backend: match &weighted.target {
            Target::Backend(id) => id.to_string(),
            Target::Invalid(_) => "nowhere".to_owned(),
        },
        fails: fails(side, listener, weighted),
        filters: weighted.filters.clone(),
    };
    let mut parts: Vec<Part> = rule.group().0.iter().map(part).collect();
    parts.sort_by(|one, other| one.backend.cmp(&other.backend).then(one.percent.total_cmp(&other.percent)));
    parts
}

/// Why all that the rule takes fails, where it does. Endpoints come and go and are told of with their backend.
fn failure(side: &Side<'_>, listener: &Listener, rule: &RuleHandle) -> Option<Reason> {
    if let Fate::Failed(reason) = rule.group().fate() {
        return Some(reason);
    }
    let weighted = rule.group().0.iter().filter(|backend| backend.weight > 0);
    let failures: Option<Vec<Reason>> = weighted.map(|backend| fails(side, listener, backend)).collect();
    failures?.first().copied()
}

fn fails(side: &Side<'_>, listener: &Listener, weighted: &WeightedBackend) -> Option<Reason> {
    let Target::Backend(id) = &weighted.target else { return weighted.failure() };
    let Some(backend) = side.tables.backend(id) else { return Some(Reason::BackendNotFound) };
    match &backend.upstream {
        // What is passed through is not Tidegate's to encrypt.
        Upstream::Refuse(reason) if listener.handling != Handling::Passthrough => Some(*reason),
        _ => None,
    }
}
