//! Keeps the objects of data planes: applied where they differ, put back when somebody changes them, deleted when the
//! Gateway no longer asks for them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use futures::{StreamExt, TryStreamExt, stream};
use kube::Client;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event};
use serde_json::{Value as Json, json};
use tidegate_plan::ObjectName;

use super::kind::{Managed, ManagedKind};
use super::objects::{ROLE, ROLE_LABEL};
use super::state::{Job, Planes, is_owned_by, version};
use super::{scale, service};
use crate::events::Events;
use crate::log::Log;
use crate::metrics::Metrics;
use crate::status::code;

/// Gateways that are worked on at a time.
const AT_A_TIME: usize = 8;

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
        let mut failure = job.impossible;
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
        let attempt = self.planes.done(&job.gateway, failure.as_deref());
        if let Some(failure) = failure.filter(|_| attempt == 0 || attempt.is_power_of_two()) {
            self.log.error("apply-failed", format_args!("Gateway {}: {failure}", job.gateway));
            self.events.warn_gateway(&job.gateway, "ApplyFailed", &failure);
        }
    }

    async fn apply_for(&self, gateway: &ObjectName, managed: Managed) -> Result<(), String> {
        let described = format!("{} {}", managed.kind.as_str(), managed.name);
        match self.apply(gateway, &managed).await {
            Ok(result) => {
                self.metrics.applies.inc();
                self.log.info("applied", format_args!("{described} for Gateway {gateway}"));
                self.planes.applied(gateway, managed, result);
                Ok(())
            }
            Err(error) => {
                self.metrics.apply_failures.inc();
                Err(format!("{described} cannot be applied: {error}"))
            }
        }
    }

    async fn apply(&self, gateway: &ObjectName, managed: &Managed) -> Result<Json, ApplyError> {
        let api = managed.kind.api(&self.client, &managed.name.namespace);
        let name = &*managed.name.name;
        let mut body = managed.body.clone();
        if let Some(there) = self.there(&api, managed).await? {
            if !is_owned_by(gateway, &there) {
                return Err(ApplyError::Foreign);
            }
            // This one and none that takes its place meanwhile.
            body["metadata"]["uid"] = there["metadata"]["uid"].clone();
        }
        scale::hand_on(&api, managed).await?;
        let params = PatchParams::apply(crate::FIELD_MANAGER).force();
        let result = plain(&api.patch(name, &params, &Patch::Apply(&body)).await?);
        let Some(ports) = service::without_others(&result, managed) else { return Ok(result) };
        let patch = json!({
            "metadata": {"resourceVersion": result["metadata"]["resourceVersion"]}, "spec": {"ports": ports},
        });
        let params =
            PatchParams { field_manager: Some(crate::FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        Ok(plain(&api.patch(name, &params, &Patch::Merge(&patch)).await?))
    }

    /// The object that has the name already. What does not have our label is not followed.
    async fn there(
        &self,
        api: &Api<DynamicObject>,
        managed: &Managed,
    ) -> Result<Option<Arc<Json>>, kube::Error> {
        if let Some(there) = self.planes.there(&managed.key()) {
            return Ok(Some(there));
        }
        Ok(api.get_opt(&managed.name.name).await?.map(|there| Arc::new(plain(&there))))
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
                Ok(Event::Init) => before = self.planes.names(kind),
                Ok(Event::InitApply(object) | Event::Apply(object)) => {
                    before.remove(&name(&object));
                    self.planes.seen(kind, name(&object), plain(&object));
                }
                Ok(Event::Delete(object)) => {
                    self.planes.gone(kind, name(&object), version(&plain(&object)));
                }
                Ok(Event::InitDone) => {
                    for gone in std::mem::take(&mut before) {
                        self.planes.gone(kind, gone, None);
                    }
                    self.planes.listed(kind);
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

#[derive(Debug, thiserror::Error)]
enum ApplyError {
    #[error("there is one already that is not this Gateway's; it is left as it is until it is deleted")]
    Foreign,
    #[error("{0}")]
    Refused(#[from] kube::Error),
}

/// The object as JSON, without who manages which field.
fn plain(object: &DynamicObject) -> Json {
    let mut json = serde_json::to_value(object).unwrap_or(Json::Null);
    if let Some(metadata) = json["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    json
}
