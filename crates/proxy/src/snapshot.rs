//! What workers serve by at one moment. Never changed: a newer one takes its place and shares with it what stayed
//! the same.

use std::sync::Arc;

use tidegate_plan::{
    BackendId, ListenerId, ObjectName, Reason, RouteId, RuleHandle, SharedMap, Tables, Target, Upstream,
};

use crate::Ending;
use crate::observe::TrafficStats;
use crate::serving::Serving;
use crate::tls::{Client, Codec, Identity};
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
    /// TLS towards the backends whose policies ask for it.
    pub(crate) clients: SharedMap<BackendId, Result<Arc<Client>, Reason>>,
    /// The client certificates of Gateways.
    pub(crate) identities: SharedMap<ObjectName, Result<Identity, Reason>>,
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
            Target::Backend(id) => self.backends.of(id).ok_or(Ending::Refused(Reason::BackendNotFound)),
            Target::Invalid(reason) => Err(Ending::Refused(*reason)),
        }
    }

    /// How TLS is spoken to a backend on behalf of a Gateway; `None`: it is not.
    pub(crate) fn backend_tls(
        &self,
        backend: &Backend,
        gateway: &ObjectName,
    ) -> Result<Option<Codec>, Ending> {
        let client = match &backend.plan.upstream {
            Upstream::Plain => return Ok(None),
            Upstream::Refuse(reason) => return Err(Ending::Refused(*reason)),
            Upstream::Tls(_) => self.clients.of(&backend.plan.id).ok_or(Reason::PolicyInvalid)?.as_ref(),
        };
        let client = client.map_err(|reason| *reason)?;
        let identity =
            self.identities.of(gateway).map(Result::as_ref).transpose().map_err(|reason| *reason)?;
        let codec = Codec::client(client.config(identity), client.name());
        codec.map(Some).map_err(|_| Ending::BackendHandshakeFailed)
    }

    /// Whether what a connection was made under is still there. A group that gives its traffic to other backends now
    /// keeps the connections it has; one that lost a backend, or the permission to use it, does not.
    pub(crate) fn still_allows(&self, listener: &ListenerId, rule: &RuleHandle, backend: &BackendId) -> bool {
        if self.tables.listener(listener).is_none_or(|listener| listener.refuse.is_some()) {
            return false;
        }
        let Some(route) = self.tables.route(&rule.route().id) else { return false };
        if Arc::ptr_eq(route.fragment(), rule.route().fragment()) {
            return true;
        }
        let Some(rule) = RuleHandle::new(route.clone(), rule.index()) else { return false };
        let group = &rule.group().0;
        let is_target = |target: &Target| matches!(target, Target::Backend(id) if id == backend);
        route.listeners.contains(listener)
            && (group.iter().any(|member| is_target(&member.target))
                || group.iter().all(|member| member.failure().is_none()))
    }
}
