//! Flows over real sockets on loopback. Everything is driven by hand on one thread: what was sent there has arrived
//! when the call returns, so that nothing needs to be waited for, and the clock is set by the test.

mod bounds;
mod carrying;
mod changes;
mod failures;
mod workers;

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::epoll;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use tidegate_plan as plan;
use tidegate_plan::{
    BackendHandle, BackendId, BackendKind, Body, EndpointsId, ListenerHandle, ListenerId, ObjectName, Plan,
    RouteId, RouteKind, Tables, Target, Transport,
};

use super::record::Traffic;
use super::*;
use crate::Settings;
use crate::observe::{Counters, ListenerStats};
use crate::serving::{self, Serving};
use crate::snapshot::Snapshot;
use crate::upstream::{Backend, Place, Random};

/// The port of the plan's listener. The socket is bound to another.
const PORT: u16 = 53;

/// A worker without its threads.
struct Worker {
    epoll: OwnedFd,
    udp: Udp,
    snapshot: Snapshot,
    counters: Counters,
    random: Random,
    told: Told,
    now: Instant,
}

/// What was told of flows.
#[derive(Default)]
struct Told {
    ended: Vec<Ended>,
    refused: Vec<Ending>,
    /// Flows that have a place.
    places: usize,
    full: bool,
}

struct Ended {
    client: SocketAddr,
    local: SocketAddr,
    route: String,
    endpoint: SocketAddr,
    up: Traffic,
    down: Traffic,
    lasted: Duration,
    ending: Ending,
}

impl Host for Told {
    fn enter(&mut self, _: &ListenerHandle, _: IpAddr) -> Result<serving::Place, Ending> {
        if self.full {
            return Err(Ending::TooManyForSource);
        }
        self.places += 1;
        let serving = Serving::new(Arc::new(ListenerStats::new(1)), Ok(None), None);
        Ok(serving::Place::take(&Arc::new(serving), 1).unwrap())
    }

    fn leave(&mut self, _: IpAddr) {
        self.places -= 1;
    }

    fn ended(&mut self, record: &FlowRecord<'_>) {
        assert_eq!(record.listener.unwrap().id, listener_id());
        self.ended.push(Ended {
            client: record.client,
            local: record.local,
            route: record.route.unwrap().id.object.name.to_string(),
            endpoint: record.endpoint.unwrap(),
            up: record.up,
            down: record.down,
            lasted: record.ended - record.began,
            ending: record.ending,
        });
    }

    fn refused(&mut self, record: &FlowRecord<'_>, port: u16) {
        assert_eq!(port, PORT);
        self.refused.push(record.ending);
    }
}

impl Worker {
    /// One worker by itself.
    fn new(bounds: &Bounds, snapshot: Snapshot) -> Self {
        Self::one_of(&Arc::new(Shared::new(1, bounds.udp_flows)), bounds, snapshot)
    }

    fn one_of(shared: &Arc<Shared>, bounds: &Bounds, snapshot: Snapshot) -> Self {
        Self {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC).unwrap(),
            udp: Udp::new(Arc::clone(shared), bounds, Arc::default()),
            snapshot,
            counters: Counters::default(),
            random: Random::from_seed(1),
            told: Told::default(),
            now: Instant::now(),
        }
    }

    /// Listens on an address, and gives it with the port that was found.
    fn listen(&mut self, ip: &str) -> SocketAddr {
        let socket = inlet(ip);
        let address = UdpSocket::from(socket.try_clone().unwrap()).local_addr().unwrap();
        self.udp.listen(self.epoll.as_fd(), socket, address, PORT).unwrap();
        address
    }

    fn with<T>(&mut self, act: impl FnOnce(&mut Udp, &mut Context<'_>) -> T) -> T {
        let Self { epoll, udp, snapshot, counters, random, told, now } = self;
        let mut ctx = Context { snapshot, epoll: epoll.as_fd(), now: *now, counters, random, host: told };
        act(udp, &mut ctx)
    }

    /// Does what there is to do.
    fn turn(&mut self) {
        loop {
            let mut events = Vec::with_capacity(64);
            let none = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
            let buffer = rustix::buffer::spare_capacity(&mut events);
            epoll::wait(&self.epoll, buffer, Some(&none)).unwrap();
            if events.is_empty() {
                return;
            }
            self.with(|udp, ctx| {
                for event in &events {
                    let token = event.data.u64();
                    assert_ne!(token & TOKEN, 0);
                    udp.ready(token, ctx);
                }
                udp.flush(ctx);
            });
        }
    }

    fn tick(&mut self, later: Duration) {
        self.now += later;
        self.with(Udp::tick);
    }

    /// From now on another plan holds.
    fn replan(&mut self, snapshot: Snapshot) {
        self.snapshot = snapshot;
        self.udp.replanned();
        self.tick(Duration::ZERO);
    }

    /// The endings of flows so far.
    fn endings(&self) -> Vec<Ending> {
        self.told.ended.iter().map(|ended| ended.ending).collect()
    }
}

fn inlet(ip: &str) -> OwnedFd {
    let local = SocketAddr::new(ip.parse().unwrap(), 0);
    let family = if local.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(family, SocketType::DGRAM, flags, None).unwrap();
    if local.is_ipv6() {
        rustix::net::sockopt::set_ipv6_v6only(&socket, true).unwrap();
    }
    prepare(socket.as_fd(), local).unwrap();
    rustix::net::bind(&socket, &local).unwrap();
    socket
}

/// A backend that answers each datagram with its own name before it.
struct Echo {
    socket: UdpSocket,
    address: SocketAddr,
    name: &'static str,
    /// From whom it has heard.
    heard: Vec<SocketAddr>,
}

impl Echo {
    fn new(name: &'static str) -> Self {
        Self::at("127.0.0.1:0".parse().unwrap(), name)
    }

    fn at(address: SocketAddr, name: &'static str) -> Self {
        let socket = UdpSocket::bind(address).unwrap();
        socket.set_nonblocking(true).unwrap();
        Self { address: socket.local_addr().unwrap(), socket, name, heard: Vec::new() }
    }

    fn answer(&mut self) {
        let mut bytes = vec![0; 65_536];
        while let Ok((len, from)) = self.socket.recv_from(&mut bytes) {
            self.heard.push(from);
            let answer = [self.name.as_bytes(), &bytes[..len]].concat();
            self.socket.send_to(&answer, from).unwrap();
        }
    }
}

struct Client(UdpSocket);

impl Client {
    /// Hears nobody but whom it speaks to.
    fn new(to: SocketAddr) -> Self {
        let ip = if to.is_ipv4() { "127.0.0.1" } else { "::1" };
        let socket = UdpSocket::bind((ip.parse::<IpAddr>().unwrap(), 0)).unwrap();
        socket.connect(to).unwrap();
        socket.set_nonblocking(true).unwrap();
        Self(socket)
    }

    fn address(&self) -> SocketAddr {
        self.0.local_addr().unwrap()
    }

    fn send(&self, bytes: impl AsRef<[u8]>) {
        self.0.send(bytes.as_ref()).unwrap();
    }

    fn heard(&self) -> Option<Vec<u8>> {
        let mut bytes = vec![0; 65_536];
        self.0.recv(&mut bytes).ok().map(|len| bytes[..len].to_vec())
    }

    /// A question, and what came back.
    fn ask(&self, question: &str, worker: &mut Worker, echoes: &mut [&mut Echo]) -> Option<String> {
        self.send(question);
        worker.turn();
        echoes.iter_mut().for_each(|echo| echo.answer());
        worker.turn();
        self.heard().map(|bytes| String::from_utf8(bytes).unwrap())
    }
}

fn listener_id() -> ListenerId {
    ListenerId { gateway: ObjectName::new("default", "gw"), listener_set: None, name: "udp".into() }
}

fn route_id() -> RouteId {
    RouteId { kind: RouteKind::Udp, object: ObjectName::new("default", "route") }
}

fn listener() -> Body {
    Body::Listener(plan::Listener {
        id: listener_id(),
        addresses: vec![],
        port: PORT,
        hostname: None,
        handling: plan::Handling::Udp,
        external_auth: vec![],
        refuse: None,
    })
}

fn route(backends: &[(u32, BackendId)]) -> Body {
    let backend = |(weight, id): &(u32, BackendId)| plan::WeightedBackend {
        weight: *weight,
        target: Target::Backend(id.clone()),
        filters: vec![],
    };
    let backends = plan::Group(backends.iter().map(backend).collect());
    Body::Route(plan::Route {
        id: route_id(),
        created: 0,
        listeners: vec![listener_id()],
        hostnames: vec![],
        rules: plan::Rules::Stream(plan::StreamRule { name: None, backends }),
    })
}

fn backend_plan(name: &str) -> BackendHandle {
    let object = ObjectName::new("default", name);
    let id = BackendId {
        kind: BackendKind::Service,
        object: object.clone(),
        port: PORT,
        transport: Transport::Udp,
    };
    let body = Body::Backend(plan::Backend {
        id,
        addresses: plan::Addresses::Endpoints(EndpointsId { service: object, port: "".into() }),
        protocol: plan::Protocol::Unspecified,
        upstream: plan::Upstream::Plain,
        affinity: None,
        session: None,
        retry_budget: None,
        prefer_close: false,
        allow_loopback: true,
    });
    BackendHandle::new(&Arc::new(plan::Fragment::new(body))).unwrap()
}

fn backend(name: &str, endpoints: &[SocketAddr]) -> Backend {
    let handle = backend_plan(name);
    let endpoint = |address: &SocketAddr| plan::Endpoint {
        address: address.ip(),
        port: address.port(),
        state: plan::EndpointState::Ready,
        zone: None,
    };
    let id = EndpointsId { service: handle.id.object.clone(), port: "".into() };
    let endpoints = plan::Endpoints { id, endpoints: endpoints.iter().map(endpoint).collect() };
    Backend::new(handle, Some(&endpoints), None, &Place::new(&Settings::default()))
}

/// One listener and one route, to backends by weight.
fn snapshot(backends: impl IntoIterator<Item = (u32, Backend)>) -> Snapshot {
    let mut snapshot = Snapshot::default();
    let mut weights = Vec::new();
    for (weight, backend) in backends {
        weights.push((weight, backend.plan.id.clone()));
        snapshot.backends.insert(backend.plan.id.clone(), Arc::new(backend));
    }
    let mut plan = Plan::default();
    plan.insert(listener());
    plan.insert(route(&weights));
    snapshot.tables = Tables::new(&plan);
    snapshot.put_streams(&plan);
    snapshot
}

fn to(echoes: &[&Echo]) -> Snapshot {
    let addresses: Vec<_> = echoes.iter().map(|echo| echo.address).collect();
    snapshot([(1, backend("web", &addresses))])
}

fn bounds(flows: usize) -> Bounds {
    Bounds { udp_flows: flows, ..Bounds::default() }
}
