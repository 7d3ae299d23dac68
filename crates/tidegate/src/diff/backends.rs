//! Backends that are reached another way: their policy, their protocol, their endpoints.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Serialize;
use tidegate_plan::{Addresses, Backend, BackendId, Body, Certificate, ObjectName, Plan, Upstream};

use crate::diff::Side;
use crate::explain::backends::{endpoint, retry_budget, upstream};
use crate::explain::request;
use crate::words;

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
pub(crate) fn changes(old: &Side<'_>, new: &Side<'_>) -> Vec<Change> {
    let before: BTreeMap<&BackendId, &Backend> =
        old.plan.backends().map(|backend| (&backend.id, backend)).collect();
    let gateways = [old, new].map(|side| users(side.plan));
    let changes = new.plan.backends().filter_map(|is| {
        let was = before.get(&is.id)?;
        let mut changes = aspects((old.plan, was), (new.plan, is));
        let both = |gateway: &&ObjectName| gateways.iter().all(|users| users.contains(&(&is.id, gateway)));
        let gateways = new.plan.gateways().map(|gateway| &gateway.id).filter(both);
        changes.extend(gateways.filter_map(|id| shown(id, (old, was), (new, is))));
        (!changes.is_empty()).then(|| Change { backend: is.id.to_string(), changes })
    });
    changes.collect()
}

/// Which Gateway sends something to which backend.
fn users(plan: &Plan) -> BTreeSet<(&BackendId, &ObjectName)> {
    let mut users = BTreeSet::new();
    for fragment in plan.fragments.values() {
        let listeners = match &fragment.body {
            Body::Listener(listener) => std::slice::from_ref(&listener.id),
            Body::Route(route) => &route.listeners,
            Body::Gateway(_) | Body::Backend(_) | Body::Challenge(_) => continue,
        };
        for backend in fragment.body.backends() {
            users.extend(listeners.iter().map(|listener| (backend, &listener.gateway)));
        }
    }
    users
}

/// Whether a Gateway shows the backend another certificate.
fn shown(
    gateway: &ObjectName,
    (old, was): (&Side<'_>, &Backend),
    (new, is): (&Side<'_>, &Backend),
) -> Option<Aspect> {
    let words = |certificate: Option<&Certificate>| {
        let certificate = certificate.map_or_else(|| "none".to_owned(), words::certificate);
        format!("{certificate}, by Gateway {gateway}")
    };
    let (Upstream::Tls(before), Upstream::Tls(after)) = (&was.upstream, &is.upstream) else { return None };
    let of_gateway = |side: &Side<'_>| side.tables.gateway(gateway)?.client_certificate.clone();
    let before = before.client_certificate.clone().or_else(|| of_gateway(old));
    let after = after.client_certificate.clone().or_else(|| of_gateway(new));
    let same = before.as_ref().map(|shown| &shown.id) == after.as_ref().map(|shown| &shown.id);
    let (old, mut new) = (words(before.as_ref()), words(after.as_ref()));
    if old == new {
        new.push_str(" (renewed)");
    }
    (!same).then_some(Aspect { what: "client certificate", old, new })
}

fn aspects((old, was): (&Plan, &Backend), (new, is): (&Plan, &Backend)) -> Vec<Aspect> {
    let mut aspects = Vec::new();
    let mut note = |what, old: String, new: String| {
        if old != new {
            aspects.push(Aspect { what, old, new });
        }
    };
    let or_none = |words: Option<String>| words.unwrap_or_else(|| "none".to_owned());
    let session = |backend: &Backend| or_none(backend.session.as_ref().map(request::session));
    let budget = |backend: &Backend| or_none(backend.retry_budget.map(retry_budget));
    note("connection", upstream(&was.upstream), upstream(&is.upstream));
    note("protocol", protocol(was), protocol(is));
    note("affinity", affinity(was), affinity(is));
    note("session", session(was), session(is));
    note("retry budget", budget(was), budget(is));
    note("endpoints", list(&endpoints(old, was)), list(&endpoints(new, is)));
    aspects
}

fn protocol(backend: &Backend) -> String {
    format!("{:?}", backend.protocol).to_lowercase()
}

fn affinity(backend: &Backend) -> String {
    let client =
        backend.affinity.map(|affinity| format!("client address for {} s", affinity.timeout.as_secs()));
    let zone = backend.prefer_close.then(|| "same zone first".to_owned());
    let words: Vec<String> = client.into_iter().chain(zone).collect();
    if words.is_empty() { "none".to_owned() } else { words.join(", ") }
}

fn endpoints(plan: &Plan, backend: &Backend) -> BTreeSet<String> {
    match &backend.addresses {
        Addresses::Dns { hostname, port } => BTreeSet::from([format!("{hostname}:{port}")]),
        Addresses::Endpoints(id) => {
            let endpoints = plan.endpoints.get(id).map_or(&[][..], |endpoints| &endpoints.endpoints);
            let zone = |zone: &str| format!(" in zone {zone}");
            // A zone makes a difference only where one goes before others.
            let zone = |own: &Option<Arc<str>>| {
                own.as_deref().filter(|_| backend.prefer_close).map(zone).unwrap_or_default()
            };
            endpoints.iter().map(|own| format!("{}{}", endpoint(own), zone(&own.zone))).collect()
        }
    }
}

fn list(endpoints: &BTreeSet<String>) -> String {
    if endpoints.is_empty() {
        return "none".to_owned();
    }
    endpoints.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
}
