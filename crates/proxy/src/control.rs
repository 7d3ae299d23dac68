//! The side of the data plane that is told what to do: it makes each change of the plan into a new snapshot, and
//! opens and closes the sockets that this asks for.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tidegate_plan::{
    Addresses, BackendHandle, BackendId, Body, Change, EndpointsId, Fragment, FragmentId, Group,
    ListenerHandle, MapKey, Plan, RouteId, Rules, Tables, Upstream,
};

use crate::Bounds;
use crate::observe::{ListenerStats, RequestStats, TrafficStats};
use crate::ports::Ports;
use crate::serving::Serving;
use crate::shared::Shared;
use crate::snapshot::Snapshot;
use crate::stream_route::{Address, BackendKey, StreamRoute};
use crate::tls::{Client, Identity, Kept, KeptCertificate, Keys, TicketSecret, server_config};
use crate::upstream::{Answer, Backend, Cycle, Names, Place, Random};

pub(crate) struct Control {
    shared: Arc<Shared>,
    snapshot: Snapshot,
    ports: Ports,
    keys: Keys,
    kept: Kept,
    secret: TicketSecret,
    place: Place,
    names: Names,
    random: Random,
    /// What backends are looked up by.
    backend_keys: BTreeMap<BackendId, Arc<BackendKey>>,
    /// Which backends are at which endpoints.
    users: BTreeMap<EndpointsId, BTreeSet<BackendId>>,
    /// Snapshots that workers may still use. They are dropped here, where it holds nobody up.
    retired: Vec<Arc<Snapshot>>,
}

impl Control {
    pub(crate) fn new(shared: Arc<Shared>, ports: Ports, names: Names, secret: TicketSecret) -> Self {
        Self {
            place: Place::new(&shared.settings),
            snapshot: Snapshot { bounds: Arc::new(shared.settings.bounds.clone()), ..Snapshot::default() },
            ports,
            keys: Keys::default(),
            kept: Kept::default(),
            secret,
            names,
            random: Random::new(),
            backend_keys: BTreeMap::new(),
            users: BTreeMap::new(),
            retired: Vec::new(),
            shared,
        }
    }

    /// Takes in what changed in a plan.
    pub(crate) fn apply(
        &mut self,
        plan: &Plan,
        fragments: &BTreeSet<FragmentId>,
        endpoints: &BTreeSet<EndpointsId>,
    ) {
        let before = self.snapshot.tables.clone();
        let changes: Vec<Change> = fragments
            .iter()
            .map(|id| match plan.fragments.get(id) {
                Some(fragment) => Change::Upsert(self.with_last_good(fragment, plan)),
                None => Change::Remove(id.clone()),
            })
            .collect();
        self.snapshot.tables = before.updated(changes.iter().cloned());
        for change in &changes {
            match change {
                Change::Upsert(fragment) => self.put(fragment, plan, &before),
                Change::Remove(id) => self.remove(id, &before),
            }
        }
        self.snapshot.kept = self.kept.list();
        for backend in
            endpoints.iter().filter_map(|id| self.users.get(id)).flatten().cloned().collect::<Vec<_>>()
        {
            if let Some(handle) = self.snapshot.tables.backend(&backend).cloned() {
                self.put_backend(handle, plan);
            }
        }
        // What waits at a port that goes was let in under the old state, and is taken under it.
        self.ports.close_all_but(&self.snapshot.tables, self.snapshot.bounds.drain_time);
        self.publish();
        self.ports.open(&self.snapshot.tables);
        if fragments.iter().any(|id| matches!(id, FragmentId::Listener(_) | FragmentId::Route(_))) {
            self.ports.sweep();
        }
    }

    /// How much is too much from now on.
    pub(crate) fn bound(&mut self, bounds: Bounds) {
        self.shared.flows.limit(bounds.udp_flows);
        self.snapshot.bounds = Arc::new(bounds);
        self.publish();
    }

    pub(crate) fn share_tickets(&self, secret: &[u8; 32]) {
        self.secret.set(secret);
    }

    pub(crate) fn bounds(&self) -> &Arc<Bounds> {
        &self.snapshot.bounds
    }

    /// Tries again what could not be opened, and ends what was kept for long enough.
    pub(crate) fn retry(&mut self) {
        self.retired.retain(|snapshot| Arc::strong_count(snapshot) > 1);
        for told in self.kept.ended(now()) {
            self.apply(&told, &told.fragments.keys().cloned().collect(), &BTreeSet::new());
        }
        self.ports.open(&self.snapshot.tables);
    }

    pub(crate) fn kept(&self) -> &Arc<[KeptCertificate]> {
        &self.snapshot.kept
    }

    /// A backend that is known by name has new addresses.
    pub(crate) fn resolved(&mut self, answer: &Answer) {
        let Some(before) = self.snapshot.backends.of(&answer.backend) else { return };
        if let Some(backend) = before.resolved(answer, &self.place) {
            self.snapshot.backends.insert(answer.backend.clone(), Arc::new(backend));
            self.publish();
        }
    }

    /// Accepts nothing more and ends everything within the time.
    pub(crate) fn drain(&mut self, time: Duration) {
        self.ports.drain(time);
    }

    pub(crate) fn ports(&self) -> &Ports {
        &self.ports
    }

    fn publish(&mut self) {
        let old = self.shared.snapshot.swap(Arc::new(self.snapshot.clone()));
        self.retired.retain(|snapshot| Arc::strong_count(snapshot) > 1);
        self.retired.push(old);
    }

    /// A listener whose certificate is gone goes on with the one it has.
    fn with_last_good(&mut self, fragment: &Arc<Fragment>, plan: &Plan) -> Arc<Fragment> {
        let Body::Listener(listener) = &fragment.body else { return Arc::clone(fragment) };
        let served = self.snapshot.tables.listener(&listener.id).map(Deref::deref);
        self.kept.fill(fragment, served, plan, &mut self.keys, now())
    }

    fn put(&mut self, fragment: &Arc<Fragment>, plan: &Plan, before: &Tables) {
        match &fragment.body {
            Body::Gateway(gateway) => {
                let identity = gateway.client_certificate.as_ref();
                let identity = identity.map(|own| Identity::new(own, &mut self.keys, &plan.blobs));
                match identity {
                    Some(identity) => self.snapshot.identities.insert(gateway.id.clone(), identity),
                    None => self.snapshot.identities.forget(&gateway.id),
                }
            }
            Body::Listener(_) => {
                if let Some(listener) = ListenerHandle::new(fragment) {
                    self.put_listener(&listener, plan);
                }
            }
            Body::Route(route) => match &route.rules {
                Rules::Stream(_) => self.put_stream(&route.id, before),
                Rules::Http(rules) => self.put_requests(&route.id, rules.iter().map(|rule| &rule.backends)),
                Rules::Grpc(rules) => self.put_requests(&route.id, rules.iter().map(|rule| &rule.backends)),
            },
            Body::Backend(_) => {
                if let Some(backend) = BackendHandle::new(fragment) {
                    self.put_client(&backend, plan);
                    self.put_backend(backend, plan);
                }
            }
            Body::Challenge(challenge) => self.shared.challenges.show(challenge, &plan.blobs),
        }
    }

    fn remove(&mut self, id: &FragmentId, before: &Tables) {
        match id {
            FragmentId::Gateway(id) => self.snapshot.identities.forget(id),
            FragmentId::Listener(id) => {
                self.kept.forget(id);
                self.snapshot.listeners.forget(id);
            }
            FragmentId::Route(id) => {
                if let Some(route) = before.route(id) {
                    self.snapshot.streams.forget(&Address::of(route));
                }
                self.snapshot.cycles.forget(id);
                self.snapshot.requests.forget(id);
            }
            FragmentId::Backend(id) => {
                self.forget_addresses(id);
                self.backend_keys.remove(id);
                self.snapshot.backends.forget(id);
                self.snapshot.clients.forget(id);
            }
            FragmentId::Challenge(name) => self.shared.challenges.withdraw(name.as_str()),
        }
    }

    fn put_listener(&mut self, listener: &ListenerHandle, plan: &Plan) {
        let before = self.snapshot.listeners.of(&listener.id).cloned();
        let tls = listener
            .handling
            .server_tls()
            .map(|_| server_config(listener, &mut self.keys, &plan.blobs, &self.secret));
        let stats = before.as_ref().map_or_else(
            || Arc::new(ListenerStats::new(self.shared.settings.workers)),
            |before| Arc::clone(&before.stats),
        );
        let serving = Serving::new(stats, tls.transpose(), before.as_deref());
        self.snapshot.listeners.insert(listener.id.clone(), Arc::new(serving));
    }

    /// A route of TLS, TCP or UDP. The tables have it already.
    fn put_stream(&mut self, id: &RouteId, before: &Tables) {
        let Some(route) = self.snapshot.tables.route(id).cloned() else { return };
        let (old, new) = (before.route(id).map(Address::of), Address::of(&route));
        let known = old.and_then(|old| self.snapshot.streams.of(&old).cloned());
        // Tables keep the fragment they have where nothing in it changed.
        if old == Some(new) && known.is_some() {
            return;
        }
        let Self { backend_keys, random, place, .. } = self;
        let stream = StreamRoute::new(
            &route,
            known.as_deref(),
            || TrafficStats::new(&place.ledger),
            || Cycle::new(random.next() as u32),
            |id| {
                let key = || Arc::new(BackendKey { id: id.clone(), hash: id.hashed() });
                Arc::clone(backend_keys.entry(id.clone()).or_insert_with(key))
            },
        );
        if let Some(old) = old {
            self.snapshot.streams.forget(&old);
        }
        if let Some(stream) = stream {
            self.snapshot.streams.insert(new, Arc::new(stream));
        }
    }

    /// A route of requests. Rules with several backends deal their weights from where they were.
    fn put_requests<'g>(&mut self, id: &RouteId, groups: impl ExactSizeIterator<Item = &'g Group> + Clone) {
        if self.snapshot.requests.of(id).is_none() {
            let stats = Arc::new(RequestStats::new(self.shared.settings.workers));
            self.snapshot.requests.insert(id.clone(), stats);
        }
        if groups.clone().all(|group| group.0.len() < 2) {
            self.snapshot.cycles.forget(id);
        } else if self.snapshot.cycles.of(id).is_none_or(|cycles| cycles.len() != groups.len()) {
            let cycles = groups.map(|_| Cycle::new(self.random.next() as u32)).collect();
            self.snapshot.cycles.insert(id.clone(), cycles);
        }
    }

    fn put_client(&mut self, backend: &BackendHandle, plan: &Plan) {
        match &backend.upstream {
            Upstream::Tls(tls) => {
                let client = Client::new(tls, &mut self.keys, &plan.blobs).map(Arc::new);
                self.snapshot.clients.insert(backend.id.clone(), client);
            }
            Upstream::Plain | Upstream::Refuse(_) => self.snapshot.clients.forget(&backend.id),
        }
    }

    fn put_backend(&mut self, backend: BackendHandle, plan: &Plan) {
        let id = backend.id.clone();
        self.forget_addresses(&id);
        let endpoints = match &backend.addresses {
            Addresses::Endpoints(endpoints) => {
                self.users.entry(endpoints.clone()).or_default().insert(id.clone());
                self.names.forget(&id);
                plan.endpoints.get(endpoints)
            }
            Addresses::Dns { hostname, .. } => {
                self.names.follow(&id, hostname);
                None
            }
        };
        let before = self.snapshot.backends.of(&id);
        let backend =
            Backend::new(backend, endpoints.map(AsRef::as_ref), before.map(AsRef::as_ref), &self.place);
        self.snapshot.backends.insert(id, Arc::new(backend));
    }

    fn forget_addresses(&mut self, id: &BackendId) {
        let Some(before) = self.snapshot.backends.of(id) else { return };
        match &before.plan.addresses {
            Addresses::Endpoints(endpoints) => {
                if let Some(users) = self.users.get_mut(endpoints) {
                    users.remove(id);
                    if users.is_empty() {
                        self.users.remove(endpoints);
                    }
                }
            }
            Addresses::Dns { .. } => {}
        }
    }
}

/// Seconds since the epoch.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
