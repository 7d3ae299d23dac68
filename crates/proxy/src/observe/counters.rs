//! What one worker has seen. It alone adds, in a few instructions each; the sums are made when somebody asks.

use std::sync::Arc;

use tidegate_hello::HelloError;
use tidegate_plan::TlsVersion;

use super::closed_sets::{ConnectFailure, HELLO_KINDS, Handshake, Side, hello_kind};
use super::count::{Count, Counts};
use super::mishaps::Mishaps;
use super::requests::{CLASSES, class};
use crate::Ending;

#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Counters {
    pub(super) accepted: Count,
    pub(super) endings: Counts<{ Ending::COUNT }>,
    pub(super) up: Count,
    pub(super) down: Count,
    pub(super) accept_pauses: Count,
    pub(super) hello_errors: Counts<{ HELLO_KINDS.len() }>,
    pub(super) handshakes: Counts<{ Handshake::COUNT }>,
    pub(super) connects: Count,
    pub(super) connect_failures: Counts<{ ConnectFailure::ALL.len() }>,
    pub(super) datagrams_up: Count,
    pub(super) datagrams_down: Count,
    pub(super) datagram_bytes_up: Count,
    pub(super) datagram_bytes_down: Count,
    pub(super) datagram_drops: Counts<{ Ending::COUNT }>,
    pub(super) flows: Count,
    pub(super) flow_endings: Counts<{ Ending::COUNT }>,
    pub(super) requests: Counts<{ CLASSES.len() }>,
    pub(super) request_endings: Counts<{ Ending::COUNT }>,
    pub(super) reached: Counts<{ Ending::COUNT }>,
    pub(crate) mishaps: Arc<Mishaps>,
}

impl Counters {
    /// A connection was accepted; [`ended`](Self::ended) must follow once, even for one that is refused at once.
    #[inline]
    pub(crate) fn accepted(&self) {
        self.accepted.add(1);
    }

    #[inline]
    pub(crate) fn ended(&self, ending: Ending) {
        self.endings.add(ending.index(), 1);
    }

    /// Bytes from the client to the backend.
    #[inline]
    pub(crate) fn up(&self, bytes: u64) {
        self.up.add(bytes);
    }

    /// Bytes from the backend to the client.
    #[inline]
    pub(crate) fn down(&self, bytes: u64) {
        self.down.add(bytes);
    }

    /// The machine had nothing left to accept with, and a pause was made.
    pub(crate) fn accept_paused(&self) {
        self.accept_pauses.add(1);
    }

    pub(crate) fn hello_refused(&self, error: &HelloError) {
        self.hello_errors.add(hello_kind(error), 1);
    }

    #[inline]
    pub(crate) fn handshake(&self, side: Side, version: TlsVersion, resumed: bool) {
        self.handshakes.add(Handshake { side, version, resumed }.index(), 1);
    }

    /// An endpoint is asked for a connection.
    #[inline]
    pub(crate) fn connecting(&self) {
        self.connects.add(1);
    }

    pub(crate) fn connect_failed(&self, failure: ConnectFailure) {
        self.connect_failures.add(failure as usize, 1);
    }

    /// Datagrams from clients to backends.
    #[inline]
    pub(crate) fn datagrams_up(&self, datagrams: u64, bytes: u64) {
        self.datagrams_up.add(datagrams);
        self.datagram_bytes_up.add(bytes);
    }

    #[inline]
    pub(crate) fn datagrams_down(&self, datagrams: u64, bytes: u64) {
        self.datagrams_down.add(datagrams);
        self.datagram_bytes_down.add(bytes);
    }

    pub(crate) fn datagrams_dropped(&self, why: Ending, datagrams: u64) {
        self.datagram_drops.add(why.index(), datagrams);
    }

    /// A datagram flow began; [`flow_ended`](Self::flow_ended) must follow once.
    #[inline]
    pub(crate) fn flow_began(&self) {
        self.flows.add(1);
    }

    #[inline]
    pub(crate) fn flow_ended(&self, ending: Ending) {
        self.flow_endings.add(ending.index(), 1);
    }

    /// A request is over; it had an answer of this status, or 0 for none.
    #[inline]
    pub(crate) fn request(&self, ending: Ending, status: u16) {
        self.requests.add(class(status), 1);
        self.request_endings.add(ending.index(), 1);
    }

    /// A bound was reached for which neither a connection nor a request ended.
    pub(crate) fn reached(&self, ending: Ending) {
        self.reached.add(ending.index(), 1);
    }

    /// Connections at this moment. Endings are read first, so that what happens meanwhile cannot make it negative.
    pub(crate) fn active(&self) -> u64 {
        let ended = self.endings.sum();
        self.accepted.get().saturating_sub(ended)
    }

    pub(crate) fn active_flows(&self) -> u64 {
        let ended = self.flow_endings.sum();
        self.flows.get().saturating_sub(ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_began_and_did_not_end_is_active() {
        let counters = Counters::default();
        (0..5).for_each(|_| counters.accepted());
        counters.ended(Ending::Done);
        counters.ended(Ending::IdleTimeout);
        assert_eq!(counters.active(), 3);
        counters.flow_began();
        assert_eq!(counters.active_flows(), 1);
        counters.flow_ended(Ending::FlowIdle);
        assert_eq!((counters.active_flows(), counters.active()), (0, 3));
    }
}
