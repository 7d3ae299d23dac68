//! What a worker lends to its flows while it works for them.

use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::time::Instant;

use tidegate_plan::ListenerHandle;

use crate::Ending;
use crate::observe::Counters;
use crate::serving::Place;
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
    /// Takes a place for a flow among those of its source and of its listener, or says which of them is full. That of
    /// the listener is kept: by the time it is given back, its name may be that of another listener.
    fn enter(&mut self, listener: &ListenerHandle, client: IpAddr) -> Result<Place, Ending>;

    /// Gives the place among those of the source back.
    fn leave(&mut self, client: IpAddr);

    fn ended(&mut self, record: &FlowRecord<'_>);

    /// Called for each datagram that would begin a flow that is refused: nothing is remembered of it. `port` is that of
    /// the plan.
    fn refused(&mut self, record: &FlowRecord<'_>, port: u16);
}
