//! Manifests and what they mean: what every command begins with.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use tidegate_api::gateway::Gateway;
use tidegate_api::listener::Listener;
use tidegate_api::refs::GATEWAY_GROUP;
use tidegate_api::status::{Condition, ParentRefStatus, Status};
use tidegate_api::{Kind, Object, ObjectKey};
use tidegate_certs::{Demand, Picture};
use tidegate_plan::{ListenerId, ObjectName, RouteId, RouteKind};
use tidegate_translate::{Attachment, Change, Delta, Resources, Settings, Translation, Translator};

use crate::output::{Error, Terminal};
use crate::run::times::Times;
use crate::source::Manifests;

pub(crate) struct Meaning {
    pub(crate) manifests: Manifests,
    translator: Translator,
    settings: Settings,
    /// What a data plane has said about objects; it goes before what translation could know.
    pub(crate) served: BTreeMap<ObjectKey, Arc<Status>>,
    /// What there is of certificates, where somebody keeps them.
    pub(crate) issuance: Option<Arc<Picture>>,
    /// When conditions changed, where somebody looks at a clock.
    times: Times,
}

/// Whose parent a route names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parentage {
    Ours,
    /// Of another controller, or of a kind that is not a Gateway.
    Foreign,
    Missing,
}

impl Meaning {
    /// What manifests mean on one machine.
    pub(crate) fn of(paths: &[PathBuf]) -> Result<Self, Error> {
        Self::under(paths, Settings::folder())
    }

    pub(crate) fn under(paths: &[PathBuf], settings: Settings) -> Result<Self, Error> {
        Ok(Self::new(Manifests::read(paths)?, settings))
    }

    pub(crate) fn new(manifests: Manifests, settings: Settings) -> Self {
        let mut translator = Translator::new(settings.clone());
        translator.apply(manifests.resources().iter().map(Change::Upsert));
        Self {
            manifests,
            translator,
            settings,
            served: BTreeMap::new(),
            issuance: None,
            times: Times::default(),
        }
    }

    /// Takes in what a change of manifests changed.
    pub(crate) fn take(&mut self, changes: Vec<Change>) -> Delta {
        self.translator.apply(changes)
    }

    pub(crate) fn resources(&self) -> &Resources {
        self.manifests.resources()
    }

    pub(crate) fn translation(&self) -> &Translation {
        self.translator.translation()
    }

    pub(crate) fn status(&self, key: &ObjectKey) -> Option<&Status> {
        self.served.get(key).or_else(|| self.translation().statuses.get(key)).map(|status| &**status)
    }

    /// What is asked of issuers of ours.
    pub(crate) fn demand(&self) -> Demand {
        let wants = self.translation().wants.values();
        tidegate_issuing::demand(wants, self.manifests.foreign_secrets(), self.settings.source)
    }

    /// Notes the time of what is new in a status; what it was before comes back.
    pub(crate) fn note_time(&mut self, key: &ObjectKey, now: i64) -> Option<Arc<Status>> {
        let status = self.served.get(key).or_else(|| self.translation().statuses.get(key)).cloned();
        self.times.note(key, status, now)
    }

    /// The times of an object's conditions, in the order in which its status has them.
    pub(crate) fn times(&self, key: &ObjectKey) -> &[i64] {
        self.times.of(key)
    }

    /// One for each object of ours that has a status.
    pub(crate) fn statuses(&self) -> impl Iterator<Item = (&ObjectKey, &Status)> {
        let statuses = self.translation().statuses.iter();
        statuses.map(|(key, status)| (key, &**self.served.get(key).unwrap_or(status)))
    }

    pub(crate) fn controller_name(&self) -> &str {
        &self.settings.controller_name
    }

    /// Says what is wrong with the manifests, and what has no place in a status.
    pub(crate) fn report(&self, terminal: &mut Terminal) {
        self.manifests.report(terminal);
        for (key, notes) in &self.translation().notes {
            for note in notes {
                terminal.warning(&format!("{key}: {}", note.message));
            }
        }
    }

    pub(crate) fn class_is_missing(&self, gateway: &Gateway) -> bool {
        !self
            .resources()
            .gateway_classes
            .contains_key(&ObjectName::new("", gateway.spec.gateway_class_name.shared()))
    }

    pub(crate) fn parentage(&self, parent: &ParentRefStatus, namespace: &str) -> Parentage {
        let name = ObjectName::new(parent.namespace.as_deref().unwrap_or(namespace), parent.name.as_str());
        let kind = match (parent.group.as_str(), parent.kind.as_str()) {
            (GATEWAY_GROUP, "Gateway") => Kind::Gateway,
            (GATEWAY_GROUP, "ListenerSet") => Kind::ListenerSet,
            _ => return Parentage::Foreign,
        };
        let key = ObjectKey { kind, name };
        if self.translation().statuses.contains_key(&key) {
            Parentage::Ours
        } else if self.resources().get(&key).is_some() {
            Parentage::Foreign
        } else {
            Parentage::Missing
        }
    }

    /// What was said to a route under one of its parents; `None` where it is not ours to say.
    pub(crate) fn parent_conditions(
        &self,
        route: &ObjectKey,
        parent: &ParentRefStatus,
    ) -> Option<&[Condition]> {
        match self.status(route)? {
            Status::Route(status) => {
                let entry = status.parents.iter().find(|entry| entry.parent_ref == *parent)?;
                Some(&entry.conditions)
            }
            _ => None,
        }
    }

    /// The parents of a route: those that were looked at, and those it names besides.
    pub(crate) fn parents(&self, key: &ObjectKey) -> Vec<Attachment> {
        let Some(kind) = RouteKind::ALL.into_iter().find(|kind| Kind::from(*kind) == key.kind) else {
            return Vec::new();
        };
        let id = RouteId { kind, object: key.name.clone() };
        let mut parents =
            self.translation().attachments.get(&id).map(|found| found.parents.clone()).unwrap_or_default();
        for parent_ref in self.resources().get(key).iter().flat_map(written_parents) {
            if !parents.iter().any(|parent| parent.parent_ref == parent_ref) {
                parents.push(Attachment { parent_ref, listeners: Vec::new() });
            }
        }
        parents
    }

    /// A listener as it was written.
    pub(crate) fn listener(&self, id: &ListenerId) -> Option<&Listener> {
        let listeners = match &id.listener_set {
            None => &self.resources().gateways.get(&id.gateway)?.spec.listeners,
            Some(set) => &self.resources().listener_sets.get(set)?.spec.listeners,
        };
        listeners.iter().find(|listener| listener.name == *id.name)
    }

    pub(crate) fn listener_conditions(&self, id: &ListenerId) -> Option<&[Condition]> {
        let key = match &id.listener_set {
            None => ObjectKey { kind: Kind::Gateway, name: id.gateway.clone() },
            Some(set) => ObjectKey { kind: Kind::ListenerSet, name: set.clone() },
        };
        let listeners = match self.status(&key)? {
            Status::Gateway(status) => &status.listeners,
            Status::ListenerSet(status) => &status.listeners,
            _ => return None,
        };
        let status = listeners.iter().find(|status| status.name == id.name)?;
        Some(&status.conditions)
    }
}

fn written_parents(route: &Object) -> Vec<ParentRefStatus> {
    let parents = match route {
        Object::HttpRoute(route) => &route.spec.parents,
        Object::GrpcRoute(route) => &route.spec.parents,
        Object::TlsRoute(route) => &route.spec.parents,
        Object::TcpRoute(route) => &route.spec.parents,
        Object::UdpRoute(route) => &route.spec.parents,
        _ => return Vec::new(),
    };
    parents.parent_refs.iter().map(ParentRefStatus::from).collect()
}
