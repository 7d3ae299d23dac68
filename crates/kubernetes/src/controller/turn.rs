//! One turn: what has changed is translated, told to data planes, and written to statuses.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use tidegate_api::core::EndpointEntry;
use tidegate_api::status::Status;
use tidegate_api::{Kind, Object, ObjectKey};
use tidegate_plan::{ObjectName, Transport};
use tidegate_translate::{Change, Delta};

use super::{Controller, Dirty};
use crate::kinds;
use crate::planes::{
    Addresses, Claim, MAX_ADDRESSES, Plane, Reached, Wanted, Way, addresses, allot, exposures, plane_name,
    ranges,
};
use crate::programmed::{Ready, Serving};
use crate::status::has_entries_of;

/// How often what was fetched may ask for more before others get their turn.
const ROUNDS: usize = 4;

/// The label that a Service of ours hands on to its EndpointSlices.
const ROLE_LABEL: &str = "gateway.tidegate.io/role";

/// Whether an object says something about data planes that run.
pub(super) fn is_of_a_plane(object: &Object) -> bool {
    matches!(object, Object::EndpointSlice(slice) if slice.meta.labels.contains_key(ROLE_LABEL))
}

pub(super) fn join(all: &mut Delta, more: Delta) {
    all.fragments.extend(more.fragments);
    all.endpoints.extend(more.endpoints);
    all.statuses.extend(more.statuses);
    all.wants.extend(more.wants);
    all.infrastructure.extend(more.infrastructure);
}

impl Controller {
    pub(super) async fn turn(&mut self) {
        if !self.is_synced() && !self.sync() {
            return;
        }
        let start = Instant::now();
        let changed = !self.changes.is_empty() || !self.pending.is_empty();
        self.translate().await;
        let delta = std::mem::take(&mut self.pending);
        self.tell_notes();
        if !delta.infrastructure.is_empty() || self.dirty.everything {
            self.allot_addresses();
        }
        let mut dirty = std::mem::take(&mut self.dirty);
        let mut touched = std::mem::take(&mut self.touched);
        let is_idle = delta.is_empty() && touched.is_empty() && !dirty.is_any();
        if is_idle && !changed {
            return;
        }
        if self.leading {
            let republished = self.publish(&delta, dirty.everything);
            let is_news = !republished.is_empty() || !delta.infrastructure.is_empty();
            let is_gateway = |key: &ObjectKey| key.kind == Kind::Gateway;
            if dirty.all_planes || dirty.everything || is_news || delta.statuses.iter().any(is_gateway) {
                self.want_planes();
            }
            if changed || dirty.everything {
                dirty.gateways.extend(self.ask_cert_manager());
            }
            self.issue(&delta, !republished.is_empty(), dirty.everything);
            self.programme(&delta, &dirty, &republished, &mut touched);
            if dirty.everything {
                touched.extend(self.translator.translation().statuses.keys().cloned());
                touched.extend(self.statuses.all_observed());
            }
            for key in touched.into_iter().chain(delta.statuses) {
                self.write_status(key);
            }
        }
        if changed {
            self.metrics.turns.inc();
            let took = u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX);
            self.metrics.turn_microseconds.set(self.metrics.turn_microseconds.get() + took);
        }
    }

    /// Translates what has changed, and brings the Secrets and ConfigMaps here that are asked for.
    /// What comes of it is added to what is pending, so that it is not lost where fetching gives way.
    async fn translate(&mut self) {
        let delta = self.translator.apply(std::mem::take(&mut self.changes));
        join(&mut self.pending, delta);
        for _ in 0..ROUNDS {
            let missing = self.data.missing(self.translator.data_asked_for());
            if missing.is_empty() || self.is_fetching_again {
                break;
            }
            let fetched = self.data.fetch(&self.client, missing, &self.log).await;
            let mut changes = fetched.gone;
            for seen in fetched.objects {
                match seen.object {
                    Ok(object) => {
                        self.unread.remove(&seen.key);
                        changes.push(Change::Upsert(object));
                    }
                    Err(problem) => {
                        self.log.warning("refused", format_args!("{} is left out: {problem}", seen.key));
                        self.unread.insert(seen.key.clone(), problem);
                        changes.push(Change::Remove(seen.key));
                    }
                }
            }
            let delta = self.translator.apply(changes);
            join(&mut self.pending, delta);
            // The heartbeat tries again what could not be had.
            self.is_fetching_again = fetched.failed;
        }
        let unasked = self.data.drop_unasked(self.translator.data_asked_for());
        if !unasked.is_empty() {
            let delta = self.translator.apply(unasked);
            join(&mut self.pending, delta);
        }
    }

    /// What has no place in a status is in the log, and an Event where this replica leads. Once: a new leader says all of
    /// it again, since it cannot know what the one before came to say.
    fn tell_notes(&mut self) {
        let notes = &self.translator.translation().notes;
        self.noted.retain(|key, noted| {
            let now = notes.get(key).into_iter().flatten();
            noted.retain(|message| now.clone().any(|note| note.message == *message));
            !noted.is_empty()
        });
        for (key, notes) in notes {
            for note in notes {
                if self.noted.get(key).is_some_and(|noted| noted.contains(&note.message)) {
                    continue;
                }
                self.noted.entry(key.clone()).or_default().insert(note.message.clone());
                self.log.warning("note", format_args!("{key}: {}", note.message));
                if self.leading {
                    self.events.warn(key, "Note", &note.message);
                }
            }
        }
    }

    /// What there shall be for each Gateway.
    pub(super) fn want_planes(&mut self) {
        let translation = self.translator.translation();
        let mut accounts = BTreeMap::new();
        let mut ours = BTreeSet::new();
        let mut gateways: Vec<&ObjectName> = translation.gateways().collect();
        let there = &self.translator.resources().gateways;
        gateways.sort_by_key(|gateway| (there.get(*gateway).map(|there| there.meta.created), *gateway));
        for gateway in gateways {
            ours.insert(gateway.clone());
            let account = ObjectName::new(gateway.namespace.clone(), plane_name(&gateway.name));
            // Whose token it is decides about keys: it is one Gateway's, the older one's.
            let first = accounts.entry(account.clone()).or_insert_with(|| gateway.clone());
            if first != gateway {
                let why = format!("Gateway {first} has the name {} for its data planes", account.name);
                self.planes.want(gateway.clone(), Wanted::Impossible(why));
                continue;
            }
            let asked = translation.infrastructure.get(gateway);
            let published = self.published.get(gateway);
            let wanted = match (asked, published, self.link_address, &self.term) {
                (Some(asked), Some(published), Some(link), Some(term)) => {
                    let ports: BTreeSet<(u16, Transport)> = published
                        .plan
                        .listeners()
                        .map(|listener| (listener.port, listener.handling.transport()))
                        .collect();
                    let plane = Plane {
                        gateway,
                        asked,
                        ports: &ports,
                        settings: &self.settings,
                        link,
                        authorities: &term.authorities,
                    };
                    Wanted::Objects(plane.objects())
                }
                _ => Wanted::AsItIs,
            };
            self.planes.want(gateway.clone(), wanted);
        }
        for gateway in self.planes.owners().into_iter().filter(|owner| !ours.contains(owner)) {
            if self.exists(&gateway) {
                self.planes.want(gateway, Wanted::Nothing);
            } else {
                self.planes.forget(&gateway);
            }
        }
        self.metrics.gateways.set(ours.len() as u64);
        self.accounts.set(accounts);
    }

    /// Brings the statuses of Gateways and their ListenerSets in line with what data planes and Services say.
    fn programme(
        &mut self,
        delta: &Delta,
        dirty: &Dirty,
        republished: &BTreeSet<ObjectName>,
        touched: &mut BTreeSet<ObjectKey>,
    ) {
        let translation = self.translator.translation();
        let owned = |key: &ObjectKey| matches!(key.kind, Kind::Gateway | Kind::ListenerSet);
        let mut gateways: BTreeSet<ObjectName> = dirty.gateways.union(republished).cloned().collect();
        gateways.extend(delta.infrastructure.iter().cloned());
        gateways.extend(delta.wants.iter().map(|listener| listener.gateway.clone()));
        if dirty.all_gateways
            || dirty.everything
            || delta.statuses.iter().any(|key| key.kind == Kind::ListenerSet)
        {
            gateways.extend(translation.gateways().cloned());
        }
        gateways.extend(
            delta.statuses.iter().filter(|key| key.kind == Kind::Gateway).map(|key| key.name.clone()),
        );
        for key in delta.statuses.iter().filter(|key| owned(key) && !translation.statuses.contains_key(*key))
        {
            self.served.remove(key);
        }
        for gateway in gateways {
            if self.leave_alone(&gateway) {
                continue;
            }
            for (key, status) in self.programmed(&gateway) {
                if self.served.get(&key) != Some(&status) {
                    self.served.insert(key.clone(), status);
                    touched.insert(key);
                }
            }
        }
    }

    fn programmed(&self, gateway: &ObjectName) -> Vec<(ObjectKey, Arc<Status>)> {
        let translation = self.translator.translation();
        let key = ObjectKey { kind: Kind::Gateway, name: gateway.clone() };
        let Some(Status::Gateway(status)) = translation.statuses.get(&key).map(|status| &**status) else {
            return Vec::new();
        };
        let nobody = BTreeMap::new();
        let (found, ready, asked) = self.reached(gateway);
        let failure = self.planes.failure(gateway);
        let serving = Serving {
            gateway,
            reports: self.reports.get(gateway).unwrap_or(&nobody),
            needed: self.published.get(gateway).map_or(u64::MAX, |published| published.needed),
            ready: &ready,
            failure: failure.as_deref(),
            addresses: &found,
            asked_addresses: asked,
        };
        let before = |key: &ObjectKey| self.served.get(key).map(|status| &**status);
        let finished = |key: &ObjectKey, mut status: Status| {
            self.tell_certificates(&mut status, key);
            self.tell_cert_manager(&mut status, key, gateway);
            Arc::new(status)
        };
        let own = finished(&key, Status::Gateway(serving.gateway(status, before(&key))));
        let mut all = vec![(key, own)];
        let sets = self.translator.resources().listener_sets_of(gateway);
        for set in sets {
            let key = ObjectKey { kind: Kind::ListenerSet, name: set.meta.object_name() };
            if let Some(Status::ListenerSet(status)) = translation.statuses.get(&key).map(|status| &**status)
            {
                let status = Status::ListenerSet(serving.set(&key.name, status, before(&key)));
                all.push((key.clone(), finished(&key, status)));
            }
        }
        all
    }

    /// The addresses of a Gateway, which of its Pods are ready, and how many addresses it asks for.
    pub(super) fn reached(&self, gateway: &ObjectName) -> (Addresses, Ready, usize) {
        let Some(asked) = self.translator.translation().infrastructure.get(gateway) else {
            return Default::default();
        };
        let exposures = exposures(gateway, asked);
        let named = |service: &str| ObjectName::new(gateway.namespace.clone(), service);
        let services: Vec<_> = exposures
            .iter()
            .filter_map(|exposure| {
                Some((exposure.service.as_str(), self.planes.service(gateway, &named(&exposure.service))?))
            })
            .collect();
        let services = services.iter().map(|(name, service)| (*name, &**service)).collect();
        let endpoints: Vec<&EndpointEntry> =
            exposures.iter().flat_map(|exposure| self.ready(&named(&exposure.service))).collect();
        let pods: BTreeSet<IpAddr> = endpoints.iter().flat_map(|endpoint| endpoint.ip_addresses()).collect();
        let nodes: BTreeSet<&str> =
            endpoints.iter().filter_map(|endpoint| endpoint.node_name.as_deref()).collect();
        let nodes: Vec<IpAddr> = nodes.iter().flat_map(|node| self.nodes.addresses(node)).copied().collect();
        let pool = self.pool.get(gateway).map(Vec::as_slice);
        let reached = Reached { services: &services, pods: &pods, nodes: &nodes, pool };
        (addresses(&exposures, asked, &reached), Ready::of(endpoints), asked.addresses.len())
    }

    /// The ready ones.
    fn ready(&self, service: &ObjectName) -> Vec<&EndpointEntry> {
        let slices = self.translator.resources().endpoint_slices_of(service);
        let endpoints = slices.flat_map(|slice| &slice.spec.endpoints);
        let ready = endpoints.filter(|endpoint| {
            let ready = endpoint.conditions.as_ref().and_then(|conditions| conditions.ready);
            ready.unwrap_or(true)
        });
        ready.collect()
    }

    /// Gives addresses out of pools to those Gateways that have one, the older first.
    fn allot_addresses(&mut self) {
        let mut claims = Vec::new();
        for (gateway, asked) in &self.translator.translation().infrastructure {
            let Some(ranges) = ranges(asked) else { continue };
            let asked = asked.addresses.iter().filter_map(|asked| asked.ip).collect();
            let had = match self.pool.get(gateway) {
                Some(had) => had.clone(),
                None => self.addresses_in_status(gateway),
            };
            claims.push(Claim { gateway: gateway.clone(), ranges, asked, had });
        }
        let gateways = &self.translator.resources().gateways;
        claims.sort_by_key(|claim| gateways.get(&claim.gateway).map(|gateway| gateway.meta.created));
        let pool = allot(&claims);
        if self.pool != pool {
            self.dirty.all_gateways = true;
            self.pool = pool;
        }
    }

    /// What the leader before has given: nothing else remembers it.
    fn addresses_in_status(&self, gateway: &ObjectName) -> Vec<IpAddr> {
        let key = ObjectKey { kind: Kind::Gateway, name: gateway.clone() };
        let Some(status) = self.statuses.observed(&key) else { return Vec::new() };
        let addresses = status["addresses"].as_array().into_iter().flatten();
        addresses.filter_map(|address| address["value"].as_str()?.parse().ok()).collect()
    }

    /// Looks up the nodes that Gateways on node ports are reached at.
    pub(super) async fn find_nodes(&mut self) {
        let mut wanted = BTreeSet::new();
        for (gateway, asked) in &self.translator.translation().infrastructure {
            let exposures = exposures(gateway, asked);
            for exposure in exposures.iter().filter(|exposure| exposure.way == Way::NodePort) {
                let service = ObjectName::new(gateway.namespace.clone(), exposure.service.as_str());
                let ready = self.ready(&service);
                let nodes: BTreeSet<String> =
                    ready.iter().filter_map(|endpoint| endpoint.node_name.clone()).collect();
                wanted.extend(nodes.into_iter().take(MAX_ADDRESSES));
            }
        }
        self.dirty.all_gateways |= self.nodes.look(&self.client, wanted, &self.log).await;
    }

    fn write_status(&self, key: ObjectKey) {
        if !kinds::has_status(key.kind) || self.left_alone.contains(&key) {
            return;
        }
        let translated = self.translator.translation().statuses.get(&key);
        let desired = translated.map(|status| self.served.get(&key).unwrap_or(status));
        match desired {
            Some(status) => self.statuses.write(key, Some(Arc::clone(status))),
            None => {
                let observed = self.statuses.observed(&key);
                if observed.is_some_and(|status| has_entries_of(&status, &self.settings.controller_name)) {
                    self.statuses.write(key, None);
                }
            }
        }
    }
}

impl Dirty {
    fn is_any(&self) -> bool {
        !self.gateways.is_empty()
            || self.all_gateways
            || self.all_planes
            || self.challenges
            || self.everything
    }
}
