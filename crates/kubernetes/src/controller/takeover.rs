//! A new leader finds statuses that another one wrote, of data planes that have not come over yet. They serve all the
//! while, so what was said of them holds until they have spoken, or until it is too long ago.

use std::time::Duration;

use serde_json::Value as Json;
use tidegate_api::status::Reason;
use tidegate_api::{Kind, ObjectKey};
use tidegate_plan::ObjectName;

use super::Controller;

/// Data planes try every 15 seconds at least.
const PATIENCE: Duration = Duration::from_secs(60);

impl Controller {
    /// Whether the word of the leader before about a Gateway still holds.
    pub(super) fn is_taking_over(&self, gateway: &ObjectName) -> bool {
        let key = ObjectKey { kind: Kind::Gateway, name: gateway.clone() };
        if self.has_taken_over || self.served.contains_key(&key) {
            return false;
        }
        if !self.statuses.observed(&key).is_some_and(|status| is_programmed(&status)) {
            return false;
        }
        let needed = self.published.get(gateway).map_or(u64::MAX, |published| published.needed);
        let reports = self.reports.get(gateway).into_iter().flat_map(|reports| reports.values());
        let answered = reports.filter(|report| report.version >= needed).count();
        let (addresses, ready, _) = self.reached(gateway);
        // Services and nodes are looked up beside all else, and may come a moment later.
        let has_no_address = matches!(addresses.fault, Some((Reason::AddressNotAssigned, _)));
        answered < ready.count() || has_no_address
    }

    /// Once a second: ends it for those that did not come.
    pub(super) fn end_takeover(&mut self) {
        if !self.has_taken_over && self.leads_since.is_some_and(|since| since.elapsed() >= PATIENCE) {
            self.has_taken_over = true;
            self.dirty.all_gateways = true;
        }
    }

    /// Notes whether the statuses of a Gateway and its ListenerSets stay as they are for now.
    pub(super) fn leave_alone(&mut self, gateway: &ObjectName) -> bool {
        let leave = self.is_taking_over(gateway) || self.awaits_certificates(gateway);
        let sets = self.translator.resources().listener_sets_of(gateway);
        let sets = sets.map(|set| ObjectKey { kind: Kind::ListenerSet, name: set.meta.object_name() });
        let keys: Vec<_> = sets.chain([ObjectKey { kind: Kind::Gateway, name: gateway.clone() }]).collect();
        for key in keys {
            if leave {
                self.left_alone.insert(key);
            } else {
                self.left_alone.remove(&key);
            }
        }
        leave
    }
}

fn is_programmed(status: &Json) -> bool {
    let conditions = status["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|one| one["type"] == "Programmed" && one["status"] == "True")
}
