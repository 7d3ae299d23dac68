//! Everything that keeps manifests from being accepted as a whole.

use std::collections::BTreeSet;

use tidegate_api::{Kind, ObjectKey};

use crate::conditions::{self, Health};
use crate::meaning::{Meaning, Parentage};

/// One object that is not as its author wants it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    /// The object, or the file where it cannot be told.
    pub(crate) what: String,
    /// Where it is written; only for what could not be read.
    pub(crate) place: Option<String>,
}

pub(crate) fn find(meaning: &Meaning) -> Vec<Finding> {
    let mut findings: BTreeSet<Finding> =
        meaning.manifests.invalid().map(|(what, place)| Finding { what, place: Some(place) }).collect();
    let refused = meaning
        .translation
        .statuses
        .iter()
        .filter(|(_, status)| {
            conditions::sets(status).into_iter().any(|set| conditions::worst(set) == Health::Bad)
        })
        .map(|(key, _)| key.clone());
    let names: BTreeSet<String> = refused.chain(strays(meaning)).map(|key| key.to_string()).collect();
    findings.extend(names.into_iter().map(|what| Finding { what, place: None }));
    findings.into_iter().collect()
}

/// Gateways without a class and routes whose parent is not there: no status can say so.
fn strays(meaning: &Meaning) -> impl Iterator<Item = ObjectKey> {
    let gateways = meaning
        .resources()
        .gateways
        .iter()
        .filter(|(_, gateway)| meaning.class_is_missing(gateway))
        .map(|(name, _)| ObjectKey { kind: Kind::Gateway, name: name.clone() });
    let routes = meaning.translation.attachments.iter().filter(|(route, attachments)| {
        attachments.parents.iter().any(|parent| {
            meaning.parentage(&parent.parent_ref, &route.object.namespace) == Parentage::Missing
        })
    });
    let routes: Vec<_> = routes.map(|(route, _)| meaning.route_key(route)).collect();
    gateways.chain(routes)
}
