//! Translation that remembers: a change redoes what looked at the changed object, and nothing else.
//!
//! The parts are made in layers, each from resources and from layers above it: classes, Gateways, routes,
//! backends with their endpoints, policies, and what is gathered from all of them (counts, ancestors, wants).

mod dependents;
mod gather;
mod output;
mod policies;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tidegate_api::{Kind, Object, ObjectKey};
use tidegate_plan::{BackendId, Body, ObjectName, RouteId};

use self::dependents::{Dependents, Part};
use self::gather::Gathered;
use crate::backend::tls_policy::PolicyOutput;
use crate::backend::{self, BackendOutput};
use crate::credentials::Credentials;
use crate::gateway::{self, GatewayView};
use crate::lookup::{Dependency, Lookup, touched};
use crate::resources::Resources;
use crate::route::{self, Gateways, RouteOutput};
use crate::settings::{BundleVersion, Channel, Settings, Source};
use crate::translation::{Delta, Note, Translation};

/// One change of one object.
#[derive(Clone, Debug)]
pub enum Change {
    /// A new object, or a new state of one that is there.
    Upsert(Object),
    Remove(ObjectKey),
}

#[derive(Debug)]
pub struct Translator {
    settings: Settings,
    resources: Resources,
    credentials: Credentials,
    dependents: Dependents,
    /// Each Gateway by itself, before ports are shared out.
    alone: BTreeMap<ObjectName, GatewayView>,
    gateways: Gateways,
    routes: BTreeMap<RouteId, RouteOutput>,
    backends: BTreeMap<BackendId, BackendOutput>,
    tls_policies: BTreeMap<ObjectName, PolicyOutput>,
    gathered: Gathered,
    /// The ListenerSets that a Gateway spoke for last.
    set_statuses: BTreeMap<ObjectName, BTreeSet<ObjectName>>,
    translation: Translation,
}

impl Translator {
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            resources: Resources::default(),
            credentials: Credentials::default(),
            dependents: Dependents::default(),
            alone: BTreeMap::new(),
            gateways: Gateways::new(),
            routes: BTreeMap::new(),
            backends: BTreeMap::new(),
            tls_policies: BTreeMap::new(),
            gathered: Gathered::default(),
            set_statuses: BTreeMap::new(),
            translation: Translation::default(),
        }
    }

    #[must_use]
    pub const fn translation(&self) -> &Translation {
        &self.translation
    }

    #[must_use]
    pub fn into_translation(self) -> Translation {
        self.translation
    }

    #[must_use]
    pub const fn resources(&self) -> &Resources {
        &self.resources
    }

    /// The Secrets and ConfigMaps that somebody refers to, whether they are there or not: all others need not be
    /// brought here.
    #[must_use]
    pub const fn data_asked_for(&self) -> &BTreeSet<ObjectKey> {
        self.dependents.data()
    }

    /// Takes in what has been found out about the CRDs; classes alone speak of it.
    pub fn crds_changed(&mut self, channel: Channel, bundle: Option<Vec<BundleVersion>>) -> Delta {
        self.settings.channel = channel;
        self.settings.bundle = bundle;
        let names = self.resources.gateway_classes.keys().cloned();
        let mut work = Work { parts: names.map(Part::Class).collect(), ..Work::default() };
        let mut delta = Delta::default();
        self.remake_classes(&mut work, &mut delta);
        delta
    }

    /// Takes changes in and says what they changed in the translation.
    pub fn apply(&mut self, changes: impl IntoIterator<Item = Change>) -> Delta {
        let mut delta = Delta::default();
        let mut work = Work::default();
        for change in changes {
            self.take(change, &mut work);
        }
        self.remake_classes(&mut work, &mut delta);
        self.remake_gateways(&mut work, &mut delta);
        self.remake_routes(&mut work, &mut delta);
        self.remake_backends(&mut work, &mut delta);
        self.remake_policies(&mut work, &mut delta);
        self.gather(&work, &mut delta);
        delta
    }

    fn take(&mut self, change: Change, work: &mut Work) {
        let (old, new) = match change {
            Change::Upsert(object) => (self.resources.insert(object.clone()), Some(object)),
            Change::Remove(key) => (self.resources.remove(&key), None),
        };
        // A watch that starts again tells of objects that have not changed.
        if old == new {
            return;
        }
        for object in old.iter().chain(&new) {
            for dependency in touched(object) {
                work.parts.extend(self.dependents.of(&dependency).cloned());
            }
            work.parts.extend(part_of(object));
            if let Object::Secret(secret) = object {
                self.credentials.forget(&secret.meta.object_name());
            }
        }
    }

    /// Lets `make` look around and remembers at what.
    fn made<T>(&mut self, part: &Part, make: impl FnOnce(&Self, &Lookup<'_>) -> T) -> T {
        let lookup = Lookup::new(&self.resources, &self.settings, &self.credentials);
        let made = make(self, &lookup);
        let seen = lookup.into_seen();
        self.dependents.set(part, seen);
        made
    }

    fn remake_classes(&mut self, work: &mut Work, delta: &mut Delta) {
        for name in work.take(|part| if let Part::Class(name) = part { Some(name.clone()) } else { None }) {
            let part = Part::Class(name.clone());
            let class = self.resources.gateway_classes.get(&name).cloned();
            let status =
                class.and_then(|class| self.made(&part, |_, lookup| crate::class::status(&class, lookup)));
            if status.is_none() {
                self.dependents.forget(&part);
            }
            let key = ObjectKey { kind: Kind::GatewayClass, name };
            self.put_status(key, status.map(tidegate_api::status::Status::GatewayClass), delta);
        }
    }

    fn remake_gateways(&mut self, work: &mut Work, delta: &mut Delta) {
        let names = work.take(|part| if let Part::Gateway(name) = part { Some(name.clone()) } else { None });
        if names.is_empty() {
            return;
        }
        let mut not_ours = Vec::new();
        for name in names {
            let part = Part::Gateway(name.clone());
            let gateway = self.resources.gateways.get(&name).cloned();
            match gateway.and_then(|gateway| self.made(&part, |_, lookup| gateway::view(&gateway, lookup))) {
                Some(view) => {
                    self.alone.insert(name, view);
                }
                None => {
                    self.alone.remove(&name);
                    if !self.resources.gateways.contains_key(&name) {
                        self.dependents.forget(&part);
                    }
                    not_ours.push(name);
                }
            }
        }
        let mut views: Vec<GatewayView> = self.alone.values().cloned().collect();
        if self.settings.source == Source::Folder {
            gateway::share_ports(&mut views);
        }
        let mut gone: BTreeSet<ObjectName> = self.gateways.keys().cloned().collect();
        for view in views {
            gone.remove(&view.name);
            if self.gateways.get(&view.name).is_none_or(|old| **old != view) {
                self.replace_gateway(view.name.clone(), Some(view), work, delta);
            }
        }
        for name in gone {
            self.replace_gateway(name, None, work, delta);
        }
        for name in not_ours {
            self.put_gateway_notes(&name);
        }
        // Where ports are shared, who takes a name is a matter of all Gateways.
        if self.settings.source == Source::Folder && !work.gateways.is_empty() {
            work.gateways.extend(self.gateways.keys().cloned());
        }
    }

    fn replace_gateway(
        &mut self,
        name: ObjectName,
        new: Option<GatewayView>,
        work: &mut Work,
        delta: &mut Delta,
    ) {
        let old = match &new {
            Some(view) => self.gateways.insert(name.clone(), Arc::new(view.clone())),
            None => self.gateways.remove(&name),
        };
        let bodies = |view: Option<&GatewayView>| view.map_or_else(Vec::new, GatewayView::bodies);
        self.put_bodies(bodies(old.as_deref()), bodies(new.as_ref()), delta);
        self.gathered.replace_gateway(old.as_deref(), new.as_ref(), work);
        self.put_blobs(
            &old.as_deref().map_or_else(Vec::new, output::gateway_blobs),
            &new.as_ref().map_or_else(Vec::new, output::gateway_blobs),
        );
        let asked = new.as_ref().filter(|view| view.not_accepted().is_none());
        let asked = asked.map(|view| Arc::new(view.infrastructure.clone()));
        if self.translation.infrastructure.get(&name) != asked.as_ref() {
            delta.infrastructure.insert(name.clone());
        }
        match asked {
            Some(asked) => self.translation.infrastructure.insert(name.clone(), asked),
            None => self.translation.infrastructure.remove(&name),
        };
        self.put_gateway_notes(&name);
        let was_default = old.is_some_and(|view| view.is_default) || new.is_some_and(|view| view.is_default);
        work.parts.extend(self.dependents.of(&Dependency::GatewayView(name.clone())).cloned());
        if was_default {
            work.parts.extend(self.dependents.of(&Dependency::DefaultGateways).cloned());
        }
        work.gateways.insert(name);
    }

    fn remake_routes(&mut self, work: &mut Work, delta: &mut Delta) {
        for id in work.take(|part| if let Part::Route(id) = part { Some(id.clone()) } else { None }) {
            let part = Part::Route(id.clone());
            let key = route_key(&id);
            let object = self.resources.get(&key);
            let new = object.and_then(|object| {
                self.made(&part, |this, lookup| route::translate(&object, &this.gateways, lookup))
            });
            if new.is_none() {
                self.dependents.forget(&part);
            }
            let old = match &new {
                Some(output) => self.routes.insert(id.clone(), output.clone()),
                None => self.routes.remove(&id),
            };
            if old == new {
                continue;
            }
            let body =
                |output: Option<&RouteOutput>| output.and_then(|output| output.body.clone()).map(Body::Route);
            self.put_bodies(
                body(old.as_ref()).into_iter().collect(),
                body(new.as_ref()).into_iter().collect(),
                delta,
            );
            let status =
                new.as_ref().map(|output| tidegate_api::status::Status::Route(output.status.clone()));
            self.put_status(key.clone(), status.filter(output::has_entries), delta);
            let notes = new.iter().flat_map(|output| output.notes.iter().cloned().map(Note::from));
            self.put_notes(key, notes.collect());
            match &new {
                Some(output) => {
                    self.translation.attachments.insert(id.clone(), Arc::new(output.attachments.clone()));
                }
                None => {
                    self.translation.attachments.remove(&id);
                }
            }
            self.gathered.replace_route(&id, old.as_ref(), new.as_ref(), work);
        }
    }

    fn remake_backends(&mut self, work: &mut Work, delta: &mut Delta) {
        let mut ids = work.take(|part| if let Part::Backend(id) = part { Some(id.clone()) } else { None });
        ids.append(&mut work.backends);
        for id in ids {
            let part = Part::Backend(id.clone());
            let new = if self.gathered.is_used(&id) {
                self.made(&part, |_, lookup| backend::translate(&id, lookup))
            } else {
                None
            };
            if !self.gathered.is_used(&id) {
                self.dependents.forget(&part);
            }
            self.replace_backend(&id, new.as_ref(), work, delta);
        }
        for id in work.take(|part| if let Part::Endpoints(id) = part { Some(id.clone()) } else { None }) {
            let part = Part::Endpoints(id.clone());
            let new = if self.gathered.has_endpoints(&id) {
                Some(self.made(&part, |_, lookup| backend::endpoints::collect(&id, lookup)))
            } else {
                self.dependents.forget(&part);
                None
            };
            self.put_endpoints(id, new, delta);
        }
    }

    fn replace_backend(
        &mut self,
        id: &BackendId,
        new: Option<&BackendOutput>,
        work: &mut Work,
        delta: &mut Delta,
    ) {
        let old = match new {
            Some(output) => self.backends.insert(id.clone(), output.clone()),
            None => self.backends.remove(id),
        };
        if old.as_ref() == new {
            return;
        }
        let body = |output: Option<&BackendOutput>| output.map(|output| Body::Backend(output.body.clone()));
        self.put_bodies(body(old.as_ref()).into_iter().collect(), body(new).into_iter().collect(), delta);
        let blobs =
            |output: Option<&BackendOutput>| output.map_or_else(Vec::new, |output| output.blobs.clone());
        self.put_blobs(&blobs(old.as_ref()), &blobs(new));
        self.gathered.replace_backend(old.as_ref(), new, work);
    }

    fn remake_policies(&mut self, work: &mut Work, delta: &mut Delta) {
        for name in work.take(|part| if let Part::TlsPolicy(name) = part { Some(name.clone()) } else { None })
        {
            let part = Part::TlsPolicy(name.clone());
            let policy = self.resources.backend_tls_policies.get(&name).cloned();
            let new = policy
                .map(|policy| self.made(&part, |_, lookup| backend::tls_policy::output(&policy, lookup)));
            match new {
                Some(output) => {
                    self.tls_policies.insert(name.clone(), output);
                }
                None => {
                    self.tls_policies.remove(&name);
                    self.dependents.forget(&part);
                }
            }
            work.tls_policies.insert(name);
        }
        self.put_tls_policy_statuses(work, delta);
        self.remake_traffic_policies(work, delta);
        self.remake_xbackend_statuses(work, delta);
    }
}

/// What is to be made again.
#[derive(Debug, Default)]
struct Work {
    parts: BTreeSet<Part>,
    gateways: BTreeSet<ObjectName>,
    /// Backends that have come into use or gone out of it.
    backends: BTreeSet<BackendId>,
    /// Backends whose users changed.
    users: BTreeSet<BackendId>,
    tls_policies: BTreeSet<ObjectName>,
}

impl Work {
    fn take<T: Ord>(&mut self, pick: impl Fn(&Part) -> Option<T>) -> BTreeSet<T> {
        let mut taken = BTreeSet::new();
        self.parts.retain(|part| match pick(part) {
            Some(value) => {
                taken.insert(value);
                false
            }
            None => true,
        });
        taken
    }
}

/// The part that an object has of its own.
fn part_of(object: &Object) -> Option<Part> {
    let name = object.meta().object_name();
    Some(match object {
        Object::GatewayClass(_) => Part::Class(name),
        Object::Gateway(_) => Part::Gateway(name),
        Object::BackendTlsPolicy(_) => Part::TlsPolicy(name),
        Object::XBackendTrafficPolicy(_) => Part::TrafficPolicy(name),
        Object::XBackend(_) => Part::XBackend(name),
        _ => Part::Route(route::Common::of(object)?.id()),
    })
}

fn route_key(id: &RouteId) -> ObjectKey {
    ObjectKey { kind: id.kind.into(), name: id.object.clone() }
}
