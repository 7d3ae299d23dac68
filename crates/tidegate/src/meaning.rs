//! Manifests and what they mean: what every command begins with.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use tidegate_api::gateway::{Gateway, ListenerSet};
use tidegate_api::listener::Listener;
use tidegate_api::refs::GATEWAY_GROUP;
use tidegate_api::status::{Condition, ConditionStatus, ConditionType, ParentRefStatus, Status};
use tidegate_api::{Kind, Object, ObjectKey};
use tidegate_certs::{Demand, Picture};
use tidegate_plan::{ListenerId, ObjectName, RouteId, RouteKind};
use tidegate_translate::{Attachment, Change, Delta, Note, Resources, Settings, Translation, Translator};

use crate::output::{Error, Terminal};
use crate::run::times::Times;
use crate::source::Manifests;

pub(crate) struct Meaning {
    pub(crate) manifests: Manifests,
    /// What is there besides, in a cluster: references may lead to it.
    around: Resources,
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
    /// Nobody's, since there is no GatewayClass of the name that its Gateway has.
    Classless,
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
            around: Resources::default(),
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

    /// Has references lead to these, too. What somebody wrote goes before them, and they before what a folder adds.
    pub(crate) fn put_around(&mut self, objects: Vec<Object>) {
        let written: BTreeSet<ObjectKey> =
            self.manifests.as_written().filter_map(|(key, _)| key.cloned()).collect();
        let others: Vec<Object> =
            objects.into_iter().filter(|object| !written.contains(&object.key())).collect();
        self.translator.apply(others.iter().cloned().map(Change::Upsert));
        for object in others {
            self.around.insert(object);
        }
    }

    /// Secrets and ConfigMaps that something refers to and nobody wrote.
    pub(crate) fn data_missing(&self) -> BTreeSet<ObjectKey> {
        let asked = self.translator.data_asked_for().iter();
        asked.filter(|key| self.resources().get(key).is_none()).cloned().collect()
    }

    /// Whether it is part of the manifests, and not of what is around them.
    pub(crate) fn is_inside(&self, key: &ObjectKey) -> bool {
        self.around.get(key).is_none()
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

    /// What is wrong with the references of a route. A plan knows a bad one by its fault alone; what was written is
    /// in the status.
    pub(crate) fn unresolved(&self, route: &RouteId) -> Option<&str> {
        let key = ObjectKey { kind: route.kind.into(), name: route.object.clone() };
        let Some(Status::Route(status)) = self.status(&key) else { return None };
        let mut conditions = status.parents.iter().flat_map(|parent| &parent.conditions);
        let unresolved = conditions.find(|condition| {
            condition.kind == ConditionType::ResolvedRefs && condition.status == ConditionStatus::False
        });
        unresolved.map(|condition| condition.message.as_str())
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
        let statuses = self.translation().statuses.iter().filter(|(key, _)| self.is_inside(key));
        statuses.map(|(key, status)| (key, &**self.served.get(key).unwrap_or(status)))
    }

    pub(crate) fn controller_name(&self) -> &str {
        &self.settings.controller_name
    }

    /// Says what is wrong with the manifests, and what has no place in a status.
    pub(crate) fn report(&self, terminal: &mut Terminal) {
        self.manifests.report(terminal);
        for (key, notes) in self.translation().notes.iter().filter(|(key, _)| self.is_inside(key)) {
            for note in notes {
                terminal.warning(&format!("{key}: {note}"));
            }
        }
        for set in self.resources().listener_sets.values().filter(|set| self.gateway_is_missing(set)) {
            let key = ObjectKey { kind: Kind::ListenerSet, name: set.meta.object_name() };
            let gateway = set.spec.gateway(&set.meta.namespace);
            terminal.warning(&format!(
                "{key}: Gateway {gateway} does not exist; create it, or name another in parentRef"
            ));
        }
    }

    /// Whether an object is refused and has no status in which it is said.
    pub(crate) fn refused_in_notes(&self, key: &ObjectKey) -> Option<&Note> {
        self.translation().notes.get(key)?.iter().find(|note| note.reason.is_some())
    }

    /// Whether the Gateway that a ListenerSet names is not there; a parent of another kind is another's business.
    pub(crate) fn gateway_is_missing(&self, set: &ListenerSet) -> bool {
        let (parent, name) = (&set.spec.parent_ref, set.spec.gateway(&set.meta.namespace));
        parent.kind == "Gateway"
            && parent.group == GATEWAY_GROUP
            && ![self.resources(), &self.around].iter().any(|all| all.gateways.contains_key(&name))
    }

    pub(crate) fn class_is_missing(&self, gateway: &Gateway) -> bool {
        let name = ObjectName::new("", gateway.spec.gateway_class_name.shared());
        ![self.resources(), &self.around].iter().any(|all| all.gateway_classes.contains_key(&name))
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
            return Parentage::Ours;
        }
        match [self.resources(), &self.around].iter().find_map(|all| all.get(&key)) {
            Some(Object::Gateway(gateway)) if self.class_is_missing(&gateway) => Parentage::Classless,
            Some(Object::ListenerSet(set)) if self.has_no_class(&set) => Parentage::Classless,
            Some(_) => Parentage::Foreign,
            None => Parentage::Missing,
        }
    }

    /// Whether the Gateway that a ListenerSet names is there, and its class is not.
    pub(crate) fn has_no_class(&self, set: &ListenerSet) -> bool {
        let name = set.spec.gateway(&set.meta.namespace);
        let gateway = [self.resources(), &self.around].iter().find_map(|all| all.gateways.get(&name));
        gateway.is_some_and(|gateway| self.class_is_missing(gateway))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::findings::find;

    /// The objects of an example, as a cluster would have them.
    fn example() -> Vec<Object> {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/passthrough");
        let manifests = Manifests::read(&[path.into()]).expect("manifests");
        manifests.resources().iter().collect()
    }

    #[test]
    fn a_route_alone_is_right_where_the_cluster_has_the_rest() {
        let folder = tempfile::tempdir().expect("a folder");
        let route = folder.path().join("route.yaml");
        let text = "{apiVersion: gateway.networking.k8s.io/v1, kind: TLSRoute, metadata: {name: alone}, \
                    spec: {hostnames: [alone.kafka.example.com], parentRefs: [{name: data}], \
                    rules: [{backendRefs: [{name: kafka-0, port: 9094}]}]}}\n";
        std::fs::write(&route, text).expect("a file");
        let mut meaning = Meaning::under(&[route], Settings::cluster()).expect("manifests");
        let bad = |meaning: &Meaning| find(meaning).into_iter().map(|one| one.what).collect::<Vec<_>>();
        assert_eq!(bad(&meaning).len(), 1, "its parent is not there");
        meaning.put_around(example());
        assert_eq!(bad(&meaning), Vec::<String>::new());
        assert!(meaning.statuses().all(|(key, _)| &*key.name.name == "alone"), "others are not looked at");
    }

    #[test]
    fn the_gateway_of_a_listener_set_may_be_in_the_cluster() {
        let folder = tempfile::tempdir().expect("a folder");
        let set = folder.path().join("set.yaml");
        let text = "{apiVersion: gateway.networking.k8s.io/v1, kind: ListenerSet, metadata: {name: alone}, \
                    spec: {parentRef: {name: data}, listeners: [{name: http, port: 80, protocol: HTTP}]}}\n";
        std::fs::write(&set, text).expect("a file");
        let mut meaning = Meaning::under(&[set], Settings::cluster()).expect("manifests");
        let missing = |meaning: &Meaning| {
            let mut sets = meaning.resources().listener_sets.values();
            sets.next().map(|set| meaning.gateway_is_missing(set))
        };
        assert_eq!(missing(&meaning), Some(true));
        meaning.put_around(example());
        assert_eq!(missing(&meaning), Some(false));
    }
}
