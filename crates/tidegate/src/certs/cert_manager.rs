//! What `certs plan` says of certificates that cert-manager makes: the Certificates that the controller of a cluster
//! would ask it for, by the controller's own rules.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tidegate_kubernetes::certmanager::{Plan, Planned, Targets, There, plan, targets};
use tidegate_plan::{Hostname, ListenerId, ObjectName};
use tidegate_translate::{Issuer, Wants};

use crate::layout::paragraph;
use crate::meaning::Meaning;

pub(crate) struct CertManager {
    targets: Targets,
    plan: Plan,
}

impl CertManager {
    /// In a cluster that has no Certificates yet.
    pub(crate) fn of(meaning: &Meaning) -> Self {
        let there = There::default();
        let targets = targets(meaning.translation(), meaning.resources(), &there);
        let plan = plan(&targets.all, &there, &BTreeSet::new(), 0);
        Self { targets, plan }
    }

    /// Those that a listener's names go into.
    fn certificates(&self, listener: &ListenerId) -> impl Iterator<Item = (&ObjectName, &Planned)> {
        let secret = self.targets.listeners.get(listener);
        self.plan.certificates.iter().filter(move |(_, planned)| Some(&planned.of) == secret)
    }

    /// Why none is asked for.
    fn why_not(&self, listener: &ListenerId) -> Option<&str> {
        if let Some(why) = self.targets.refused.get(listener) {
            return Some(why);
        }
        (!self.targets.listeners.contains_key(listener)).then_some(
            "cert-manager's gateway-shim makes it, which acts on listeners with a hostname; gateway.tidegate.io/cert-manager: all has Tidegate ask for it",
        )
    }

    pub(crate) fn text(&self, wants: &Wants) -> String {
        if let Some(why) = self.why_not(&wants.listener) {
            return paragraph(2, why);
        }
        let issuer = match &wants.issuer {
            Issuer::CertManager { name, kind, .. } => format!("cert-manager's {kind} {name}"),
            Issuer::Embedded | Issuer::Acme => String::new(),
        };
        let lines = self.certificates(&wants.listener).map(|(name, planned)| {
            let names: Vec<&str> = planned.names.iter().map(Hostname::as_str).collect();
            paragraph(2, &format!("Certificate {name} of {issuer}, into Secret {name}: {}", names.join(", ")))
        });
        lines.collect()
    }

    /// `null` where another issuer is asked.
    pub(crate) fn json(&self, wants: &Wants) -> Value {
        if !matches!(wants.issuer, Issuer::CertManager { .. }) {
            return Value::Null;
        }
        let certificates: Vec<Value> = self
            .certificates(&wants.listener)
            .map(|(name, planned)| json!({ "name": name, "secret": name, "dnsNames": planned.names }))
            .collect();
        json!({ "asked": certificates, "whyNot": self.why_not(&wants.listener) })
    }
}
