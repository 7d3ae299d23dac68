//! A data plane in the process of the test, with a plan written by hand.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tidegate_http::{Engine, Options};
use tidegate_plan::{
    Addresses, Backend, BackendId, BackendKind, Blob, BlobId, Body, Endpoint, EndpointState, Endpoints,
    EndpointsId, Filter, FragmentId, Group, GrpcMatch, GrpcRule, Handling, Hostname, HttpMatch, HttpRule,
    Listener, ListenerId, ObjectName, PathMatch, Plan, Protocol, Route, RouteId, RouteKind, Rules, Target,
    Timeouts, Transport, Upstream, WeightedBackend,
};
use tidegate_proxy::{AccessLog, Bounds, HttpEngine, LogFormat, LogTarget, Proxy, Settings};

/// So long a test waits for what must come.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn wait_for<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(start.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

/// A running data plane and the plan that it serves.
pub(crate) struct Gate {
    proxy: Option<Proxy>,
    pub(crate) plan: Plan,
    pub(crate) port: u16,
    log: Arc<Mutex<Vec<u8>>>,
}

struct Sink(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Gate {
    /// With one HTTP listener that takes every name.
    pub(crate) fn new() -> Self {
        Self::with(Bounds::default(), 2)
    }

    pub(crate) fn with(bounds: Bounds, workers: usize) -> Self {
        let engine = Engine::new(Options::new(Default::default(), true).unwrap());
        Self::with_engine(bounds, workers, Box::new(engine))
    }

    pub(crate) fn with_engine(bounds: Bounds, workers: usize, engine: Box<dyn HttpEngine>) -> Self {
        let bind = vec![IpAddr::V4(Ipv4Addr::LOCALHOST)];
        let settings = Settings { workers, bind, bounds, ..Settings::default() };
        let log = Arc::new(Mutex::new(Vec::new()));
        let lines =
            AccessLog::start(LogTarget::Other(Box::new(Sink(Arc::clone(&log)))), LogFormat::Text).unwrap();
        let proxy = Proxy::start(settings, Some(lines), engine).unwrap();
        let mut gate = Self { proxy: Some(proxy), plan: Plan::default(), port: free_port(), log };
        let listener = gate.listener("http", Handling::Http, None);
        gate.plan.insert(Body::Listener(listener));
        gate
    }

    pub(crate) fn listener(&self, name: &str, handling: Handling, hostname: Option<&str>) -> Listener {
        Listener {
            id: listener_id(name),
            addresses: Vec::new(),
            port: self.port,
            hostname: hostname.map(|name| Hostname::parse(name).unwrap()),
            handling,
            external_auth: Vec::new(),
            refuse: None,
        }
    }

    /// Serves the plan as it is now.
    pub(crate) fn apply(&self) {
        let proxy = self.proxy.as_ref().unwrap();
        let known = [FragmentId::Listener(listener_id("http"))];
        let fragments: BTreeSet<FragmentId> = self.plan.fragments.keys().cloned().chain(known).collect();
        proxy.apply(&self.plan, &fragments, &self.plan.endpoints.keys().cloned().collect());
    }

    pub(crate) fn serving(self) -> Self {
        self.apply();
        self
    }

    pub(crate) fn blob(&mut self, blob: Blob) -> BlobId {
        let id = blob.id();
        self.plan.blobs.insert(id.clone(), Arc::new(blob));
        id
    }

    /// A backend at these ports of loopback.
    pub(crate) fn backend(&mut self, name: &str, ports: &[u16]) -> BackendId {
        self.backend_with(name, ports, |_| {})
    }

    pub(crate) fn backend_with(
        &mut self,
        name: &str,
        ports: &[u16],
        change: impl FnOnce(&mut Backend),
    ) -> BackendId {
        let object = ObjectName::new("default", name);
        let id = BackendId {
            kind: BackendKind::Service,
            object: object.clone(),
            port: 80,
            transport: Transport::Tcp,
        };
        let endpoints = EndpointsId { service: object, port: "".into() };
        let endpoint = |port: &u16| Endpoint {
            address: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port: *port,
            state: EndpointState::Ready,
            zone: None,
        };
        let all = Endpoints { id: endpoints.clone(), endpoints: ports.iter().map(endpoint).collect() };
        self.plan.endpoints.insert(endpoints.clone(), Arc::new(all));
        let mut backend = Backend {
            id: id.clone(),
            addresses: Addresses::Endpoints(endpoints),
            protocol: Protocol::Unspecified,
            upstream: Upstream::Plain,
            affinity: None,
            session: None,
            retry_budget: None,
            prefer_close: false,
            allow_loopback: true,
        };
        change(&mut backend);
        self.plan.insert(Body::Backend(backend));
        id
    }

    pub(crate) fn route(&mut self, name: &str, rules: Vec<HttpRule>) {
        self.route_for(name, &[], &["http"], Rules::Http(rules));
    }

    pub(crate) fn route_for(&mut self, name: &str, hostnames: &[&str], listeners: &[&str], rules: Rules) {
        let kind = if matches!(rules, Rules::Grpc(_)) { RouteKind::Grpc } else { RouteKind::Http };
        self.plan.insert(Body::Route(Route {
            id: RouteId { kind, object: ObjectName::new("default", name) },
            created: 0,
            listeners: listeners.iter().map(|name| listener_id(name)).collect(),
            hostnames: hostnames.iter().map(|name| Hostname::parse(name).unwrap()).collect(),
            rules,
        }));
    }

    pub(crate) fn remove_listener(&mut self, name: &str) {
        self.plan.fragments.remove(&FragmentId::Listener(listener_id(name)));
        let proxy = self.proxy.as_ref().unwrap();
        proxy.apply(&self.plan, &[FragmentId::Listener(listener_id(name))].into(), &BTreeSet::new());
    }

    pub(crate) fn remove_route(&mut self, name: &str) {
        let route = RouteId { kind: RouteKind::Http, object: ObjectName::new("default", name) };
        let id = FragmentId::Route(route);
        self.plan.fragments.remove(&id);
        self.proxy().apply(&self.plan, &[id].into(), &BTreeSet::new());
    }

    pub(crate) fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }

    pub(crate) fn proxy(&self) -> &Proxy {
        self.proxy.as_ref().unwrap()
    }

    /// The value of a series of the metrics, 0 where it is not there.
    pub(crate) fn metric(&self, series: &str) -> f64 {
        let page = self.proxy().metrics();
        let values: BTreeMap<&str, f64> = page
            .lines()
            .filter_map(|line| line.rsplit_once(' '))
            .filter_map(|(name, value)| Some((name, value.parse().ok()?)))
            .collect();
        values.get(series).copied().unwrap_or_default()
    }

    /// The first line of the access log that holds all of these, once it is there.
    pub(crate) fn line(&self, words: &[&str]) -> String {
        wait_for(&format!("a line with {words:?}"), || {
            let text = String::from_utf8(self.log.lock().unwrap().clone()).unwrap();
            text.lines().find(|line| words.iter().all(|word| line.contains(word))).map(str::to_owned)
        })
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        if let Some(proxy) = self.proxy.take() {
            proxy.stop();
        }
    }
}

pub(crate) fn listener_id(name: &str) -> ListenerId {
    ListenerId { gateway: ObjectName::new("default", "gate"), listener_set: None, name: name.into() }
}

pub(crate) fn prefix(path: &str) -> HttpMatch {
    HttpMatch {
        path: PathMatch::Prefix(path.to_owned()),
        method: None,
        headers: Vec::new(),
        query: Vec::new(),
    }
}

/// Everything to one backend.
pub(crate) fn rule(path: &str, backend: &BackendId) -> HttpRule {
    rule_with(path, Group(vec![member(1, backend)]), Vec::new())
}

pub(crate) fn rule_with(path: &str, backends: Group, filters: Vec<Filter>) -> HttpRule {
    HttpRule {
        name: None,
        matches: vec![prefix(path)],
        filters,
        backends,
        timeouts: Timeouts::default(),
        retry: None,
        session: None,
        refuse: None,
    }
}

pub(crate) fn member(weight: u32, backend: &BackendId) -> WeightedBackend {
    WeightedBackend { weight, target: Target::Backend(backend.clone()), filters: Vec::new() }
}

pub(crate) fn grpc_rule(backend: &BackendId) -> GrpcRule {
    GrpcRule {
        name: None,
        matches: vec![GrpcMatch::default()],
        filters: Vec::new(),
        backends: Group(vec![member(1, backend)]),
        session: None,
        refuse: None,
    }
}
