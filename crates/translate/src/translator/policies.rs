//! Policies and XBackends: what they came to is told at each Gateway that leads to a backend of theirs.

use std::collections::BTreeSet;
use std::sync::Arc;

use tidegate_api::refs::GATEWAY_GROUP;
use tidegate_api::status::{
    Condition, ParentRefStatus, PolicyAncestorStatus, PolicyStatus, Status, most_ancestors,
};
use tidegate_api::{Kind, ObjectKey};
use tidegate_plan::{BackendKind, ObjectName};

use super::dependents::Part;
use super::output::has_entries;
use super::{Translator, Work};
use crate::backend;
use crate::conditions::Fault;
use crate::translation::{Delta, Note};

/// What is said about an object, and to whom.
struct Told<'a> {
    gateways: BTreeSet<ObjectName>,
    conditions: &'a [Condition],
    /// What is wrong with it; a note where there is no Gateway to say it at.
    fault: Option<&'a Fault>,
    /// What else to say there.
    unused: Option<&'static str>,
    notes: Vec<String>,
}

impl Translator {
    pub(super) fn put_tls_policy_statuses(&mut self, work: &mut Work, delta: &mut Delta) {
        for backend in work.users.iter().filter(|backend| backend.kind == BackendKind::Service) {
            let policies = self.resources.tls_policies_of(&backend.object);
            work.tls_policies.extend(policies.map(|policy| policy.meta.object_name()));
        }
        for name in &work.tls_policies {
            let key = ObjectKey { kind: Kind::BackendTlsPolicy, name: name.clone() };
            let Some(output) = self.tls_policies.get(name).cloned() else {
                self.untell(key, delta);
                continue;
            };
            let ancestors = output.targets.iter().flat_map(|backend| self.gathered.ancestors(backend));
            let told = Told {
                gateways: ancestors.cloned().collect(),
                conditions: &output.conditions,
                fault: output.fault.as_ref(),
                unused: Some(
                    "it is not used here: no route of a Gateway of ours leads to its target, or only with TLS passed through",
                ),
                notes: output.notes.clone(),
            };
            self.tell(key, told, delta);
        }
    }

    pub(super) fn remake_traffic_policies(&mut self, work: &mut Work, delta: &mut Delta) {
        let mut names =
            work.take(|part| if let Part::TrafficPolicy(name) = part { Some(name.clone()) } else { None });
        for backend in &work.users {
            let policies = self.resources.traffic_policies_of(&backend.object);
            names.extend(policies.map(|policy| policy.meta.object_name()));
        }
        for name in names {
            let part = Part::TrafficPolicy(name.clone());
            let key = ObjectKey { kind: Kind::XBackendTrafficPolicy, name: name.clone() };
            let Some(policy) = self.resources.xbackend_traffic_policies.get(&name).cloned() else {
                self.dependents.forget(&part);
                self.untell(key, delta);
                continue;
            };
            let output = self.made(&part, |_, lookup| backend::traffic_policy_status(&policy, lookup));
            let ports = output.backends.iter().flat_map(|(kind, name)| self.gathered.used_ports(*kind, name));
            let told = Told {
                gateways: ports.flat_map(|backend| self.gathered.ancestors(backend)).cloned().collect(),
                conditions: &output.conditions,
                fault: output.fault.as_ref(),
                unused: Some("it is not used here: no route of a Gateway of ours leads to its target"),
                notes: Vec::new(),
            };
            self.tell(key, told, delta);
        }
    }

    pub(super) fn remake_xbackend_statuses(&mut self, work: &mut Work, delta: &mut Delta) {
        let mut names =
            work.take(|part| if let Part::XBackend(name) = part { Some(name.clone()) } else { None });
        let used = work.users.iter().filter(|backend| backend.kind == BackendKind::XBackend);
        names.extend(used.map(|backend| backend.object.clone()));
        for name in names {
            let part = Part::XBackend(name.clone());
            let key = ObjectKey { kind: Kind::XBackend, name: name.clone() };
            let Some(object) = self.resources.xbackends.get(&name).cloned() else {
                self.dependents.forget(&part);
                self.untell(key, delta);
                continue;
            };
            let (conditions, fault) = self.made(&part, |_, lookup| backend::xbackend_status(&object, lookup));
            let ports = self.gathered.used_ports(BackendKind::XBackend, &name);
            let told = Told {
                gateways: ports.flat_map(|backend| self.gathered.ancestors(backend)).cloned().collect(),
                conditions: &conditions,
                fault: fault.as_ref(),
                unused: None,
                notes: Vec::new(),
            };
            self.tell(key, told, delta);
        }
    }

    fn tell(&mut self, key: ObjectKey, told: Told<'_>, delta: &mut Delta) {
        let Told { gateways, conditions, fault, unused, notes } = told;
        let mut notes: Vec<Note> = notes.into_iter().map(Note::from).collect();
        if gateways.is_empty() {
            let fault =
                fault.map(|fault| Note { reason: Some(fault.reason), message: fault.message.clone() });
            notes.extend(fault.or_else(|| unused.map(|unused| unused.to_owned().into())));
        }
        self.put_notes(key.clone(), notes);
        let room = most_ancestors(key.kind);
        self.put_crowded_out(&key, &gateways.iter().skip(room).cloned().collect());
        let ancestors = gateways.into_iter().take(room).map(|gateway| PolicyAncestorStatus {
            ancestor_ref: ParentRefStatus {
                group: GATEWAY_GROUP.to_owned(),
                kind: "Gateway".to_owned(),
                namespace: Some(gateway.namespace.as_ref().to_owned()),
                name: gateway.name.as_ref().to_owned(),
                section_name: None,
                port: None,
            },
            controller_name: Arc::clone(&self.settings.controller_name),
            conditions: conditions.to_vec(),
        });
        let status = Status::Policy(PolicyStatus { ancestors: ancestors.collect() });
        self.put_status(key, Some(status).filter(has_entries), delta);
    }

    fn untell(&mut self, key: ObjectKey, delta: &mut Delta) {
        self.put_crowded_out(&key, &BTreeSet::new());
        self.put_notes(key.clone(), Vec::new());
        self.put_status(key, None, delta);
    }

    /// What the status of a policy has no room for is said at the Gateways themselves.
    fn put_crowded_out(&mut self, key: &ObjectKey, now: &BTreeSet<ObjectName>) {
        let before = self.gathered.crowded_out.remove(key).unwrap_or_default();
        if !now.is_empty() {
            self.gathered.crowded_out.insert(key.clone(), now.clone());
        }
        for gateway in before.symmetric_difference(now) {
            self.put_gateway_notes(gateway);
        }
    }

    pub(super) fn put_gateway_notes(&mut self, name: &ObjectName) {
        let mut notes = match (self.gateways.get(name), self.resources.gateways.get(name)) {
            (Some(view), _) => view.notes.clone(),
            (None, Some(gateway)) => {
                let class = gateway.spec.gateway_class_name.as_str();
                let is_known = self.resources.gateway_classes.contains_key(&ObjectName::new("", class));
                let missing = format!("spec.gatewayClassName: GatewayClass {class} does not exist");
                if is_known { Vec::new() } else { vec![missing] }
            }
            (None, None) => Vec::new(),
        };
        let crowded = self.gathered.crowded_out.iter().filter(|(_, gateways)| gateways.contains(name));
        notes.extend(crowded.map(|(key, _)| {
            let room = most_ancestors(key.kind);
            format!("{key} is used here, and its status has room for {room} Gateways and none for this one")
        }));
        let notes = notes.into_iter().map(Note::from).collect();
        self.put_notes(ObjectKey { kind: Kind::Gateway, name: name.clone() }, notes);
    }
}
