//! The plan that a session is played by: one listener, one route, one backend.

use std::sync::Arc;

use tidegate_plan::{
    Addresses, BackendHandle, BackendId, BackendKind, BackendTls, Body, Endpoint, EndpointState, Endpoints,
    EndpointsId, Expects, Group, Handling, Hostname, Listener, ListenerId, ObjectName, Plan, Protocol, Route,
    RouteId, RouteKind, Rules, StreamRule, Tables, Target, Transport, Upstream, WeightedBackend,
};

use crate::Settings;
use crate::observe::ListenerStats;
use crate::serving::Serving;
use crate::snapshot::Snapshot;
use crate::tls::Client;
use crate::upstream::{Backend, Place};

/// What is special about a listener and its backend.
pub(super) struct Play {
    pub(super) handling: Handling,
    /// Of the listener.
    pub(super) tls: Option<Arc<rustls::ServerConfig>>,
    /// Towards the backend.
    pub(super) upstream: Option<(BackendTls, Arc<Client>)>,
}

impl Default for Play {
    fn default() -> Self {
        Self { handling: Handling::Tcp, tls: None, upstream: None }
    }
}

impl Play {
    pub(super) fn expects(&self) -> Expects {
        if self.handling == Handling::Tcp { Expects::Bytes } else { Expects::Hello }
    }
}

/// The name that a route of TLS is for.
pub(super) const NAME: &str = "a.example.com";

/// A listener on port 5432 with a route to a backend at these endpoints.
pub(super) fn snapshot(play: &Play, endpoints: &[u8]) -> Snapshot {
    let tls = play.handling != Handling::Tcp;
    let name = |name: &str| ObjectName::new("default", name);
    let listener = ListenerId { gateway: name("edge"), listener_set: None, name: "db".into() };
    let id =
        BackendId { kind: BackendKind::Service, object: name("db"), port: 5432, transport: Transport::Tcp };
    let at = EndpointsId { service: name("db"), port: "".into() };
    let member = WeightedBackend { weight: 1, target: Target::Backend(id.clone()), filters: Vec::new() };
    let mut plan = Plan::default();
    plan.insert(Body::Listener(Listener {
        id: listener.clone(),
        addresses: Vec::new(),
        port: 5432,
        hostname: None,
        handling: play.handling.clone(),
        external_auth: Vec::new(),
        refuse: None,
    }));
    plan.insert(Body::Route(Route {
        id: RouteId { kind: if tls { RouteKind::Tls } else { RouteKind::Tcp }, object: name("db") },
        created: 0,
        listeners: vec![listener.clone()],
        hostnames: tls.then(|| Hostname::parse(NAME).unwrap()).into_iter().collect(),
        rules: Rules::Stream(StreamRule { name: None, backends: Group(vec![member]) }),
    }));
    plan.insert(Body::Backend(tidegate_plan::Backend {
        id: id.clone(),
        addresses: Addresses::Endpoints(at.clone()),
        protocol: Protocol::Unspecified,
        upstream: play.upstream.as_ref().map_or(Upstream::Plain, |(tls, _)| Upstream::Tls(tls.clone())),
        affinity: None,
        session: None,
        retry_budget: None,
        prefer_close: false,
        allow_loopback: true,
    }));
    let endpoint = |last: &u8| Endpoint {
        address: [10, 0, 0, *last].into(),
        port: 5432,
        state: EndpointState::Ready,
        zone: None,
    };
    let endpoints = Endpoints { id: at, endpoints: endpoints.iter().map(endpoint).collect() };
    let handle = plan.fragments.values().find_map(BackendHandle::new).unwrap();
    let place = Place::new(&Settings { workers: 1, ..Settings::default() });
    let backend = Backend::new(handle, Some(&endpoints), None, &place);
    let serving = Serving::new(Arc::new(ListenerStats::new(1)), Ok(play.tls.clone()), None);
    let mut snapshot = Snapshot { tables: Tables::new(&plan), ..Snapshot::default() };
    snapshot.listeners.insert(listener, Arc::new(serving));
    if let Some((_, client)) = &play.upstream {
        snapshot.clients.insert(id.clone(), Ok(Arc::clone(client)));
    }
    snapshot.backends.insert(id, Arc::new(backend));
    snapshot.put_streams(&plan);
    snapshot
}
