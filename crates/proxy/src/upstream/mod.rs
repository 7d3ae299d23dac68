//! Where connections and flows go: which backend of a group, and which endpoint of that. It opens no socket; who
//! does tells it how that went.

mod affinity;
mod cycle;
mod dns;
mod endpoint;
mod health;
mod lease;
mod pick;
mod place;
mod random;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use tidegate_plan::{Addresses, BackendHandle, EndpointState, Endpoints};

pub(crate) use self::cycle::{Cycle, deal};
pub(crate) use self::dns::{Answer, Names, Resolver};
pub use self::endpoint::{Endpoint, EndpointSeen};
pub use self::lease::Lease;
pub(crate) use self::place::Place;
pub(crate) use self::random::Random;
use crate::observe::TrafficStats;

/// A backend at run time. Never changed: a newer one takes its place and shares with it what was seen.
#[derive(Debug)]
pub struct Backend {
    pub plan: BackendHandle,
    pub(crate) stats: TrafficStats,
    endpoints: Vec<Arc<Endpoint>>,
}

impl Backend {
    /// A backend whose addresses come by DNS keeps those it had, until [`resolved`](Self::resolved) says otherwise.
    pub(crate) fn new(
        plan: BackendHandle,
        endpoints: Option<&Endpoints>,
        before: Option<&Self>,
        place: &Place,
    ) -> Self {
        let addresses = match &plan.addresses {
            Addresses::Endpoints(_) => {
                endpoints.map_or_else(Vec::new, |endpoints| in_use(&endpoints.endpoints, &plan, place))
            }
            Addresses::Dns { hostname, port } => {
                let kept = before.filter(|before| before.hostname() == Some(hostname));
                let kept = kept.into_iter().flat_map(|before| &before.endpoints);
                kept.map(|endpoint| SocketAddr::new(endpoint.address.ip(), *port)).collect()
            }
        };
        Self::with(plan, addresses, before, place)
    }

    /// The same backend at the addresses that its name has now; `None` if its name is another by now.
    pub(crate) fn resolved(&self, answer: &Answer, place: &Place) -> Option<Self> {
        let Addresses::Dns { hostname, port } = &self.plan.addresses else { return None };
        if self.plan.id != answer.backend || *hostname != answer.hostname {
            return None;
        }
        let addresses = answer.addresses.iter().map(|address| SocketAddr::new(*address, *port)).collect();
        Some(Self::with(self.plan.clone(), addresses, Some(self), place))
    }

    /// What it looks like now, for metrics and status.
    pub(crate) fn endpoints(&self, now: Instant) -> impl Iterator<Item = EndpointSeen> {
        self.endpoints.iter().map(move |endpoint| endpoint.seen(now))
    }

    /// Whether this very endpoint is still one of its.
    pub(crate) fn has_endpoint(&self, endpoint: &Arc<Endpoint>) -> bool {
        let found = self.endpoints.binary_search_by_key(&endpoint.address, |endpoint| endpoint.address);
        found.is_ok_and(|at| Arc::ptr_eq(&self.endpoints[at], endpoint))
    }

    /// The endpoint that a session belongs to, as long as it is there and not set aside.
    #[must_use]
    pub fn endpoint_of(&self, is_it: impl Fn(SocketAddr) -> bool) -> Option<Lease> {
        let now = Instant::now();
        let found = self.endpoints.iter().find(|endpoint| is_it(endpoint.address))?;
        found.is_fit(now).then(|| Lease::new(Arc::clone(found)))
    }

    /// Whether there is an endpoint besides these.
    #[must_use]
    pub fn has_untried(&self, tried: &[SocketAddr]) -> bool {
        self.endpoints.iter().any(|endpoint| !tried.contains(&endpoint.address))
    }

    /// Whether there is more than one endpoint.
    #[must_use]
    pub fn has_others(&self) -> bool {
        self.endpoints.len() > 1
    }

    /// Whether this is the address of an endpoint.
    pub(crate) fn has(&self, address: SocketAddr) -> bool {
        self.endpoints.binary_search_by_key(&address, |endpoint| endpoint.address).is_ok()
    }

    /// The endpoint for a connection of this client, other than those that it has tried. `None`: none is left.
    pub(crate) fn pick(
        &self,
        client: IpAddr,
        tried: &[SocketAddr],
        random: &mut Random,
        now: Instant,
    ) -> Option<Arc<Endpoint>> {
        let chosen = match self.endpoints.as_slice() {
            [only] => (!tried.contains(&only.address)).then_some(only),
            all if self.plan.affinity.is_some() => pick::by_client(all, affinity::client(client), tried, now),
            all => pick::by_load(all, tried, random, now),
        };
        chosen.cloned()
    }

    fn with(
        plan: BackendHandle,
        mut addresses: Vec<SocketAddr>,
        before: Option<&Self>,
        place: &Place,
    ) -> Self {
        addresses.retain(|address| place.permits(*address, plan.allow_loopback));
        addresses.sort();
        addresses.dedup();
        let known = before.map_or(&[][..], |before| &before.endpoints);
        let seen_before = |address| {
            let known =
                known.binary_search_by_key(&address, |endpoint| endpoint.address).map(|at| &known[at]);
            known.map_or_else(|_| Arc::new(Endpoint::new(address)), Arc::clone)
        };
        let stats = before.map_or_else(|| TrafficStats::new(&place.ledger), |before| before.stats.clone());
        Self { stats, endpoints: addresses.into_iter().map(seen_before).collect(), plan }
    }

    fn hostname(&self) -> Option<&tidegate_plan::Hostname> {
        match &self.plan.addresses {
            Addresses::Dns { hostname, .. } => Some(hostname),
            Addresses::Endpoints(_) => None,
        }
    }
}

/// The ready ones, or, if there are none, those that still serve; of these the close ones, where that is asked for
/// and there are any. What is not permitted is no reason to leave out another.
fn in_use(endpoints: &[tidegate_plan::Endpoint], plan: &BackendHandle, place: &Place) -> Vec<SocketAddr> {
    let address = |endpoint: &tidegate_plan::Endpoint| SocketAddr::new(endpoint.address, endpoint.port);
    let permitted = |endpoint: &&_| place.permits(address(endpoint), plan.allow_loopback);
    let mut chosen: Vec<_> = endpoints.iter().filter(permitted).collect();
    only_if_any(&mut chosen, |endpoint| endpoint.state == EndpointState::Ready);
    if plan.prefer_close && place.zone.is_some() {
        only_if_any(&mut chosen, |endpoint| endpoint.zone == place.zone);
    }
    chosen.into_iter().map(address).collect()
}

fn only_if_any<T>(items: &mut Vec<T>, is: impl Fn(&T) -> bool) {
    if items.iter().any(&is) {
        items.retain(is);
    }
}

#[cfg(test)]
mod tests;
