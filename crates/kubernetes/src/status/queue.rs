//! What is to be written and what is known to be there. One entry for each object, so that it cannot grow beyond them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use serde_json::Value as Json;
use tidegate_api::status::Status;
use tidegate_api::{Kind, ObjectKey};
use tokio::sync::Notify;

/// The status of an object as the API server has it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Observed {
    pub(crate) resource_version: String,
    pub(crate) uid: String,
    pub(crate) status: Arc<Json>,
}

impl Observed {
    /// Resource versions are numbers that grow, wherever they are numbers at all.
    fn is_newer_than(&self, other: &Self) -> bool {
        match (self.resource_version.parse::<u64>(), other.resource_version.parse::<u64>()) {
            (Ok(own), Ok(other)) => own > other,
            _ => true,
        }
    }
}

/// What the writer has to do with one object.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) key: ObjectKey,
    /// `None`: entries of ours are to go.
    pub(super) desired: Option<Arc<Status>>,
    pub(super) observed: Option<Observed>,
    /// The version of the API to write in.
    pub(super) version: Arc<str>,
    pub(super) attempt: u32,
}

#[derive(Debug, Default)]
struct State {
    leading: bool,
    observed: HashMap<ObjectKey, Observed>,
    waiting: BTreeMap<ObjectKey, Waiting>,
    in_flight: BTreeSet<ObjectKey>,
    /// What the API server made of what we wrote last, so that a field it drops is not written for ever.
    taken: HashMap<ObjectKey, (Option<Arc<Status>>, Arc<Json>)>,
    versions: BTreeMap<Kind, Arc<str>>,
}

#[derive(Debug)]
struct Waiting {
    desired: Option<Arc<Status>>,
    not_before: Option<Instant>,
    attempt: u32,
}

/// Shared by who knows what is to be said and who writes it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Statuses {
    state: Arc<Mutex<State>>,
    pub(super) changed: Arc<Notify>,
}

impl Statuses {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Objects of this kind are read and written in this version; `None`: the kind is gone.
    pub(crate) fn serve(&self, kind: Kind, version: Option<&str>) {
        let mut state = self.state();
        match version {
            Some(version) => {
                state.versions.insert(kind, version.into());
            }
            None => {
                state.versions.remove(&kind);
                state.observed.retain(|key, _| key.kind != kind);
                state.waiting.retain(|key, _| key.kind != kind);
                state.taken.retain(|key, _| key.kind != kind);
            }
        }
    }

    /// The writer writes while this replica leads; what waited is forgotten when it no longer does.
    pub(crate) fn lead(&self, leading: bool) {
        let mut state = self.state();
        state.leading = leading;
        if !leading {
            state.waiting.clear();
        }
        drop(state);
        self.changed.notify_one();
    }

    /// Takes what the watch told; a late word does not replace what a write has given back since.
    pub(crate) fn observe(&self, key: &ObjectKey, observed: Option<Observed>) {
        let mut state = self.state();
        match observed {
            Some(new) => {
                let old = state.observed.get(key);
                if old.is_none_or(|old| new.is_newer_than(old)) {
                    state.observed.insert(key.clone(), new);
                }
            }
            None => {
                state.observed.remove(key);
                state.waiting.remove(key);
                state.taken.remove(key);
            }
        }
    }

    /// The newest status that is known of an object.
    pub(crate) fn observed(&self, key: &ObjectKey) -> Option<Arc<Json>> {
        self.state().observed.get(key).map(|observed| Arc::clone(&observed.status))
    }

    /// Which object has the name now.
    pub(crate) fn uid(&self, key: &ObjectKey) -> Option<String> {
        self.state().observed.get(key).map(|observed| observed.uid.clone())
    }

    /// Every object whose status has been seen.
    pub(crate) fn all_observed(&self) -> Vec<ObjectKey> {
        self.state().observed.keys().cloned().collect()
    }

    /// Asks for a status to be written; a later word about the same object takes the place of an earlier one.
    pub(crate) fn write(&self, key: ObjectKey, desired: Option<Arc<Status>>) {
        let mut state = self.state();
        if !state.leading {
            return;
        }
        if let Some((last, taken)) = state.taken.get(&key)
            && *last == desired
            && state.observed.get(&key).is_some_and(|there| there.status == *taken)
        {
            state.waiting.remove(&key);
            return;
        }
        // A back-off goes on for as long as the same is to be written.
        let before = state.waiting.remove(&key).filter(|before| before.desired == desired);
        let (not_before, attempt) = before.map_or((None, 0), |before| (before.not_before, before.attempt));
        state.waiting.insert(key, Waiting { desired, not_before, attempt });
        drop(state);
        self.changed.notify_one();
    }

    pub(crate) fn waiting(&self) -> usize {
        let state = self.state();
        state.waiting.len() + state.in_flight.len()
    }

    /// The next object whose turn it is.
    pub(super) fn take(&self, now: Instant) -> Option<Job> {
        let mut state = self.state();
        if !state.leading {
            return None;
        }
        let key = state.waiting.iter().find(|(key, waiting)| {
            waiting.not_before.is_none_or(|time| time <= now)
                && !state.in_flight.contains(*key)
                && state.versions.contains_key(&key.kind)
        });
        let key = key?.0.clone();
        let Waiting { desired, attempt, .. } = state.waiting.remove(&key)?;
        let version = Arc::clone(state.versions.get(&key.kind)?);
        let observed = state.observed.get(&key).cloned();
        state.in_flight.insert(key.clone());
        Some(Job { key, desired, observed, version, attempt })
    }

    /// When the first of those that wait for a time may go.
    pub(super) fn next(&self) -> Option<Instant> {
        let state = self.state();
        if !state.leading {
            return None;
        }
        state.waiting.values().filter_map(|waiting| waiting.not_before).min()
    }

    /// A write is over, with what the API server has now.
    pub(super) fn done(&self, key: &ObjectKey, desired: Option<Arc<Status>>, now: Option<Observed>) {
        let mut state = self.state();
        state.in_flight.remove(key);
        match now {
            Some(observed) => {
                state.taken.insert(key.clone(), (desired, Arc::clone(&observed.status)));
                if state.observed.get(key).is_none_or(|old| observed.is_newer_than(old)) {
                    state.observed.insert(key.clone(), observed);
                }
            }
            None => {
                state.taken.remove(key);
            }
        }
    }

    /// A write did not work out: again later, unless there is something newer to say by now.
    pub(super) fn later(&self, job: Job, not_before: Instant) {
        let mut state = self.state();
        state.in_flight.remove(&job.key);
        if state.leading && !state.waiting.contains_key(&job.key) {
            let waiting =
                Waiting { desired: job.desired, not_before: Some(not_before), attempt: job.attempt + 1 };
            state.waiting.insert(job.key, waiting);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;
    use tidegate_api::status::{RouteStatus, Status};
    use tidegate_plan::ObjectName;

    use super::*;

    fn key(name: &str) -> ObjectKey {
        ObjectKey { kind: Kind::TlsRoute, name: ObjectName::new("default", name) }
    }

    fn status() -> Option<Arc<Status>> {
        Some(Arc::new(Status::Route(RouteStatus { parents: Vec::new() })))
    }

    fn observed(version: &str) -> Observed {
        Observed {
            resource_version: version.to_owned(),
            uid: "u".to_owned(),
            status: Arc::new(json!({"seen in": version})),
        }
    }

    fn leading() -> Statuses {
        let statuses = Statuses::default();
        statuses.serve(Kind::TlsRoute, Some("v1"));
        statuses.lead(true);
        statuses
    }

    #[test]
    fn only_a_leader_writes() {
        let statuses = leading();
        statuses.lead(false);
        statuses.write(key("a"), status());
        assert!(statuses.take(Instant::now()).is_none());
        statuses.lead(true);
        assert!(statuses.take(Instant::now()).is_none(), "what was said before is forgotten");
        statuses.write(key("a"), status());
        statuses.lead(false);
        assert_eq!(statuses.waiting(), 0);
    }

    #[test]
    fn the_last_word_about_an_object_counts_and_one_write_at_a_time() {
        let statuses = leading();
        statuses.write(key("a"), status());
        statuses.write(key("a"), None);
        let job = statuses.take(Instant::now()).expect("a job");
        assert!(job.desired.is_none());
        statuses.write(key("a"), status());
        assert!(statuses.take(Instant::now()).is_none(), "the first is still on its way");
        statuses.done(&key("a"), None, Some(observed("5")));
        let job = statuses.take(Instant::now()).expect("a job");
        assert_eq!(job.observed, Some(observed("5")), "with what the first gave back");
    }

    #[test]
    fn a_late_word_of_the_watch_does_not_undo_what_was_written() {
        let statuses = leading();
        statuses.observe(&key("a"), Some(observed("7")));
        statuses.write(key("a"), status());
        let job = statuses.take(Instant::now()).expect("a job");
        statuses.done(&key("a"), job.desired, Some(observed("12")));
        statuses.observe(&key("a"), Some(observed("9")));
        assert_eq!(statuses.observed(&key("a")).as_deref(), Some(&json!({"seen in": "12"})));
        statuses.observe(&key("a"), Some(observed("13")));
        assert_eq!(statuses.observed(&key("a")).as_deref(), Some(&json!({"seen in": "13"})));
    }

    #[test]
    fn what_the_api_server_made_of_a_status_is_not_written_again() {
        let statuses = leading();
        statuses.write(key("a"), status());
        let job = statuses.take(Instant::now()).expect("a job");
        statuses.done(&key("a"), job.desired, Some(observed("12")));
        statuses.write(key("a"), status());
        assert_eq!(statuses.waiting(), 0);
        statuses.observe(&key("a"), Some(observed("13")));
        statuses.write(key("a"), status());
        assert_eq!(statuses.waiting(), 1, "somebody changed it since");
    }

    #[test]
    fn a_write_that_failed_waits_unless_there_is_more_to_say() {
        let statuses = leading();
        let now = Instant::now();
        statuses.write(key("a"), status());
        let job = statuses.take(now).expect("a job");
        statuses.later(job, now + Duration::from_secs(1));
        assert!(statuses.take(now).is_none());
        assert_eq!(statuses.next(), Some(now + Duration::from_secs(1)));
        statuses.write(key("a"), status());
        assert!(statuses.take(now).is_none(), "the same again does not shorten the wait");
        statuses.write(key("a"), None);
        assert_eq!(statuses.take(now).map(|job| job.attempt), Some(0));
        assert!(statuses.take(now + Duration::from_secs(2)).is_none());
    }

    #[test]
    fn an_object_that_is_gone_is_not_written() {
        let statuses = leading();
        statuses.observe(&key("a"), Some(observed("1")));
        statuses.write(key("a"), status());
        statuses.observe(&key("a"), None);
        assert_eq!(statuses.waiting(), 0);
    }
}
