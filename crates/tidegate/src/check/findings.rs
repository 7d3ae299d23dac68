//! Everything that keeps manifests from being accepted as a whole.

use std::collections::BTreeMap;

use tidegate_api::status::Condition;
use tidegate_api::{Object, ObjectKey};

use crate::conditions::{self, Health};
use crate::meaning::{Meaning, Parentage};

/// One object that is not as its author wants it.
#[derive(Debug)]
pub(crate) struct Finding {
    /// The object, or the file where it cannot be told.
    pub(crate) what: String,
    /// Where it is written; only for what could not be read.
    pub(crate) place: Option<String>,
    pub(crate) fault: Fault,
}

/// What keeps an object from being as its author wants it; the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    Refused,
    /// It is accepted, and what it refers to is not there or must not be used.
    Unresolved,
    /// It is accepted, and not all of it can be served.
    Unserved,
}

impl Fault {
    pub(crate) const ALL: [Self; 3] = [Self::Refused, Self::Unresolved, Self::Unserved];

    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::Refused => "not accepted",
            Self::Unresolved => "accepted, but references are not resolved",
            Self::Unserved => "accepted, but not served as written",
        }
    }
}

pub(crate) fn find(meaning: &Meaning) -> Vec<Finding> {
    // An object with several mistakes is told once, where it is first wrong.
    let mut findings: BTreeMap<String, (Option<String>, Fault)> = BTreeMap::new();
    for (what, place) in meaning.manifests.invalid() {
        findings.entry(what).or_insert((Some(place), Fault::Refused));
    }
    for key in strays(meaning) {
        findings.entry(key.to_string()).or_insert((None, Fault::Refused));
    }
    for (key, status) in meaning.statuses() {
        if let Some(fault) = conditions::sets(status).into_iter().filter_map(fault).min() {
            findings.entry(key.to_string()).or_insert((None, fault));
        }
    }
    findings.into_iter().map(|(what, (place, fault))| Finding { what, place, fault }).collect()
}

fn fault(conditions: &[Condition]) -> Option<Fault> {
    if conditions::are_refusing(conditions) {
        Some(Fault::Refused)
    } else if conditions::are_unresolved(conditions) {
        Some(Fault::Unresolved)
    } else {
        (conditions::worst(conditions) == Health::Bad).then_some(Fault::Unserved)
    }
}

/// Gateways without a class and what belongs to them, ListenerSets and routes whose parent is not there, policies without
/// a target: no status can say so.
fn strays(meaning: &Meaning) -> impl Iterator<Item = ObjectKey> {
    meaning.resources().iter().filter_map(|object| {
        let key = object.key();
        let stray = match &object {
            Object::Gateway(gateway) => meaning.class_is_missing(gateway),
            Object::ListenerSet(set) => meaning.gateway_is_missing(set) || meaning.has_no_class(set),
            Object::BackendTlsPolicy(_) | Object::XBackendTrafficPolicy(_) | Object::XBackend(_) => {
                meaning.refused_in_notes(&key).is_some()
            }
            _ => meaning.parents(&key).iter().any(|parent| {
                let parentage = meaning.parentage(&parent.parent_ref, &key.name.namespace);
                matches!(parentage, Parentage::Missing | Parentage::Classless)
            }),
        };
        stray.then_some(key)
    })
}
