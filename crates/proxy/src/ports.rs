//! Which sockets are open. They belong to an (address, port), never to a listener, and all workers have one each for
//! as long as any listener needs it.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::mpsc;
use std::time::Duration;

use tidegate_plan::{Expects, Tables, Transport};

use crate::Settings;
use crate::net::{has_ipv6, open_tcp, open_udp};
use crate::worker::{Command, Listening, Orders};

pub(crate) struct Ports {
    workers: Vec<Orders>,
    bind: Vec<IpAddr>,
    offset: u16,
    open: BTreeMap<Wanted, usize>,
    failed: BTreeMap<Wanted, String>,
    /// Sockets are known to the workers by numbers that are used once.
    next: usize,
    /// Nothing is opened any more.
    draining: bool,
}

/// One socket that each worker should have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Wanted {
    transport: Transport,
    port: u16,
    /// Whether a listener asked for this address, or for none in particular.
    chosen: bool,
    bound: SocketAddr,
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
            open: BTreeMap::new(),
            failed: BTreeMap::new(),
            next: 0,
            draining: false,
        }
    }

    /// Closes what the tables no longer ask for, after everything that waits there was accepted.
    pub(crate) fn close_all_but(&mut self, tables: &Tables) {
        let wanted = self.wanted(tables);
        self.failed.retain(|socket, _| wanted.contains_key(socket));
        let (done, closed) = mpsc::channel();
        let mut waiting = 0;
        self.open.retain(|socket, number| {
            let keep = wanted.contains_key(socket);
            if !keep {
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
        for (socket, expects) in self.wanted(tables) {
            if !self.open.contains_key(&socket) {
                self.open_one(socket, expects);
            }
        }
    }

    pub(crate) fn sweep(&self) {
        for worker in &self.workers {
            worker.give(Command::Sweep);
        }
    }

    pub(crate) fn drain(&mut self, time: Duration) {
        for worker in &self.workers {
            worker.give(Command::Drain(time));
        }
        self.draining = true;
        self.open.clear();
        self.failed.clear();
    }

    pub(crate) fn states(&self) -> Vec<SocketState> {
        let mut states: BTreeMap<_, Result<Vec<SocketAddr>, String>> = BTreeMap::new();
        let key = |socket: &Wanted| (socket.transport, socket.port, socket.chosen.then(|| socket.bound.ip()));
        for socket in self.open.keys() {
            if let Ok(bound) = states.entry(key(socket)).or_insert_with(|| Ok(Vec::new())) {
                bound.push(socket.bound);
            }
        }
        for (socket, why) in &self.failed {
            states.insert(key(socket), Err(why.clone()));
        }
        let states = states.into_iter();
        states
            .map(|((transport, port, address), state)| SocketState { address, port, transport, state })
            .collect()
    }

    fn open_one(&mut self, socket: Wanted, expects: Option<Expects>) {
        let count = self.workers.len();
        let shared = self
            .open
            .keys()
            .any(|open| open.transport == socket.transport && open.bound.port() == socket.bound.port());
        let opened = match socket.transport {
            Transport::Tcp => open_tcp(socket.bound, count, expects == Some(Expects::Hello), shared),
            Transport::Udp => open_udp(socket.bound, count, shared),
        };
        match opened {
            Ok(sockets) => {
                let number = self.next;
                self.next += 1;
                self.failed.remove(&socket);
                self.open.insert(socket, number);
                for (worker, fd) in self.workers.iter().zip(sockets) {
                    let Wanted { transport, port, bound, .. } = socket;
                    let listening = Listening { socket: fd, transport, bound, port };
                    worker.give(Command::Listen(number, listening));
                }
            }
            Err(error) => {
                self.failed.insert(socket, error.to_string());
            }
        }
    }

    fn wanted(&self, tables: &Tables) -> BTreeMap<Wanted, Option<Expects>> {
        let mut wanted = BTreeMap::new();
        for (address, port, transport) in tables.sockets() {
            let Some(real) = port.checked_add(self.offset) else { continue };
            let addresses = match &address {
                Some(address) => std::slice::from_ref(address),
                None => self.bind.as_slice(),
            };
            for ip in addresses {
                let bound = SocketAddr::new(*ip, real);
                let socket = Wanted { transport, port, chosen: address.is_some(), bound };
                wanted.insert(socket, tables.expects(SocketAddr::new(*ip, port), transport));
            }
        }
        wanted
    }
}
