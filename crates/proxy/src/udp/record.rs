//! What is told of flows: one record when a flow ends or is refused.

use std::net::SocketAddr;
use std::ops::AddAssign;
use std::time::Instant;

use tidegate_plan::ListenerHandle;

use crate::Ending;
use crate::serving::Place;
use crate::stream_route::StreamRoute;
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
    /// `None` for a flow that was refused.
    pub(crate) place: Option<&'a Place>,
    pub(crate) route: Option<&'a StreamRoute>,
    pub(crate) backend: Option<&'a Backend>,
    pub(crate) endpoint: Option<SocketAddr>,
    /// What the endpoint was sent of what the client had sent.
    pub(crate) up: Traffic,
    /// From the endpoint.
    pub(crate) down: Traffic,
    pub(crate) ending: Ending,
}
