//! The link while this replica leads: its CA, its server, what is published over it and what comes back.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use aws_lc_rs::hmac;
use k8s_openapi::api::core::v1::Service;
use kube::api::Api;
use tidegate_link::{Event, Limits, Publisher, Reports, Server};
use tidegate_plan::{Body, DataPlaneSettings, FragmentId, GatewayPlan, ObjectName, Plan};
use tidegate_translate::{Delta, Infrastructure};
use tokio::net::TcpListener;

use super::{Controller, told};
use crate::authority::{self, Keeping, SessionRoot};
use crate::issuing::Shown;
use crate::listen::listen;
use crate::settings::LinkAddress;
use crate::tokens::Reviews;

/// How often the link's Service is looked at.
const LOOK: Duration = Duration::from_secs(30);
/// How often the CA is looked after.
const CARE: Duration = Duration::from_secs(3600);

/// One time of leading.
pub(super) struct Term {
    server: Server,
    publisher: Publisher,
    reports: Reports,
    /// The CAs that data planes trust, in PEM.
    pub(super) authorities: String,
    sessions: SessionRoot,
    cared: Instant,
}

/// What the data planes of a Gateway have been told.
#[derive(Debug)]
pub(super) struct Published {
    pub(super) version: u64,
    /// Since which version Gateway and listeners are as they are.
    pub(super) needed: u64,
    pub(super) plan: Plan,
    settings: DataPlaneSettings,
    /// What CAs are to be shown, each since which version.
    challenges: Vec<(Shown, u64)>,
}

impl Published {
    /// Since which version this is shown.
    pub(super) fn shown_since(&self, shown: &Shown) -> Option<u64> {
        self.challenges.iter().find(|(one, _)| one == shown).map(|(_, since)| *since)
    }
}

impl Term {
    pub(super) fn seal(&self) -> hmac::Key {
        self.sessions.seal()
    }
}

/// The next word of a data plane; waits for ever where there is no link.
pub(super) async fn next(term: &mut Option<Term>) -> Option<Event> {
    match term {
        Some(term) => term.reports.next().await,
        None => std::future::pending().await,
    }
}

impl Controller {
    pub(super) async fn lead(&mut self, leads: bool) {
        if self.leading == leads {
            return;
        }
        self.leading = leads;
        self.metrics.leading.set(u64::from(leads));
        self.statuses.lead(leads);
        self.planes.lead(leads);
        self.cert_manager.lead(leads);
        self.published.clear();
        self.reports.clear();
        self.served.clear();
        self.left_alone.clear();
        self.noted.clear();
        self.leads_since = leads.then(Instant::now);
        self.has_taken_over = false;
        self.dirty.everything = true;
        self.stop_issuing().await;
        if !leads && let Some(term) = self.term.take() {
            term.server.stop().await;
        }
    }

    /// Opens the link; where that does not work, the next heartbeat tries again.
    async fn open_link(&mut self) {
        let Keeping { trust, sessions } = match authority::keep(&self.client, &self.settings).await {
            Ok(kept) => kept,
            Err(error) => return self.log.error("link-failed", error),
        };
        let socket = match bind(self.settings.link_listen) {
            Ok(socket) => socket,
            Err(error) => {
                let address = self.settings.link_listen;
                return self
                    .log
                    .error("link-failed", format_args!("the link cannot listen on {address}: {error}"));
            }
        };
        let authorities = trust.bundle_pem();
        let reviews = Reviews { client: self.client.clone(), accounts: self.accounts.clone() };
        match Server::start(socket, trust, reviews, Limits::default()) {
            Ok((server, publisher, reports)) => {
                self.log
                    .info("link", format_args!("data planes are served on {}", self.settings.link_listen));
                self.term =
                    Some(Term { server, publisher, reports, authorities, sessions, cared: Instant::now() });
                self.published.clear();
                self.dirty.everything = true;
            }
            Err(error) => self.log.error("link-failed", format_args!("the link cannot be served: {error}")),
        }
    }

    /// Once a second: what has to be tried again, or looked after.
    pub(super) async fn beat(&mut self) {
        self.is_fetching_again = false;
        self.tell_unlisted();
        self.metrics.objects.set(self.objects().count() as u64);
        self.metrics.refused_objects.set(self.unread.len() as u64);
        self.metrics.status_waiting.set(self.statuses.waiting() as u64);
        self.metrics.proxies.set(self.reports.values().map(|reports| reports.len() as u64).sum());
        if !self.leading {
            return;
        }
        if self.term.is_none() {
            self.open_link().await;
        }
        self.care_for_authority().await;
        self.find_link().await;
        self.find_nodes().await;
        self.end_takeover();
    }

    async fn care_for_authority(&mut self) {
        let Some(term) = self.term.as_mut().filter(|term| term.cared.elapsed() >= CARE) else { return };
        term.cared = Instant::now();
        let Keeping { trust, sessions } = match authority::keep(&self.client, &self.settings).await {
            Ok(kept) => kept,
            Err(error) => return self.log.error("link-failed", error),
        };
        if term.sessions != sessions {
            term.sessions = sessions;
            self.dirty.everything = true;
        }
        let authorities = trust.bundle_pem();
        if authorities != term.authorities {
            match term.server.trust(trust) {
                Ok(()) => {
                    term.authorities = authorities;
                    self.dirty.all_planes = true;
                }
                Err(error) => self.log.error("link-failed", error),
            }
        }
    }

    /// Where data planes find this controller.
    async fn find_link(&mut self) {
        let name = match &self.settings.link {
            LinkAddress::Address(address) => {
                if self.link_address.replace(*address).is_none() {
                    self.dirty.all_planes = true;
                }
                return;
            }
            LinkAddress::Service(_) if self.link_address.is_some() && self.link_looked.elapsed() < LOOK => {
                return;
            }
            LinkAddress::Service(name) => name,
        };
        let api: Api<Service> = Api::namespaced(self.client.clone(), &self.settings.namespace);
        self.link_looked = Instant::now();
        match api.get_opt(name).await {
            Ok(service) => {
                let found = service.as_ref().and_then(address);
                if found.is_some() {
                    self.dirty.all_planes |= self.link_address != found;
                    self.link_address = found;
                } else {
                    self.log.error(
                        "link-failed",
                        format_args!(
                            "Service {name} has no cluster IP with a port: data planes cannot be made"
                        ),
                    );
                }
            }
            Err(error) => {
                self.log.error("link-failed", format_args!("Service {name} cannot be read: {error}"));
            }
        }
    }

    /// Tells data planes what has changed for them; names the Gateways that there is something new for.
    pub(super) fn publish(&mut self, delta: &Delta, everything: bool) -> BTreeSet<ObjectName> {
        let translation = self.translator.translation();
        let mut affected = BTreeSet::new();
        let mut only_endpoints = BTreeSet::new();
        for (gateway, published) in &self.published {
            let plan = &published.plan;
            if delta.fragments.iter().any(|id| plan.fragments.contains_key(id)) {
                affected.insert(gateway.clone());
            } else if delta.endpoints.iter().any(|id| plan.endpoints.contains_key(id)) {
                only_endpoints.insert(gateway.clone());
            }
        }
        for id in &delta.fragments {
            let Some(fragment) = translation.plan.fragments.get(id) else { continue };
            match (&fragment.body, id) {
                (Body::Route(route), _) => {
                    affected.extend(route.listeners.iter().map(|listener| listener.gateway.clone()));
                }
                (_, FragmentId::Listener(listener)) => _ = affected.insert(listener.gateway.clone()),
                (_, FragmentId::Gateway(gateway)) => _ = affected.insert(gateway.clone()),
                _ => {}
            }
        }
        let gateways = translation.infrastructure.keys();
        let news: Vec<ObjectName> = gateways
            .filter(|gateway| {
                everything
                    || affected.contains(*gateway)
                    || !self.published.contains_key(*gateway)
                    || self.settings_changed(gateway)
                    || self.challenges_changed(gateway)
            })
            .cloned()
            .collect();
        let gone: Vec<ObjectName> = self
            .published
            .keys()
            .filter(|gateway| !translation.infrastructure.contains_key(*gateway))
            .cloned()
            .collect();
        let mut republished = BTreeSet::new();
        for gateway in news {
            let plan = self.translator.translation().plan.of_gateway(&gateway);
            if self.tell(&gateway, plan) {
                republished.insert(gateway);
            }
        }
        for gateway in only_endpoints.difference(&republished) {
            self.tell_endpoints(gateway, delta);
        }
        for gateway in gone {
            self.published.remove(&gateway);
            self.reports.remove(&gateway);
            if let Some(term) = &self.term {
                term.publisher.forget(&gateway);
            }
            republished.insert(gateway);
        }
        republished
    }

    fn settings_changed(&self, gateway: &ObjectName) -> bool {
        let asked = self.translator.translation().infrastructure.get(gateway);
        let published = self.published.get(gateway);
        asked
            .zip(published)
            .is_some_and(|(asked, published)| published.settings != self.plane_settings(gateway, asked))
    }

    fn challenges_changed(&self, gateway: &ObjectName) -> bool {
        let shown = self.certificates.challenges_of(gateway);
        let published = self.published.get(gateway);
        published.is_some_and(|published| !published.challenges.iter().map(|(one, _)| one).eq(&shown))
    }

    fn plane_settings(&self, gateway: &ObjectName, asked: &Infrastructure) -> DataPlaneSettings {
        let sessions = self.term.as_ref().map(|term| &term.sessions);
        told::settings(asked, sessions.and_then(|sessions| sessions.of_gateway(gateway, &asked.uid)))
    }

    /// Publishes a plan where it differs from the last one.
    fn tell(&mut self, gateway: &ObjectName, mut plan: Plan) -> bool {
        let shown = self.certificates.challenges_of(gateway);
        shown.iter().for_each(|one| one.put_into(&mut plan));
        let asked = self.translator.translation().infrastructure.get(gateway);
        let settings = asked.map(|asked| self.plane_settings(gateway, asked)).unwrap_or_default();
        let before = self.published.get(gateway);
        if before.is_some_and(|before| before.plan == plan && before.settings == settings) {
            return false;
        }
        let version = before.map_or(0, |before| before.version) + 1;
        let same_listeners = before.is_some_and(|before| listening(&before.plan).eq(listening(&plan)));
        let needed = before.filter(|_| same_listeners).map_or(version, |before| before.needed);
        let since = |one: &Shown| before.and_then(|before| before.shown_since(one)).unwrap_or(version);
        let challenges = shown.into_iter().map(|one| (one.clone(), since(&one))).collect();
        self.put(gateway, Published { version, needed, plan, settings, challenges });
        true
    }

    /// Endpoints alone have changed: the rest is as it was, and nobody has to look at routes.
    fn tell_endpoints(&mut self, gateway: &ObjectName, delta: &Delta) {
        let Some(before) = self.published.get(gateway) else { return };
        let mut plan = before.plan.clone();
        let now = &self.translator.translation().plan.endpoints;
        for id in delta.endpoints.iter().filter(|id| before.plan.endpoints.contains_key(*id)) {
            match now.get(id) {
                Some(endpoints) => _ = plan.endpoints.insert(id.clone(), endpoints.clone()),
                None => _ = plan.endpoints.remove(id),
            }
        }
        let (version, needed, settings) = (before.version + 1, before.needed, before.settings.clone());
        let challenges = before.challenges.clone();
        self.put(gateway, Published { version, needed, plan, settings, challenges });
    }

    fn put(&mut self, gateway: &ObjectName, published: Published) {
        if let Some(term) = &self.term {
            self.metrics.publishes.inc();
            term.publisher.publish(GatewayPlan {
                gateway: gateway.clone(),
                version: published.version,
                plan: published.plan.clone(),
                settings: published.settings.clone(),
            });
        }
        self.published.insert(gateway.clone(), published);
    }

    /// Takes what a data plane says.
    pub(super) fn heard(&mut self, event: Event) {
        match event {
            Event::Report(report) => {
                let before = self.reports.get(&report.gateway).and_then(|reports| reports.get(&report.proxy));
                if before.is_none() {
                    self.log.info(
                        "proxy",
                        format_args!("data plane {} of Gateway {} is here", report.proxy, report.gateway),
                    );
                }
                for (part, why) in &report.refused {
                    if before.is_none_or(|before| before.refused.get(part) != Some(why)) {
                        let message = format!("data plane {} does not serve {part}: {why}", report.proxy);
                        self.log.warning("refused", &message);
                        self.events.warn_gateway(&report.gateway, "NotServed", &message);
                    }
                }
                if let Some(why) = report
                    .failed
                    .as_ref()
                    .filter(|why| before.is_none_or(|before| before.failed.as_ref() != Some(why)))
                {
                    self.log.error(
                        "refused",
                        format_args!("data plane {} of Gateway {}: {why}", report.proxy, report.gateway),
                    );
                }
                self.dirty.gateways.insert(report.gateway.clone());
                self.reports.entry(report.gateway.clone()).or_default().insert(report.proxy.clone(), report);
            }
            Event::Silent { proxy, version, time } => self.log.warning(
                "silent",
                format_args!(
                    "data plane {} of Gateway {} has not answered to version {version} for {time:?}",
                    proxy.pod, proxy.gateway
                ),
            ),
            Event::Gone(proxy) => {
                self.log.info(
                    "proxy",
                    format_args!("data plane {} of Gateway {} is gone", proxy.pod, proxy.gateway),
                );
                if let Some(reports) = self.reports.get_mut(&proxy.gateway) {
                    reports.remove(&proxy.pod);
                }
                self.dirty.gateways.insert(proxy.gateway);
            }
        }
    }
}

fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = listen(address)?;
    socket.set_nonblocking(true)?;
    TcpListener::from_std(socket)
}

fn address(service: &Service) -> Option<SocketAddr> {
    let spec = service.spec.as_ref()?;
    let ip = spec.cluster_ip.as_ref()?.parse().ok()?;
    let port = spec.ports.as_ref()?.first()?.port;
    Some(SocketAddr::new(ip, u16::try_from(port).ok()?))
}

/// What a Gateway listens with; a data plane has to have taken it up before the Gateway is served.
fn listening(plan: &Plan) -> impl Iterator<Item = (&FragmentId, &str)> {
    plan.fragments
        .iter()
        .filter(|(id, _)| matches!(id, FragmentId::Gateway(_) | FragmentId::Listener(_)))
        .map(|(id, fragment)| (id, fragment.hash.as_str()))
}
