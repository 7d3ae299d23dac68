//! Keeps Certificates: made where they are missing, put back when somebody changes them, deleted when nobody wants them.
//! Follows whether cert-manager is there at all.
//!
//! Certificates are created and patched on top of what was looked at, not applied: an apply would take over an object of
//! somebody else that came a moment before.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, PartialObjectMeta, Patch, PatchParams, PostParams,
    Preconditions,
};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event};
use kube::{Client, ResourceExt};
use serde_json::Value as Json;
use tidegate_plan::ObjectName;
use tokio::sync::watch;

use super::state::{Action, Certificates, Deed};
use super::targets::is_made_for;
use crate::FIELD_MANAGER;
use crate::events::Events;
use crate::issuing::now;
use crate::log::Log;
use crate::metrics::Metrics;
use crate::status::code;

const CRD: &str = "certificates.cert-manager.io";
/// Certificates that are worked on at a time.
const AT_A_TIME: usize = 8;

/// The task that does it.
#[derive(Clone)]
pub(crate) struct Keeper {
    client: Client,
    certificates: Certificates,
    log: Log,
    events: Events,
    metrics: Arc<Metrics>,
}

enum Outcome {
    /// With what it is now.
    Written(Json),
    Gone,
    /// Somebody else has the Secret.
    Taken,
}

impl Keeper {
    pub(crate) fn new(
        client: &Client,
        certificates: &Certificates,
        log: &Log,
        events: &Events,
        metrics: &Arc<Metrics>,
    ) -> Self {
        Self {
            client: client.clone(),
            certificates: certificates.clone(),
            log: log.clone(),
            events: events.clone(),
            metrics: Arc::clone(metrics),
        }
    }

    pub(crate) async fn run(self) {
        let (told, installed) = watch::channel(None);
        tokio::join!(self.keep(), self.look_for_cert_manager(&told), self.follow(installed));
    }

    async fn keep(&self) {
        loop {
            let actions = self.certificates.round(Instant::now(), now());
            if actions.is_empty() {
                let wakes = self.certificates.wakes(Instant::now(), now());
                let pause = async {
                    match wakes {
                        Some(time) => tokio::time::sleep_until(time.into()).await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    () = self.certificates.work.notified() => {}
                    () = pause => {}
                }
                continue;
            }
            let all = stream::iter(actions).map(|action| self.work(action));
            all.buffer_unordered(AT_A_TIME).collect::<()>().await;
        }
    }

    async fn work(&self, action: Action) {
        let Action { name, owner, deed } = action;
        let done = match &deed {
            Deed::Create(_) => "created",
            Deed::Patch { .. } => "changed",
            Deed::Delete(_) => "deleted",
        };
        match self.carry_out(&name, &deed).await {
            Ok(Outcome::Written(object)) => {
                self.log.info(done, format_args!("Certificate {name} of {owner}"));
                self.certificates.done(&name, deed, Some(object), Instant::now());
            }
            Ok(Outcome::Gone) => {
                self.log.info("deleted", format_args!("Certificate {name} of {owner}"));
                self.certificates.done(&name, deed, None, Instant::now());
            }
            Ok(Outcome::Taken) => self.certificates.taken(&name, Instant::now()),
            Err(error) => {
                let message = format!("Certificate {name} cannot be {done}: {error}");
                let attempt = self.certificates.failed(&name, message.clone(), Instant::now());
                self.metrics.certificate_failures.inc();
                if attempt == 0 || attempt.is_power_of_two() {
                    self.log.error("certificate-failed", &message);
                    self.events.warn_of(&owner.key(), &owner.uid, "CertificateFailed", &message);
                }
            }
        }
    }

    async fn carry_out(&self, name: &ObjectName, deed: &Deed) -> Result<Outcome, kube::Error> {
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), &name.namespace, &resource());
        match deed {
            Deed::Create(body) => {
                let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &name.namespace);
                if secrets.get_metadata_opt(&name.name).await?.is_some_and(|secret| is_foreign(&secret, name))
                {
                    return Ok(Outcome::Taken);
                }
                let params =
                    PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..Default::default() };
                let body: DynamicObject =
                    serde_json::from_value(body.clone()).map_err(kube::Error::SerdeError)?;
                Ok(Outcome::Written(plain(&api.create(&params, &body).await?)))
            }
            Deed::Patch { patch, .. } => {
                let params =
                    PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
                Ok(Outcome::Written(plain(&api.patch(&name.name, &params, &Patch::Merge(patch)).await?)))
            }
            Deed::Delete(uid) => {
                let preconditions = Preconditions { uid: Some(uid.clone()), resource_version: None };
                let params = DeleteParams::background().preconditions(preconditions);
                match api.delete(&name.name, &params).await {
                    Err(error) if code(&error) != Some(404) => Err(error),
                    _ => Ok(Outcome::Gone),
                }
            }
        }
    }

    /// Tells whether the CRD is there, for as long as it lives.
    async fn look_for_cert_manager(&self, told: &watch::Sender<Option<bool>>) {
        let api: Api<PartialObjectMeta<CustomResourceDefinition>> = Api::all(self.client.clone());
        let config = watcher::Config::default().fields(&format!("metadata.name={CRD}"));
        let mut events = std::pin::pin!(watcher::watcher(api, config).default_backoff());
        let mut found = false;
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => found = false,
                Ok(Event::InitApply(_)) => found = true,
                Ok(Event::InitDone) => _ = told.send_replace(Some(found)),
                Ok(Event::Apply(_)) => _ = told.send_replace(Some(true)),
                Ok(Event::Delete(_)) => _ = told.send_replace(Some(false)),
                Err(error) => {
                    self.log.warning("watch-failed", format_args!("CRD {CRD} cannot be watched: {error}"));
                }
            }
        }
    }

    /// Follows Certificates while there are any to follow.
    async fn follow(&self, mut installed: watch::Receiver<Option<bool>>) {
        let mut before = None;
        loop {
            let is_there = *installed.borrow_and_update();
            match is_there {
                Some(true) => self.log.info("kind-served", "cert-manager's Certificates are followed"),
                Some(false) if before != Some(false) => self.log.warning(
                    "crd-missing",
                    format_args!("there is no CRD {CRD}: cert-manager is not installed, and is waited for"),
                ),
                _ => {}
            }
            if let Some(is_there) = is_there {
                self.certificates.installed(is_there);
            }
            before = is_there;
            let changed = installed.wait_for(|now| *now != is_there);
            tokio::select! {
                changed = changed => if changed.is_err() { return },
                () = self.watch(), if is_there == Some(true) => {}
            }
        }
    }

    async fn watch(&self) {
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource());
        let mut events = std::pin::pin!(watcher::watcher(api, watcher::Config::default()).default_backoff());
        let mut before: BTreeSet<ObjectName> = BTreeSet::new();
        let mut is_failing = false;
        while let Some(event) = events.next().await {
            let failed = event.is_err();
            match event {
                Ok(Event::Init) => before = self.certificates.names(),
                Ok(Event::InitApply(object) | Event::Apply(object)) => {
                    before.remove(&object_name(&object));
                    self.see(&object);
                }
                Ok(Event::Delete(object)) => self.certificates.gone(&object_name(&object)),
                Ok(Event::InitDone) => self.certificates.listed(&std::mem::take(&mut before)),
                // Once: the watch goes on trying.
                Err(error) if !is_failing => self.log.warning(
                    "watch-failed",
                    format_args!("certificates.cert-manager.io cannot be watched, trying again: {error}"),
                ),
                Err(_) => {}
            }
            is_failing = failed;
        }
    }

    fn see(&self, object: &DynamicObject) {
        let name = object_name(object);
        if !self.certificates.seen(name.clone(), plain(object)) {
            return;
        }
        if let Some((owner, why)) = self.certificates.failure(&name) {
            let message = format!("Certificate {name}: {why}");
            self.log.warning("certificate-failed", &message);
            self.events.warn_of(&owner.key(), &owner.uid, "CertificateFailed", &message);
        }
    }
}

/// Whether a Secret was made for another Certificate than this, or for none.
fn is_foreign(secret: &PartialObjectMeta<Secret>, name: &ObjectName) -> bool {
    !is_made_for(name, |key| secret.annotations().get(key).map(String::as_str))
}

pub(crate) fn resource() -> ApiResource {
    ApiResource {
        group: "cert-manager.io".to_owned(),
        version: "v1".to_owned(),
        api_version: "cert-manager.io/v1".to_owned(),
        kind: "Certificate".to_owned(),
        plural: "certificates".to_owned(),
    }
}

pub(super) fn object_name(object: &DynamicObject) -> ObjectName {
    ObjectName::new(object.namespace().unwrap_or_default(), object.name_any())
}

/// The object as JSON, without who manages which field.
pub(super) fn plain(object: &DynamicObject) -> Json {
    let mut json = serde_json::to_value(object).unwrap_or(Json::Null);
    if let Some(metadata) = json["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    json
}
