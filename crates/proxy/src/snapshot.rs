//! What workers serve by at one moment. Never changed: a newer one takes its place and shares with it what stayed
//! the same.

use std::sync::Arc;

use tidegate_plan::{
    BackendId, Group, ListenerId, ObjectName, Reason, RouteId, RuleHandle, SharedMap, Tables, Target,
    Upstream,
};

use crate::observe::TrafficStats;
use crate::serving::Serving;
use crate::tls::{Client, Codec, Identity};
use crate::upstream::{Backend, Cycle};
use crate::{Bounds, Ending};

#[derive(Clone, Default)]
pub(crate) struct Snapshot {
    pub(crate) bounds: Arc<Bounds>,
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
        let Some(group) = self.group_now(listener, rule) else { return false };
        leads_to(group, backend) || group.0.iter().all(|member| member.failure().is_none())
    }

    /// The same for datagrams, which lose nothing when they go to another backend: they stay only where new ones would
    /// go, too.
    pub(crate) fn still_leads(&self, listener: &ListenerId, rule: &RuleHandle, backend: &BackendId) -> bool {
        self.group_now(listener, rule).is_some_and(|group| leads_to(group, backend))
    }

    /// The group of a rule as it is now, as long as the rule has anything to say on this listener.
    fn group_now<'s>(&'s self, listener: &ListenerId, rule: &'s RuleHandle) -> Option<&'s Group> {
        let serves = self.tables.listener(listener).is_some_and(|listener| listener.refuse.is_none());
        let route = self.tables.route(&rule.route().id).filter(|_| serves)?;
        if Arc::ptr_eq(route.fragment(), rule.route().fragment()) {
            return Some(rule.group());
        }
        let attached = route.listeners.contains(listener);
        route.group(rule.index()).filter(|_| attached)
    }
}

fn leads_to(group: &Group, backend: &BackendId) -> bool {
    group.0.iter().any(|member| matches!(&member.target, Target::Backend(id) if id == backend))
}
