//! From clients to endpoints. Datagrams are read many at a time, sorted by flow, and leave through the socket of their
//! flow, several of one flow in one call. Nothing is copied on the way.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

use crate::sys::datagram::{BATCH, Batch, Datagram, Names, Outbox};
use crate::udp::context::Context;
use crate::udp::flow::Sorted;
use crate::udp::flows::{Begun, Flows};
use crate::udp::record::Traffic;
use crate::udp::table::Key;
use crate::udp::{Inlet, uplink};

/// A whole run of datagrams.
pub(super) const LARGEST: usize = 65_536;
/// Reads of one socket before others have their turn.
const ROUNDS: usize = 4;

pub(super) struct Inward {
    batch: Batch,
    /// Where the next datagram of the same flow is.
    next: [u8; BATCH],
    /// The flows of this round, in the order of their first datagrams.
    turns: Vec<u32>,
    round: u64,
}

impl Inward {
    pub(super) fn new() -> Self {
        let batch = Batch::new(BATCH, LARGEST);
        Self { batch, next: [0; BATCH], turns: Vec::with_capacity(BATCH), round: 1 }
    }

    /// Reads what waits at a socket of a listener; `false`: there is more.
    pub(super) fn read(
        &mut self,
        number: u32,
        inlet: &Inlet,
        flows: &mut Flows,
        ctx: &mut Context<'_>,
    ) -> bool {
        for _ in 0..ROUNDS {
            let received = self.batch.receive(inlet.socket.as_fd(), 0, BATCH, Names::Wanted);
            let Ok(count) = received else {
                flows.mishaps.errors.add(1);
                continue;
            };
            for place in 0..count {
                self.sort(place, number, inlet, flows, ctx);
            }
            self.deliver(flows, ctx);
            if count < BATCH {
                return true;
            }
        }
        false
    }

    /// Finds the flow of a datagram, and queues it there until all of the round are sorted.
    fn sort(&mut self, place: usize, number: u32, inlet: &Inlet, flows: &mut Flows, ctx: &mut Context<'_>) {
        let datagram = self.batch.datagram(place);
        if datagram.cut {
            return flows.mishaps.cut.add(1);
        }
        let Some(key) = key(datagram, inlet.local) else { return flows.mishaps.unaddressed.add(1) };
        let slot = match flows.table.find(&key) {
            Some(slot) => slot,
            None => {
                // The new flow may get the slot and the socket of one that has to make room for it.
                self.deliver(flows, ctx);
                match self.welcome(key, place, number, inlet, flows, ctx) {
                    Some(slot) => slot,
                    None => return,
                }
            }
        };
        flows.came_through(slot, number);
        let Some(flow) = flows.table.get_mut(slot) else { return };
        let place = place as u8;
        if flow.sorted.round == self.round {
            self.next[usize::from(flow.sorted.last)] = place;
            flow.sorted.last = place;
        } else {
            flow.sorted = Sorted { round: self.round, first: place, last: place };
            self.turns.push(slot);
        }
    }

    /// A datagram of no flow of this worker: it is another worker's, or it begins one.
    fn welcome(
        &self,
        key: Key,
        place: usize,
        number: u32,
        inlet: &Inlet,
        flows: &mut Flows,
        ctx: &mut Context<'_>,
    ) -> Option<u32> {
        let datagrams = self.batch.datagram(place).count();
        let send = |socket: BorrowedFd<'_>| pass(&self.batch, place, socket);
        if flows.shared.pass_on(&key, ctx.now, send).is_none() {
            match flows.begin(key, number, inlet.port, datagrams, ctx) {
                Begun::Here(slot) => return Some(slot),
                Begun::Elsewhere => {
                    flows.shared.pass_on(&key, ctx.now, send);
                }
                Begun::Refused => return None,
            }
        }
        flows.mishaps.strayed.add(datagrams);
        None
    }

    /// Sends what is sorted, flow by flow.
    fn deliver(&mut self, flows: &mut Flows, ctx: &mut Context<'_>) {
        if self.turns.is_empty() {
            return;
        }
        let mut outbox = Outbox::new(true);
        for &slot in &self.turns {
            if flows.table.get(slot).is_some_and(|flow| flow.up.datagrams > 0) {
                flows.table.spoke(slot, ctx.now);
            }
            // What the kernel refuses because of what it heard of earlier datagrams is sent again, and elsewhere if
            // there is an elsewhere.
            if self.send(slot, flows, &mut outbox, ctx).is_err()
                && let Err(failed) = self.send(slot, flows, &mut outbox, ctx)
            {
                flows.mishaps.unsent.add(failed);
            }
        }
        self.turns.clear();
        self.round += 1;
    }

    /// An error: none of so many datagrams was sent, for the endpoint or the way to it refuses.
    fn send<'b>(
        &'b self,
        slot: u32,
        flows: &mut Flows,
        outbox: &mut Outbox<'b>,
        ctx: &mut Context<'_>,
    ) -> Result<(), u64> {
        if flows.table.get(slot).is_some_and(|flow| flow.moves) {
            flows.move_on(slot, ctx);
        }
        let Some(flow) = flows.table.get_mut(slot) else { return Ok(()) };
        outbox.runs = flow.runs.up;
        let mut place = flow.sorted.first;
        loop {
            let at = usize::from(place);
            outbox.push(None, None, self.batch.datagram(at).segment, self.batch.bytes(at));
            if place == flow.sorted.last {
                break;
            }
            place = self.next[at];
        }
        let sent = outbox.send(flow.socket.as_fd());
        flow.runs.up &= !sent.runs_refused;
        flow.up += Traffic { datagrams: sent.datagrams, bytes: sent.bytes };
        ctx.counters.datagrams_up(sent.datagrams, sent.bytes);
        if sent.error.as_ref().is_some_and(uplink::is_refusal) {
            flows.failed(slot, ctx.now);
            if sent.datagrams == 0 {
                return Err(sent.failed);
            }
        }
        flows.mishaps.unsent.add(sent.failed);
        Ok(())
    }
}

/// Sends one datagram on the socket of another worker's flow.
fn pass(batch: &Batch, place: usize, socket: BorrowedFd<'_>) -> Traffic {
    let mut outbox = Outbox::new(true);
    outbox.push(None, None, batch.datagram(place).segment, batch.bytes(place));
    let sent = outbox.send(socket);
    Traffic { datagrams: sent.datagrams, bytes: sent.bytes }
}

/// `None` for a datagram that could not be answered.
fn key(datagram: &Datagram, bound: SocketAddr) -> Option<Key> {
    let client = datagram.peer.filter(|peer| peer.port() != 0)?;
    let local = match bound.ip() {
        ip if !ip.is_unspecified() => ip,
        _ => datagram.local.filter(|ip| !ip.is_unspecified())?,
    };
    Some(Key { client, local: SocketAddr::new(local, bound.port()) })
}
