//! Where a flow goes, as far as it makes a difference to traffic: a route may change its name and nothing happens.

use serde::Serialize;
use tidegate_plan::{
    Admission, ExternalAuth, Filter, Group, Listener, Reason, Redirect, Refusal, Rule, RuleHandle, Rules,
    Target, Timeouts,
};

use crate::diff::Side;
use crate::diff::probe::{Asks, Place};
use crate::words;

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Destination {
    Refused(Reason),
    Routed(Box<Routed>),
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
        self.handling == other.handling
            && self.backends == other.backends
            && self.differs_in(other).next().is_none()
    }
}

impl Routed {
    /// What differs of that which a line about the way of a flow does not tell.
    pub(crate) fn differs_in<'r>(&'r self, other: &'r Self) -> impl Iterator<Item = &'static str> + 'r {
        let filters = |routed: &'r Self| routed.backends.iter().map(|part| &part.filters);
        [
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
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) filters: Vec<Filter>,
}

impl Destination {
    pub(crate) fn of(place: &Place, asks: Option<&Asks>, side: &Side<'_>) -> Self {
        match asks {
            Some(asks) => match place.ask(side, asks) {
                Ok(decision) => match (&decision.admission, &decision.request) {
                    (Admission::Stream { listener, rule, .. }, _) => Self::routed(listener, rule),
                    (_, Some(matched)) => Self::routed(matched.listener, matched.rule),
                    (_, None) => Self::Refused(Reason::NoRoute),
                },
                Err(Refusal { reason, .. }) => Self::Refused(reason),
            },
            None => {
                let written = place.written(side);
                written
                    .map_or(Self::Refused(Reason::NoRoute), |(listener, rule)| Self::routed(listener, &rule))
            }
        }
    }

    fn routed(listener: &Listener, rule: &RuleHandle) -> Self {
        let (timeouts, retry, session) = match rule.rule() {
            Rule::Http(rule) => (rule.timeouts, rule.retry.clone(), rule.session.clone()),
            Rule::Grpc(rule) => (Timeouts::default(), None, rule.session.clone()),
            Rule::Stream(_) => (Timeouts::default(), None, None),
        };
        let rules = match &rule.route().rules {
            Rules::Stream(_) => String::new(),
            Rules::Http(_) | Rules::Grpc(_) => format!(" rule {}", rule.index()),
        };
        Self::Routed(Box::new(Routed {
            handling: listener.handling.as_str(),
            route: format!("{}{rules}", rule.route().id),
            backends: parts(rule.group()),
            external_auth: listener.external_auth.clone(),
            filters: rule.filters().to_vec(),
            timeouts,
            retry,
            session,
        }))
    }

    pub(crate) const fn is_refused(&self) -> bool {
        matches!(self, Self::Refused(_))
    }

    /// Where it goes, in a line.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::Refused(reason) => format!("refused: {}", reason.text()),
            Self::Routed(routed) => {
                let redirect = routed.filters.iter().find_map(|filter| match filter {
                    Filter::Redirect(redirect) => Some(redirect_words(redirect)),
                    _ => None,
                });
                let to = redirect.unwrap_or_else(|| match routed.backends.as_slice() {
                    [] => "no backend".to_owned(),
                    [only] => only.backend.clone(),
                    several => {
                        let share = |part: &Part| format!("{:.0} % {}", part.percent, part.backend);
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

/// Shares rather than weights: 1 and 1 is the same as 50 and 50.
fn parts(group: &Group) -> Vec<Part> {
    let total = group.total();
    let part = |weighted: &tidegate_plan::WeightedBackend| Part {
        percent: weighted.percent(total),
        backend: match &weighted.target {
            Target::Backend(id) => id.to_string(),
            Target::Invalid(reason) => format!("nowhere ({})", reason.text()),
        },
        filters: weighted.filters.clone(),
    };
    let mut parts: Vec<Part> = group.0.iter().map(part).collect();
    parts.sort_by(|one, other| one.backend.cmp(&other.backend).then(one.percent.total_cmp(&other.percent)));
    parts
}
