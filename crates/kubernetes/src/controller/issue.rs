//! Certificates in the controller's turns: what listeners want goes out, what there is comes back by the watch, and what
//! CAs are to be shown goes to data planes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use tidegate_api::refs::GATEWAY_GROUP;
use tidegate_api::status::Status;
use tidegate_api::{Kind, Object, ObjectKey};
use tidegate_certs::{Demand, Picture};
use tidegate_issuing::{Issuing as View, StandIns, demand, issuer, owner};
use tidegate_plan::{Hostname, ObjectName};
use tidegate_translate::{Change, Delta, Issuer, Source, Wants};

use super::Controller;
use crate::issuing::{Doors, Issuing, Owners, Shown, news, now};

/// News of certificates are looked at this often: where there are many, each is a walk over all of them.
const REST: Duration = Duration::from_millis(200);

/// What a controller has of certificates while it leads.
#[derive(Default)]
pub(super) struct Certificates {
    issuing: Option<Issuing>,
    /// What there is; `None` before anybody has looked.
    pub(super) picture: Option<Arc<Picture>>,
    /// Of which state of foreign Secrets the demand is.
    foreign: Option<u64>,
    rest: Option<Instant>,
    stand_ins: StandIns,
    /// Those that translation has, beside what the cluster has.
    provided: BTreeMap<ObjectKey, Object>,
}

pub(super) enum News {
    Picture(Arc<Picture>),
    /// Something is to be shown to a CA, or no longer.
    Challenges,
}

/// Waits for news of certificates; for ever, where nobody makes any.
pub(super) async fn next(certificates: &mut Certificates) -> News {
    let Certificates { issuing: Some(issuing), rest, .. } = certificates else {
        return std::future::pending().await;
    };
    let challenges = Arc::clone(&issuing.challenges);
    let picture = async {
        if let Some(rest) = *rest {
            tokio::time::sleep_until(rest.into()).await;
        }
        let picture = issuing.changed().await;
        *rest = Some(Instant::now() + REST);
        picture
    };
    tokio::select! {
        picture = picture => News::Picture(picture),
        () = challenges.news.notified() => News::Challenges,
    }
}

impl Certificates {
    /// The watch tells of a Secret; `None`: that it is gone.
    pub(super) fn sighted(&self, name: &ObjectName, version: Option<&str>) {
        if let Some(issuing) = &self.issuing {
            issuing.sighted(name, version);
        }
    }

    /// What the data planes of a Gateway shall show to CAs.
    pub(super) fn challenges_of(&self, gateway: &ObjectName) -> Vec<Shown> {
        self.issuing.as_ref().map(|issuing| issuing.challenges.of(gateway)).unwrap_or_default()
    }
}

impl Controller {
    /// Says what is wanted, where that may have changed; begins with it where nobody makes anything yet.
    pub(super) fn issue(&mut self, delta: &Delta, republished: bool, everything: bool) {
        let Some(settings) = &self.settings.issuing else { return };
        let foreign = self.data.foreign_changes();
        let is_new = self.certificates.issuing.is_none() || self.certificates.foreign != Some(foreign);
        let is_new = is_new || everything || !delta.wants.is_empty();
        if is_new {
            let (demand, owners) = self.demand();
            match (&self.certificates.issuing, &self.term) {
                (Some(issuing), _) => issuing.want(demand, owners),
                (None, Some(term)) => {
                    let issuing = Issuing::start(
                        self.client.clone(),
                        &self.settings,
                        settings,
                        term.seal(),
                        Arc::new(demand),
                        Arc::new(owners),
                        self.log.clone(),
                    );
                    self.certificates.issuing = Some(issuing);
                }
                // The link is opened first; it is tried again.
                (None, None) => return,
            }
            self.certificates.foreign = Some(foreign);
        }
        if let Some(issuing) = self.certificates.issuing.as_ref().filter(|_| is_new || republished) {
            let (names, doors) = self.doors();
            issuing.challenges.know(names, doors);
        }
    }

    pub(super) fn certificates_changed(&mut self, news: News) {
        match news {
            News::Picture(picture) => {
                if let Some(before) = &self.certificates.picture {
                    self.tell_news(before, &picture);
                }
                *self.metrics.certificates.lock().unwrap_or_else(PoisonError::into_inner) =
                    Some(Arc::clone(&picture));
                self.provide_stand_ins(&picture);
                self.certificates.picture = Some(picture);
                self.dirty.all_gateways = true;
            }
            News::Challenges => self.dirty.challenges = true,
        }
    }

    fn tell_news(&self, before: &Picture, now: &Picture) {
        for word in news(before, now) {
            let infrastructure = &self.translator.translation().infrastructure;
            let uid = infrastructure.get(&word.gateway).map_or("", |found| &found.uid);
            let key = ObjectKey { kind: Kind::Gateway, name: word.gateway.clone() };
            if word.failed {
                self.log.warning("certificate", format_args!("Gateway {}: {}", word.gateway, word.note));
                self.events.warn_of(&key, uid, "CertificateFailed", &word.note);
            } else {
                self.log.info("certificate", format_args!("Gateway {}: {}", word.gateway, word.note));
                self.events.tell_gateway(&word.gateway, uid, "CertificateIssued", &word.note);
            }
        }
    }

    /// What is shown until there are certificates is known to data planes alone: nobody finds it in the cluster.
    fn provide_stand_ins(&mut self, picture: &Picture) {
        let Some(settings) = &self.settings.issuing else { return };
        let wants = &self.translator.translation().wants;
        let Certificates { stand_ins, provided, .. } = &mut self.certificates;
        let now = stand_ins
            .renew(picture, wants, settings.stand_in, now())
            .map(|object| (object.key(), object.clone()));
        // A Secret that somebody has under this name stays what it is.
        let now: BTreeMap<ObjectKey, Object> = now.filter(|(key, _)| !self.data.is_there(key)).collect();
        let gone = provided.keys().filter(|key| !now.contains_key(*key));
        self.changes.extend(gone.map(|key| Change::Remove(key.clone())));
        let same =
            |key: &ObjectKey, object: &Object| provided.get(key).is_some_and(|known| same(known, object));
        let new = now.iter().filter(|(key, object)| !same(key, object));
        self.changes.extend(new.map(|(_, object)| Change::Upsert(object.clone())));
        *provided = now;
    }

    /// Ends with the time of leading.
    pub(super) async fn stop_issuing(&mut self) {
        let before = std::mem::take(&mut self.certificates);
        *self.metrics.certificates.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.changes.extend(before.provided.into_keys().map(Change::Remove));
        if let Some(issuing) = before.issuing {
            issuing.stop().await;
        }
    }

    /// Puts into a status what is known of its listeners' certificates.
    pub(super) fn tell_certificates(&self, status: &mut Status, key: &ObjectKey) {
        let waiting = Arc::<Picture>::default();
        let picture = self.certificates.picture.as_ref().unwrap_or(&waiting);
        let issuing = View {
            wants: &self.translator.translation().wants,
            picture: self.settings.issuing.as_ref().map(|_| &**picture),
            foreign: self.data.foreign(),
            source: Source::Cluster,
        };
        issuing.add(status, key);
    }

    /// Whether it is not known yet what a Gateway has of certificates, and what was said of it before still holds.
    pub(super) fn awaits_certificates(&self, gateway: &ObjectName) -> bool {
        let mut wants = self.translator.translation().wants_of(gateway);
        self.settings.issuing.is_some()
            && self.certificates.picture.is_none()
            && !self.has_taken_over
            && wants.any(|wants| issuer(wants).is_some())
    }

    fn demand(&self) -> (Demand, Owners) {
        let wants = &self.translator.translation().wants;
        let namespaces: BTreeSet<&Arc<str>> =
            wants.values().filter_map(|wants| Some(&wants.secret.as_ref()?.namespace)).collect();
        let mut foreign = BTreeSet::new();
        for namespace in namespaces {
            let first = ObjectName::new(Arc::clone(namespace), "");
            let all = self.data.foreign().range(first..).take_while(|name| name.namespace == *namespace);
            foreign.extend(all.cloned());
        }
        let mut owners = Owners::new();
        for wants in wants.values().filter(|wants| issuer(wants).is_some()) {
            if let Some((secret, owner)) = wants.secret.as_ref().zip(self.reference(wants)) {
                let all = owners.entry(secret.clone()).or_default();
                if !all.contains(&owner) {
                    all.push(owner);
                }
            }
        }
        (demand(wants.values(), foreign, Source::Cluster), owners)
    }

    /// The Gateway or ListenerSet that a listener is written in, as an owner.
    fn reference(&self, wants: &Wants) -> Option<OwnerReference> {
        let (name, resources) = (owner(wants), self.translator.resources());
        let (kind, meta) = match &wants.listener.listener_set {
            None => ("Gateway", &resources.gateways.get(name)?.meta),
            Some(_) => ("ListenerSet", &resources.listener_sets.get(name)?.meta),
        };
        Some(OwnerReference {
            api_version: format!("{GATEWAY_GROUP}/v1"),
            kind: kind.to_owned(),
            name: name.name.to_string(),
            uid: meta.uid.clone(),
            ..OwnerReference::default()
        })
    }

    /// Which Gateways a CA may be led to by a name, and what it finds there.
    fn doors(&self) -> (BTreeMap<Hostname, BTreeSet<ObjectName>>, BTreeMap<ObjectName, Doors>) {
        let (mut names, mut doors): (BTreeMap<_, BTreeSet<_>>, BTreeMap<_, _>) = Default::default();
        for wants in self.translator.translation().wants.values() {
            if !matches!(wants.issuer, Issuer::Acme { .. }) {
                continue;
            }
            let gateway = &wants.listener.gateway;
            for wanted in &wants.names {
                names.entry(wanted.name.clone()).or_default().insert(gateway.clone());
            }
            if let Some(published) = self.published.get(gateway) {
                doors.entry(gateway.clone()).or_insert_with(|| Doors::of(&published.plan));
            }
        }
        (names, doors)
    }

    /// Lets orders go on whose names are shown by all data planes of their Gateways.
    pub(super) fn settle_challenges(&self) {
        let Some(issuing) = &self.certificates.issuing else { return };
        if issuing.challenges.is_anybody_waiting() {
            issuing.challenges.settle(|gateway, shown| self.shows(gateway, shown));
        }
    }

    fn shows(&self, gateway: &ObjectName, shown: &Shown) -> Result<(), String> {
        let id = shown.id();
        let published = self.published.get(gateway);
        let Some(since) = published.and_then(|published| published.shown_since(shown)) else {
            return Err(format!("the challenge is not published yet for Gateway {gateway}"));
        };
        let reports = self.reports.get(gateway);
        let ready = self.reached(gateway).1.count();
        let here = reports.map_or(0, BTreeMap::len);
        if here == 0 || here < ready {
            return Err(format!(
                "{here} data planes of Gateway {gateway} follow this controller, and {} are to answer the challenge",
                ready.max(1)
            ));
        }
        for report in reports.into_iter().flat_map(BTreeMap::values) {
            if let Some(why) = report.refused.get(&id) {
                return Err(format!("data plane {} cannot answer the challenge: {why}", report.proxy));
            }
            if report.version < since {
                return Err(format!("data plane {} has not taken up the challenge yet", report.proxy));
            }
        }
        Ok(())
    }
}

/// Secrets are shared, not copied.
fn same(one: &Object, other: &Object) -> bool {
    matches!((one, other), (Object::Secret(one), Object::Secret(other)) if Arc::ptr_eq(one, other))
}
