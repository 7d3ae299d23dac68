//! Everything that keeps manifests from being accepted as a whole.

use std::collections::BTreeMap;

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
}

pub(crate) fn find(meaning: &Meaning) -> Vec<Finding> {
    // An object with several mistakes is told once, where it is first wrong.
    let mut findings: BTreeMap<String, Option<String>> = BTreeMap::new();
    for (what, place) in meaning.manifests.invalid() {
        findings.entry(what).or_insert(Some(place));
    }
    let refused = meaning.statuses().filter(|(_, status)| {
        conditions::sets(status).into_iter().any(|set| conditions::worst(set) == Health::Bad)
    });
    for key in refused.map(|(key, _)| key.clone()).chain(strays(meaning)) {
        findings.entry(key.to_string()).or_insert(None);
    }
    findings.into_iter().map(|(what, place)| Finding { what, place }).collect()
}

/// Gateways without a class, ListenerSets and routes whose parent is not there, policies without a target: no status
/// can say so.
fn strays(meaning: &Meaning) -> impl Iterator<Item = ObjectKey> {
    meaning.resources().iter().filter_map(|object| {
        let key = object.key();
        let stray = match &object {
            Object::Gateway(gateway) => meaning.class_is_missing(gateway),
            Object::ListenerSet(set) => meaning.gateway_is_missing(set),
            Object::BackendTlsPolicy(_) | Object::XBackendTrafficPolicy(_) | Object::XBackend(_) => {
                meaning.refused_in_notes(&key).is_some()
            }
            _ => meaning.parents(&key).iter().any(|parent| {
                meaning.parentage(&parent.parent_ref, &key.name.namespace) == Parentage::Missing
            }),
        };
        stray.then_some(key)
    })
}
