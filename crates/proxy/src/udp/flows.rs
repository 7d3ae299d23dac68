//! The life of flows: how one begins, moves to another endpoint and ends, and who makes room for whom.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_plan::Reason;

use crate::observe::Mishaps;
use crate::serving::Place;
use crate::udp::context::Context;
use crate::udp::flow::{Decided, Flow, Reached, Runs, decide};
use crate::udp::index::Shared;
use crate::udp::table::{Key, Table};
use crate::udp::uplink;
use crate::udp::uplinks::Uplinks;
use crate::{Bounds, Ending};

pub(super) struct Flows {
    pub(super) table: Table<Flow>,
    pub(super) shared: Arc<Shared>,
    pub(super) mishaps: Arc<Mishaps>,
    pub(super) uplinks: Uplinks,
    pub(super) idle_time: Duration,
    /// Nothing begins any more.
    pub(super) draining: bool,
    /// How many came last through which of the worker's sockets, by its number.
    through: Vec<u32>,
    /// Until then the machine is not asked for a new socket: it had none.
    short_until: Option<Instant>,
}

/// What became of a flow that was to begin.
pub(super) enum Begun {
    Here(u32),
    /// Another worker was quicker.
    Elsewhere,
    Refused,
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
    pub(super) fn new(shared: Arc<Shared>, bounds: &Bounds, mishaps: Arc<Mishaps>) -> Self {
        Self {
            table: Table::new(),
            shared,
            mishaps,
            uplinks: Uplinks::default(),
            idle_time: bounds.udp_idle_time,
            draining: false,
            through: Vec::new(),
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
            Ok(Decided { listener, .. }) if self.draining => {
                (Ending::Shutdown, Reached { listener: Some(listener), ..Reached::default() })
            }
            Ok(decided) => match self.enter(key, inlet, &decided, ctx) {
                Ok(slot) => return Begun::Here(slot),
                Err(Hindrance::Elsewhere) => return Begun::Elsewhere,
                Err(Hindrance::Refused(ending)) => {
                    let Decided { listener, route, backend } = decided;
                    let (route, backend) = (Some(route.as_ref()), Some(backend.as_ref()));
                    (ending, Reached { listener: Some(listener), route, backend })
                }
            },
            Err(refused) => refused,
        };
        ctx.counters.datagrams_dropped(ending, datagrams);
        ctx.host.refused(&reached.record(&key, ctx.now, ending), port);
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
        let place = ctx.host.enter(decided.listener, key.client.ip())?;
        let begun = self.make_room(ctx).map_err(Hindrance::from).and_then(|()| {
            let begun = self.connect(key, inlet, decided, place, ctx);
            if begun.is_err() {
                self.shared.leave();
            }
            begun
        });
        if begun.is_err() {
            ctx.host.leave(key.client.ip());
        }
        begun
    }

    /// Takes a place among all flows. Others may have to end for it.
    fn make_room(&mut self, ctx: &mut Context<'_>) -> Result<(), Ending> {
        if let Some(slot) = self.idle(ctx.now) {
            self.end(slot, Ending::FlowIdle, ctx);
        }
        if self.short_until.is_some_and(|until| ctx.now < until) && !self.uplinks.has_rested(ctx.now) {
            self.free_a_socket(ctx);
            return Err(Ending::OutOfResources);
        }
        // The place of a flow that ended may be another worker's a moment later.
        if self.shared.enter() || self.evict(ctx) && self.shared.enter() {
            Ok(())
        } else {
            Err(Ending::TooManyFlows)
        }
    }

    /// Finds an endpoint that can be reached, and begins the flow to it.
    fn connect(
        &mut self,
        key: Key,
        inlet: u32,
        decided: &Decided<'_>,
        place: Place,
        ctx: &mut Context<'_>,
    ) -> Result<u32, Hindrance> {
        let mut tried = [key.client; TRIES];
        for tries in 0..TRIES {
            let endpoint = decided.backend.pick(key.client.ip(), &tried[..tries], ctx.random, ctx.now);
            let Some(endpoint) = endpoint else {
                let none = Ending::Refused(Reason::NoEndpoints);
                return Err(if tries == 0 { none } else { Ending::ConnectFailed }.into());
            };
            match self.uplinks.open(endpoint.address, ctx.epoll, ctx.now) {
                Ok(uplink) => {
                    endpoint.opened();
                    return self.insert(
                        key,
                        Flow::new(uplink, inlet, decided, place, endpoint, ctx.now),
                        ctx,
                    );
                }
                Err(error) if uplink::is_shortage(&error) => {
                    self.mishaps.shortages.add(1);
                    self.short_until = Some(ctx.now + SHORTAGE);
                    self.free_a_socket(ctx);
                    return Err(Ending::OutOfResources.into());
                }
                Err(_) => {
                    endpoint.failed(ctx.now);
                    tried[tries] = endpoint.address;
                }
            }
        }
        Err(Ending::ConnectFailed.into())
    }

    fn insert(&mut self, key: Key, flow: Flow, ctx: &Context<'_>) -> Result<u32, Hindrance> {
        let (uplink, inlet) = (flow.uplink, flow.inlet);
        if !self.shared.claim(&key, &flow.socket) {
            flow.endpoint.closed();
            // Nothing was sent on it, so nothing can come.
            self.uplinks.release(uplink, ctx.now);
            return Err(Hindrance::Elsewhere);
        }
        let slot = self.table.begin(key, flow, ctx.now);
        self.uplinks.serve(uplink, slot);
        *self.count(inlet) += 1;
        ctx.counters.flow_began();
        Ok(slot)
    }

    /// A datagram of a flow came in by this socket, or would now: its answers go out there.
    pub(super) fn came_through(&mut self, slot: u32, inlet: u32) {
        let Some(flow) = self.table.get_mut(slot).filter(|flow| flow.inlet != inlet) else { return };
        let before = std::mem::replace(&mut flow.inlet, inlet);
        *self.count(before) -= 1;
        *self.count(inlet) += 1;
    }

    /// How many flows a socket is needed for.
    pub(super) fn through(&self, inlet: u32) -> u32 {
        self.through.get(inlet as usize).copied().unwrap_or_default()
    }

    fn count(&mut self, inlet: u32) -> &mut u32 {
        let inlet = inlet as usize;
        if self.through.len() <= inlet {
            self.through.resize(inlet + 1, 0);
        }
        &mut self.through[inlet]
    }

    /// Gives a flow whose endpoint refused another one, if there is any. The client keeps its flow.
    pub(super) fn move_on(&mut self, slot: u32, ctx: &mut Context<'_>) {
        let Some(key) = self.table.key(slot).copied() else { return };
        let Some(flow) = self.table.get_mut(slot) else { return };
        let newest = ctx.snapshot.backends.of(&flow.backend.plan.id);
        let backend = Arc::clone(newest.unwrap_or(&flow.backend));
        flow.moves = false;
        let tried = [flow.endpoint.address];
        let Some(other) = backend.pick(key.client.ip(), &tried, ctx.random, ctx.now) else { return };
        let Ok((uplink, socket)) = self.uplinks.open(other.address, ctx.epoll, ctx.now) else {
            flow.moves = true;
            return;
        };
        self.uplinks.rest(flow.uplink, ctx.now);
        self.uplinks.serve(uplink, slot);
        self.shared.replace(&key, &socket);
        other.opened();
        flow.endpoint.closed();
        (flow.uplink, flow.socket, flow.endpoint, flow.backend) = (uplink, socket, other, backend);
        flow.answered = false;
        flow.runs = Runs::default();
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

    /// The machine has no socket left: a flow gives up its own, which can be had once it has rested.
    fn free_a_socket(&mut self, ctx: &mut Context<'_>) {
        if self.uplinks.unused() < self.table.len() {
            self.evict(ctx);
        }
    }

    fn evict(&mut self, ctx: &mut Context<'_>) -> bool {
        let expendable = self.table.expendable(ctx.now);
        if let Some(slot) = expendable {
            self.end(slot, Ending::FlowEvicted, ctx);
        }
        expendable.is_some()
    }

    pub(super) fn end(&mut self, slot: u32, ending: Ending, ctx: &mut Context<'_>) {
        let Some((key, mut flow)) = self.table.end(slot) else { return };
        flow.up += self.shared.release(&key).traffic;
        self.shared.leave();
        *self.count(flow.inlet) -= 1;
        match ending {
            Ending::FlowIdle => self.uplinks.release(flow.uplink, ctx.now),
            _ if flow.up.datagrams <= flow.down.datagrams => self.uplinks.settle(flow.uplink, ctx.now),
            _ => self.uplinks.rest(flow.uplink, ctx.now),
        }
        flow.endpoint.closed();
        ctx.host.leave(key.client.ip());
        ctx.counters.flow_ended(ending);
        ctx.host.ended(&flow.record(&key, ctx.now, ending));
    }
}
