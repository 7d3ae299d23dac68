//! The life of flows: how one begins, moves to another endpoint and ends, and who makes room for whom.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::epoll;
use tidegate_plan::Reason;

use crate::udp::context::Context;
use crate::udp::flow::{Decided, Flow, Reached, decide, same_family};
use crate::udp::index::Shared;
use crate::udp::record::Mishaps;
use crate::udp::table::{Key, Table};
use crate::udp::{Token, uplink};
use crate::{Bounds, Ending};

pub(super) struct Flows {
    pub(super) table: Table<Flow>,
    pub(super) shared: Arc<Shared>,
    pub(super) mishaps: Arc<Mishaps>,
    idle_time: Duration,
    /// Until then no new socket is asked for: the machine had none.
    short_until: Option<Instant>,
}

/// What became of a flow that was to begin.
pub(super) enum Begun {
    Here(u32),
    /// Another worker was quicker.
    Elsewhere,
    Refused,
}

/// The socket of a flow that has ended, known to epoll by the slot it had.
pub(super) struct Used {
    socket: Arc<OwnedFd>,
    slot: u32,
    endpoint: IpAddr,
}

/// Why a flow could not begin.
enum Hindrance {
    Refused(Ending),
    Elsewhere,
}

impl From<Ending> for Hindrance {
    fn from(ending: Ending) -> Self {
        Self::Refused(ending)
    }
}

/// Endpoints that are tried for one flow.
const TRIES: usize = 3;
/// How long the machine is left alone after it had no socket to give.
const SHORTAGE: Duration = Duration::from_millis(500);

impl Flows {
    pub(super) fn new(shared: Arc<Shared>, bounds: &Bounds) -> Self {
        Self {
            table: Table::new(),
            shared,
            mishaps: Arc::default(),
            idle_time: bounds.udp_idle_time,
            short_until: None,
        }
    }

    /// A flow for a client that has none, whose first datagrams came to `inlet`, on this port of the plan's.
    pub(super) fn begin(
        &mut self,
        key: Key,
        inlet: u32,
        port: u16,
        datagrams: u64,
        ctx: &mut Context<'_>,
    ) -> Begun {
        let (ending, reached) = match decide(SocketAddr::new(key.local.ip(), port), ctx.snapshot) {
            Ok(decided) => match self.enter(key, inlet, &decided, ctx) {
                Ok(slot) => return Begun::Here(slot),
                Err(Hindrance::Elsewhere) => return Begun::Elsewhere,
                Err(Hindrance::Refused(ending)) => {
                    let Decided { listener, rule, backend } = decided;
                    let backend = Some(backend.as_ref());
                    (ending, Reached { listener: Some(listener), rule: Some(rule), backend })
                }
            },
            Err(refused) => refused,
        };
        ctx.counters.datagrams_dropped(ending, datagrams);
        ctx.host.refused(&reached.record(&key, ctx.now, ending));
        Begun::Refused
    }

    /// Takes the places that a flow needs, and gives them back if it does not come about.
    fn enter(
        &mut self,
        key: Key,
        inlet: u32,
        decided: &Decided<'_>,
        ctx: &mut Context<'_>,
    ) -> Result<u32, Hindrance> {
        ctx.host.enter(decided.listener, key.client.ip())?;
        let begun = self.make_room(ctx).map_err(Hindrance::from).and_then(|used| {
            let begun = self.connect(key, inlet, decided, used, ctx);
            if begun.is_err() {
                self.shared.leave();
            }
            begun
        });
        if begun.is_err() {
            ctx.host.leave(decided.listener, key.client.ip());
        }
        begun
    }

    /// Takes a place among all flows, and the socket of the flow that had to end for it.
    fn make_room(&mut self, ctx: &mut Context<'_>) -> Result<Option<Used>, Ending> {
        let short = self.short_until.is_some_and(|until| ctx.now < until);
        let used = match self.idle(ctx.now) {
            Some(slot) => self.end(slot, Ending::FlowIdle, ctx),
            None if !short && self.shared.enter() => return Ok(None),
            None => self.evict(ctx),
        };
        // The place of the flow that has ended may be another worker's by now.
        match used {
            Some(used) if self.shared.enter() => Ok(Some(used)),
            _ if short => Err(Ending::OutOfResources),
            _ => Err(Ending::TooManyFlows),
        }
    }

    /// Finds an endpoint that can be reached, and begins the flow to it.
    fn connect(
        &mut self,
        key: Key,
        inlet: u32,
        decided: &Decided<'_>,
        mut used: Option<Used>,
        ctx: &mut Context<'_>,
    ) -> Result<u32, Hindrance> {
        let mut tried = [key.client; TRIES];
        for tries in 0..TRIES {
            let endpoint = decided.backend.pick(key.client.ip(), &tried[..tries], ctx.random, ctx.now);
            let Some(endpoint) = endpoint else {
                let none = Ending::Refused(Reason::NoEndpoints);
                return Err(if tries == 0 { none } else { Ending::ConnectFailed }.into());
            };
            endpoint.opened();
            match self.socket(&mut used, endpoint.address, ctx) {
                Ok((socket, slot)) => {
                    let flow = Flow::new(socket, inlet, decided, endpoint, ctx.now);
                    return self.insert(key, flow, slot, ctx);
                }
                Err(error) => {
                    endpoint.closed();
                    if uplink::is_shortage(&error) {
                        return Err(Ending::OutOfResources.into());
                    }
                    endpoint.failed(ctx.now);
                    tried[tries] = endpoint.address;
                }
            }
        }
        Err(Ending::ConnectFailed.into())
    }

    /// A connected socket, and the slot by which epoll knows it, if it does. When the machine has none to give, a flow
    /// that can be asked to gives up its own.
    fn socket(
        &mut self,
        used: &mut Option<Used>,
        endpoint: SocketAddr,
        ctx: &mut Context<'_>,
    ) -> io::Result<(Arc<OwnedFd>, Option<u32>)> {
        let fits = |used: &Used| same_family(used.endpoint, endpoint.ip());
        if !used.as_ref().is_some_and(fits) {
            match uplink::open(endpoint) {
                Ok(socket) => return Ok((Arc::new(socket), None)),
                Err(error) if uplink::is_shortage(&error) => {
                    self.mishaps.shortages.add(1);
                    self.short_until = Some(ctx.now + SHORTAGE);
                    *used = Some(self.evict(ctx).filter(fits).ok_or(error)?);
                }
                Err(error) => return Err(error),
            }
        }
        let Some(old) = used.as_ref() else { return Err(io::ErrorKind::NotFound.into()) };
        uplink::renew(old.socket.as_fd(), endpoint)?;
        Ok((Arc::clone(&old.socket), Some(old.slot)))
    }

    fn insert(
        &mut self,
        key: Key,
        flow: Flow,
        known_as: Option<u32>,
        ctx: &mut Context<'_>,
    ) -> Result<u32, Hindrance> {
        let socket = Arc::clone(&flow.socket);
        if !self.shared.claim(&key, &socket) {
            flow.endpoint.closed();
            return Err(Hindrance::Elsewhere);
        }
        let slot = self.table.begin(key, flow, ctx.now);
        let data = Token::Flow(slot).data();
        let registered = match known_as {
            Some(known_as) if known_as == slot => Ok(()),
            Some(_) => epoll::modify(ctx.epoll, &socket, data, EVENTS),
            None => epoll::add(ctx.epoll, &socket, data, EVENTS),
        };
        if registered.is_ok() {
            ctx.counters.flow_began();
            return Ok(slot);
        }
        self.mishaps.shortages.add(1);
        self.shared.release(&key);
        if let Some((_, flow)) = self.table.end(slot) {
            flow.endpoint.closed();
        }
        Err(Ending::OutOfResources.into())
    }

    /// Gives a flow whose endpoint refused another one, if there is any. The client keeps its flow.
    pub(super) fn move_on(&mut self, slot: u32, ctx: &mut Context<'_>) {
        let Some(key) = self.table.key(slot).copied() else { return };
        let Some(flow) = self.table.get_mut(slot) else { return };
        let newest = ctx.snapshot.backends.of(&flow.backend.plan.id);
        let backend = Arc::clone(newest.unwrap_or(&flow.backend));
        let current = flow.endpoint.address;
        flow.moves = false;
        let Some(other) = backend.pick(key.client.ip(), &[current], ctx.random, ctx.now) else { return };
        other.opened();
        let renewed = if same_family(current.ip(), other.address.ip()) {
            uplink::renew(flow.socket.as_fd(), other.address)
        } else {
            Err(io::ErrorKind::Unsupported.into())
        };
        match renewed {
            Ok(()) => {
                flow.backend = backend;
                flow.answered = false;
                let before = std::mem::replace(&mut flow.endpoint, other);
                before.closed();
            }
            Err(_) => {
                other.closed();
                flow.moves = true;
            }
        }
    }

    /// An error came instead of a datagram, or instead of sending one.
    pub(super) fn failed(&mut self, slot: u32, now: Instant) {
        self.mishaps.errors.add(1);
        if let Some(flow) = self.table.get_mut(slot) {
            flow.moves = true;
            flow.endpoint.failed(now);
        }
    }

    /// Ends flows that were idle for too long, a bounded number at a time: the worker has others to serve.
    pub(super) fn end_idle(&mut self, most: usize, ctx: &mut Context<'_>) {
        for _ in 0..most {
            let Some(slot) = self.idle(ctx.now) else { return };
            self.end(slot, Ending::FlowIdle, ctx);
        }
    }

    fn idle(&mut self, now: Instant) -> Option<u32> {
        loop {
            let slot = self.table.idle(now, self.idle_time)?;
            let passed_at = self.table.key(slot).and_then(|key| self.shared.passed_at(key));
            match passed_at {
                Some(at) if now.saturating_duration_since(at) < self.idle_time => self.table.spoke(slot, now),
                _ => return Some(slot),
            }
        }
    }

    fn evict(&mut self, ctx: &mut Context<'_>) -> Option<Used> {
        let slot = self.table.expendable(ctx.now)?;
        self.end(slot, Ending::FlowEvicted, ctx)
    }

    /// Ends a flow. Its socket is closed, unless the caller has a use for it.
    pub(super) fn end(&mut self, slot: u32, ending: Ending, ctx: &mut Context<'_>) -> Option<Used> {
        let (key, mut flow) = self.table.end(slot)?;
        flow.up += self.shared.release(&key).traffic;
        self.shared.leave();
        flow.endpoint.closed();
        ctx.host.leave(&flow.listener, key.client.ip());
        ctx.counters.flow_ended(ending);
        ctx.host.ended(&flow.record(&key, ctx.now, ending));
        Some(Used { socket: flow.socket, slot, endpoint: flow.endpoint.address.ip() })
    }
}

/// Said once for many datagrams: whoever is told reads until nothing is left.
pub(super) const EVENTS: epoll::EventFlags = epoll::EventFlags::IN.union(epoll::EventFlags::ET);
