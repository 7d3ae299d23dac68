//! Backends that are reached another way: their policy, their protocol, their endpoints.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use tidegate_plan::{Addresses, Backend, BackendId, Plan};

use crate::explain::backends::{endpoint, upstream};

#[derive(Debug, Serialize)]
pub(crate) struct Change {
    pub(crate) backend: String,
    /// `what: old -> new`.
    pub(crate) changes: Vec<Aspect>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Aspect {
    pub(crate) what: &'static str,
    pub(crate) old: String,
    pub(crate) new: String,
}

/// Only backends that both sides use; the others are told by the flows that lead to them.
pub(crate) fn changes(old: &Plan, new: &Plan) -> Vec<Change> {
    let before: BTreeMap<&BackendId, &Backend> =
        old.backends().map(|backend| (&backend.id, backend)).collect();
    let changes = new.backends().filter_map(|is| {
        let was = before.get(&is.id)?;
        let changes = aspects((old, was), (new, is));
        (!changes.is_empty()).then(|| Change { backend: is.id.to_string(), changes })
    });
    changes.collect()
}

fn aspects((old, was): (&Plan, &Backend), (new, is): (&Plan, &Backend)) -> Vec<Aspect> {
    let mut aspects = Vec::new();
    let mut note = |what, old: String, new: String| {
        if old != new {
            aspects.push(Aspect { what, old, new });
        }
    };
    note("connection", upstream(&was.upstream), upstream(&is.upstream));
    note("protocol", protocol(was), protocol(is));
    note("affinity", affinity(was), affinity(is));
    let (before, after) = (endpoints(old, was), endpoints(new, is));
    if before != after {
        note("endpoints", list(&before), list(&after));
    }
    aspects
}

fn protocol(backend: &Backend) -> String {
    format!("{:?}", backend.protocol).to_lowercase()
}

fn affinity(backend: &Backend) -> String {
    let client =
        backend.affinity.map(|affinity| format!("client address for {} s", affinity.timeout.as_secs()));
    let session = backend.session.as_ref().map(|_| "session".to_owned());
    let zone = backend.prefer_close.then(|| "same zone first".to_owned());
    let words: Vec<String> = client.into_iter().chain(session).chain(zone).collect();
    if words.is_empty() { "none".to_owned() } else { words.join(", ") }
}

fn endpoints(plan: &Plan, backend: &Backend) -> BTreeSet<String> {
    match &backend.addresses {
        Addresses::Dns { hostname, port } => BTreeSet::from([format!("{hostname}:{port}")]),
        Addresses::Endpoints(id) => {
            let endpoints = plan.endpoints.get(id).map_or(&[][..], |endpoints| &endpoints.endpoints);
            endpoints.iter().map(endpoint).collect()
        }
    }
}

fn list(endpoints: &BTreeSet<String>) -> String {
    if endpoints.is_empty() {
        return "none".to_owned();
    }
    endpoints.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
}
