//! Certificates that listeners go on with although their Secrets have nothing to serve any more. A listener keeps only
//! what it served itself: nothing goes from one to another, and what it is no longer to have is gone with the change
//! that says so.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls::sign::CertifiedKey;
use tidegate_plan::{
    BlobId, Body, Fragment, Handling, LastGood, Listener, ListenerId, ObjectName, Plan, Reason, ServerTls,
};

use super::keys::Keys;

/// A certificate that is shown although its Secret has it no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptCertificate {
    pub listener: ListenerId,
    pub secret: ObjectName,
    pub until: SystemTime,
}

#[derive(Default)]
pub(crate) struct Kept {
    listeners: BTreeMap<ListenerId, Keeping>,
}

/// What one listener keeps.
struct Keeping {
    certificates: Vec<One>,
    /// The listener as it was told and what belongs to it, to go by when one of these ends.
    told: Plan,
}

struct One {
    secret: ObjectName,
    /// Where its time is bounded: since when.
    since: Option<i64>,
    /// Seconds since the epoch.
    until: i64,
    /// The plan has it no more, and configurations may be without it for a while.
    _key: Arc<CertifiedKey>,
}

impl Kept {
    /// A fragment as it is to be served, after the listener that is served now.
    pub(crate) fn fill(
        &mut self,
        told: &Arc<Fragment>,
        served: Option<&Listener>,
        plan: &Plan,
        keys: &mut Keys,
        now: i64,
    ) -> Arc<Fragment> {
        let Body::Listener(listener) = &told.body else { return Arc::clone(told) };
        let known = self.listeners.remove(&listener.id);
        let known = known.as_ref().map_or(&[][..], |keeping| &keeping.certificates);
        let last_good = listener.handling.server_tls().map_or(&[][..], |tls| &tls.last_good);
        let served = served.and_then(|served| served.handling.server_tls());
        let Some(served) = served.filter(|_| !last_good.is_empty()) else { return Arc::clone(told) };

        let mut listener = listener.clone();
        let Some(tls) = server_tls(&mut listener) else { return Arc::clone(told) };
        let is_bare = tls.certificates.is_empty();
        let mut certificates = Vec::new();
        for (index, wanted) in last_good.iter().enumerate() {
            let last = served.certificates.iter().find(|one| one.secret == wanted.secret);
            let Some(last) = last else { continue };
            let Ok(key) = keys.open(&last.id, &plan.blobs) else { continue };
            let (since, until) = time(wanted, last.not_after, known, now);
            if until <= now {
                continue;
            }
            // Those that nobody has leave no gap.
            let place = wanted.place.saturating_sub(index - certificates.len());
            tls.certificates.insert(place.min(tls.certificates.len()), last.clone());
            certificates.push(One { secret: wanted.secret.clone(), since, until, _key: key });
        }
        if certificates.is_empty() {
            return Arc::clone(told);
        }
        if is_bare {
            tls.named_only = served.named_only;
        }
        if listener.refuse == Some(Reason::NoCertificate) {
            listener.refuse = None;
        }
        let keeping = Keeping { certificates, told: alone(told, plan) };
        self.listeners.insert(listener.id.clone(), keeping);
        Arc::new(Fragment::new(Body::Listener(listener)))
    }

    pub(crate) fn forget(&mut self, listener: &ListenerId) {
        self.listeners.remove(listener);
    }

    /// Listeners of which one has ended, as they were told.
    pub(crate) fn ended(&self, now: i64) -> Vec<Plan> {
        let has_ended = |keeping: &&Keeping| keeping.certificates.iter().any(|one| one.until <= now);
        self.listeners.values().filter(has_ended).map(|keeping| keeping.told.clone()).collect()
    }

    pub(crate) fn list(&self) -> Arc<[KeptCertificate]> {
        let of = |(listener, keeping): (&ListenerId, &Keeping)| {
            let kept = |one: &One| KeptCertificate {
                listener: listener.clone(),
                secret: one.secret.clone(),
                until: UNIX_EPOCH + Duration::from_secs(u64::try_from(one.until).unwrap_or_default()),
            };
            keeping.certificates.iter().map(kept).collect::<Vec<_>>()
        };
        self.listeners.iter().flat_map(of).collect()
    }
}

/// Since when and until when. Time that is bounded begins with the bound: a Secret that could not be read for long
/// and is then deleted has all of it.
fn time(wanted: &LastGood, not_after: i64, known: &[One], now: i64) -> (Option<i64>, i64) {
    let Some(seconds) = wanted.seconds else { return (None, not_after) };
    let since = known.iter().find(|one| one.secret == wanted.secret).and_then(|one| one.since).unwrap_or(now);
    (Some(since), not_after.min(since.saturating_add(seconds.into())))
}

fn server_tls(listener: &mut Listener) -> Option<&mut ServerTls> {
    match &mut listener.handling {
        Handling::Https(tls) | Handling::Terminate(tls) => Some(tls),
        Handling::Http | Handling::Passthrough | Handling::Tcp | Handling::Udp => None,
    }
}

/// A plan of nothing but this.
fn alone(told: &Arc<Fragment>, plan: &Plan) -> Plan {
    let blob = |id| Some((BlobId::clone(id), Arc::clone(plan.blobs.get(id)?)));
    Plan {
        fragments: [(told.id(), Arc::clone(told))].into(),
        blobs: told.body.blobs().filter_map(blob).collect(),
        ..Plan::default()
    }
}
