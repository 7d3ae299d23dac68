//! What `certs plan` says of certificates that cert-manager makes: the Certificates that the controller of a cluster
//! would ask it for, by the controller's own rules.

use serde_json::{Value, json};
use tidegate_kubernetes::certmanager::{
    Bounds, NOT_ASKED, Plan, Planned, Target, Targets, There, plan, taken, targets,
};
use tidegate_plan::{Hostname, ListenerId, ObjectName};
use tidegate_translate::{Issuer, Resources, Translation, Wants};

use crate::layout::paragraph;
use crate::output::{FAINT, styled};
use crate::words;

const OF_THE_SHIM: &str = "cert-manager's gateway-shim makes it, which acts on listeners with a hostname; gateway.tidegate.io/cert-manager: all has Tidegate ask for it";

pub(crate) struct CertManager {
    targets: Targets,
    plan: Plan,
    bounds: Bounds,
    /// Whether the controller asks it at all.
    is_asked: bool,
}

impl CertManager {
    /// In view of the Certificates that there are.
    pub(crate) fn of(
        translation: &Translation,
        resources: &Resources,
        there: &There,
        bounds: Bounds,
        is_asked: bool,
    ) -> Self {
        let targets = targets(translation, resources, there, bounds.together);
        let plan = plan(&targets.all, there, &taken(resources), bounds.names, words::now());
        Self { targets, plan, bounds, is_asked }
    }

    /// Those that a listener's names go into.
    fn certificates(&self, listener: &ListenerId) -> impl Iterator<Item = (&ObjectName, &Planned)> {
        let secret = self.targets.listeners.get(listener);
        self.plan.certificates.iter().filter(move |(_, planned)| Some(&planned.of) == secret)
    }

    /// Why none is asked for.
    fn why_not(&self, listener: &ListenerId) -> Option<&str> {
        let Some(secret) = self.targets.listeners.get(listener) else {
            let why = self.targets.refused.get(listener).map_or(OF_THE_SHIM, |why| why.as_str());
            return Some(why);
        };
        if !self.is_asked {
            return Some(NOT_ASKED);
        }
        self.plan.refused.get(secret).map(String::as_str)
    }

    pub(crate) fn text(&self, wants: &Wants) -> String {
        if let Some(why) = self.why_not(&wants.listener) {
            return paragraph(2, why);
        }
        let issuer = match &wants.issuer {
            Issuer::CertManager { name, kind, .. } => format!("cert-manager's {kind} {name}"),
            Issuer::Embedded | Issuer::Acme { .. } => String::new(),
        };
        let lines = self.certificates(&wants.listener).map(|(name, planned)| {
            let names: Vec<&str> = planned.names.iter().map(Hostname::as_str).collect();
            paragraph(2, &format!("Certificate {name} of {issuer}, into Secret {name}: {}", names.join(", ")))
        });
        let together = self.target(&wants.listener).map(|target| {
            let Bounds { names, gather, .. } = self.bounds;
            let wait =
                (!gather.is_zero()).then(|| format!("; new names wait {} s for others", gather.as_secs()));
            let line = format!("together: {}{}", target.reason(names), wait.unwrap_or_default());
            format!("  {}\n", styled(FAINT, line))
        });
        lines.chain(together).collect()
    }

    fn target(&self, listener: &ListenerId) -> Option<&Target> {
        self.targets.all.get(self.targets.listeners.get(listener)?)
    }

    /// `null` where another issuer is asked.
    pub(crate) fn json(&self, wants: &Wants) -> Value {
        if !matches!(wants.issuer, Issuer::CertManager { .. }) {
            return Value::Null;
        }
        let certificates: Vec<Value> = self
            .certificates(&wants.listener)
            .filter(|_| self.is_asked)
            .map(|(name, planned)| json!({ "name": name, "secret": name, "dnsNames": planned.names }))
            .collect();
        let target = self.target(&wants.listener);
        json!({
            "asked": certificates,
            "whyNot": self.why_not(&wants.listener),
            "together": target.map(|target| target.reason(self.bounds.names)),
            "gatherSeconds": target.map(|_| self.bounds.gather.as_secs()),
        })
    }
}
