//! The controller: changes come in, and in turns plan, statuses and data planes are brought in line with them.

mod cert_manager;
mod issue;
mod link;
mod sync;
mod takeover;
mod told;
mod turn;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kube::Client;
use tidegate_api::status::Status;
use tidegate_api::{Kind, Object, ObjectKey};
use tidegate_plan::{ObjectName, Report};
use tidegate_translate::{Change, Delta, Settings as TranslateSettings, Translator};
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};

use self::issue::{Certificates, News};
use self::link::{Published, Term};
pub use self::sync::Health;
use self::sync::Waiting;
use crate::certmanager;
use crate::crds::{self, Crds};
use crate::data::Data;
use crate::events::Events;
use crate::kinds;
use crate::lease::Election;
use crate::log::Log;
use crate::metrics::Metrics;
use crate::nodes::Nodes;
use crate::patience::patient;
use crate::planes::{Allotment, Keeper, Planes};
use crate::settings::{ADMIN_PORT, HEALTH_PORT, Settings};
use crate::status::{StatusWriter, Statuses};
use crate::tokens::Accounts;
use crate::watch::{self as follow, Seen, Sighting};

/// Sightings that may wait for the next turn.
const WAITING: usize = 4096;
/// After the first change of a turn, others may join for this long.
const GATHERING: Duration = Duration::from_millis(4);
/// And so many at most.
const MOST_AT_ONCE: usize = 20_000;
const HEARTBEAT: Duration = Duration::from_secs(1);

/// Runs a controller until `stop` says so.
pub async fn run(
    client: Client,
    settings: Settings,
    log: Log,
    metrics: Arc<Metrics>,
    health: Arc<Health>,
    stop: watch::Receiver<bool>,
) {
    let client = patient(&client);
    let mut tasks = JoinSet::new();
    let (sightings, seen) = mpsc::channel(WAITING);
    let statuses = Statuses::default();
    let (events, publishing) = Events::new(client.clone(), &settings.identity, statuses.clone(), log.clone());
    tasks.spawn(publishing);
    let (crds_told, crds) = watch::channel(None);
    tasks.spawn(crds::follow(client.clone(), crds_told, log.clone()));
    let writer = StatusWriter {
        client: client.clone(),
        statuses: statuses.clone(),
        controller: Arc::clone(&settings.controller_name),
        log: log.clone(),
        events: events.clone(),
        metrics: Arc::clone(&metrics),
    };
    tasks.spawn(writer.run());
    let planes = Planes::default();
    let keeper = Keeper {
        client: client.clone(),
        planes: planes.clone(),
        log: log.clone(),
        events: events.clone(),
        metrics: Arc::clone(&metrics),
    };
    tasks.spawn(keeper.run());
    let bounds = settings.cert_manager.unwrap_or_default();
    let cert_manager = certmanager::Certificates::within(bounds);
    if settings.cert_manager.is_some() {
        let keeper = certmanager::Keeper::new(&client, &cert_manager, &log, &events, &metrics);
        tasks.spawn(keeper.run());
    }
    let (leading_told, leading) = watch::channel(false);
    let election = Election::new(&client, &settings, leading_told, log.clone());
    let election = tokio::spawn(election.run(stop.clone()));

    let translate = TranslateSettings {
        controller_name: Arc::clone(&settings.controller_name),
        reserved_ports: vec![ADMIN_PORT, HEALTH_PORT],
        issuer: settings.issuing.as_ref().and_then(|issuing| issuing.default.clone()),
        ..TranslateSettings::cluster()
    };
    let controller_name = Arc::clone(&settings.controller_name);
    let controller = Controller {
        client,
        settings,
        log,
        metrics,
        health,
        events,
        sightings,
        translator: Translator::new(translate),
        data: Data::new(Arc::clone(&controller_name)),
        nodes: Nodes::default(),
        pool: Allotment::new(),
        watches: BTreeMap::new(),
        waiting: Waiting::new(),
        statuses,
        planes,
        cert_manager,
        not_asked: BTreeMap::new(),
        noted: BTreeMap::new(),
        accounts: Accounts::default(),
        changes: Vec::new(),
        pending: Delta::default(),
        touched: BTreeSet::new(),
        unread: BTreeMap::new(),
        is_fetching_again: false,
        leading: false,
        leads_since: None,
        has_taken_over: false,
        left_alone: BTreeSet::new(),
        term: None,
        link_address: None,
        link_looked: Instant::now(),
        published: BTreeMap::new(),
        reports: BTreeMap::new(),
        served: BTreeMap::new(),
        certificates: Certificates::default(),
        dirty: Dirty::default(),
    };
    controller.live(seen, crds, leading, stop).await;
    // Only now: who leads lets go of the Lease after its last word.
    let _ = election.await;
    tasks.shutdown().await;
}

struct Controller {
    client: Client,
    settings: Settings,
    log: Log,
    metrics: Arc<Metrics>,
    health: Arc<Health>,
    events: Events,
    sightings: mpsc::Sender<Sighting>,
    translator: Translator,
    data: Data,
    nodes: Nodes,
    /// Addresses of Gateways that have theirs out of a pool.
    pool: Allotment,
    watches: BTreeMap<Kind, Watching>,
    waiting: Waiting,
    statuses: Statuses,
    planes: Planes,
    cert_manager: certmanager::Certificates,
    /// What has been told about what cert-manager is not asked for.
    not_asked: BTreeMap<ObjectKey, BTreeSet<String>>,
    /// What has been told of what has no place in a status.
    noted: BTreeMap<ObjectKey, BTreeSet<String>>,
    accounts: Accounts,
    /// What the next turn begins with.
    changes: Vec<Change>,
    pending: Delta,
    /// Objects whose status somebody has written.
    touched: BTreeSet<ObjectKey>,
    /// Objects that are left out, and why.
    unread: BTreeMap<ObjectKey, String>,
    is_fetching_again: bool,
    leading: bool,
    leads_since: Option<Instant>,
    /// Whether data planes have come over from the leader before, or had the time to.
    has_taken_over: bool,
    /// Statuses that are as the leader before left them.
    left_alone: BTreeSet<ObjectKey>,
    /// While this replica leads: the link.
    term: Option<Term>,
    link_address: Option<SocketAddr>,
    link_looked: Instant,
    published: BTreeMap<ObjectName, Published>,
    reports: BTreeMap<ObjectName, BTreeMap<String, Report>>,
    /// Statuses of Gateways and ListenerSets with what data planes said.
    served: BTreeMap<ObjectKey, Arc<Status>>,
    certificates: Certificates,
    dirty: Dirty,
}

struct Watching {
    version: &'static str,
    task: JoinHandle<()>,
    listed: bool,
}

/// What is to be looked at again besides what translation changed.
#[derive(Debug, Default)]
struct Dirty {
    gateways: BTreeSet<ObjectName>,
    all_gateways: bool,
    /// What data planes are made of: their link, the CA.
    all_planes: bool,
    /// What CAs are to be shown.
    challenges: bool,
    everything: bool,
}

enum Event {
    Sighting(Sighting),
    Crds,
    Leading,
    Link(tidegate_link::Event),
    LinkEnded,
    Services,
    CertManager,
    Certificates(News),
    Heartbeat,
    Stop,
}

impl Controller {
    async fn live(
        mut self,
        mut seen: mpsc::Receiver<Sighting>,
        mut crds: watch::Receiver<Option<Crds>>,
        mut leading: watch::Receiver<bool>,
        mut stop: watch::Receiver<bool>,
    ) {
        let mut heartbeat = tokio::time::interval(HEARTBEAT);
        heartbeat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let services = Arc::clone(&self.planes.services_changed);
        let cert_manager = Arc::clone(&self.cert_manager.changed);
        loop {
            let event = tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => Event::Stop,
                Ok(()) = leading.changed() => Event::Leading,
                Ok(()) = crds.changed() => Event::Crds,
                event = link::next(&mut self.term) => event.map_or(Event::LinkEnded, Event::Link),
                () = services.notified() => Event::Services,
                () = cert_manager.notified() => Event::CertManager,
                news = issue::next(&mut self.certificates) => Event::Certificates(news),
                Some(sighting) = seen.recv() => Event::Sighting(sighting),
                _ = heartbeat.tick() => Event::Heartbeat,
            };
            let is_time = matches!(event, Event::Leading | Event::Heartbeat);
            match event {
                Event::Stop => break,
                Event::Leading => {
                    let leads = *leading.borrow_and_update();
                    self.lead(leads).await;
                }
                Event::Crds => {
                    let found = crds.borrow_and_update().clone();
                    if let Some(found) = found {
                        self.crds_changed(&found);
                    }
                }
                Event::Link(event) => self.heard(event),
                Event::LinkEnded => self.term = None,
                Event::Services => self.dirty.all_gateways = true,
                Event::CertManager => self.dirty.gateways.extend(self.cert_manager.gateways()),
                Event::Certificates(news) => self.certificates_changed(news),
                Event::Sighting(sighting) => {
                    self.take(sighting);
                    self.gather(&mut seen).await;
                }
                Event::Heartbeat => {}
            }
            // The API server may take its time, and who leads no longer must let go at once. Whatever is left undone
            // here is done when its turn comes again.
            let (mut other_lead, mut other_stop) = (leading.clone(), stop.clone());
            tokio::select! {
                biased;
                _ = other_stop.wait_for(|stop| *stop) => {}
                Ok(()) = other_lead.changed() => {}
                () = self.work(is_time) => {}
            }
        }
        self.lead(false).await;
        for (_, watching) in std::mem::take(&mut self.watches) {
            watching.task.abort();
        }
    }

    /// Gives way wherever it waits: nothing may be lost there.
    async fn work(&mut self, is_time: bool) {
        if is_time {
            self.beat().await;
        }
        self.turn().await;
        self.settle_challenges();
    }

    /// Changes seldom come alone.
    async fn gather(&mut self, seen: &mut mpsc::Receiver<Sighting>) {
        let deadline = Instant::now() + GATHERING;
        for _ in 0..MOST_AT_ONCE {
            let left = deadline.saturating_duration_since(Instant::now());
            match seen.try_recv() {
                Ok(sighting) => self.take(sighting),
                Err(_) if left.is_zero() => return,
                Err(_) => match tokio::time::timeout(left, seen.recv()).await {
                    Ok(Some(sighting)) => self.take(sighting),
                    _ => return,
                },
            }
        }
    }

    fn take(&mut self, sighting: Sighting) {
        match sighting {
            Sighting::Object(seen) => self.see(*seen),
            Sighting::Data(key, version, mark) => {
                if key.kind == Kind::Secret {
                    self.certificates.sighted(&key.name, Some(&version));
                }
                self.data.seen(key, version, mark.as_ref());
            }
            Sighting::Gone(key) => {
                if kinds::has_status(key.kind) {
                    self.statuses.observe(&key, None);
                }
                self.unread.remove(&key);
                if key.kind == Kind::Secret {
                    self.certificates.sighted(&key.name, None);
                }
                if matches!(key.kind, Kind::Secret | Kind::ConfigMap) {
                    self.changes.extend(self.data.gone(&key));
                } else {
                    self.changes.push(Change::Remove(key));
                }
            }
            Sighting::Listed(kind) => {
                if let Some(watching) = self.watches.get_mut(&kind) {
                    watching.listed = true;
                }
            }
        }
    }

    fn see(&mut self, seen: Seen) {
        let Seen { key, object, observed } = seen;
        let uid = observed.uid.clone();
        if kinds::has_status(key.kind) {
            self.statuses.observe(&key, Some(observed));
            self.touched.insert(key.clone());
        }
        match object {
            Ok(object) => {
                self.unread.remove(&key);
                if turn::is_of_a_plane(&object) {
                    self.dirty.all_gateways = true;
                }
                self.changes.push(Change::Upsert(object));
            }
            Err(problem) => {
                if self.unread.insert(key.clone(), problem.clone()).as_ref() != Some(&problem) {
                    self.log.warning("refused", format_args!("{key} is left out: {problem}"));
                    if self.leading {
                        self.events.warn_of(&key, &uid, "Invalid", &problem);
                    }
                }
                self.changes.push(Change::Remove(key));
            }
        }
    }

    /// Follows the kinds that there are, in the versions that are served.
    fn crds_changed(&mut self, crds: &Crds) {
        let served = crds.served();
        let gone: Vec<Kind> = self
            .watches
            .iter()
            .filter(|(kind, watching)| served.get(kind) != Some(&watching.version))
            .map(|(kind, _)| *kind)
            .collect();
        for kind in gone {
            if let Some(watching) = self.watches.remove(&kind) {
                watching.task.abort();
            }
            if !served.contains_key(&kind) {
                self.log.warning("kind-gone", format_args!("{kind} is not served any more"));
                self.statuses.serve(kind, None);
                let objects = self.translator.resources().iter().filter(|object| object.kind() == kind);
                self.changes.extend(objects.map(|object| Change::Remove(object.key())));
            }
        }
        let is_first = self.watches.is_empty();
        for (kind, version) in served {
            if !self.watches.contains_key(&kind) {
                self.follow(kind, version);
                if !is_first {
                    self.log.info("kind-served", format_args!("{kind} is followed in version {version}"));
                }
            }
        }
        for kind in crds.missing().filter(|_| is_first) {
            self.log.warning(
                "crd-missing",
                format_args!("there is no CRD {}: {kind} is not served", kinds::crd(kind)),
            );
        }
        for (kind, versions) in crds.unknown() {
            let versions = versions.join(", ");
            self.log.warning(
                "crd-unknown",
                format_args!("{kind} is served in versions that are unknown here: {versions}"),
            );
        }
        let delta = self.translator.crds_changed(crds.channel(), Some(crds.bundle()));
        turn::join(&mut self.pending, delta);
    }

    fn follow(&mut self, kind: Kind, version: &'static str) {
        let (client, told, log) = (self.client.clone(), self.sightings.clone(), self.log.clone());
        let task = if matches!(kind, Kind::Secret | Kind::ConfigMap) {
            tokio::spawn(follow::follow_data(client, kind, told, log))
        } else {
            tokio::spawn(follow::follow(client, kind, version, told, log))
        };
        if kinds::has_status(kind) {
            self.statuses.serve(kind, Some(version));
        }
        self.watches.insert(kind, Watching { version, task, listed: false });
    }

    /// Whether an object is there and none of our business or gone altogether.
    fn exists(&self, gateway: &ObjectName) -> bool {
        self.translator.resources().gateways.contains_key(gateway)
    }

    fn objects(&self) -> impl Iterator<Item = Object> {
        self.translator.resources().iter()
    }
}
