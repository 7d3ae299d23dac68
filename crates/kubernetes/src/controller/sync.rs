//! The first look at the cluster. Nothing is said before every kind has been listed: half of the truth would be wrong
//! statuses, and a plan without the routes, grants or policies of one kind would take away what data planes serve. So
//! there is no kind that it could go on without; it says which ones it waits for.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::Controller;
use crate::kinds;

/// An API server in good health has given everything by then.
const PATIENCE: Duration = Duration::from_secs(15);

/// What others may know of a running controller.
#[derive(Debug, Default)]
pub struct Health {
    synced: AtomicBool,
    waits_for: Mutex<String>,
}

impl Health {
    /// Whether everything in the cluster has been looked at once.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.synced.load(Relaxed)
    }

    /// What has not been looked at yet.
    #[must_use]
    pub fn waits_for(&self) -> String {
        self.waits_for.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// How long it has been waited, and how often that was said.
#[derive(Debug)]
pub(super) struct Waiting {
    since: Instant,
    said: u32,
}

impl Waiting {
    pub(super) fn new() -> Self {
        Self { since: Instant::now(), said: 0 }
    }

    /// Whether to say it again: after 15 seconds, then after twice as long each time.
    fn is_time(&mut self, waited: Duration) -> bool {
        let is_time = waited >= PATIENCE.saturating_mul(1 << self.said.min(16));
        self.said += u32::from(is_time);
        is_time
    }
}

impl Controller {
    pub(super) fn is_synced(&self) -> bool {
        self.health.is_ready()
    }

    /// Whether every kind has been listed by now.
    pub(super) fn sync(&mut self) -> bool {
        let unlisted = self.watches.iter().filter(|(_, watching)| !watching.listed);
        let unlisted: Vec<String> = unlisted.map(|(kind, _)| kinds::plural(*kind)).collect();
        let is_synced = !self.watches.is_empty() && unlisted.is_empty();
        self.metrics.unlisted_kinds.set(unlisted.len() as u64);
        let waits_for = if self.watches.is_empty() {
            "customresourcedefinitions".to_owned()
        } else {
            unlisted.join(", ")
        };
        *self.health.waits_for.lock().unwrap_or_else(PoisonError::into_inner) = waits_for;
        if is_synced {
            self.health.synced.store(true, Relaxed);
            self.dirty.everything = true;
            self.log.info("synced", format_args!("all {} kinds have been looked at", self.watches.len()));
        }
        is_synced
    }

    /// Once a second: says what it waits for.
    pub(super) fn tell_unlisted(&mut self) {
        let waited = self.waiting.since.elapsed();
        if self.is_synced() || !self.waiting.is_time(waited) {
            return;
        }
        let waits_for = self.health.waits_for();
        self.log.error(
            "not-synced",
            format_args!(
                "{waits_for} cannot be listed for {} s; no status is written and no plan changed before that",
                waited.as_secs()
            ),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_said_less_and_less_often() {
        let mut waiting = Waiting::new();
        let told: Vec<u64> =
            (0..200).filter(|seconds| waiting.is_time(Duration::from_secs(*seconds))).collect();
        assert_eq!(told, [15, 30, 60, 120]);
    }
}
