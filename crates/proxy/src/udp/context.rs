//! What a worker lends to its flows while it works for them.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Instant;

use tidegate_plan::ListenerHandle;

use crate::Ending;
use crate::snapshot::Snapshot;
use crate::udp::record::FlowRecord;
use crate::upstream::{Backend, Endpoint};

pub(crate) struct Context<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) epoll: BorrowedFd<'a>,
    /// Read once for many events.
    pub(crate) now: Instant,
    pub(crate) host: &'a mut dyn Host,
}

/// The rest of the worker. It is asked when a flow begins, moves or ends, never for a datagram.
pub(crate) trait Host {
    /// Takes a place for a flow among those of its listener and its source, or says which of them is full.
    fn enter(&mut self, listener: &ListenerHandle, client: IpAddr) -> Result<(), Ending>;

    /// Gives such a place back.
    fn leave(&mut self, listener: &ListenerHandle, client: IpAddr);

    /// An endpoint for a flow, which counts as in use until it is [`left`](Self::left). `tried`: not these.
    fn pick(
        &mut self,
        backend: &Backend,
        client: IpAddr,
        tried: &[SocketAddr],
        now: Instant,
    ) -> Option<Arc<Endpoint>>;

    /// Whether a flow may stay with an endpoint.
    fn serves(&self, backend: &Backend, endpoint: &Endpoint) -> bool;

    /// The first datagram of a flow came back.
    fn answered(&mut self, endpoint: &Endpoint);

    /// The endpoint, or the way to it, refused datagrams.
    fn failed(&mut self, endpoint: &Endpoint, now: Instant);

    fn left(&mut self, endpoint: &Endpoint);

    fn ended(&mut self, record: &FlowRecord<'_>);

    /// Called for each datagram that would begin a flow that is refused: nothing is remembered of it.
    fn refused(&mut self, record: &FlowRecord<'_>);
}
