//! Certificates of cert-manager in a turn: what is wanted of them, and what listeners say about them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use tidegate_api::status::{ConditionStatus, Status};
use tidegate_api::{Kind, ObjectKey};
use tidegate_issuing::{not_asked_for, refusal, some_of, tell};
use tidegate_plan::{Hostname, ListenerId, ObjectName};
use tidegate_translate::{Source, Wants};

use super::Controller;
use crate::certmanager::Targets;

impl Controller {
    /// What there shall be for the listeners that are ours; names the Gateways for which that is something else now.
    pub(super) fn ask_cert_manager(&mut self) -> BTreeSet<ObjectName> {
        let targets = self.cert_manager.targets(self.translator.translation(), self.translator.resources());
        self.tell_what_is_not_asked(&targets);
        self.metrics.asked_certificates.set(self.cert_manager.count());
        self.cert_manager.want(targets, Instant::now())
    }

    /// Once for each thing, in the log and as an Event.
    fn tell_what_is_not_asked(&mut self, targets: &Targets) {
        let mut all: BTreeMap<ObjectKey, BTreeSet<String>> = BTreeMap::new();
        if self.settings.cert_manager.is_some() {
            for (key, notes) in &targets.notes {
                all.entry(key.clone()).or_default().extend(notes.iter().cloned());
            }
            for (listener, why) in &targets.refused {
                let note = format!("listener {}: {why}", listener.name);
                all.entry(written_in(listener)).or_default().insert(note);
            }
        }
        for wants in self.translator.translation().wants.values() {
            let notes =
                not_asked(wants, self.settings.cert_manager.is_some(), self.settings.issuing.is_some());
            if !notes.is_empty() {
                all.entry(written_in(&wants.listener)).or_default().extend(notes);
            }
        }
        for (key, notes) in &all {
            let before = self.not_asked.get(key);
            for note in notes.iter().filter(|note| before.is_none_or(|before| !before.contains(*note))) {
                self.log.warning("certificate-not-asked", format_args!("{key}: {note}"));
                self.events.warn(key, "CertificateNotAsked", note);
            }
        }
        self.not_asked = all;
    }

    /// Adds the condition to each listener whose certificate is asked of cert-manager.
    pub(super) fn tell_cert_manager(&self, status: &mut Status, key: &ObjectKey, gateway: &ObjectName) {
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
            let wants = wants.get(&id);
            let names: Vec<&Hostname> =
                wants.into_iter().flat_map(|wants| &wants.names).map(|wanted| &wanted.name).collect();
            let told = self.cert_manager.told(&id, &names, self.settings.cert_manager.is_some());
            if let Some((status, reason, mut message)) = told {
                let left_out = wants.map(|wants| not_asked_for(wants)).unwrap_or_default();
                if !left_out.is_empty() {
                    message = format!("{message}; not asked for: {}", some_of(left_out));
                }
                let asks_for_stand_in = wants.is_some_and(|wants| wants.stand_in == Some(true));
                if asks_for_stand_in && status != ConditionStatus::True {
                    message = format!("{message}; {NO_STAND_IN}");
                }
                tell(listener, (status, reason, message));
            }
        }
    }
}

const NO_STAND_IN: &str =
    "untilIssued: StandIn is not for certificates of cert-manager, and connections are refused meanwhile";

/// Of so many names of a listener an Event says why they are not asked for.
const TOLD: usize = 5;

/// Names that are left out, and a Secret that is out of reach. What comes and goes with orders is told with these.
fn not_asked(wants: &Wants, cert_manager: bool, issuing: bool) -> Vec<String> {
    let is_ours = tidegate_issuing::issuer(wants).is_some();
    if !(if is_ours { issuing } else { cert_manager }) {
        return Vec::new();
    }
    let refusal = refusal(wants, None, Source::Cluster);
    let left_out = not_asked_for(wants).into_iter().take(TOLD);
    let each = left_out.chain(refusal).map(|why| format!("listener {}: {why}", wants.listener.name));
    each.collect()
}

/// The object that a listener is written in.
fn written_in(listener: &ListenerId) -> ObjectKey {
    let (kind, name) = match &listener.listener_set {
        Some(set) => (Kind::ListenerSet, set),
        None => (Kind::Gateway, &listener.gateway),
    };
    ObjectKey { kind, name: name.clone() }
}

#[cfg(test)]
mod tests {
    use tidegate_translate::{Issuer, LeftOut, Wanted, WhyLeftOut};

    use super::*;

    #[test]
    fn names_that_are_left_out_and_secrets_out_of_reach_are_worth_an_event() {
        let name = |text: &str| Hostname::parse(text).unwrap();
        let wants = |issuer: Issuer, secret: &str| Wants {
            listener: ListenerId {
                gateway: ObjectName::new("shop", "web"),
                listener_set: Some(ObjectName::new("shop", "more")),
                name: "https".into(),
            },
            issuer,
            secret: Some(ObjectName::new(secret, "tls")),
            names: vec![Wanted { name: name("a.example.com"), routes: Vec::new() }],
            stand_in: None,
            left_out: vec![LeftOut {
                name: Some(name("*.example.org")),
                route: None,
                why: WhyLeftOut::WildcardOfRoute,
                taken_by: None,
            }],
        };
        let near = wants(Issuer::Embedded, "shop");
        assert_eq!(not_asked(&near, false, true).len(), 1);
        assert!(not_asked(&near, true, false).is_empty(), "nobody makes any");
        let far = not_asked(&wants(Issuer::Embedded, "bank"), false, true);
        assert!(far.len() == 2 && far[1].ends_with("name a Secret of namespace shop"), "{far:?}");
        let (kind, group) = ("Issuer".to_owned(), "cert-manager.io".to_owned());
        let other = wants(Issuer::CertManager { name: "ca".to_owned(), kind, group }, "bank");
        assert_eq!(not_asked(&other, true, false).len(), 1);
        assert_eq!(written_in(&near.listener).kind, Kind::ListenerSet);
    }
}
