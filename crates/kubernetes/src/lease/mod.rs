//! Leadership by a Lease, and the label on the leader's Pod by which the link's Service finds it.

mod decide;
mod label;

use std::time::{Duration, Instant, SystemTime};

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, Error};
use serde_json::{Value as Json, json};
use tokio::sync::watch;

use self::decide::{Candidate, DURATION, PERIOD, Record, Step};
use self::label::Label;
use crate::log::Log;
use crate::settings::Settings;
use crate::status::code;

/// The label that the leader's Pod has, and no other.
pub const LEADER_LABEL: &str = "gateway.tidegate.io/leader";

/// How long a request about the Lease may take.
const PATIENCE: Duration = Duration::from_secs(4);

#[derive(Debug)]
pub(crate) struct Election {
    leases: Api<Lease>,
    pods: Option<Api<Pod>>,
    name: String,
    candidate: Candidate,
    leading: watch::Sender<bool>,
    label: Label,
    log: Log,
}

impl Election {
    pub(crate) fn new(client: &Client, settings: &Settings, leading: watch::Sender<bool>, log: Log) -> Self {
        let namespace = &settings.namespace;
        Self {
            leases: Api::namespaced(client.clone(), namespace),
            pods: settings.is_pod.then(|| Api::namespaced(client.clone(), namespace)),
            name: settings.lease.clone(),
            candidate: Candidate::new(&settings.identity),
            leading,
            label: Label::default(),
            log,
        }
    }

    /// Stands for election until `stop`, then lets go of the Lease so that another need not wait.
    pub(crate) async fn run(mut self, mut stop: watch::Receiver<bool>) {
        let mut turns = tokio::time::interval(PERIOD);
        turns.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = turns.tick() => {}
                _ = stop.wait_for(|stop| *stop) => break,
            }
            self.turn().await;
            self.tell().await;
        }
        self.release().await;
    }

    async fn turn(&mut self) {
        let read = match tokio::time::timeout(PATIENCE, self.leases.get_opt(&self.name)).await {
            Ok(Ok(read)) => read,
            Ok(Err(error)) => {
                return self.log.warning("lease-failed", format_args!("the Lease cannot be read: {error}"));
            }
            Err(_) => return self.log.warning("lease-failed", "the Lease cannot be read: no answer"),
        };
        let record = read.as_ref().map(record);
        let began = Instant::now();
        let step = self.candidate.decide(record.as_ref(), began);
        self.say(self.candidate.leads(began));
        if step == Step::Wait {
            return;
        }
        let mut lease = read.unwrap_or_default();
        let now = humantime::format_rfc3339_micros(SystemTime::now()).to_string();
        lease.metadata.name = Some(self.name.clone());
        let transitions = record.as_ref().map_or(0, |record| record.transitions);
        let changed = record.as_ref().is_some_and(|record| record.holder != self.candidate.identity());
        let mut spec =
            lease.spec.as_ref().and_then(|spec| serde_json::to_value(spec).ok()).unwrap_or(json!({}));
        spec["holderIdentity"] = self.candidate.identity().into();
        spec["leaseDurationSeconds"] = DURATION.as_secs().into();
        spec["renewTime"] = now.as_str().into();
        if step != Step::Renew {
            spec["acquireTime"] = now.into();
            spec["leaseTransitions"] = (transitions + i64::from(changed)).into();
        }
        match self.write(&mut lease, spec, step).await {
            Ok(()) => {
                self.candidate.wrote(began);
                if changed && let Some(before) = record {
                    self.unlabel(&before.holder).await;
                }
            }
            // Somebody was quicker.
            Err(WriteError::Refused(error)) if code(&error) == Some(409) => self.candidate.lost(),
            Err(error) => {
                self.log.warning("lease-failed", format_args!("the Lease cannot be written: {error}"));
            }
        }
    }

    async fn write(&self, lease: &mut Lease, spec: Json, step: Step) -> Result<(), WriteError> {
        lease.spec = Some(serde_json::from_value(spec)?);
        let params =
            PostParams { field_manager: Some(crate::FIELD_MANAGER.to_owned()), ..PostParams::default() };
        let written = async {
            match step {
                Step::Create => self.leases.create(&params, lease).await,
                // With the resource version that was read: only one of two can win.
                _ => self.leases.replace(&self.name, &params, lease).await,
            }
        };
        tokio::time::timeout(PATIENCE, written).await.map_err(|_| WriteError::Late)??;
        Ok(())
    }

    async fn tell(&mut self) {
        let leads = self.candidate.leads(Instant::now());
        self.say(leads);
        if self.label.is_due(leads, Instant::now()) {
            self.write_label(leads).await;
        }
    }

    fn say(&self, leads: bool) {
        let changed = self.leading.send_if_modified(|leading| std::mem::replace(leading, leads) != leads);
        if changed {
            let what = if leads { "this replica leads" } else { "this replica does not lead any more" };
            self.log.info("leader", what);
        }
    }

    async fn write_label(&mut self, leads: bool) {
        let Some(pods) = &self.pods else { return };
        self.label.asked();
        match tokio::time::timeout(PATIENCE, patch_label(pods, self.candidate.identity(), leads)).await {
            Ok(Ok(())) => self.label.wrote(leads, Instant::now()),
            Ok(Err(error)) => self
                .log
                .warning("label-failed", format_args!("the leader's label cannot be written: {error}")),
            Err(_) => self.log.warning("label-failed", "the leader's label cannot be written: no answer"),
        }
    }

    /// A leader that hangs cannot take its label off by itself.
    async fn unlabel(&self, pod: &str) {
        if let Some(pods) = &self.pods
            && !pod.is_empty()
            && let Ok(Err(error)) = tokio::time::timeout(PATIENCE, patch_label(pods, pod, false)).await
            && code(&error) != Some(404)
        {
            self.log.warning("label-failed", format_args!("Pod {pod} keeps the leader's label: {error}"));
        }
    }

    async fn release(&mut self) {
        let led = self.candidate.leads(Instant::now());
        self.candidate.lost();
        self.tell().await;
        if !led {
            return;
        }
        let patch = json!({"spec": {"holderIdentity": "", "leaseDurationSeconds": 1}});
        let read = self.leases.get_opt(&self.name).await;
        let ours = matches!(&read, Ok(Some(lease)) if record(lease).holder == self.candidate.identity());
        if ours
            && let Err(error) =
                self.leases.patch(&self.name, &PatchParams::default(), &Patch::Merge(&patch)).await
        {
            self.log.warning("lease-failed", format_args!("the Lease cannot be let go: {error}"));
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum WriteError {
    #[error("{0}")]
    Refused(#[from] Error),
    #[error("{0}")]
    Form(#[from] serde_json::Error),
    #[error("no answer")]
    Late,
}

async fn patch_label(pods: &Api<Pod>, pod: &str, leads: bool) -> Result<(), Error> {
    let value = if leads { json!("true") } else { Json::Null };
    let patch = json!({"metadata": {"labels": {LEADER_LABEL: value}}});
    pods.patch(pod, &PatchParams::default(), &Patch::Merge(&patch)).await.map(|_| ())
}

fn record(lease: &Lease) -> Record {
    let spec = lease.spec.as_ref().and_then(|spec| serde_json::to_value(spec).ok()).unwrap_or(Json::Null);
    let seconds = spec["leaseDurationSeconds"].as_u64().unwrap_or(DURATION.as_secs());
    Record {
        holder: spec["holderIdentity"].as_str().unwrap_or_default().to_owned(),
        duration: Duration::from_secs(seconds),
        renewed: spec["renewTime"].as_str().unwrap_or_default().to_owned(),
        transitions: spec["leaseTransitions"].as_i64().unwrap_or_default(),
    }
}
