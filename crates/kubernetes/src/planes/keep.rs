//! Keeps the objects of data planes: applied where they differ, put back when somebody changes them, deleted when the
//! Gateway no longer asks for them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures::{StreamExt, TryStreamExt, stream};
use kube::Client;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event};
use serde_json::Value as Json;
use tidegate_plan::ObjectName;
use tokio::sync::Notify;

use super::drift::projection;
use super::kind::{Managed, ManagedKey, ManagedKind};
use super::objects::{ROLE, ROLE_LABEL};
use crate::events::Events;
use crate::log::Log;
use crate::metrics::Metrics;
use crate::status::code;

/// Gateways that are worked on at a time.
const AT_A_TIME: usize = 8;
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
}

#[derive(Debug, Default)]
struct State {
    leading: bool,
    wanted: BTreeMap<ObjectName, Wanted>,
    there: BTreeMap<ManagedKey, Arc<Json>>,
    /// What became of what we applied last: what we said, and how it looked then.
    applied: BTreeMap<ManagedKey, (Json, Json)>,
    dirty: BTreeSet<ObjectName>,
    in_flight: BTreeSet<ObjectName>,
    delayed: BTreeMap<ObjectName, (Instant, u32)>,
    listed: BTreeSet<ManagedKind>,
}

/// Shared by who knows what is wanted and who keeps it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Planes {
    state: Arc<Mutex<State>>,
    work: Arc<Notify>,
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
        state.dirty.remove(gateway);
        state.delayed.remove(gateway);
    }

    /// The Gateways that objects of ours belong to, wanted or not.
    pub(crate) fn owners(&self) -> BTreeSet<ObjectName> {
        self.state().there.iter().filter_map(|(key, object)| owner(&key.1, object)).collect()
    }

    /// A Service of ours as it is.
    pub(crate) fn service(&self, name: &ObjectName) -> Option<Arc<Json>> {
        self.state().there.get(&(ManagedKind::Service, name.clone())).cloned()
    }

    fn observe(&self, kind: ManagedKind, name: ObjectName, object: Option<Json>) {
        let mut state = self.state();
        let key = (kind, name);
        let before = match object {
            Some(object) => state.there.insert(key.clone(), Arc::new(object)),
            None => state.there.remove(&key),
        };
        let now = state.there.get(&key).or(before.as_ref());
        if let Some(gateway) = now.and_then(|object| owner(&key.1, object))
            && state.wanted.contains_key(&gateway)
        {
            state.dirty.insert(gateway);
        }
        drop(state);
        self.work.notify_one();
        if kind == ManagedKind::Service {
            self.services_changed.notify_one();
        }
    }

    fn take(&self, now: Instant) -> Option<Job> {
        let mut state = self.state();
        // Before all is known, nothing can be told to be missing.
        if !state.leading || state.listed.len() < ManagedKind::ALL.len() {
            return None;
        }
        let ready = |gateway: &&ObjectName| {
            !state.in_flight.contains(*gateway)
                && state.delayed.get(*gateway).is_none_or(|(time, _)| *time <= now)
        };
        let gateway = state.dirty.iter().find(ready)?.clone();
        state.dirty.remove(&gateway);
        let wanted = state.wanted.get(&gateway)?.clone();
        state.in_flight.insert(gateway.clone());
        let (apply, delete) = state.differences(&gateway, &wanted);
        Some(Job { gateway, apply, delete })
    }

    fn next(&self) -> Option<Instant> {
        let state = self.state();
        let delayed = state.delayed.iter().filter(|(gateway, _)| state.dirty.contains(*gateway));
        delayed.map(|(_, (time, _))| *time).min().filter(|_| state.leading)
    }

    fn done(&self, gateway: &ObjectName, worked: bool) -> u32 {
        let mut state = self.state();
        state.in_flight.remove(gateway);
        if worked {
            state.delayed.remove(gateway);
            return 0;
        }
        let attempt = state.delayed.get(gateway).map_or(0, |(_, attempt)| *attempt);
        let delay = FIRST_DELAY.saturating_mul(1 << attempt.min(8)).min(LONGEST_DELAY);
        state.delayed.insert(gateway.clone(), (Instant::now() + delay, attempt + 1));
        state.dirty.insert(gateway.clone());
        attempt
    }

    fn applied(&self, managed: Managed, result: Json) {
        let mut state = self.state();
        let key = managed.key();
        let looked = projection(&result, &managed.body);
        state.there.insert(key.clone(), Arc::new(result));
        state.applied.insert(key, (managed.body, looked));
    }

    fn deleted(&self, key: &ManagedKey) {
        let mut state = self.state();
        state.there.remove(key);
        state.applied.remove(key);
    }
}

impl State {
    fn differences(&self, gateway: &ObjectName, wanted: &Wanted) -> (Vec<Managed>, Vec<ManagedKey>) {
        let objects = match wanted {
            Wanted::Objects(objects) => &objects[..],
            Wanted::AsItIs => return (Vec::new(), Vec::new()),
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

/// The Gateway that an object belongs to.
fn owner(name: &ObjectName, object: &Json) -> Option<ObjectName> {
    let owners = object["metadata"]["ownerReferences"].as_array()?;
    let gateway = owners.iter().find(|owner| owner["kind"] == "Gateway")?;
    Some(ObjectName::new(name.namespace.clone(), gateway["name"].as_str()?))
}

struct Job {
    gateway: ObjectName,
    apply: Vec<Managed>,
    delete: Vec<ManagedKey>,
}

/// The task that does it.
#[derive(Clone)]
pub(crate) struct Keeper {
    pub(crate) client: Client,
    pub(crate) planes: Planes,
    pub(crate) log: Log,
    pub(crate) events: Events,
    pub(crate) metrics: Arc<Metrics>,
}

impl Keeper {
    pub(crate) async fn run(self) {
        let watches = ManagedKind::ALL.map(|kind| self.watch(kind));
        tokio::join!(self.keep(), futures::future::join_all(watches));
    }

    async fn keep(&self) {
        let mut running = stream::FuturesUnordered::new();
        loop {
            while running.len() < AT_A_TIME {
                let Some(job) = self.planes.take(Instant::now()) else { break };
                running.push(self.work(job));
            }
            let next = self.planes.next();
            let pause = async {
                match next {
                    Some(time) => tokio::time::sleep_until(time.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                Some(()) = running.next(), if !running.is_empty() => {}
                () = self.planes.work.notified() => {}
                () = pause => {}
            }
        }
    }

    async fn work(&self, job: Job) {
        // What Pods need goes before Pods; all else may go at once.
        let is_workload =
            |managed: &Managed| matches!(managed.kind, ManagedKind::Deployment | ManagedKind::DaemonSet);
        let (workloads, others): (Vec<Managed>, Vec<Managed>) = job.apply.into_iter().partition(is_workload);
        let mut failure = None;
        for together in [others, workloads] {
            let applied = together.into_iter().map(|managed| self.apply_for(&job.gateway, managed));
            failure = failure.or(futures::future::join_all(applied).await.into_iter().find_map(Result::err));
        }
        for key in job.delete {
            let api = key.0.api(&self.client, &key.1.namespace);
            match api.delete(&key.1.name, &DeleteParams::background()).await {
                Ok(_) => {
                    self.log.info(
                        "deleted",
                        format_args!("{} {} of Gateway {}", key.0.as_str(), key.1, job.gateway),
                    );
                    self.planes.deleted(&key);
                }
                Err(error) if code(&error) == Some(404) => self.planes.deleted(&key),
                Err(error) => {
                    failure = Some(format!("{} {} cannot be deleted: {error}", key.0.as_str(), key.1));
                }
            }
        }
        let attempt = self.planes.done(&job.gateway, failure.is_none());
        if let Some(failure) = failure.filter(|_| attempt == 0 || attempt.is_power_of_two()) {
            self.log.error("apply-failed", format_args!("Gateway {}: {failure}", job.gateway));
            self.events.warn_gateway(&job.gateway, "ApplyFailed", &failure);
        }
    }

    async fn apply_for(&self, gateway: &ObjectName, managed: Managed) -> Result<(), String> {
        let described = format!("{} {}", managed.kind.as_str(), managed.name);
        match self.apply(&managed).await {
            Ok(result) => {
                self.metrics.applies.inc();
                self.log.info("applied", format_args!("{described} for Gateway {gateway}"));
                self.planes.applied(managed, result);
                Ok(())
            }
            Err(error) => {
                self.metrics.apply_failures.inc();
                Err(format!("{described} cannot be applied: {error}"))
            }
        }
    }

    async fn apply(&self, managed: &Managed) -> Result<Json, kube::Error> {
        let api = managed.kind.api(&self.client, &managed.name.namespace);
        let params = PatchParams::apply(crate::FIELD_MANAGER).force();
        let result = api.patch(&managed.name.name, &params, &Patch::Apply(&managed.body)).await?;
        Ok(plain(&result))
    }

    async fn watch(&self, kind: ManagedKind) {
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &kind.resource());
        let config = watcher::Config::default().labels(&format!("{ROLE_LABEL}={ROLE}"));
        let events = watcher::watcher(api, config).default_backoff();
        let mut before: BTreeSet<ObjectName> = BTreeSet::new();
        let mut events = std::pin::pin!(events.into_stream());
        while let Some(event) = events.next().await {
            let name = |object: &DynamicObject| {
                ObjectName::new(object.namespace().unwrap_or_default(), object.name_any())
            };
            match event {
                Ok(Event::Init) => {
                    let state = self.planes.state();
                    before =
                        state.there.keys().filter(|key| key.0 == kind).map(|key| key.1.clone()).collect();
                }
                Ok(Event::InitApply(object) | Event::Apply(object)) => {
                    before.remove(&name(&object));
                    self.planes.observe(kind, name(&object), Some(plain(&object)));
                }
                Ok(Event::Delete(object)) => self.planes.observe(kind, name(&object), None),
                Ok(Event::InitDone) => {
                    for gone in std::mem::take(&mut before) {
                        self.planes.observe(kind, gone, None);
                    }
                    self.planes.state().listed.insert(kind);
                    self.planes.work.notify_one();
                }
                Err(error) => {
                    self.log.warning(
                        "watch-failed",
                        format_args!("{}s cannot be watched: {error}", kind.as_str()),
                    );
                }
            }
        }
    }
}

/// The object as JSON, without who manages which field.
fn plain(object: &DynamicObject) -> Json {
    let mut json = serde_json::to_value(object).unwrap_or(Json::Null);
    if let Some(metadata) = json["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    json
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn gateway() -> ObjectName {
        ObjectName::new("shop", "web")
    }

    #[allow(clippy::needless_pass_by_value, reason = "callers build the values in place")]
    fn managed(kind: ManagedKind, name: &str, spec: Json) -> Managed {
        let owner = json!([{"kind": "Gateway", "name": "web", "uid": "u"}]);
        let body = json!({"metadata": {"name": name, "ownerReferences": owner}, "spec": spec});
        Managed { kind, name: ObjectName::new("shop", name), body }
    }

    fn leading() -> Planes {
        let planes = Planes::default();
        planes.state().listed = ManagedKind::ALL.into_iter().collect();
        planes.lead(true);
        planes
    }

    fn work(planes: &Planes) -> (Vec<String>, Vec<String>) {
        let Some(job) = planes.take(Instant::now()) else { return Default::default() };
        let names = |names: Vec<ManagedKey>| names.into_iter().map(|key| key.1.name.to_string()).collect();
        (names(job.apply.iter().map(Managed::key).collect()), names(job.delete))
    }

    #[test]
    fn what_is_missing_is_applied_and_what_is_too_much_deleted() {
        let planes = leading();
        let service = managed(ManagedKind::Service, "a", json!({"type": "LoadBalancer"}));
        let old = managed(ManagedKind::Service, "old", json!({}));
        planes.observe(old.kind, old.name.clone(), Some(old.body.clone()));
        planes.want(gateway(), Wanted::Objects(vec![service.clone()]));
        assert_eq!(work(&planes), (vec!["a".to_owned()], vec!["old".to_owned()]));
        planes.applied(service.clone(), service.body.clone());
        planes.deleted(&old.key());
        planes.done(&gateway(), true);
        assert_eq!(planes.owners(), BTreeSet::from([gateway()]));
        planes.observe(service.kind, service.name.clone(), Some(service.body.clone()));
        assert_eq!(work(&planes), Default::default(), "nothing differs");
    }

    #[test]
    fn what_somebody_changes_is_put_back_and_what_the_api_server_rewrites_is_not() {
        let planes = leading();
        let wanted = managed(ManagedKind::Deployment, "a", json!({"cpu": "1000m"}));
        planes.want(gateway(), Wanted::Objects(vec![wanted.clone()]));
        assert_eq!(work(&planes).0, ["a"]);
        let rewritten = managed(ManagedKind::Deployment, "a", json!({"cpu": "1", "added": true})).body;
        planes.applied(wanted.clone(), rewritten.clone());
        planes.done(&gateway(), true);
        planes.observe(wanted.kind, wanted.name.clone(), Some(rewritten));
        assert_eq!(work(&planes).0, Vec::<String>::new());
        planes.done(&gateway(), true);
        let changed = managed(ManagedKind::Deployment, "a", json!({"cpu": "7"})).body;
        planes.observe(wanted.kind, wanted.name.clone(), Some(changed));
        assert_eq!(work(&planes).0, ["a"]);
    }

    #[test]
    fn a_gateway_that_is_not_accepted_keeps_what_it_has_and_a_foreign_one_loses_it() {
        let planes = leading();
        let service = managed(ManagedKind::Service, "a", json!({}));
        planes.observe(service.kind, service.name.clone(), Some(service.body.clone()));
        planes.want(gateway(), Wanted::AsItIs);
        assert_eq!(work(&planes), Default::default());
        planes.done(&gateway(), true);
        planes.want(gateway(), Wanted::Nothing);
        assert_eq!(work(&planes).1, ["a"]);
    }

    #[test]
    fn nothing_is_done_before_all_is_known_or_without_the_lease() {
        let planes = Planes::default();
        planes.lead(true);
        planes.want(gateway(), Wanted::Objects(vec![managed(ManagedKind::Service, "a", json!({}))]));
        assert_eq!(work(&planes), Default::default());
        planes.state().listed = ManagedKind::ALL.into_iter().collect();
        planes.lead(false);
        assert_eq!(work(&planes), Default::default());
        planes.lead(true);
        assert_eq!(work(&planes).0, ["a"]);
    }

    #[test]
    fn a_failure_is_tried_again_later() {
        let planes = leading();
        planes.want(gateway(), Wanted::Objects(vec![managed(ManagedKind::Service, "a", json!({}))]));
        assert_eq!(work(&planes).0, ["a"]);
        assert_eq!(planes.done(&gateway(), false), 0);
        assert_eq!(work(&planes), Default::default());
        assert!(planes.next().is_some());
        assert!(planes.take(Instant::now() + LONGEST_DELAY).is_some());
        assert_eq!(planes.done(&gateway(), false), 1);
    }
}
