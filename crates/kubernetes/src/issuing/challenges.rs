//! Challenges through the link: what a CA is to be shown is part of the plan of every Gateway that has the name, and the
//! CA is told when all its data planes have it.
//!
//! Orders are carried out beside the controller's turns: they leave here what they want shown, and wait.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_certs::{Answer, Boxed, ChallengeKind, Challenges};
use tidegate_plan::{
    Blob, Body, CertifiedKey, Challenge, Fragment, Handling, Hostname, ObjectName, Plan, Proof,
};
use tokio::sync::{Notify, oneshot};

/// How long data planes may take: those that come over from another leader try every 15 seconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// What is to be shown for a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    fragment: Arc<Fragment>,
    blob: Option<Arc<Blob>>,
}

impl Shown {
    /// As a part of a plan.
    pub(crate) fn put_into(&self, plan: &mut Plan) {
        plan.fragments.insert(self.fragment.id(), Arc::clone(&self.fragment));
        plan.blobs.extend(self.blob.iter().map(|blob| (blob.id(), Arc::clone(blob))));
    }

    pub(crate) fn id(&self) -> tidegate_plan::FragmentId {
        self.fragment.id()
    }

    fn new(name: &Hostname, answer: Answer) -> Self {
        let (proof, blob) = match answer {
            Answer::Http01 { token, key_authorization } => {
                (Proof::File { token, content: key_authorization }, None)
            }
            Answer::TlsAlpn01 { certificate, key } => {
                let blob = Blob::Key(CertifiedKey { chain: vec![certificate], key });
                (Proof::Certificate(blob.id()), Some(Arc::new(blob)))
            }
        };
        let fragment = Fragment::new(Body::Challenge(Challenge { name: name.clone(), proof }));
        Self { fragment: Arc::new(fragment), blob }
    }
}

/// What listeners of a Gateway let a CA find.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Doors {
    http: bool,
    tls: bool,
}

impl Doors {
    /// CAs come to these ports.
    pub(crate) fn of(plan: &Plan) -> Self {
        let http = plan.listeners().any(|each| each.port == 80 && matches!(each.handling, Handling::Http));
        let tls = plan.listeners().any(|each| {
            each.port == 443 && !matches!(each.handling, Handling::Http | Handling::Tcp | Handling::Udp)
        });
        Self { http, tls }
    }

    const fn has(self, kind: ChallengeKind) -> bool {
        match kind {
            ChallengeKind::Http01 => self.http,
            ChallengeKind::TlsAlpn01 => self.tls,
        }
    }
}

/// What is to be shown at the moment, and who waits for it.
#[derive(Debug)]
pub(crate) struct LinkChallenges {
    state: Mutex<State>,
    patience: Duration,
    /// Rung when something is to be shown, or no longer.
    pub(crate) news: Notify,
}

impl Default for LinkChallenges {
    fn default() -> Self {
        Self { state: Mutex::default(), patience: PATIENCE, news: Notify::new() }
    }
}

#[derive(Debug, Default)]
struct State {
    /// The Gateways whose listeners want a certificate with a name.
    gateways: BTreeMap<Hostname, BTreeSet<ObjectName>>,
    doors: BTreeMap<ObjectName, Doors>,
    shown: BTreeMap<Hostname, Shown>,
    waiting: Vec<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    name: Hostname,
    /// What it waited for last, for the message that says why it was in vain.
    told: oneshot::Sender<Result<(), String>>,
    why: Arc<Mutex<String>>,
}

impl State {
    fn gateways_of(&self, name: &Hostname) -> impl Iterator<Item = &ObjectName> {
        self.gateways.get(name).into_iter().flatten()
    }
}

impl LinkChallenges {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Which Gateways have which names, and what they listen with.
    pub(crate) fn know(
        &self,
        gateways: BTreeMap<Hostname, BTreeSet<ObjectName>>,
        doors: BTreeMap<ObjectName, Doors>,
    ) {
        let mut state = self.state();
        (state.gateways, state.doors) = (gateways, doors);
    }

    /// What the data planes of a Gateway shall show.
    pub(crate) fn of(&self, gateway: &ObjectName) -> Vec<Shown> {
        let state = self.state();
        let names = state.shown.iter().filter(|(name, _)| state.gateways_of(name).any(|one| one == gateway));
        names.map(|(_, shown)| shown.clone()).collect()
    }

    /// The Gateways that somebody waits for.
    pub(crate) fn is_anybody_waiting(&self) -> bool {
        !self.state().waiting.is_empty()
    }

    /// Lets those go on whose name is shown everywhere. `shows` says it of one Gateway, or why it does not yet.
    pub(crate) fn settle(&self, shows: impl Fn(&ObjectName, &Shown) -> Result<(), String>) {
        let mut state = self.state();
        let mut still = Vec::new();
        for waiting in std::mem::take(&mut state.waiting) {
            let Some(shown) = state.shown.get(&waiting.name) else { continue };
            let failure = state.gateways_of(&waiting.name).find_map(|gateway| shows(gateway, shown).err());
            match failure {
                None if state.gateways_of(&waiting.name).next().is_none() => {
                    let _ = waiting.told.send(Err("no Gateway has this name any more".to_owned()));
                }
                None => _ = waiting.told.send(Ok(())),
                Some(why) if !waiting.told.is_closed() => {
                    *waiting.why.lock().unwrap_or_else(PoisonError::into_inner) = why;
                    still.push(waiting);
                }
                Some(_) => {}
            }
        }
        state.waiting = still;
    }
}

impl Challenges for LinkChallenges {
    /// Those that all Gateways with the name can answer go first: nobody knows here which one the CA finds.
    fn kinds(&self, name: &Hostname) -> Vec<ChallengeKind> {
        let state = self.state();
        let doors = |gateway| state.doors.get(gateway).copied().unwrap_or_default();
        let doors: Vec<Doors> = state.gateways_of(name).map(doors).collect();
        let mut kinds = vec![ChallengeKind::Http01, ChallengeKind::TlsAlpn01];
        kinds.retain(|kind| doors.iter().any(|doors| doors.has(*kind)));
        kinds.sort_by_key(|kind| !doors.iter().all(|doors| doors.has(*kind)));
        kinds
    }

    fn answer<'a>(&'a self, name: &'a Hostname, answer: Answer) -> Boxed<'a, Result<(), String>> {
        Box::pin(async move {
            let (told, heard) = oneshot::channel();
            let why = Arc::new(Mutex::new(String::new()));
            {
                let mut state = self.state();
                state.shown.insert(name.clone(), Shown::new(name, answer));
                state.waiting.push(Waiting { name: name.clone(), told, why: Arc::clone(&why) });
            }
            self.news.notify_one();
            match tokio::time::timeout(self.patience, heard).await {
                Ok(Ok(outcome)) => outcome,
                Ok(Err(_)) => Err("nobody shows it any more".to_owned()),
                Err(_) => Err(why.lock().unwrap_or_else(PoisonError::into_inner).clone()),
            }
        })
    }

    fn withdraw(&self, name: &Hostname) {
        self.state().shown.remove(name);
        self.news.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name() -> Hostname {
        Hostname::parse("a.example.com").unwrap()
    }

    fn gateway(name: &str) -> ObjectName {
        ObjectName::new("shop", name)
    }

    fn challenges(gateways: &[(&str, bool, bool)]) -> Arc<LinkChallenges> {
        let challenges = LinkChallenges::default();
        let all = gateways.iter().map(|(own, ..)| gateway(own)).collect();
        let doors = gateways.iter().map(|(own, http, tls)| (gateway(own), Doors { http: *http, tls: *tls }));
        challenges.know(BTreeMap::from([(name(), all)]), doors.collect());
        Arc::new(challenges)
    }

    fn file() -> Answer {
        Answer::Http01 { token: "t".to_owned(), key_authorization: "t.k".to_owned() }
    }

    #[test]
    fn what_all_gateways_of_a_name_can_answer_goes_first() {
        use ChallengeKind::{Http01, TlsAlpn01};
        for (gateways, kinds) in [
            (&[("a", true, true)][..], &[Http01, TlsAlpn01][..]),
            (&[("a", false, true)], &[TlsAlpn01]),
            (&[("a", true, true), ("b", false, true)], &[TlsAlpn01, Http01]),
            (&[("a", true, false), ("b", false, true)], &[Http01, TlsAlpn01]),
            (&[("a", false, false)], &[]),
            (&[], &[]),
        ] {
            assert_eq!(challenges(gateways).kinds(&name()), kinds, "{gateways:?}");
        }
    }

    #[tokio::test]
    async fn the_ca_waits_for_all_data_planes() {
        let challenges = challenges(&[("a", true, true), ("b", true, true)]);
        let asking = tokio::spawn({
            let challenges = Arc::clone(&challenges);
            async move { challenges.answer(&name(), file()).await }
        });
        challenges.news.notified().await;
        assert_eq!((challenges.of(&gateway("a")).len(), challenges.of(&gateway("c")).len()), (1, 0));
        let mut plan = Plan::default();
        challenges.of(&gateway("b"))[0].put_into(&mut plan);
        assert_eq!((plan.fragments.len(), plan.blobs.len()), (1, 0));
        let of_a = |one: &ObjectName, _: &Shown| {
            if *one == gateway("a") { Ok(()) } else { Err("b does not".to_owned()) }
        };
        challenges.settle(of_a);
        assert!(challenges.is_anybody_waiting() && !asking.is_finished());
        challenges.settle(|_, _| Ok(()));
        assert_eq!(asking.await.unwrap(), Ok(()));
        challenges.withdraw(&name());
        assert!(challenges.of(&gateway("a")).is_empty() && !challenges.is_anybody_waiting());
    }

    #[tokio::test]
    async fn data_planes_that_do_not_come_are_not_waited_for_for_ever() {
        let mut challenges = challenges(&[("a", true, true)]);
        Arc::get_mut(&mut challenges).unwrap().patience = Duration::from_millis(50);
        let asking = tokio::spawn({
            let challenges = Arc::clone(&challenges);
            async move { challenges.answer(&name(), file()).await }
        });
        challenges.news.notified().await;
        challenges.settle(|_, _| Err("Gateway shop/a has no data plane".to_owned()));
        assert_eq!(asking.await.unwrap(), Err("Gateway shop/a has no data plane".to_owned()));
        challenges.settle(|_, _| Err("still".to_owned()));
        assert!(!challenges.is_anybody_waiting());
    }

    #[test]
    fn a_certificate_for_a_ca_travels_beside_the_plan() {
        let answer = Answer::TlsAlpn01 { certificate: vec![1], key: vec![2] };
        let mut plan = Plan::default();
        Shown::new(&name(), answer).put_into(&mut plan);
        let fragment = plan.fragments.values().next().unwrap();
        assert!(fragment.body.blobs().all(|id| plan.blobs.contains_key(id)) && plan.blobs.len() == 1);
    }
}
