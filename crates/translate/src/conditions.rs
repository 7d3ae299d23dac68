//! Conditions, made in one way.

use tidegate_api::refs::GATEWAY_GROUP;
use tidegate_api::status::{Condition, ConditionStatus, ConditionType, Reason};

/// Something that does not hold, with the reason for machines and the message for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) reason: Reason,
    pub(crate) message: String,
}

impl Fault {
    pub(crate) fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }

    /// Several faults as one: the first gives the reason, each its message.
    pub(crate) fn joined(faults: &[Self]) -> Option<Self> {
        let first = faults.first()?;
        let mut messages: Vec<&str> = Vec::new();
        for fault in faults {
            if !messages.contains(&fault.message.as_str()) {
                messages.push(&fault.message);
            }
        }
        Some(Self::new(first.reason, messages.join("; ")))
    }

    /// Several faults of a policy as one: the worst gives the reason, each its message.
    pub(crate) fn worst(faults: &[Self]) -> Option<Self> {
        let rank = |fault: &&Self| match fault.reason {
            Reason::Invalid => 0,
            Reason::NoValidCACertificate => 1,
            Reason::Conflicted => 2,
            _ => 3,
        };
        let worst = faults.iter().min_by_key(rank)?;
        Self::joined(faults).map(|joined| Self::new(worst.reason, joined.message))
    }

    /// The same at a place.
    pub(crate) fn at(self, place: &str) -> Self {
        Self::new(self.reason, format!("{place}: {}", self.message))
    }
}

/// A kind as kubectl writes it: with its group where that is neither the core one nor Gateway API's.
pub(crate) fn kind_name(group: &str, kind: &str) -> String {
    if group.is_empty() || group == GATEWAY_GROUP { kind.to_owned() } else { format!("{kind}.{group}") }
}

/// The first few of a list that may be long.
pub(crate) fn few<T: std::fmt::Display>(items: impl IntoIterator<Item = T>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    match items.len() {
        0..=8 => items.join(", "),
        all => format!("{} and {} more", items[..7].join(", "), all - 7),
    }
}

pub(crate) fn condition(
    kind: ConditionType,
    status: ConditionStatus,
    reason: Reason,
    message: impl Into<String>,
    generation: i64,
) -> Condition {
    // The API server takes at most 32,768 characters.
    let mut message = message.into();
    if message.len() > 32_000 {
        let cut = message.floor_char_boundary(32_000);
        message.truncate(cut);
        message.push_str("...");
    }
    Condition { kind, status, reason, message, observed_generation: generation }
}

/// True with a reason and message of its own, or False as the fault says.
pub(crate) fn holds(
    kind: ConditionType,
    fault: Option<&Fault>,
    good: (Reason, &str),
    generation: i64,
) -> Condition {
    match fault {
        None => condition(kind, ConditionStatus::True, good.0, good.1, generation),
        Some(fault) => {
            condition(kind, ConditionStatus::False, fault.reason, fault.message.clone(), generation)
        }
    }
}

/// `Programmed` before any data plane has spoken: it cannot be, or nobody knows yet.
pub(crate) fn programmed(fault: Option<&Fault>, generation: i64) -> Condition {
    match fault {
        Some(fault) => condition(
            ConditionType::Programmed,
            ConditionStatus::False,
            fault.reason,
            fault.message.clone(),
            generation,
        ),
        None => condition(
            ConditionType::Programmed,
            ConditionStatus::Unknown,
            Reason::Pending,
            "waiting for a data plane to say that it serves this",
            generation,
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_fit_and_are_cut_between_characters() {
        let long = "ä".repeat(20_000);
        let condition = condition(ConditionType::Accepted, ConditionStatus::True, Reason::Accepted, long, 1);
        assert!(condition.message.len() <= 32_768 && condition.message.ends_with("..."));
    }

    #[test]
    fn the_worst_fault_decides_and_each_is_told_once() {
        let faults = [
            Fault::new(Reason::TargetNotFound, "a"),
            Fault::new(Reason::Conflicted, "b"),
            Fault::new(Reason::Conflicted, "b"),
        ];
        assert_eq!(Fault::worst(&faults), Some(Fault::new(Reason::Conflicted, "a; b")));
        assert_eq!(Fault::worst(&[]), None);
    }

    #[test]
    fn long_lists_are_cut_short() {
        assert_eq!(few(["a", "b"]), "a, b");
        assert_eq!(few(0..10), "0, 1, 2, 3, 4, 5, 6 and 3 more");
    }
}
