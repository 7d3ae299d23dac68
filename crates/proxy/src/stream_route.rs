//! A route of TLS, TCP or UDP at run time, with all that a connection needs of it in one place: of a hundred thousand
//! routes, the one that is asked for is in no cache, and each further place would be waited for.

use std::sync::Arc;

use tidegate_plan::{BackendId, MapKey, Reason, RouteHandle, RouteId, RuleHandle, Target};

use crate::Ending;
use crate::observe::TrafficStats;
use crate::upstream::{Cycle, deal};

pub(crate) struct StreamRoute {
    /// As the decision gives it.
    pub(crate) rule: RuleHandle,
    /// For the log.
    pub(crate) id: RouteId,
    pub(crate) stats: TrafficStats,
    leads: Leads,
}

/// Where it leads to.
enum Leads {
    One(Lead),
    /// By weight, in the order of the rule.
    Several(Box<[Lead]>, Arc<Cycle>),
}

type Lead = Result<Arc<BackendKey>, Reason>;

/// What a backend is looked up by, the same for all routes that lead to it: it is in a cache when the route is not.
#[derive(Debug)]
pub(crate) struct BackendKey {
    pub(crate) id: BackendId,
    pub(crate) hash: u64,
}

/// A fragment of the plan by where it lies, which tells it apart from all others for as long as somebody keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address(usize);

impl StreamRoute {
    /// `None` for a route of another kind. What was counted and dealt before goes on.
    pub(crate) fn new(
        route: &RouteHandle,
        before: Option<&Self>,
        stats: impl FnOnce() -> TrafficStats,
        cycle: impl FnOnce() -> Cycle,
        mut key: impl FnMut(&BackendId) -> Arc<BackendKey>,
    ) -> Option<Self> {
        let rule = RuleHandle::new(route.clone(), 0)?;
        let tidegate_plan::Rule::Stream(stream) = rule.rule() else { return None };
        let mut lead = |target: &Target| match target {
            Target::Backend(id) => Ok(key(id)),
            Target::Invalid(reason) => Err(*reason),
        };
        let leads = match stream.backends.0.as_slice() {
            [only] if only.weight > 0 => Leads::One(lead(&only.target)),
            members => {
                let cycle = before.and_then(Self::cycle).map_or_else(|| Arc::new(cycle()), Arc::clone);
                Leads::Several(members.iter().map(|member| lead(&member.target)).collect(), cycle)
            }
        };
        let stats = before.map_or_else(stats, |before| before.stats.clone());
        Some(Self { id: route.id.clone(), stats, leads, rule })
    }

    /// The key of the backend whose turn it is. Weight comes first: a backend without endpoints keeps its share and
    /// fails it.
    #[inline]
    pub(crate) fn deal(&self) -> Result<&BackendKey, Ending> {
        let lead = match &self.leads {
            Leads::One(only) => only,
            Leads::Several(all, cycle) => &all[deal(self.rule.group(), Some(cycle))?],
        };
        lead.as_deref().map_err(|reason| Ending::Refused(*reason))
    }

    fn cycle(&self) -> Option<&Arc<Cycle>> {
        match &self.leads {
            Leads::One(_) => None,
            Leads::Several(_, cycle) => Some(cycle),
        }
    }
}

impl Address {
    #[inline]
    pub(crate) fn of(route: &RouteHandle) -> Self {
        Self(Arc::as_ptr(route.fragment()).addr())
    }
}

impl MapKey for Address {
    /// Nobody outside chooses addresses: this need only spread them.
    #[inline]
    fn hashed(&self) -> u64 {
        let spread = (self.0 as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        spread ^ spread >> 32
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tidegate_plan::{
        BackendKind, Body, Fragment, Group, MapKey, ObjectName, Route, RouteKind, Rules, StreamRule,
        Transport, WeightedBackend,
    };

    use super::*;
    use crate::observe::Ledger;

    fn id(name: &str) -> BackendId {
        let object = ObjectName::new("default", name);
        BackendId { kind: BackendKind::Service, object, port: 80, transport: Transport::Tcp }
    }

    fn route(backends: &[(u32, Target)]) -> RouteHandle {
        let backend = |(weight, target): &(u32, Target)| WeightedBackend {
            weight: *weight,
            target: target.clone(),
            filters: Vec::new(),
        };
        let backends = Group(backends.iter().map(backend).collect());
        let route = Route {
            id: RouteId { kind: RouteKind::Tcp, object: ObjectName::new("default", "db") },
            created: 0,
            listeners: Vec::new(),
            hostnames: Vec::new(),
            rules: Rules::Stream(StreamRule { name: None, backends }),
        };
        RouteHandle::new(&Arc::new(Fragment::new(Body::Route(route)))).unwrap()
    }

    fn stream(route: &RouteHandle, before: Option<&StreamRoute>) -> StreamRoute {
        let stats = || TrafficStats::new(&Ledger::new(1));
        let key = |id: &BackendId| Arc::new(BackendKey { id: id.clone(), hash: id.hashed() });
        StreamRoute::new(route, before, stats, || Cycle::new(0), key).unwrap()
    }

    fn dealt(route: &StreamRoute) -> Result<BackendId, Ending> {
        route.deal().map(|key| key.id.clone())
    }

    #[test]
    fn it_leads_to_its_backend_or_says_why_not() {
        let (a, gone) = (Target::Backend(id("a")), Target::Invalid(Reason::BackendNotFound));
        for (backends, expected) in [
            (&[(1, a.clone())][..], Ok(id("a"))),
            (&[(1, gone.clone())], Err(Reason::BackendNotFound.into())),
            (&[(0, gone), (3, a.clone())], Ok(id("a"))),
            (&[(0, a)], Err(Reason::NoWeight.into())),
            (&[], Err(Reason::NoBackends.into())),
        ] {
            assert_eq!(dealt(&stream(&route(backends), None)), expected, "{backends:?}");
        }
    }

    #[test]
    fn what_was_counted_and_dealt_goes_on_when_it_changes() {
        let both = [(1, Target::Backend(id("a"))), (1, Target::Backend(id("b")))];
        let old = stream(&route(&both), None);
        let first = dealt(&old).unwrap();
        old.stats.cell(0).connected();
        let new = stream(&route(&both), Some(&old));
        assert_ne!(dealt(&new).unwrap(), first, "it is the other's turn");
        assert_eq!(new.stats.connections(), 1);
    }

    #[test]
    fn routes_are_told_apart_by_where_they_lie() {
        let routes = [route(&[]), route(&[])];
        let [one, other] = routes.each_ref().map(Address::of);
        assert_ne!(one, other);
        assert_ne!(one.hashed(), other.hashed());
        assert_eq!(one, Address::of(&routes[0].clone()));
    }
}
