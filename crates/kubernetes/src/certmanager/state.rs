//! What is wanted of cert-manager, what there is, and what is to be done about the difference.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value as Json;
use tidegate_certs::Grouping;
use tidegate_plan::ObjectName;
use tidegate_translate::{Resources, Translation};
use tokio::sync::Notify;

use super::pace::Paces;
use super::patch::difference;
use super::plan::{Plan, plan};
use super::targets::{Owner, Targets, targets};
use super::there::{Existing, There};

/// What an operator sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Which names share a Certificate, where annotations do not say.
    pub together: Grouping,
    /// Names in a Certificate at most.
    pub names: usize,
    /// New names wait so long for others, so that ten routes are one change of a Certificate.
    pub gather: Duration,
}

impl Default for Bounds {
    /// CAs take so many names, Let's Encrypt this many.
    fn default() -> Self {
        Self { together: Grouping::Namespace, names: 100, gather: Duration::from_secs(3) }
    }
}

/// A name that somebody else's Secret has is looked at again after this.
const TAKEN: Duration = Duration::from_secs(60);
const FIRST_DELAY: Duration = Duration::from_millis(500);
const LONGEST_DELAY: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(super) struct State {
    leading: bool,
    /// Whether cert-manager's CRD is there; `None` before anybody has looked, or where nobody is to.
    pub(super) installed: Option<bool>,
    pub(super) listed: bool,
    pub(super) there: There,
    /// What is worked for.
    targets: Targets,
    /// What will be, and when.
    coming: Option<(Instant, Targets)>,
    pub(super) plan: Plan,
    taken: BTreeMap<ObjectName, Instant>,
    /// What became of what was written last: what we said, and what still differed then.
    written: BTreeMap<ObjectName, (Json, Json)>,
    pub(super) failures: BTreeMap<ObjectName, Failure>,
    paces: Paces,
    /// Certificates whose names have been changed too often, and when they may be again.
    pub(super) paced: BTreeMap<ObjectName, Instant>,
}

#[derive(Clone, Debug)]
pub(super) struct Failure {
    pub(super) message: String,
    attempt: u32,
    again: Instant,
}

/// Shared by who knows what is wanted and who keeps it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Certificates {
    state: Arc<Mutex<State>>,
    bounds: Bounds,
    pub(super) work: Arc<Notify>,
    /// Rung when there is something else to say about listeners.
    pub(crate) changed: Arc<Notify>,
}

/// What is to be done with one Certificate.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Action {
    pub(super) name: ObjectName,
    /// The Gateway or ListenerSet that it belongs to.
    pub(super) owner: Owner,
    pub(super) deed: Deed,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Deed {
    Create(Json),
    Patch {
        patch: Json,
        body: Json,
    },
    /// The one with this uid.
    Delete(String),
}

impl Deed {
    /// Whether cert-manager has a certificate made because of it.
    fn changes_names(&self) -> bool {
        match self {
            Self::Create(_) => true,
            Self::Patch { patch, .. } => patch["spec"].get("dnsNames").is_some(),
            Self::Delete(_) => false,
        }
    }
}

impl Certificates {
    pub(crate) fn within(bounds: Bounds) -> Self {
        Self { bounds, ..Self::default() }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn lead(&self, leading: bool) {
        let mut state = self.state();
        state.leading = leading;
        state.failures.clear();
        drop(state);
        self.work.notify_one();
    }

    /// What is wanted from now on; says of which Gateways that is news. What goes goes at once; what comes waits for
    /// more.
    pub(crate) fn want(&self, targets: Targets, now: Instant) -> BTreeSet<ObjectName> {
        let mut state = self.state();
        if *state.newest() == targets {
            return BTreeSet::new();
        }
        let concerned = state.newest().gateways().chain(targets.gateways()).cloned().collect();
        state
            .targets
            .all
            .retain(|secret, target| targets.all.get(secret).is_some_and(|new| new.owner == target.owner));
        let time = state.coming.as_ref().map_or(now + self.bounds.gather, |(time, _)| *time);
        state.coming = Some((time, targets));
        drop(state);
        self.work.notify_one();
        concerned
    }

    /// Reads what is wanted, in view of the Certificates that there are.
    pub(crate) fn targets(&self, translation: &Translation, resources: &Resources) -> Targets {
        targets(translation, resources, &self.state().there, self.bounds.together)
    }

    /// How many are kept.
    pub(crate) fn count(&self) -> u64 {
        self.state().plan.certificates.len() as u64
    }

    /// The Gateways about whose listeners there is something to say.
    pub(crate) fn gateways(&self) -> BTreeSet<ObjectName> {
        self.state().newest().gateways().cloned().collect()
    }

    /// cert-manager is there, or is not.
    pub(super) fn installed(&self, installed: bool) {
        let mut state = self.state();
        state.installed = Some(installed);
        if !installed {
            state.listed = false;
            state.there = There::default();
            state.written.clear();
        }
        drop(state);
        self.rouse();
    }

    pub(super) fn listed(&self, before: &BTreeSet<ObjectName>) {
        let mut state = self.state();
        state.there.all.retain(|name, _| !before.contains(name));
        state.listed = true;
        drop(state);
        self.rouse();
    }

    pub(super) fn names(&self) -> BTreeSet<ObjectName> {
        self.state().there.all.keys().cloned().collect()
    }

    /// The watch tells of a Certificate, or a write gave it back; old news change nothing. True where it is ours and
    /// cert-manager says for the first time that it failed.
    pub(super) fn seen(&self, name: ObjectName, object: Json) -> bool {
        let mut state = self.state();
        let before = state.there.all.get(&name);
        if before.is_some_and(|before| version(&before.object) > version(&object)) {
            return false;
        }
        let was_failing = before.is_some_and(|before| before.is_failing);
        let existing = Existing::read(&name, Arc::new(object));
        let has_failed = existing.owner.is_some() && existing.is_failing && !was_failing;
        state.there.all.insert(name, existing);
        drop(state);
        self.rouse();
        has_failed
    }

    pub(super) fn gone(&self, name: &ObjectName) {
        let mut state = self.state();
        state.there.all.remove(name);
        state.written.remove(name);
        drop(state);
        self.rouse();
    }

    fn rouse(&self) {
        self.work.notify_one();
        self.changed.notify_one();
    }

    /// What is to be done now.
    pub(super) fn round(&self, now: Instant, time: i64) -> Vec<Action> {
        let mut state = self.state();
        if !state.leading || !state.listed {
            return Vec::new();
        }
        if state.coming.as_ref().is_some_and(|(when, _)| *when <= now)
            && let Some((_, targets)) = state.coming.take()
        {
            state.targets = targets;
        }
        state.taken.retain(|_, until| *until > now);
        let taken = state.taken.keys().cloned().collect();
        state.plan = plan(&state.targets.all, &state.there, &taken, self.bounds.names, time);
        let state = &mut *state;
        let mut actions: Vec<Action> = state
            .plan
            .certificates
            .iter()
            .filter_map(|(name, planned)| {
                let deed = state.deed(name, &planned.body)?;
                Some(Action { name: name.clone(), owner: planned.owner.clone(), deed })
            })
            .collect();
        actions.extend(state.plan.remove.iter().filter_map(|name| {
            let existing = state.there.all.get(name).filter(|existing| !is_leaving(&existing.object))?;
            let uid = existing.object["metadata"]["uid"].as_str()?.to_owned();
            let owner = existing.owner.clone()?;
            Some(Action { name: name.clone(), owner, deed: Deed::Delete(uid) })
        }));
        actions.retain(|action| state.failures.get(&action.name).is_none_or(|failure| failure.again <= now));
        state.paced.clear();
        actions.retain(|action| {
            let until = action.deed.changes_names().then(|| state.paces.until(&action.name, now)).flatten();
            until.is_none_or(|until| {
                state.paced.insert(action.name.clone(), until);
                false
            })
        });
        actions
    }

    /// When there may be something to do though nobody has said so.
    pub(super) fn wakes(&self, now: Instant, time: i64) -> Option<Instant> {
        let state = self.state();
        if !state.leading || !state.listed {
            return None;
        }
        let drops = state.plan.next.map(|next| {
            let seconds = u64::try_from(next.saturating_sub(time)).unwrap_or(0);
            now + Duration::from_secs(seconds.max(1))
        });
        let coming = state.coming.as_ref().map(|(when, _)| *when);
        let failures = state.failures.values().map(|failure| failure.again).filter(|again| *again > now);
        let paced = state.paced.values().copied();
        failures.chain(state.taken.values().copied()).chain(drops).chain(coming).chain(paced).min()
    }

    /// A write worked, with what it gave back.
    pub(super) fn done(&self, name: &ObjectName, deed: Deed, result: Option<Json>, now: Instant) {
        let mut state = self.state();
        state.failures.remove(name);
        if deed.changes_names() {
            state.paces.changed(name, now);
        }
        let body = match deed {
            Deed::Create(body) | Deed::Patch { body, .. } => Some(body),
            Deed::Delete(_) => None,
        };
        match (body, &result) {
            (Some(body), Some(result)) => {
                let still = difference(result, &body).map(without_version).unwrap_or_default();
                state.written.insert(name.clone(), (body, still));
            }
            _ => _ = state.written.remove(name),
        }
        drop(state);
        match result {
            Some(result) => _ = self.seen(name.clone(), result),
            None => self.gone(name),
        }
    }

    /// It did not; how often that has happened before.
    pub(super) fn failed(&self, name: &ObjectName, message: String, now: Instant) -> u32 {
        let mut state = self.state();
        let attempt = state.failures.get(name).map_or(0, |failure| failure.attempt + 1);
        let delay = FIRST_DELAY.saturating_mul(1 << attempt.min(8)).min(LONGEST_DELAY);
        state.failures.insert(name.clone(), Failure { message, attempt, again: now + delay });
        drop(state);
        self.changed.notify_one();
        attempt
    }

    /// There is a Secret of that name which somebody else made.
    pub(super) fn taken(&self, name: &ObjectName, now: Instant) {
        self.state().taken.insert(name.clone(), now + TAKEN);
        self.rouse();
    }
}

impl State {
    pub(super) fn newest(&self) -> &Targets {
        self.coming.as_ref().map_or(&self.targets, |(_, targets)| targets)
    }

    fn deed(&self, name: &ObjectName, body: &Json) -> Option<Deed> {
        let Some(existing) = self.there.all.get(name) else { return Some(Deed::Create(body.clone())) };
        if is_leaving(&existing.object) {
            return None;
        }
        let patch = difference(&existing.object, body)?;
        // Where the API server writes a value in its own way, it is as it was after we wrote it.
        let is_as_left = self
            .written
            .get(name)
            .is_some_and(|(said, still)| said == body && *still == without_version(patch.clone()));
        (!is_as_left).then(|| Deed::Patch { patch, body: body.clone() })
    }
}

fn is_leaving(object: &Json) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

fn without_version(mut patch: Json) -> Json {
    if let Some(metadata) = patch["metadata"].as_object_mut() {
        metadata.remove("resourceVersion");
    }
    patch
}

fn version(object: &Json) -> Option<u64> {
    object["metadata"]["resourceVersion"].as_str()?.parse().ok()
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
