//! Certificates of cert-manager in a turn: what is wanted of them, and what listeners say about them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use tidegate_api::status::{Condition, ConditionType, Status};
use tidegate_api::{Kind, ObjectKey};
use tidegate_plan::{Hostname, ListenerId, ObjectName};

use super::Controller;
use crate::certmanager::Targets;

impl Controller {
    /// What there shall be for the listeners that are ours; names the Gateways for which that is something else now.
    pub(super) fn ask_cert_manager(&mut self) -> BTreeSet<ObjectName> {
        let targets = self.cert_manager.targets(self.translator.translation(), self.translator.resources());
        if self.settings.cert_manager {
            self.tell_what_is_not_asked(&targets);
        }
        self.metrics.asked_certificates.set(self.cert_manager.count());
        self.cert_manager.want(targets, Instant::now())
    }

    /// Once for each thing, in the log and as an Event.
    fn tell_what_is_not_asked(&mut self, targets: &Targets) {
        let mut all: BTreeMap<ObjectKey, BTreeSet<String>> = BTreeMap::new();
        for (key, notes) in &targets.notes {
            all.entry(key.clone()).or_default().extend(notes.iter().cloned());
        }
        for (listener, why) in &targets.refused {
            let (kind, name) = match &listener.listener_set {
                Some(set) => (Kind::ListenerSet, set),
                None => (Kind::Gateway, &listener.gateway),
            };
            let note = format!("listener {}: {why}", listener.name);
            all.entry(ObjectKey { kind, name: name.clone() }).or_default().insert(note);
        }
        for (key, notes) in &all {
            let before = self.not_asked.get(key);
            for note in notes.iter().filter(|note| before.is_none_or(|before| !before.contains(*note))) {
                self.log.warning("certificate-not-asked", format_args!("{key}: {note}"));
                self.events.warn(key, "", "CertificateNotAsked", note);
            }
        }
        self.not_asked = all;
    }

    /// Adds the condition to each listener whose certificate is asked of cert-manager.
    pub(super) fn tell_cert_manager(&self, key: &ObjectKey, gateway: &ObjectName, status: &mut Status) {
        let (listeners, listener_set) = match status {
            Status::Gateway(status) => (&mut status.listeners, None),
            Status::ListenerSet(status) => (&mut status.listeners, Some(key.name.clone())),
            _ => return,
        };
        let wants = &self.translator.translation().wants;
        for listener in listeners {
            let id = ListenerId {
                gateway: gateway.clone(),
                listener_set: listener_set.clone(),
                name: listener.name.clone(),
            };
            let names: Vec<&Hostname> = wants
                .get(&id)
                .into_iter()
                .flat_map(|wants| &wants.names)
                .map(|wanted| &wanted.name)
                .collect();
            let told = self.cert_manager.told(&id, &names, self.settings.cert_manager);
            let Some((status, reason, message)) = told else { continue };
            let generation = listener.conditions.first().map_or(0, |condition| condition.observed_generation);
            listener.conditions.push(Condition {
                kind: ConditionType::CertificatesIssued,
                status,
                reason,
                message,
                observed_generation: generation,
            });
        }
    }
}
