//! Conditions in words, and which of them are good.

use tidegate_api::status::{Condition, ConditionStatus, ConditionType, Reason, Status};

use crate::layout::Cell;
use crate::output::{BAD, CARE, GOOD};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Health {
    Good,
    /// It works, and there is something to know about it.
    Care,
    Bad,
}

pub(crate) fn health(condition: &Condition) -> Health {
    use ConditionStatus::{False, True, Unknown};
    match (condition.kind, condition.status) {
        (ConditionType::Accepted, True) if condition.reason != Reason::Accepted => Health::Care,
        (
            ConditionType::Accepted
            | ConditionType::ResolvedRefs
            | ConditionType::Programmed
            | ConditionType::AddressesAssigned
            | ConditionType::SupportedVersion,
            True,
        ) => Health::Good,
        (ConditionType::Conflicted | ConditionType::PartiallyInvalid, False) => Health::Good,
        (ConditionType::OverlappingTLSConfig | ConditionType::InsecureFrontendValidationMode, True) => {
            Health::Care
        }
        (ConditionType::OverlappingTLSConfig | ConditionType::InsecureFrontendValidationMode, False) => {
            Health::Good
        }
        // Nothing is served here, so nobody knows yet.
        (ConditionType::Programmed | ConditionType::AddressesAssigned, Unknown) => Health::Good,
        _ => Health::Bad,
    }
}

pub(crate) fn worst(conditions: &[Condition]) -> Health {
    conditions.iter().map(health).max().unwrap_or(Health::Good)
}

/// Every set of conditions in a status: its own, its listeners', one for each parent or ancestor.
pub(crate) fn sets(status: &Status) -> Vec<&[Condition]> {
    match status {
        Status::GatewayClass(status) => vec![&status.conditions],
        Status::Gateway(status) => {
            let listeners = status.listeners.iter().map(|listener| &*listener.conditions);
            std::iter::once(&*status.conditions).chain(listeners).collect()
        }
        Status::ListenerSet(status) => {
            let listeners = status.listeners.iter().map(|listener| &*listener.conditions);
            std::iter::once(&*status.conditions).chain(listeners).collect()
        }
        Status::Route(status) => status.parents.iter().map(|parent| &*parent.conditions).collect(),
        Status::Policy(status) => status.ancestors.iter().map(|ancestor| &*ancestor.conditions).collect(),
    }
}

/// What the conditions say in a word or two: `accepted`, or what is wrong.
pub(crate) fn state(conditions: &[Condition]) -> Cell {
    let bad = told(conditions, Health::Bad);
    if !bad.is_empty() {
        return Cell::new(BAD, bad.join(", "));
    }
    let mut words = vec!["accepted".to_owned()];
    words.extend(told(conditions, Health::Care));
    let style = if words.len() > 1 { CARE } else { GOOD };
    Cell::new(style, words.join(", "))
}

/// One word for each reason of this health: several conditions often share one.
fn told(conditions: &[Condition], wanted: Health) -> Vec<String> {
    let mut reasons: Vec<Reason> = Vec::new();
    let mut words = Vec::new();
    for condition in conditions.iter().filter(|condition| health(condition) == wanted) {
        if !reasons.contains(&condition.reason) {
            reasons.push(condition.reason);
            words.push(format!("{} ({:?})", word(condition), condition.reason));
        }
    }
    words
}

fn word(condition: &Condition) -> &'static str {
    let holds = condition.status == ConditionStatus::True;
    match condition.kind {
        ConditionType::Accepted if holds => "in part",
        ConditionType::Accepted => "not accepted",
        ConditionType::Programmed => "not programmed",
        ConditionType::ResolvedRefs => "references not resolved",
        ConditionType::Conflicted => "conflicted",
        ConditionType::OverlappingTLSConfig => "overlapping",
        ConditionType::InsecureFrontendValidationMode => "insecure",
        ConditionType::AddressesAssigned => "no address",
        ConditionType::SupportedVersion => "unsupported version",
        ConditionType::PartiallyInvalid => "partly invalid",
    }
}

/// What the conditions that are not good say, each message once.
pub(crate) fn messages(conditions: &[Condition]) -> Vec<String> {
    let mut messages: Vec<String> = Vec::new();
    for condition in conditions.iter().filter(|condition| health(condition) > Health::Good) {
        if !condition.message.is_empty() && !messages.contains(&condition.message) {
            messages.push(condition.message.clone());
        }
    }
    messages
}
