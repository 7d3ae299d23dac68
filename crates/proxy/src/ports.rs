//! Which sockets are open. They belong to an (address, port), never to a listener, and all workers have one each for
//! as long as any listener needs it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use tidegate_plan::{Expects, Tables, Transport};

use crate::Settings;
use crate::net::{has_ipv6, open_tcp, open_udp};
use crate::worker::{Command, Listening, Orders};

pub(crate) struct Ports {
    workers: Vec<Orders>,
    bind: Vec<IpAddr>,
    offset: u16,
    /// What listeners ask for, as of the last tables that were seen.
    asked: BTreeSet<Asked>,
    open: BTreeMap<Socket, usize>,
    failed: BTreeMap<Socket, String>,
    /// Sockets of datagrams that workers may keep until then, for the flows that came through them.
    leaving: BTreeMap<Socket, Instant>,
    /// Sockets are known to the workers by numbers that are used once.
    next: usize,
    /// Nothing is opened any more.
    draining: bool,
}

/// One socket that each worker should have, whoever asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Socket {
    transport: Transport,
    bound: SocketAddr,
}

/// What a listener asks for: a port of the plan, at one address or at none in particular.
type Asked = (Transport, u16, Option<IpAddr>);

/// What a socket is for.
#[derive(Clone, Copy, Debug)]
struct Purpose {
    /// The port that listeners of the plan have.
    port: u16,
    expects: Option<Expects>,
}

/// What became of the sockets of one (address, port).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketState {
    /// As a listener asks for it; `None`: any address.
    pub address: Option<IpAddr>,
    /// The listener's port, before the offset.
    pub port: u16,
    pub transport: Transport,
    /// Where it is open, or why it is not.
    pub state: Result<Vec<SocketAddr>, String>,
}

const ANY_IPV6: IpAddr = IpAddr::V6(Ipv6Addr::UNSPECIFIED);

/// How long a worker may take to accept what waits at a port that is closed.
const PATIENCE: Duration = Duration::from_millis(500);

impl Ports {
    pub(crate) fn new(settings: &Settings, workers: Vec<Orders>) -> Self {
        Self {
            workers,
            // A machine without IPv6 has no such addresses to serve.
            bind: settings.bind.iter().copied().filter(|ip| *ip != ANY_IPV6 || has_ipv6()).collect(),
            offset: settings.port_offset,
            asked: BTreeSet::new(),
            open: BTreeMap::new(),
            failed: BTreeMap::new(),
            leaving: BTreeMap::new(),
            next: 0,
            draining: false,
        }
    }

    /// Closes what the tables no longer ask for, after everything that waits there was accepted. Flows of datagrams
    /// keep their sockets for a while.
    pub(crate) fn close_all_but(&mut self, tables: &Tables, drain_time: Duration) {
        // Everything is closed then, or about to be.
        if self.draining {
            return;
        }
        self.asked = tables.sockets().map(|(address, port, transport)| (transport, port, address)).collect();
        let wanted = self.wanted(tables);
        self.failed.retain(|socket, _| wanted.contains_key(socket));
        let until = Instant::now() + drain_time;
        let (done, closed) = mpsc::channel();
        let mut waiting = 0;
        self.open.retain(|socket, number| {
            let keep = wanted.contains_key(socket);
            if !keep {
                if socket.transport == Transport::Udp {
                    self.leaving.insert(*socket, until);
                }
                for worker in &self.workers {
                    waiting += usize::from(worker.give(Command::Unlisten(*number, done.clone())));
                }
            }
            keep
        });
        for _ in 0..waiting {
            if closed.recv_timeout(PATIENCE).is_err() {
                break;
            }
        }
    }

    /// Opens what the tables ask for and is not open.
    pub(crate) fn open(&mut self, tables: &Tables) {
        if self.draining {
            return;
        }
        let now = Instant::now();
        self.leaving.retain(|_, until| *until >= now);
        for (socket, purpose) in self.wanted(tables) {
            if !self.open.contains_key(&socket) {
                self.open_one(socket, purpose);
            }
        }
    }

    pub(crate) fn sweep(&self) {
        for worker in &self.workers {
            worker.give(Command::Sweep);
        }
    }

    /// What became of the sockets is told as before: nobody is to take the end of this process for a port in trouble.
    pub(crate) fn drain(&mut self, time: Duration) {
        for worker in &self.workers {
            worker.give(Command::Drain(time));
        }
        self.draining = true;
    }

    pub(crate) fn states(&self) -> Vec<SocketState> {
        let states = self.asked.iter().filter_map(|asked| {
            let (transport, port, address) = *asked;
            Some(SocketState { address, port, transport, state: self.state(asked)? })
        });
        states.collect()
    }

    /// `None`: not all of it was tried yet.
    fn state(&self, asked: &Asked) -> Option<Result<Vec<SocketAddr>, String>> {
        let Some(sockets) = self.sockets(asked) else {
            let (port, offset) = (u32::from(asked.1) + u32::from(self.offset), self.offset);
            return Some(Err(format!(
                "with --port-offset {offset} it would be {port}, and 65535 is the last"
            )));
        };
        let sockets: Vec<Socket> = sockets.collect();
        if let Some(why) = sockets.iter().find_map(|socket| self.failed.get(socket)) {
            return Some(Err(why.clone()));
        }
        let all_open = sockets.iter().all(|socket| self.open.contains_key(socket));
        all_open.then(|| Ok(sockets.iter().map(|socket| socket.bound).collect()))
    }

    fn open_one(&mut self, socket: Socket, purpose: Purpose) {
        let count = self.workers.len();
        let shared = self
            .open
            .keys()
            .chain(self.leaving.keys())
            .any(|open| open.transport == socket.transport && open.bound.port() == socket.bound.port());
        let opened = match socket.transport {
            Transport::Tcp => open_tcp(socket.bound, count, purpose.expects == Some(Expects::Hello), shared),
            Transport::Udp => open_udp(socket.bound, count, shared),
        };
        match opened {
            Ok(sockets) => {
                let number = self.next;
                self.next += 1;
                self.failed.remove(&socket);
                self.open.insert(socket, number);
                for (worker, fd) in self.workers.iter().zip(sockets) {
                    let Socket { transport, bound } = socket;
                    let listening = Listening { socket: fd, transport, bound, port: purpose.port };
                    worker.give(Command::Listen(number, listening));
                }
            }
            Err(error) => {
                self.failed.insert(socket, error.to_string());
            }
        }
    }

    fn wanted(&self, tables: &Tables) -> BTreeMap<Socket, Purpose> {
        let mut wanted = BTreeMap::new();
        for (address, port, transport) in tables.sockets() {
            for socket in self.sockets(&(transport, port, address)).into_iter().flatten() {
                let expects = tables.expects(SocketAddr::new(socket.bound.ip(), port), transport);
                wanted.insert(socket, Purpose { port, expects });
            }
        }
        wanted
    }

    /// `None`: there is no such port once the offset is added.
    fn sockets(&self, asked: &Asked) -> Option<impl Iterator<Item = Socket>> {
        let (transport, port, address) = *asked;
        let real = port.checked_add(self.offset)?;
        let addresses = if address.is_some() { &[][..] } else { &self.bind };
        let addresses = addresses.iter().copied().chain(address);
        Some(addresses.map(move |ip| Socket { transport, bound: SocketAddr::new(ip, real) }))
    }
}

#[cfg(test)]
mod tests {
    use tidegate_plan::{Body, Handling, Listener, ListenerId, ObjectName, Plan};

    use super::*;
    use crate::worker::orders;

    /// A TCP listener for each of these addresses and ports.
    fn tables(listeners: &[(Option<&str>, u16)]) -> Tables {
        let mut plan = Plan::default();
        for (number, (address, port)) in listeners.iter().enumerate() {
            let gateway = ObjectName::new("default", format!("edge-{number}"));
            plan.insert(Body::Listener(Listener {
                id: ListenerId { gateway, listener_set: None, name: "tcp".into() },
                addresses: address.iter().map(|address| address.parse().unwrap()).collect(),
                port: *port,
                hostname: None,
                handling: Handling::Tcp,
                external_auth: vec![],
                refuse: None,
            }));
        }
        Tables::new(&plan)
    }

    fn ports(offset: u16) -> Ports {
        let settings =
            Settings { bind: vec!["127.0.0.1".parse().unwrap()], port_offset: offset, ..Settings::default() };
        Ports::new(&settings, vec![orders().unwrap().0])
    }

    fn free_port() -> u16 {
        std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
    }

    #[test]
    fn one_socket_serves_those_who_ask_for_its_address_and_those_who_ask_for_any() {
        let (mut ports, port) = (ports(0), free_port());
        let tables = tables(&[(None, port), (Some("127.0.0.1"), port)]);
        ports.close_all_but(&tables, Duration::ZERO);
        assert_eq!(ports.states(), [], "nothing was tried");
        ports.open(&tables);
        assert_eq!(ports.open.len(), 1);
        let bound = SocketAddr::from(([127, 0, 0, 1], port));
        let states: Vec<_> = ports.states().into_iter().map(|state| (state.address, state.state)).collect();
        assert_eq!(states, [(None, Ok(vec![bound])), (Some(bound.ip()), Ok(vec![bound]))]);
    }

    #[test]
    fn a_port_that_the_offset_leads_out_of_all_ports_is_said() {
        let mut ports = ports(8000);
        let tables = tables(&[(None, 60_000)]);
        ports.close_all_but(&tables, Duration::ZERO);
        ports.open(&tables);
        let states = ports.states();
        let [SocketState { address: None, port: 60_000, state: Err(why), .. }] = &states[..] else {
            panic!("{states:?}")
        };
        assert!(why.contains("68000"), "{why}");
    }

    #[test]
    fn what_is_told_stays_while_it_drains() {
        let (mut ports, port) = (ports(0), free_port());
        let open = tables(&[(None, port)]);
        ports.close_all_but(&open, Duration::ZERO);
        ports.open(&open);
        let before = ports.states();
        ports.drain(Duration::ZERO);
        ports.close_all_but(&tables(&[]), Duration::ZERO);
        ports.open(&tables(&[(None, port), (None, free_port())]));
        assert_eq!(ports.states(), before);
    }
}
