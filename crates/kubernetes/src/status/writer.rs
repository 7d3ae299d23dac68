//! The task that writes statuses to the API server.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::{Client, Error};
use serde_json::{Value as Json, json};
use tidegate_api::ObjectKey;
use tidegate_api::status::merge::{Writer, is_outdated, merge};

use super::queue::{Job, Observed, Statuses};
use crate::events::Events;
use crate::log::Log;
use crate::metrics::Metrics;
use crate::{FIELD_MANAGER, kinds};

/// Writes that may be on their way at a time.
const AT_A_TIME: usize = 16;
/// How often a write is tried again at once because somebody else wrote meanwhile.
const CONFLICTS: u32 = 5;
const FIRST_DELAY: Duration = Duration::from_millis(250);
const LONGEST_DELAY: Duration = Duration::from_secs(60);

#[derive(Clone)]
pub(crate) struct StatusWriter {
    pub(crate) client: Client,
    pub(crate) statuses: Statuses,
    pub(crate) controller: Arc<str>,
    pub(crate) log: Log,
    pub(crate) events: Events,
    pub(crate) metrics: Arc<Metrics>,
}

enum Outcome {
    /// Written, or nothing to write; with what is there now.
    Done(Option<Observed>),
    Gone,
    Failed {
        error: Error,
        delay: Option<Duration>,
    },
}

impl StatusWriter {
    pub(crate) async fn run(self) {
        let mut running = FuturesUnordered::new();
        loop {
            while running.len() < AT_A_TIME {
                let Some(job) = self.statuses.take(Instant::now()) else { break };
                running.push(async {
                    let outcome = self.write(&job).await;
                    (job, outcome)
                });
            }
            let next = self.statuses.next();
            let pause = async {
                match next {
                    Some(time) => tokio::time::sleep_until(time.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                Some((job, outcome)) = running.next(), if !running.is_empty() => self.settle(job, outcome),
                () = self.statuses.changed.notified() => {}
                () = pause, if running.len() < AT_A_TIME => {}
            }
        }
    }

    fn settle(&self, job: Job, outcome: Outcome) {
        match outcome {
            Outcome::Done(now) => self.statuses.done(&job.key, job.desired, now),
            Outcome::Gone => self.statuses.done(&job.key, None, None),
            Outcome::Failed { error, delay } => {
                let doubled = FIRST_DELAY.saturating_mul(1 << job.attempt.min(10));
                let delay = delay.unwrap_or(doubled).clamp(FIRST_DELAY, LONGEST_DELAY);
                if job.attempt.is_power_of_two() || job.attempt == 0 {
                    self.log.warning(
                        "status-failed",
                        format_args!(
                            "the status of {} cannot be written, again in {delay:?}: {error}",
                            job.key
                        ),
                    );
                }
                self.metrics.status_failures.inc();
                self.statuses.later(job, Instant::now() + delay);
            }
        }
    }

    async fn write(&self, job: &Job) -> Outcome {
        let api: Api<DynamicObject> = kinds::api(&self.client, &job.key, &job.version);
        let mut observed = job.observed.clone();
        for _ in 0..CONFLICTS {
            let there = match observed.take() {
                Some(there) => there,
                None => match api.get_opt(&job.key.name.name).await {
                    Ok(Some(object)) => observation(&object),
                    Ok(None) => return Outcome::Gone,
                    Err(error) => return failed(error),
                },
            };
            if job.desired.as_deref().is_some_and(|desired| is_outdated(desired, &there.status)) {
                return Outcome::Done(Some(there));
            }
            let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
            let writer = Writer { controller: &self.controller, now: &now };
            let merged = merge(job.key.kind, &there.status, job.desired.as_deref(), writer);
            if merged.left_out > 0 {
                self.tell_left_out(&job.key, merged.left_out);
            }
            let Some(fields) = merged.fields else { return Outcome::Done(Some(there)) };
            let patch = json!({
                "metadata": {"resourceVersion": there.resource_version},
                "status": fields,
            });
            let params =
                PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
            match api.patch_status(&job.key.name.name, &params, &Patch::Merge(&patch)).await {
                Ok(object) => {
                    self.metrics.status_writes.inc();
                    return Outcome::Done(Some(observation(&object)));
                }
                Err(error) if code(&error) == Some(409) => self.metrics.status_conflicts.inc(),
                Err(error) if code(&error) == Some(404) => return Outcome::Gone,
                Err(error) => return failed(error),
            };
        }
        Outcome::Failed { error: Error::Service("others write to it all the time".into()), delay: None }
    }

    fn tell_left_out(&self, key: &ObjectKey, count: usize) {
        let message = format!("the status has no room for {count} more entries: others have filled it");
        self.events.warn(key, "StatusFull", &message);
    }
}

/// A status as the API server gave it.
pub(crate) fn observation(object: &DynamicObject) -> Observed {
    Observed {
        resource_version: object.metadata.resource_version.clone().unwrap_or_default(),
        uid: object.metadata.uid.clone().unwrap_or_default(),
        status: Arc::new(object.data.get("status").cloned().unwrap_or(Json::Null)),
    }
}

pub(crate) fn code(error: &Error) -> Option<u16> {
    if let Error::Api(status) = error { Some(status.code) } else { None }
}

fn failed(error: Error) -> Outcome {
    let asked = match &error {
        Error::Api(status) => status.details.as_ref().map(|details| details.retry_after_seconds),
        _ => None,
    };
    // What the API server calls invalid will be so a minute later too, unless something else changes.
    let delay = match (code(&error), asked) {
        (Some(400 | 403 | 422), _) => Some(LONGEST_DELAY),
        (_, Some(seconds)) if seconds > 0 => Some(Duration::from_secs(seconds.into())),
        _ => None,
    };
    Outcome::Failed { error, delay }
}

#[cfg(test)]
#[path = "writer_tests.rs"]
mod tests;
