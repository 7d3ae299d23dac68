//! What workers serve by at one moment. Never changed: a newer one takes its place and shares with it what stayed
//! the same.

use std::fmt;
use std::sync::Arc;

use tidegate_plan::{
    BackendId, Connection, Group, ListenerId, ObjectName, Reason, RouteId, RuleHandle, SharedMap, Step,
    Tables, Target, Upstream,
};

use crate::observe::RequestStats;
use crate::serving::Serving;
use crate::stream_route::{Address, StreamRoute};
use crate::tls::{Client, Codec, Identity, KeptCertificate};
use crate::upstream::{Backend, Cycle, Endpoint};
use crate::{Bounds, Ending};

/// A backend of a rule.
#[derive(Clone, Copy, Debug)]
pub struct Chosen<'s> {
    pub backend: &'s Arc<Backend>,
    /// Its place in the rule's group.
    pub index: usize,
}

/// TLS as it is spoken to a backend. The configuration is another after every change of the policy, of its CAs or of
/// a client certificate.
#[derive(Clone, Debug)]
pub struct TlsTo {
    pub config: Arc<rustls::ClientConfig>,
    /// What the backend is called in the hello.
    pub name: rustls::pki_types::ServerName<'static>,
}

#[derive(Clone, Default)]
pub struct Snapshot {
    pub(crate) bounds: Arc<Bounds>,
    pub(crate) tables: Tables,
    pub(crate) backends: SharedMap<BackendId, Arc<Backend>>,
    /// Routes of TLS, TCP and UDP.
    pub(crate) streams: SharedMap<Address, Arc<StreamRoute>>,
    /// Of the other routes: how far each rule with several backends has dealt its weights.
    pub(crate) cycles: SharedMap<RouteId, Arc<[Cycle]>>,
    /// What the requests of each HTTPRoute and GRPCRoute came to.
    pub(crate) requests: SharedMap<RouteId, Arc<RequestStats>>,
    pub(crate) listeners: SharedMap<ListenerId, Arc<Serving>>,
    pub(crate) kept: Arc<[KeptCertificate]>,
    /// TLS towards the backends whose policies ask for it.
    pub(crate) clients: SharedMap<BackendId, Result<Arc<Client>, Reason>>,
    /// The client certificates of Gateways.
    pub(crate) identities: SharedMap<ObjectName, Result<Identity, Reason>>,
}

impl Snapshot {
    #[must_use]
    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    /// The route of a rule for TLS, TCP or UDP.
    pub(crate) fn stream(&self, rule: &RuleHandle) -> Result<&Arc<StreamRoute>, Ending> {
        self.streams.of(&Address::of(rule.route())).ok_or(Ending::Refused(Reason::NoRoute))
    }

    /// The backend whose turn it is.
    pub(crate) fn backend(&self, route: &StreamRoute) -> Result<&Arc<Backend>, Ending> {
        let key = route.deal()?;
        let found = self.backends.get(key.hash, |id| *id == key.id);
        found.ok_or(Ending::Refused(Reason::BackendNotFound))
    }

    /// How a connection came to be refused, step by step: by the tables, or for what they lead to.
    pub(crate) fn refusal(
        &self,
        connection: &Connection<'_>,
        backend: Option<&Backend>,
        reason: impl Into<Option<Reason>>,
    ) -> Vec<Step> {
        let mut steps = Vec::new();
        if self.tables.admit(connection, &mut steps).is_ok() {
            steps.extend(backend.map(|backend| Step::Backend { backend: backend.plan.id.clone() }));
            steps.extend(reason.into().map(|reason| Step::Refused { reason }));
        }
        steps
    }

    /// The routes of a plan whose tables it has.
    #[cfg(test)]
    pub(crate) fn put_streams(&mut self, plan: &tidegate_plan::Plan) {
        use crate::observe::{Ledger, TrafficStats};
        use crate::stream_route::BackendKey;
        use tidegate_plan::MapKey;
        let ledger = Ledger::new(2);
        for route in plan.routes().filter_map(|route| self.tables.route(&route.id)) {
            let stats = || TrafficStats::new(&ledger);
            let key = |id: &BackendId| Arc::new(BackendKey { id: id.clone(), hash: id.hashed() });
            if let Some(stream) = StreamRoute::new(route, None, stats, || Cycle::new(7), key) {
                self.streams.insert(Address::of(route), Arc::new(stream));
            }
        }
    }

    /// The same for a rule of requests. Weight comes first: a backend without endpoints keeps its share and fails it.
    pub fn deal<'s>(&'s self, rule: &RuleHandle) -> Result<Chosen<'s>, Ending> {
        let group = rule.group();
        let index = match group.0.as_slice() {
            [only] if only.weight > 0 => 0,
            _ => {
                let cycles = self.cycles.of(&rule.route().id);
                let cycle = cycles.and_then(|cycles| cycles.get(rule.index()));
                crate::upstream::deal(group, cycle)?
            }
        };
        Ok(Chosen { backend: self.target(&group.0[index].target)?, index })
    }

    /// The backend that something else than a rule refers to: a mirror, a server that is asked for permission.
    pub fn target(&self, target: &Target) -> Result<&Arc<Backend>, Ending> {
        match target {
            Target::Backend(id) => self.backends.of(id).ok_or(Ending::Refused(Reason::BackendNotFound)),
            Target::Invalid(reason) => Err(Ending::Refused(*reason)),
        }
    }

    /// What the requests of a route came to so far.
    #[must_use]
    pub fn requests(&self, route: &RouteId) -> Option<&Arc<RequestStats>> {
        self.requests.of(route)
    }

    /// How TLS is spoken to a backend on behalf of a Gateway; `None`: it is not.
    pub fn tls_to(&self, backend: &Backend, gateway: &ObjectName) -> Result<Option<TlsTo>, Ending> {
        let Some((client, identity)) = self.client(backend, gateway)? else { return Ok(None) };
        Ok(Some(TlsTo { config: client.config(identity), name: client.name() }))
    }

    /// Whether connections to an endpoint of a backend that were made under this TLS, on behalf of this Gateway, would
    /// be made in the same way today.
    #[must_use]
    pub fn still_reaches(
        &self,
        backend: &BackendId,
        endpoint: &Arc<Endpoint>,
        gateway: &ObjectName,
        tls: Option<&TlsTo>,
    ) -> bool {
        let Some(backend) = self.backends.of(backend) else { return false };
        let now = self.tls_to(backend, gateway);
        let same = match (&now, tls) {
            (Ok(None), None) => true,
            (Ok(Some(now)), Some(then)) => Arc::ptr_eq(&now.config, &then.config),
            _ => false,
        };
        same && backend.has_endpoint(endpoint)
    }

    /// The same for bytes, from a client with which an application protocol may have been agreed on.
    pub(crate) fn backend_tls(
        &self,
        backend: &Backend,
        gateway: &ObjectName,
        agreed: Option<&[u8]>,
    ) -> Result<Option<Codec>, Ending> {
        let Some((client, identity)) = self.client(backend, gateway)? else { return Ok(None) };
        let codec = Codec::client(client.config(identity), client.name(), client.offers(agreed));
        codec.map(Some).map_err(|_| Ending::BackendHandshakeFailed)
    }

    fn client(
        &self,
        backend: &Backend,
        gateway: &ObjectName,
    ) -> Result<Option<(&Client, Option<&Identity>)>, Ending> {
        let client = match &backend.plan.upstream {
            Upstream::Plain => return Ok(None),
            Upstream::Refuse(reason) => return Err(Ending::Refused(*reason)),
            Upstream::Tls(_) => self.clients.of(&backend.plan.id).ok_or(Reason::PolicyInvalid)?.as_ref(),
        };
        let client = client.map_err(|reason| *reason)?;
        let identity =
            self.identities.of(gateway).map(Result::as_ref).transpose().map_err(|reason| *reason)?;
        Ok(Some((client, identity)))
    }

    /// Whether what a connection was made under is still there. A group that gives its traffic to other backends now
    /// keeps the connections it has; one that lost a backend, or the permission to use it, does not.
    #[must_use]
    pub fn still_allows(&self, listener: &ListenerId, rule: &RuleHandle, backend: &BackendId) -> bool {
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

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Snapshot")
    }
}

fn leads_to(group: &Group, backend: &BackendId) -> bool {
    group.0.iter().any(|member| matches!(&member.target, Target::Backend(id) if id == backend))
}
