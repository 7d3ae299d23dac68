//! What workers serve by at one moment. Never changed: a newer one takes its place and shares with it what stayed
//! the same.

use std::sync::Arc;

use tidegate_plan::{BackendId, ListenerId, RouteId, RuleHandle, SharedMap, Tables, Target};

use crate::Ending;
use crate::observe::TrafficStats;
use crate::serving::Serving;
use crate::upstream::{Backend, Cycle};

#[derive(Clone, Default)]
pub(crate) struct Snapshot {
    pub(crate) tables: Tables,
    pub(crate) backends: SharedMap<BackendId, Arc<Backend>>,
    /// How far each rule with several backends has dealt its weights.
    pub(crate) cycles: SharedMap<RouteId, Arc<[Cycle]>>,
    /// What each route has carried.
    pub(crate) routes: SharedMap<RouteId, Arc<TrafficStats>>,
    pub(crate) listeners: SharedMap<ListenerId, Arc<Serving>>,
}

impl Snapshot {
    /// The backend whose turn it is. Weight comes first: a backend without endpoints keeps its share and fails it.
    pub(crate) fn backend(&self, rule: &RuleHandle) -> Result<&Arc<Backend>, Ending> {
        let group = rule.group();
        let chosen = match group.0.as_slice() {
            [only] if only.weight > 0 => only,
            _ => {
                let cycles = self.cycles.of(&rule.route().id);
                let cycle = cycles.and_then(|cycles| cycles.get(rule.index()));
                crate::upstream::deal(group, cycle)?
            }
        };
        match &chosen.target {
            Target::Backend(id) => {
                self.backends.of(id).ok_or(Ending::Refused(tidegate_plan::Reason::BackendNotFound))
            }
            Target::Invalid(reason) => Err(Ending::Refused(*reason)),
        }
    }
}
