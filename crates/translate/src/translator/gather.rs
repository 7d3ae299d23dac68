//! What is gathered from many parts: routes per listener, users of backends, ancestors of policies, wants.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tidegate_api::status::Status;
use tidegate_api::{Kind, ObjectKey};
use tidegate_plan::{
    Addresses, BackendId, BackendKind, BlobId, EndpointsId, ListenerId, ObjectName, RouteId, Transport,
};

use super::dependents::Part;
use super::{Translator, Work};
use crate::backend::BackendOutput;
use crate::gateway::{self, GatewayView};
use crate::lookup::Dependency;
use crate::route::{Common, RouteOutput};
use crate::settings::Source;
use crate::translation::Delta;
use crate::wants::{self, RouteNames};

#[derive(Debug, Default)]
pub(super) struct Gathered {
    routes: BTreeMap<ListenerId, BTreeSet<RouteId>>,
    /// For each backend, the Gateways whose listeners or routes lead to it, and how often. `None` stands for
    /// users that do not count as ancestors of its policies.
    users: BTreeMap<BackendId, BTreeMap<Option<ObjectName>, usize>>,
    endpoints: BTreeMap<EndpointsId, usize>,
    blobs: BTreeMap<BlobId, usize>,
    /// For each policy, the Gateways that its status has no room for.
    pub(super) crowded_out: BTreeMap<ObjectKey, BTreeSet<ObjectName>>,
}

impl Gathered {
    pub(super) fn is_used(&self, backend: &BackendId) -> bool {
        self.users.contains_key(backend)
    }

    pub(super) fn has_endpoints(&self, id: &EndpointsId) -> bool {
        self.endpoints.contains_key(id)
    }

    pub(super) fn use_blob(&mut self, id: &BlobId) {
        *self.blobs.entry(id.clone()).or_default() += 1;
    }

    /// Whether that was its last user.
    pub(super) fn release_blob(&mut self, id: &BlobId) -> bool {
        release(&mut self.blobs, id)
    }

    pub(super) fn replace_gateway(
        &mut self,
        old: Option<&GatewayView>,
        new: Option<&GatewayView>,
        work: &mut Work,
    ) {
        let uses = |view: &GatewayView| -> Vec<(BackendId, Option<ObjectName>)> {
            let backends = view.all_listeners().flat_map(|listener| listener.backends.iter().cloned());
            backends.map(|backend| (backend, Some(view.name.clone()))).collect()
        };
        self.replace_uses(old.map_or_else(Vec::new, uses), new.map_or_else(Vec::new, uses), work);
    }

    pub(super) fn replace_route(
        &mut self,
        id: &RouteId,
        old: Option<&RouteOutput>,
        new: Option<&RouteOutput>,
        work: &mut Work,
    ) {
        for accepted in old.iter().flat_map(|output| &output.accepted) {
            if let Some(routes) = self.routes.get_mut(&accepted.listener) {
                routes.remove(id);
                if routes.is_empty() {
                    self.routes.remove(&accepted.listener);
                }
            }
            work.gateways.insert(accepted.listener.gateway.clone());
        }
        for accepted in new.iter().flat_map(|output| &output.accepted) {
            self.routes.entry(accepted.listener.clone()).or_default().insert(id.clone());
            work.gateways.insert(accepted.listener.gateway.clone());
        }
        // Names that are left out of a certificate are said at Gateways that did not take the route, too.
        let looked_at = old.iter().chain(&new).flat_map(|output| &output.attachments.parents);
        work.gateways
            .extend(looked_at.flat_map(|parent| parent.listeners.first()).map(|(id, _)| id.gateway.clone()));
        self.replace_uses(old.map_or_else(Vec::new, route_uses), new.map_or_else(Vec::new, route_uses), work);
    }

    fn replace_uses(
        &mut self,
        old: Vec<(BackendId, Option<ObjectName>)>,
        new: Vec<(BackendId, Option<ObjectName>)>,
        work: &mut Work,
    ) {
        let mut touched = BTreeSet::new();
        for (backend, user) in new {
            *self.users.entry(backend.clone()).or_default().entry(user).or_default() += 1;
            touched.insert(backend);
        }
        for (backend, user) in old {
            if let Some(users) = self.users.get_mut(&backend) {
                release(users, &user);
                if users.is_empty() {
                    self.users.remove(&backend);
                }
            }
            touched.insert(backend);
        }
        work.users.extend(touched.iter().cloned());
        work.backends.append(&mut touched);
    }

    pub(super) fn replace_backend(
        &mut self,
        old: Option<&BackendOutput>,
        new: Option<&BackendOutput>,
        work: &mut Work,
    ) {
        let endpoints = |output: Option<&BackendOutput>| match output.map(|output| &output.body.addresses) {
            Some(Addresses::Endpoints(id)) => Some(id.clone()),
            Some(Addresses::Dns { .. }) | None => None,
        };
        let (old, new) = (endpoints(old), endpoints(new));
        if old == new {
            return;
        }
        if let Some(id) = &new {
            *self.endpoints.entry(id.clone()).or_default() += 1;
        }
        if let Some(id) = &old {
            release(&mut self.endpoints, id);
        }
        work.parts.extend(old.into_iter().chain(new).map(Part::Endpoints));
    }

    pub(super) fn ancestors(&self, backend: &BackendId) -> impl Iterator<Item = &ObjectName> {
        self.users.get(backend).into_iter().flat_map(BTreeMap::keys).flatten()
    }

    /// All used ports of a backend object.
    pub(super) fn used_ports<'a>(
        &'a self,
        kind: BackendKind,
        object: &'a ObjectName,
    ) -> impl Iterator<Item = &'a BackendId> {
        let first = BackendId { kind, object: object.clone(), port: 0, transport: Transport::Tcp };
        self.users
            .range(first..)
            .map(|(id, _)| id)
            .take_while(move |id| id.kind == kind && id.object == *object)
    }
}

fn route_uses(output: &RouteOutput) -> Vec<(BackendId, Option<ObjectName>)> {
    let gateways: BTreeSet<Option<ObjectName>> = output
        .accepted
        .iter()
        .map(|accepted| (!accepted.passthrough).then(|| accepted.listener.gateway.clone()))
        .collect();
    output
        .backends
        .iter()
        .flat_map(|backend| gateways.iter().map(move |gateway| (backend.clone(), gateway.clone())))
        .collect()
}

/// Counts down, and says whether that was the last.
fn release<K: Ord>(counts: &mut BTreeMap<K, usize>, key: &K) -> bool {
    let Some(count) = counts.get_mut(key) else { return false };
    *count -= 1;
    let last = *count == 0;
    if last {
        counts.remove(key);
    }
    last
}

impl Translator {
    /// Statuses and wants of the Gateways that something happened to.
    pub(super) fn gather(&mut self, work: &Work, delta: &mut Delta) {
        for name in &work.gateways {
            self.put_gateway_statuses(name, delta);
            self.put_wants(name, delta);
        }
    }

    fn put_gateway_statuses(&mut self, name: &ObjectName, delta: &mut Delta) {
        let key = |kind, name: &ObjectName| ObjectKey { kind, name: name.clone() };
        let mut statuses = BTreeMap::new();
        if let Some(view) = self.gateways.get(name) {
            let routes = &self.gathered.routes;
            let attached = |id: &ListenerId| {
                routes.get(id).map_or(0, |routes| i32::try_from(routes.len()).unwrap_or(i32::MAX))
            };
            let status = gateway::gateway_status(view, &attached);
            statuses.insert(key(Kind::Gateway, name), Status::Gateway(status));
            for set in &view.sets {
                let status = gateway::listener_set_status(set, view, &attached);
                statuses.insert(key(Kind::ListenerSet, &set.name), Status::ListenerSet(status));
            }
        }
        let now: BTreeSet<ObjectName> =
            statuses.keys().filter(|key| key.kind == Kind::ListenerSet).map(|key| key.name.clone()).collect();
        let before = self.set_statuses.insert(name.clone(), now.clone()).unwrap_or_default();
        for gone in before.difference(&now) {
            // It may have moved to another Gateway, whose word then counts.
            let moved = self.gateways.values().any(|view| view.sets.iter().any(|set| set.name == *gone));
            if !moved {
                self.put_status(key(Kind::ListenerSet, gone), None, delta);
            }
        }
        if now.is_empty() {
            self.set_statuses.remove(name);
        }
        if !self.gateways.contains_key(name) {
            self.put_status(key(Kind::Gateway, name), None, delta);
        }
        for (key, status) in statuses {
            self.put_status(key, Some(status), delta);
        }
    }

    fn put_wants(&mut self, name: &ObjectName, delta: &mut Delta) {
        let view = self.gateways.get(name).filter(|view| view.issuer.is_some()).cloned();
        let first = ListenerId { gateway: name.clone(), listener_set: None, name: "".into() };
        let known = self.translation.wants.range(first..).map(|(id, _)| id);
        let mut gone: BTreeSet<ListenerId> = known.take_while(|id| id.gateway == *name).cloned().collect();
        let wants = match &view {
            Some(view) => self.wants_of(name, view),
            None => BTreeMap::new(),
        };
        for (id, wants) in wants {
            gone.remove(&id);
            if self.translation.wants.get(&id).is_none_or(|old| **old != wants) {
                self.translation.wants.insert(id.clone(), Arc::new(wants));
                delta.wants.insert(id);
            }
        }
        for id in gone {
            self.translation.wants.remove(&id);
            delta.wants.insert(id);
        }
    }

    fn wants_of(
        &self,
        name: &ObjectName,
        view: &GatewayView,
    ) -> BTreeMap<ListenerId, crate::translation::Wants> {
        let ids: Vec<&RouteId> = self
            .dependents
            .of(&Dependency::GatewayView(name.clone()))
            .filter_map(|part| if let Part::Route(id) = part { Some(id) } else { None })
            .collect();
        let objects: Vec<_> = ids
            .into_iter()
            .filter_map(|id| Some((id, self.resources.get(&super::route_key(id))?, self.routes.get(id)?)))
            .collect();
        let names: Vec<RouteNames<'_>> = objects
            .iter()
            .filter_map(|(id, object, output)| {
                let common = Common::of(object)?;
                Some(RouteNames { id, created: common.meta.created, hostnames: common.hostnames(), output })
            })
            .collect();
        let others = self.gateways.values().map(|other| &**other);
        let others: Vec<&GatewayView> = match self.settings.source {
            Source::Folder => others.filter(|other| other.name != *name && other.is_wherever(view)).collect(),
            Source::Cluster => Vec::new(),
        };
        wants::of_gateway(view, &others, &names)
    }
}
