//! The data plane answers challenges of CAs: any worker, before routes are looked at.

use std::sync::{Arc, Weak};

use tidegate_certs::{Answer, Boxed, ChallengeKind, Challenges};
use tidegate_plan::{Handling, Hostname, ObjectName, Plan};

use crate::run::live::Live;

/// It does not keep the data plane alive: orders on their way do not hold up the end.
pub(crate) struct DataPlane {
    live: Weak<Live>,
}

impl DataPlane {
    pub(crate) fn new(live: &Arc<Live>) -> Self {
        Self { live: Arc::downgrade(live) }
    }
}

/// What can be answered on the listeners of a Gateway, or of all. CAs come to these ports, whatever an offset makes of
/// them on this machine.
pub(crate) fn answerable(plan: &Plan, gateway: Option<&ObjectName>) -> Vec<ChallengeKind> {
    let own = || plan.listeners().filter(|each| gateway.is_none_or(|only| each.id.gateway == *only));
    let http = own().any(|each| each.port == 80 && matches!(each.handling, Handling::Http));
    let tls = own().any(|each| {
        each.port == 443 && !matches!(each.handling, Handling::Http | Handling::Tcp | Handling::Udp)
    });
    let http = http.then_some(ChallengeKind::Http01);
    http.into_iter().chain(tls.then_some(ChallengeKind::TlsAlpn01)).collect()
}

impl Challenges for DataPlane {
    fn kinds(&self, _: &Hostname) -> Vec<ChallengeKind> {
        let Some(live) = self.live.upgrade() else { return Vec::new() };
        let meaning = live.meaning();
        answerable(&meaning.translation().plan, None)
    }

    fn answer<'a>(&'a self, name: &'a Hostname, answer: Answer) -> Boxed<'a, Result<(), String>> {
        Box::pin(async move {
            let live = self.live.upgrade().ok_or("Tidegate is ending")?;
            let challenges = live.proxy.challenges();
            match answer {
                Answer::TlsAlpn01 { certificate, key } => {
                    challenges.show_certificate(name.as_str(), certificate, key)
                }
                Answer::Http01 { token, key_authorization } => {
                    challenges.show_file(name.as_str(), &token, &key_authorization)
                }
            }
        })
    }

    fn withdraw(&self, name: &Hostname) {
        if let Some(live) = self.live.upgrade() {
            live.proxy.challenges().withdraw(name.as_str());
        }
    }
}
