//! What is told of flows: one record when a flow ends or is refused, and what went wrong on the way.

use std::net::SocketAddr;
use std::ops::AddAssign;
use std::time::Instant;

use tidegate_plan::{ListenerHandle, RuleHandle};

use crate::Ending;
use crate::observe::Count;
use crate::upstream::Backend;

/// One direction of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Traffic {
    pub(crate) datagrams: u64,
    pub(crate) bytes: u64,
}

impl AddAssign for Traffic {
    fn add_assign(&mut self, other: Self) {
        self.datagrams += other.datagrams;
        self.bytes += other.bytes;
    }
}

/// A flow that has ended or was refused, as far as it came.
pub(crate) struct FlowRecord<'a> {
    pub(crate) began: Instant,
    pub(crate) ended: Instant,
    pub(crate) client: SocketAddr,
    /// The address the client sent to.
    pub(crate) local: SocketAddr,
    pub(crate) listener: Option<&'a ListenerHandle>,
    pub(crate) rule: Option<&'a RuleHandle>,
    pub(crate) backend: Option<&'a Backend>,
    pub(crate) endpoint: Option<SocketAddr>,
    /// From the client, and what of it the endpoint was sent.
    pub(crate) up: Traffic,
    /// From the endpoint.
    pub(crate) down: Traffic,
    pub(crate) ending: Ending,
}

/// What went wrong with datagrams on one worker, beyond flows that were refused.
#[derive(Debug, Default)]
pub(crate) struct Mishaps {
    /// Datagrams of flows that another worker has, passed on to it.
    pub(crate) strayed: Count,
    /// Larger than any buffer: their rest was lost, so they were dropped.
    pub(crate) cut: Count,
    /// Without a sender to answer or an address they were sent to.
    pub(crate) unaddressed: Count,
    /// The kernel did not take them.
    pub(crate) unsent: Count,
    /// Errors that came instead of datagrams, most of them ICMP from an endpoint.
    pub(crate) errors: Count,
    /// Times a socket, a port or memory was not to be had.
    pub(crate) shortages: Count,
}
