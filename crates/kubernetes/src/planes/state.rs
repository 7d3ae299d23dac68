//! What is wanted of data planes, what there is, and what is to be done about the difference.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value as Json;
use tidegate_plan::ObjectName;
use tokio::sync::Notify;

use super::drift::projection;
use super::kind::{Managed, ManagedKey, ManagedKind};

const FIRST_DELAY: Duration = Duration::from_millis(500);
const LONGEST_DELAY: Duration = Duration::from_secs(60);

/// What there shall be for a Gateway.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Wanted {
    Objects(Vec<Managed>),
    /// Whatever there is: a Gateway that is not accepted at the moment keeps its address.
    AsItIs,
    /// The Gateway is somebody else's now.
    Nothing,
    /// Nothing can be made for it, and why.
    Impossible(String),
}

#[derive(Debug, Default)]
struct State {
    leading: bool,
    wanted: BTreeMap<ObjectName, Wanted>,
    there: BTreeMap<ManagedKey, Arc<Json>>,
    /// What became of what we applied last: what we said, and how it looked then.
    applied: BTreeMap<ManagedKey, (Json, Json)>,
    dirty: BTreeSet<ObjectName>,
    /// Gateways that are worked on, and what the watch has seen go since, in which version.
    in_flight: BTreeMap<ObjectName, BTreeMap<ManagedKey, u64>>,
    delayed: BTreeMap<ObjectName, (Instant, u32)>,
    /// Why a Gateway does not have what it shall.
    failed: BTreeMap<ObjectName, String>,
    listed: BTreeSet<ManagedKind>,
}

/// Shared by who knows what is wanted and who keeps it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Planes {
    state: Arc<Mutex<State>>,
    pub(super) work: Arc<Notify>,
    /// Rung when Services change, whose addresses are part of a status.
    pub(crate) services_changed: Arc<Notify>,
}

impl Planes {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn lead(&self, leading: bool) {
        let mut state = self.state();
        state.leading = leading;
        state.delayed.clear();
        state.dirty = state.wanted.keys().cloned().collect();
        drop(state);
        self.work.notify_one();
    }

    pub(crate) fn want(&self, gateway: ObjectName, wanted: Wanted) {
        let mut state = self.state();
        if state.wanted.get(&gateway) == Some(&wanted) {
            return;
        }
        state.wanted.insert(gateway.clone(), wanted);
        state.delayed.remove(&gateway);
        state.dirty.insert(gateway);
        drop(state);
        self.work.notify_one();
    }

    /// The Gateway is gone; what was its own goes with it, by its owner.
    pub(crate) fn forget(&self, gateway: &ObjectName) {
        let mut state = self.state();
        state.wanted.remove(gateway);
        state.failed.remove(gateway);
        state.dirty.remove(gateway);
        state.delayed.remove(gateway);
    }

    /// The Gateways that objects of ours belong to, wanted or not.
    pub(crate) fn owners(&self) -> BTreeSet<ObjectName> {
        self.state().there.iter().filter_map(|(key, object)| owner(&key.1, object)).collect()
    }

    /// A Service of this Gateway as it is.
    pub(crate) fn service(&self, gateway: &ObjectName, name: &ObjectName) -> Option<Arc<Json>> {
        let service = self.there(&(ManagedKind::Service, name.clone()))?;
        is_owned_by(gateway, &service).then_some(service)
    }

    /// An object as the watch has it.
    pub(super) fn there(&self, key: &ManagedKey) -> Option<Arc<Json>> {
        self.state().there.get(key).cloned()
    }

    /// Why a Gateway does not have what it shall, where that is so.
    pub(crate) fn failure(&self, gateway: &ObjectName) -> Option<String> {
        self.state().failed.get(gateway).cloned()
    }

    /// What there is of a kind.
    pub(super) fn names(&self, kind: ManagedKind) -> BTreeSet<ObjectName> {
        let state = self.state();
        state.there.keys().filter(|key| key.0 == kind).map(|key| key.1.clone()).collect()
    }

    /// All that there is of a kind has been told.
    pub(super) fn listed(&self, kind: ManagedKind) {
        self.state().listed.insert(kind);
        self.work.notify_one();
    }

    /// The watch tells of an object.
    pub(super) fn seen(&self, kind: ManagedKind, name: ObjectName, object: Json) {
        let mut state = self.state();
        if let Some(gateway) = owner(&name, &object) {
            state.soil(gateway);
        }
        state.there.insert((kind, name), Arc::new(object));
        drop(state);
        self.changed(kind);
    }

    /// The watch tells of the end of an object, and in which version that was where it knows.
    pub(super) fn gone(&self, kind: ManagedKind, name: ObjectName, version: Option<u64>) {
        let mut state = self.state();
        let key = (kind, name);
        let before = state.there.remove(&key);
        if let Some(gateway) = before.and_then(|object| owner(&key.1, &object)) {
            if let Some(gone) = state.in_flight.get_mut(&gateway) {
                gone.insert(key, version.unwrap_or(u64::MAX));
            }
            state.soil(gateway);
        }
        drop(state);
        self.changed(kind);
    }

    fn changed(&self, kind: ManagedKind) {
        self.work.notify_one();
        if kind == ManagedKind::Service {
            self.services_changed.notify_one();
        }
    }

    pub(super) fn take(&self, now: Instant) -> Option<Job> {
        let mut state = self.state();
        // Before all is known, nothing can be told to be missing.
        if !state.leading || state.listed.len() < ManagedKind::ALL.len() {
            return None;
        }
        let ready = |gateway: &&ObjectName| {
            !state.in_flight.contains_key(*gateway)
                && state.delayed.get(*gateway).is_none_or(|(time, _)| *time <= now)
        };
        let gateway = state.dirty.iter().find(ready)?.clone();
        state.dirty.remove(&gateway);
        let wanted = state.wanted.get(&gateway)?.clone();
        state.in_flight.insert(gateway.clone(), BTreeMap::new());
        let (apply, delete) = state.differences(&gateway, &wanted);
        let impossible = if let Wanted::Impossible(why) = wanted { Some(why) } else { None };
        Some(Job { gateway, apply, delete, impossible })
    }

    pub(super) fn next(&self) -> Option<Instant> {
        let state = self.state();
        let delayed = state.delayed.iter().filter(|(gateway, _)| state.dirty.contains(*gateway));
        delayed.map(|(_, (time, _))| *time).min().filter(|_| state.leading)
    }

    /// A job is over, with what went wrong. How often it has gone wrong before.
    pub(super) fn done(&self, gateway: &ObjectName, failure: Option<&str>) -> u32 {
        let mut state = self.state();
        state.in_flight.remove(gateway);
        let failure = failure.filter(|_| state.wanted.contains_key(gateway));
        let before = match failure {
            Some(why) => state.failed.insert(gateway.clone(), why.to_owned()),
            None => state.failed.remove(gateway),
        };
        if before.as_deref() != failure {
            // It is part of a status, as addresses are.
            self.services_changed.notify_one();
        }
        if failure.is_none() {
            state.delayed.remove(gateway);
            return 0;
        }
        let attempt = state.delayed.get(gateway).map_or(0, |(_, attempt)| *attempt);
        let delay = FIRST_DELAY.saturating_mul(1 << attempt.min(8)).min(LONGEST_DELAY);
        state.delayed.insert(gateway.clone(), (Instant::now() + delay, attempt + 1));
        state.dirty.insert(gateway.clone());
        attempt
    }

    /// Takes what the API server gave back for what we applied. It may be old news: the watch has told of an address
    /// since then, or of the object's end, and will not tell again.
    pub(super) fn applied(&self, gateway: &ObjectName, managed: Managed, result: Json) {
        let mut state = self.state();
        let key = managed.key();
        let looked = projection(&result, &managed.body);
        let is_newer = |than: Option<u64>| than.is_none_or(|than| version(&result) > Some(than));
        let gone = state.in_flight.get(gateway).and_then(|gone| gone.get(&key).copied());
        let there = state.there.get(&key).map(|there| version(there).unwrap_or(u64::MAX));
        if is_newer(gone) && is_newer(there) {
            state.there.insert(key.clone(), Arc::new(result));
        }
        state.applied.insert(key, (managed.body, looked));
    }

    pub(super) fn deleted(&self, key: &ManagedKey) {
        let mut state = self.state();
        state.there.remove(key);
        state.applied.remove(key);
    }
}

impl State {
    /// A Gateway of ours has to be looked at again.
    fn soil(&mut self, gateway: ObjectName) {
        if self.wanted.contains_key(&gateway) {
            self.dirty.insert(gateway);
        }
    }

    fn differences(&self, gateway: &ObjectName, wanted: &Wanted) -> (Vec<Managed>, Vec<ManagedKey>) {
        let objects = match wanted {
            Wanted::Objects(objects) => &objects[..],
            Wanted::AsItIs | Wanted::Impossible(_) => return (Vec::new(), Vec::new()),
            Wanted::Nothing => &[],
        };
        let apply = objects.iter().filter(|object| self.differs(object)).cloned().collect();
        let named: BTreeSet<ManagedKey> = objects.iter().map(Managed::key).collect();
        let of_gateway =
            self.there.iter().filter(|(key, object)| owner(&key.1, object).as_ref() == Some(gateway));
        let delete = of_gateway.map(|(key, _)| key).filter(|key| !named.contains(*key)).cloned().collect();
        (apply, delete)
    }

    /// The API server may write a value in its own way (`1000m` as `1`): then it is as it was after we applied it.
    fn differs(&self, managed: &Managed) -> bool {
        let key = managed.key();
        let Some(there) = self.there.get(&key) else { return true };
        let looks = projection(there, &managed.body);
        let as_applied =
            self.applied.get(&key).is_some_and(|(body, looked)| *body == managed.body && *looked == looks);
        looks != managed.body && !as_applied
    }
}

/// Where an object stands in the order of all changes; API servers count them.
pub(super) fn version(object: &Json) -> Option<u64> {
    object["metadata"]["resourceVersion"].as_str()?.parse().ok()
}

/// The Gateway that an object belongs to.
fn owner(name: &ObjectName, object: &Json) -> Option<ObjectName> {
    Some(ObjectName::new(name.namespace.clone(), owner_name(object)?))
}

fn owner_name(object: &Json) -> Option<&str> {
    let is_gateway = |owner: &&Json| {
        let version = owner["apiVersion"].as_str().unwrap_or_default();
        owner["kind"] == "Gateway" && version.starts_with("gateway.networking.k8s.io/")
    };
    object["metadata"]["ownerReferences"].as_array()?.iter().find(is_gateway)?["name"].as_str()
}

/// Whether an object in the Gateway's namespace belongs to it, or did before the Gateway was made anew.
pub(super) fn is_owned_by(gateway: &ObjectName, object: &Json) -> bool {
    owner_name(object) == Some(&*gateway.name)
}

/// What is to be done for a Gateway.
pub(super) struct Job {
    pub(super) gateway: ObjectName,
    pub(super) apply: Vec<Managed>,
    pub(super) delete: Vec<ManagedKey>,
    pub(super) impossible: Option<String>,
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
