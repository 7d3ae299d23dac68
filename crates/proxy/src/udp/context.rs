//! What a worker lends to its flows while it works for them.

use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::time::Instant;

use tidegate_plan::ListenerHandle;

use crate::Ending;
use crate::observe::Counters;
use crate::snapshot::Snapshot;
use crate::udp::record::FlowRecord;
use crate::upstream::Random;

pub(crate) struct Context<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) epoll: BorrowedFd<'a>,
    /// Read once for many events.
    pub(crate) now: Instant,
    pub(crate) counters: &'a Counters,
    pub(crate) random: &'a mut Random,
    pub(crate) host: &'a mut dyn Host,
}

/// The rest of the worker. It is asked when a flow begins or ends, never for a datagram of one that is there.
pub(crate) trait Host {
    /// Takes a place for a flow among those of its listener and its source, or says which of them is full.
    fn enter(&mut self, listener: &ListenerHandle, client: IpAddr) -> Result<(), Ending>;

    /// Gives such a place back.
    fn leave(&mut self, listener: &ListenerHandle, client: IpAddr);

    fn ended(&mut self, record: &FlowRecord<'_>);

    /// Called for each datagram that would begin a flow that is refused: nothing is remembered of it.
    fn refused(&mut self, record: &FlowRecord<'_>);
}
