//! Conditions in words, and which of them are good.

use tidegate_api::status::{Condition, ConditionStatus, ConditionType, Reason, Status};

use crate::layout::Cell;
use crate::output::{BAD, CARE, GOOD};
use crate::words;

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
        (ConditionType::OverlappingTLSConfig | ConditionType::InsecureFrontendValidationMode, True) => Health::Care,
        // An issuer is to make what is missing.
        (ConditionType::CertificatesIssued | ConditionType::ResolvedRefs | ConditionType::Programmed, False)
            if condition.reason == Reason::Pending =>
        {
            Health::Care
        }
        (
            ConditionType::Accepted
            | ConditionType::CertificatesIssued
            | ConditionType::ResolvedRefs
            | ConditionType::Programmed
            | ConditionType::DefaultGateway
            | ConditionType::AddressesAssigned
            | ConditionType::SupportedVersion,
            True,
        )
        | (
            ConditionType::Conflicted
            | ConditionType::PartiallyInvalid
            | ConditionType::OverlappingTLSConfig
            | ConditionType::InsecureFrontendValidationMode,
            False,
        )
        // Nothing is served here, so nobody knows yet.
        | (ConditionType::Programmed | ConditionType::AddressesAssigned, Unknown) => Health::Good,
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

/// Whether the conditions say that nothing is made of what was written.
pub(crate) fn are_refusing(conditions: &[Condition]) -> bool {
    conditions.iter().any(|condition| {
        condition.kind == ConditionType::Accepted && condition.status != ConditionStatus::True
    })
}

/// Whether they say that connections are refused, as by a listener without a usable certificate.
pub(crate) fn are_unserved(conditions: &[Condition]) -> bool {
    conditions
        .iter()
        .any(|condition| condition.kind == ConditionType::Programmed && health(condition) == Health::Bad)
}

/// Whether they say that it refers to something that is not there or must not be used.
pub(crate) fn are_unresolved(conditions: &[Condition]) -> bool {
    conditions
        .iter()
        .any(|condition| condition.kind == ConditionType::ResolvedRefs && health(condition) == Health::Bad)
}

/// What the conditions say in a word or two, and the reasons of those that are not good.
pub(crate) fn state(conditions: &[Condition]) -> Cell {
    let bad = reasons(conditions, Health::Bad);
    let care = reasons(conditions, Health::Care);
    match (are_refusing(conditions), bad.is_empty(), care.is_empty()) {
        (true, ..) => Cell::new(BAD, format!("refused: {}", words::all_of(&bad))),
        (false, false, _) => Cell::new(BAD, format!("accepted, but {}", words::all_of(&bad))),
        (false, true, false) => Cell::new(CARE, format!("accepted, {}", words::all_of(&care))),
        (false, true, true) => Cell::new(GOOD, "accepted"),
    }
}

/// Several conditions often share a reason.
fn reasons(conditions: &[Condition], wanted: Health) -> Vec<String> {
    let mut reasons: Vec<String> = Vec::new();
    for condition in conditions.iter().filter(|condition| health(condition) == wanted) {
        let reason = format!("{:?}", condition.reason);
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    reasons
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
