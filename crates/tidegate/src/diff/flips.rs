//! Conditions that turn from good to bad and back, and what is new and not accepted.

use serde::Serialize;
use tidegate_api::ObjectKey;
use tidegate_api::status::{Condition, ConditionStatus, ConditionType, Reason, Status};
use tidegate_translate::Translation;

use crate::conditions::{Health, health};
use crate::words;

#[derive(Debug, Serialize)]
pub(crate) struct Flip {
    /// The object, with the listener or parent that the condition is about.
    pub(crate) about: String,
    #[serde(rename = "type")]
    pub(crate) kind: ConditionType,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) old: Option<Said>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) new: Option<Said>,
    #[serde(skip)]
    pub(crate) health: Health,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Said {
    pub(crate) status: ConditionStatus,
    pub(crate) reason: Reason,
}

pub(crate) fn between(old: &Translation, new: &Translation) -> Vec<Flip> {
    let mut flips = Vec::new();
    for (key, status) in &new.statuses {
        let before = old.statuses.get(key).map(|status| named_sets(key, status));
        for (about, conditions) in named_sets(key, status) {
            let of_old = before.as_ref().and_then(|sets| sets.iter().find(|(name, _)| *name == about));
            match of_old {
                Some((_, before)) => flips.extend(flipped(&about, before, conditions)),
                None => flips.extend(
                    conditions
                        .iter()
                        .filter(|new| health(new) == Health::Bad)
                        .map(|new| flip(&about, None, Some(new))),
                ),
            }
        }
    }
    flips
}

fn flipped<'a>(
    about: &'a str,
    old: &'a [Condition],
    new: &'a [Condition],
) -> impl Iterator<Item = Flip> + 'a {
    let changed = new.iter().filter_map(move |is| {
        let was = old.iter().find(|was| was.kind == is.kind);
        (was.map(said) != Some(said(is))).then(|| flip(about, was, Some(is)))
    });
    let gone = old.iter().filter(move |was| !new.iter().any(|is| is.kind == was.kind));
    changed.chain(gone.map(move |was| flip(about, Some(was), None)))
}

fn flip(about: &str, old: Option<&Condition>, new: Option<&Condition>) -> Flip {
    let bad = new.filter(|new| health(new) > Health::Good);
    Flip {
        about: about.to_owned(),
        kind: new.or(old).map_or(ConditionType::Accepted, |condition| condition.kind),
        old: old.map(said),
        new: new.map(said),
        health: new.map_or(Health::Good, health),
        message: bad.map(|new| new.message.clone()).unwrap_or_default(),
    }
}

fn said(condition: &Condition) -> Said {
    Said { status: condition.status, reason: condition.reason }
}

/// The sets of conditions of a status, each with what it is about.
fn named_sets<'s>(key: &ObjectKey, status: &'s Status) -> Vec<(String, &'s [Condition])> {
    let own = |conditions: &'s [Condition]| std::iter::once((key.to_string(), conditions));
    match status {
        Status::GatewayClass(status) => own(&status.conditions).collect(),
        Status::Gateway(status) => {
            let listeners = status.listeners.iter();
            let listeners = listeners
                .map(|listener| (format!("{key} listener {}", listener.name), &*listener.conditions));
            own(&status.conditions).chain(listeners).collect()
        }
        Status::ListenerSet(status) => {
            let listeners = status.listeners.iter();
            let listeners = listeners
                .map(|listener| (format!("{key} listener {}", listener.name), &*listener.conditions));
            own(&status.conditions).chain(listeners).collect()
        }
        Status::Route(status) => {
            let parents = status.parents.iter();
            let name = |parent| format!("{key} at {}", words::parent(parent, &key.name.namespace));
            parents.map(|parent| (name(&parent.parent_ref), &*parent.conditions)).collect()
        }
        Status::Policy(status) => {
            let ancestors = status.ancestors.iter();
            let name = |ancestor| format!("{key} at {}", words::parent(ancestor, &key.name.namespace));
            ancestors.map(|ancestor| (name(&ancestor.ancestor_ref), &*ancestor.conditions)).collect()
        }
    }
}
