//! Between the link and the data plane of this process.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_http::session::SessionSecret;
use tidegate_link::{Changed, DataPlane, Note};
use tidegate_plan::{DataPlaneSettings, ListenerId, Plan};
use tidegate_proxy::Bounds;
use tokio::sync::watch;

use crate::proxy::live::Live;
use crate::proxy::settings::bounds;
use crate::run::kept;
use crate::run::log::Log;
use crate::run::phase::Phase;
use crate::run::sockets::{State, states};

pub(super) struct Plane {
    live: Arc<Live>,
    log: Log,
    /// As the command line has them.
    bounds: Bounds,
    /// That of the HTTP engine.
    sessions: SessionSecret,
    sockets: watch::Receiver<u64>,
    /// Whether there was a plan yet.
    planned: bool,
}

impl Plane {
    pub(super) fn new(live: Arc<Live>, log: Log, bounds: Bounds, sessions: SessionSecret) -> Self {
        let sockets = live.proxy.changes();
        Self { live, log, bounds, sessions, sockets, planned: false }
    }
}

impl DataPlane for Plane {
    fn apply(&mut self, plan: &Plan, settings: &DataPlaneSettings, changed: &Changed) {
        if changed.settings {
            self.live.proxy.bound(bounds(&self.bounds, &settings.bounds));
            Log::least(settings.log_level.unwrap_or_default());
        }
        // A controller that says nothing of it is an older one: what was shared before is still good.
        if let Some(secret) = settings.secret.as_ref().filter(|_| changed.settings) {
            self.live.proxy.share_tickets(secret.bytes());
            self.sessions.set(secret.bytes());
        }
        self.live.proxy.apply(plan, &changed.fragments, &changed.endpoints);
        self.planned = true;
        let mut link = self.live.link();
        for id in &changed.fragments {
            match plan.fragments.get(id) {
                Some(fragment) => link.fragments.insert(id.clone(), Arc::clone(fragment)),
                None => link.fragments.remove(id),
            };
        }
        for id in &changed.endpoints {
            match plan.endpoints.get(id) {
                Some(endpoints) => link.endpoints.insert(id.clone(), Arc::clone(endpoints)),
                None => link.endpoints.remove(id),
            };
        }
    }

    fn listeners(&mut self, plan: &Plan) -> BTreeMap<ListenerId, Result<(), String>> {
        let sockets = self.live.proxy.sockets();
        let states = states(plan, &sockets);
        // Others take the place of one that ends: what it opens no more is no fault of the Gateway.
        let draining = self.live.progress.phase() == Phase::Draining;
        let all_tried = !states.values().any(|state| *state == State::Waiting);
        let said: BTreeMap<_, _> = states
            .into_iter()
            .map(|(id, state)| {
                let said = match state {
                    State::Tried { failure, .. } => failure.map_or(Ok(()), |failure| Err(failure.why)),
                    State::Waiting if draining => Ok(()),
                    State::Waiting => Err("its socket was not tried yet".to_owned()),
                };
                (id.clone(), said)
            })
            .collect();
        self.tell(&said);
        self.tell_kept();
        self.live.link().listeners.clone_from(&said);
        if self.planned && all_tried && self.live.progress.ready() {
            self.log.info("ready", "a plan is served");
        }
        said
    }

    async fn changed(&mut self) {
        if self.sockets.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    fn note(&mut self, note: &Note) {
        let mut link = self.live.link();
        match note {
            Note::Connected { software } => {
                link.connected = true;
                link.lost = None;
                self.log.info("connected", format_args!("follows a controller: {software}"));
            }
            Note::Applied { version, changed, refused } => {
                link.version = *version;
                link.changes += 1;
                let (fragments, endpoints) = (changed.fragments.len(), changed.endpoints.len());
                let what =
                    format!("version {version}: {fragments} fragments and {endpoints} sets of endpoints");
                self.log.info("applied", what);
                if *refused > link.refused {
                    self.log.warning(
                        "refused",
                        format_args!("{refused} parts of version {version} are not served"),
                    );
                }
                link.refused = *refused;
            }
            Note::Failed { version, why } => {
                link.failures += 1;
                self.log.error("failed", format_args!("nothing of version {version} was taken: {why}"));
            }
            Note::Lost { why, next } => {
                link.breaks += 1;
                let is_news = std::mem::take(&mut link.connected) || link.lost.as_ref() != Some(why);
                link.lost = Some(why.clone());
                // While nothing changes, metrics count the tries.
                if !is_news {
                    return;
                }
                let next =
                    humantime::format_duration(std::time::Duration::from_millis(next.as_millis() as u64));
                let goes_on = if self.planned { "; what there is is served on" } else { "" };
                self.log.warning("lost", format_args!("no controller: {why}{goes_on}; next try in {next}"));
            }
            Note::Renewed => self.log.info("renewed", "a new certificate for the link"),
            Note::NotRenewed(why) => {
                self.log.warning("not-renewed", format_args!("no new certificate: {why}"));
            }
            Note::Restored => self.log.info("restored", "the plan that was kept is served"),
            Note::NotRestored(why) => {
                self.log
                    .warning("not-restored", format_args!("the plan that was kept cannot be used: {why}"));
            }
            Note::NotKept(why) => {
                self.log.warning("not-kept", format_args!("the plan cannot be kept: {why}"));
            }
        }
    }
}

impl Plane {
    fn tell_kept(&self) {
        let now = self.live.proxy.kept();
        let before = std::mem::replace(&mut self.live.link().kept, Arc::clone(&now));
        kept::tell(self.log, &before, &now);
    }

    /// Listeners that are worse off than before, or well again.
    fn tell(&self, now: &BTreeMap<ListenerId, Result<(), String>>) {
        let link = self.live.link();
        for (id, state) in now {
            match (link.listeners.get(id), state) {
                (Some(Err(_)), Ok(())) => self.log.info("well", format_args!("listener {id} is open")),
                (before, Err(why)) if before != Some(state) => {
                    self.log.warning("not-open", format_args!("listener {id}: {why}"));
                }
                _ => {}
            }
        }
    }
}
