//! What a listener says about the certificates that cert-manager makes for it.

use tidegate_api::status::{ConditionStatus, Reason};
use tidegate_issuing::Told;
use tidegate_plan::{Hostname, ListenerId, ObjectName};

use super::state::{Certificates, State};
use super::targets::Owner;

/// Of so many Certificates and names it is said what they wait for.
const SHOWN: usize = 5;

/// Why nothing comes of annotations of cert-manager's where the controller does not act on them.
pub const NOT_ASKED: &str = "cert-manager is not asked: start the controller with --cert-manager (chart: certificates.certManager=true)";

impl Certificates {
    /// `None` where the listener is not ours, or wants nothing.
    pub(crate) fn told(&self, listener: &ListenerId, names: &[&Hostname], is_on: bool) -> Option<Told> {
        let failed = |message: String| Some((ConditionStatus::False, Reason::IssuanceFailed, message));
        let state = self.state();
        let targets = state.newest();
        if let Some(why) = targets.refused.get(listener).filter(|_| is_on) {
            return failed(why.clone());
        }
        let secret = targets.listeners.get(listener)?;
        if names.is_empty() {
            return None;
        }
        if !is_on {
            return failed(NOT_ASKED.to_owned());
        }
        if state.installed == Some(false) {
            return failed(
                "cert-manager is not installed: there is no CRD certificates.cert-manager.io".to_owned(),
            );
        }
        match state.plan.refused.get(secret) {
            Some(why) => failed(why.clone()),
            None => Some(state.progress(secret, names)),
        }
    }

    /// Whose a Certificate is, and what cert-manager says is wrong with it.
    pub(super) fn failure(&self, name: &ObjectName) -> Option<(Owner, String)> {
        let state = self.state();
        let existing = state.there.all.get(name)?;
        let owner = state.newest().all.get(&existing.of)?.owner.clone();
        Some((owner, existing.readiness().err()?))
    }
}

impl State {
    fn progress(&self, secret: &ObjectName, names: &[&Hostname]) -> Told {
        let mut waiting = Vec::new();
        let mut has_failed = false;
        let mut missing: Vec<&Hostname> = names.to_vec();
        for (name, existing) in self.there.of(secret) {
            if !names.iter().any(|wanted| existing.names.contains(*wanted)) {
                continue;
            }
            missing.retain(|wanted| !existing.names.contains(*wanted));
            if let Err(why) = existing.readiness() {
                has_failed |= existing.is_failing;
                waiting.push(format!("Certificate {name}: {why}"));
            }
        }
        let of_secret = |name: &&ObjectName| {
            self.plan.certificates.get(*name).is_some_and(|planned| planned.of == *secret)
        };
        for (_, failure) in self.failures.iter().filter(|(name, _)| of_secret(name)) {
            has_failed = true;
            waiting.push(failure.message.clone());
        }
        let is_paced = self.paced.keys().any(|name| of_secret(&name));
        let why = if is_paced {
            "waits some minutes: the Certificate has been changed often of late"
        } else {
            "waits a moment for other names"
        };
        waiting.extend(missing.iter().map(|name| format!("{name}: {why}")));
        if waiting.is_empty() {
            let message = format!("all names have a certificate ({})", names.len());
            return (ConditionStatus::True, Reason::CertificatesIssued, message);
        }
        let more = waiting.len().saturating_sub(SHOWN);
        waiting.truncate(SHOWN);
        if more > 0 {
            waiting.push(format!("and {more} more"));
        }
        let reason = if has_failed { Reason::IssuanceFailed } else { Reason::Pending };
        (ConditionStatus::False, reason, waiting.join("; "))
    }
}
