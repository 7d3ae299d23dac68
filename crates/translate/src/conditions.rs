//! Conditions, made in one way.

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
