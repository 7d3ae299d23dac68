//! Datagram flows of one worker: who speaks with whom is kept in a table, each flow has a socket of its own towards
//! its endpoint, and everything moves in batches. It runs on the worker's thread, is told by the worker's epoll what
//! is ready, and never waits.

mod context;
mod flow;
mod flows;
mod index;
mod inward;
mod outward;
mod record;
mod sweep;
mod table;
#[cfg(test)]
mod tests;
mod uplink;
mod uplinks;

use std::io;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::epoll;

pub(crate) use self::context::{Context, Host};
use self::flows::Flows;
pub(crate) use self::index::Shared;
use self::inward::Inward;
use self::outward::Outward;
pub(crate) use self::record::FlowRecord;
use self::sweep::Sweep;
use crate::observe::Mishaps;
use crate::sys::datagram;
use crate::{Bounds, Ending};

pub(crate) struct Udp {
    inlets: Vec<Option<Inlet>>,
    inward: Inward,
    outward: Outward,
    flows: Flows,
    sweep: Sweep,
}

/// A socket that clients send to.
struct Inlet {
    socket: OwnedFd,
    /// As it is bound: the address may be every address.
    local: SocketAddr,
    /// In the plan.
    port: u16,
    /// Set when the kernel or the card refused a run of datagrams.
    no_runs_until: Option<Instant>,
    /// Set when it is needed only for the flows that are there: when these end at the latest, and as what.
    leaves: Option<(Instant, Ending)>,
}

/// What an event of epoll is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    Inlet(u32),
    Uplink(u32),
}

/// What one tick does at most, so that others do not wait for it long.
const ENDS: usize = 256;
const LOOKS: u32 = 2048;
const CLOSING_READS: usize = 64;
/// Flows have no end that could be seen. One that is silent for this long is not waited for at the end of the process.
const SILENCE: Duration = Duration::from_secs(5);

impl Udp {
    pub(crate) fn new(shared: Arc<Shared>, bounds: &Bounds, mishaps: Arc<Mishaps>) -> Self {
        Self {
            inlets: Vec::new(),
            inward: Inward::new(),
            outward: Outward::new(),
            flows: Flows::new(shared, bounds, mishaps),
            sweep: Sweep::new(bounds.drain_time),
        }
    }

    /// Takes up times that may have changed.
    pub(crate) fn bound_by(&mut self, bounds: &Bounds) {
        let silence = if self.flows.draining { SILENCE } else { Duration::MAX };
        self.flows.idle_time = bounds.udp_idle_time.min(silence);
        self.sweep.drain_time = bounds.drain_time;
    }

    #[cfg(test)]
    pub(crate) fn mishaps(&self) -> &Mishaps {
        &self.flows.mishaps
    }

    /// Flows of this worker.
    #[cfg(test)]
    pub(crate) fn flows(&self) -> usize {
        self.flows.table.len()
    }

    /// Serves a socket that [`prepare`] was called for before it was bound. `port` is that of the plan's listeners.
    pub(crate) fn listen(
        &mut self,
        epoll: BorrowedFd<'_>,
        socket: OwnedFd,
        local: SocketAddr,
        port: u16,
    ) -> io::Result<usize> {
        let number = self.inlets.iter().position(Option::is_none).unwrap_or(self.inlets.len());
        epoll::add(epoll, &socket, Token::Inlet(number as u32).data(), epoll::EventFlags::IN)?;
        let inlet = Some(Inlet { socket, local, port, no_runs_until: None, leaves: None });
        match self.inlets.get_mut(number) {
            Some(place) => *place = inlet,
            None => self.inlets.push(inlet),
        }
        Ok(number)
    }

    /// No listener needs this socket any more. What waits there is taken; then it stays for the flows that came through
    /// it, which nothing else could answer, until they end or their time is over.
    pub(crate) fn leave(&mut self, number: usize, ctx: &mut Context<'_>) {
        if !self.flows.draining {
            self.leave_by(ctx.now + self.sweep.drain_time, Ending::Drained, number, ctx);
            self.close_left(ctx);
        }
    }

    /// No flow begins any more; those that are there have so long to end.
    pub(crate) fn drain(&mut self, time: Duration, ctx: &mut Context<'_>) {
        for number in 0..self.inlets.len() {
            self.leave_by(ctx.now + time, Ending::Shutdown, number, ctx);
        }
        self.flows.draining = true;
        self.close_left(ctx);
    }

    fn leave_by(&mut self, at: Instant, ending: Ending, number: usize, ctx: &mut Context<'_>) {
        self.read_out(number, ctx);
        if let Some(inlet) = self.inlets.get_mut(number).and_then(Option::as_mut)
            && inlet.leaves.is_none_or(|(before, _)| at < before)
        {
            inlet.leaves = Some((at, ending));
        }
    }

    /// Closes sockets that were left: by their flows, or because the time of these is over, or because the address has
    /// a socket again, through which the flows go on.
    fn close_left(&mut self, ctx: &mut Context<'_>) {
        for number in 0..self.inlets.len() {
            let Some(Inlet { leaves: Some((at, ending)), local, .. }) = self.inlets[number] else { continue };
            let stays = |inlet: &Inlet| inlet.local == local && inlet.leaves.is_none();
            let next = self.inlets.iter().position(|inlet| inlet.as_ref().is_some_and(stays));
            if next.is_some() || at <= ctx.now || self.flows.through(number as u32) == 0 {
                self.close(number, next, ending, ctx);
            }
        }
    }

    fn close(&mut self, number: usize, next: Option<usize>, ending: Ending, ctx: &mut Context<'_>) {
        self.read_out(number, ctx);
        self.flush(ctx);
        for slot in 0..self.flows.table.slots() {
            if self.flows.table.get(slot).is_none_or(|flow| flow.inlet as usize != number) {
                continue;
            }
            match next {
                Some(next) => self.flows.came_through(slot, next as u32),
                None => self.flows.end(slot, ending, ctx),
            }
        }
        self.inlets[number] = None;
    }

    fn read_out(&mut self, number: usize, ctx: &mut Context<'_>) {
        let Some(inlet) = self.inlets.get(number).and_then(Option::as_ref) else { return };
        // Senders that do not stop would hold up the end for ever.
        for _ in 0..CLOSING_READS {
            if self.inward.read(number as u32, inlet, &mut self.flows, ctx) {
                break;
            }
        }
    }

    /// Does what an event of epoll with this token is about. [`flush`](Self::flush) must follow before epoll is asked
    /// again.
    pub(crate) fn ready(&mut self, token: u64, ctx: &mut Context<'_>) {
        match Token::from(token) {
            Token::Inlet(number) => {
                if let Some(inlet) = self.inlets.get(number as usize).and_then(Option::as_ref) {
                    self.inward.read(number, inlet, &mut self.flows, ctx);
                }
            }
            Token::Uplink(number) => {
                if let Some(slot) = self.flows.uplinks.flow(number) {
                    self.outward.read(slot, &mut self.flows, &mut self.inlets, ctx);
                }
            }
        }
    }

    /// Sends the answers that were gathered.
    pub(crate) fn flush(&mut self, ctx: &Context<'_>) {
        self.outward.end_turn(&mut self.inlets, &self.flows, ctx);
    }

    /// The snapshot of the context is a new one: flows are held against it, some now and some with each tick.
    pub(crate) fn replanned(&mut self) {
        self.sweep.start();
    }

    /// To be called about ten times a second.
    pub(crate) fn tick(&mut self, ctx: &mut Context<'_>) {
        self.flows.end_idle(ENDS, ctx);
        self.sweep.step(LOOKS, &mut self.flows, ctx);
        self.sweep.end_due(ENDS, &mut self.flows, ctx);
        self.close_left(ctx);
        self.flows.uplinks.close_unused(ENDS, ctx.now);
    }

    /// Ends every flow.
    pub(crate) fn end_all(&mut self, ending: Ending, ctx: &mut Context<'_>) {
        self.flush(ctx);
        for slot in 0..self.flows.table.slots() {
            self.flows.end(slot, ending, ctx);
        }
    }
}

/// Sets up a socket that is about to be bound, so that even its first datagram says where it was sent to.
pub(crate) fn prepare(socket: BorrowedFd<'_>, local: SocketAddr) -> io::Result<()> {
    datagram::tell_local_address(socket, local)?;
    // Neither is needed: without the first, bursts are lost earlier, without the second they cost more.
    let _ = rustix::net::sockopt::set_socket_recv_buffer_size(socket, RECEIVE_BUFFER);
    let _ = datagram::receive_runs(socket);
    Ok(())
}

/// As much as the machine permits: thousands of small datagrams may come while a worker is busy elsewhere.
const RECEIVE_BUFFER: usize = 4 << 20;

/// Set in the token of every event that is for [`Udp::ready`], and of no other.
pub(crate) const TOKEN: u64 = 1 << 62;

impl Token {
    fn data(self) -> epoll::EventData {
        epoll::EventData::new_u64(match self {
            Self::Inlet(number) => TOKEN | u64::from(number) << 1,
            Self::Uplink(number) => TOKEN | u64::from(number) << 1 | 1,
        })
    }
}

impl From<u64> for Token {
    fn from(data: u64) -> Self {
        let number = (data >> 1) as u32;
        if data & 1 == 0 { Self::Inlet(number) } else { Self::Uplink(number) }
    }
}
