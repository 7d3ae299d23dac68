//! One flow: what was decided for it, and how far it has come.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use tidegate_plan::{Admission, Connection, ListenerHandle, Reason, Transport};

use crate::Ending;
use crate::serving::Place;
use crate::snapshot::Snapshot;
use crate::stream_route::StreamRoute;
use crate::udp::record::{FlowRecord, Traffic};
use crate::udp::table::Key;
use crate::upstream::{Backend, Endpoint};

pub(super) struct Flow {
    /// The socket towards the endpoint, and its number.
    pub(super) socket: Arc<OwnedFd>,
    pub(super) uplink: u32,
    /// Where the client's last datagram came in, and answers go out.
    pub(super) inlet: u32,
    listener: ListenerHandle,
    /// One of the flows that the listener may have.
    place: Place,
    route: Arc<StreamRoute>,
    pub(super) backend: Arc<Backend>,
    pub(super) endpoint: Arc<Endpoint>,
    began: Instant,
    pub(super) up: Traffic,
    pub(super) down: Traffic,
    /// The endpoint refused, or is none any more: the next datagram of the client goes to another.
    pub(super) moves: bool,
    /// The endpoint has answered.
    pub(super) answered: bool,
    /// Whether datagrams may go up in runs, and come down in runs.
    pub(super) runs: Runs,
    /// Whether several answers are likely to wait together, and the turn in which one was last read.
    pub(super) bursts: bool,
    pub(super) read_in: u64,
    /// Set when its listener, route or backend was removed.
    pub(super) leaves_at: Option<Instant>,
    pub(super) sorted: Sorted,
}

#[derive(Clone, Copy)]
pub(super) struct Runs {
    pub(super) up: bool,
    pub(super) down: bool,
}

impl Default for Runs {
    fn default() -> Self {
        Self { up: true, down: false }
    }
}

/// Where the datagrams of a flow are among those that were read together.
#[derive(Clone, Copy, Default)]
pub(super) struct Sorted {
    /// The read that the rest is about.
    pub(super) round: u64,
    pub(super) first: u8,
    pub(super) last: u8,
}

/// What the plan says of a new flow.
pub(super) struct Decided<'a> {
    pub(super) listener: &'a ListenerHandle,
    pub(super) route: &'a Arc<StreamRoute>,
    pub(super) backend: &'a Arc<Backend>,
}

/// How far a flow came that was refused.
#[derive(Default)]
pub(super) struct Reached<'a> {
    pub(super) listener: Option<&'a ListenerHandle>,
    pub(super) route: Option<&'a StreamRoute>,
    pub(super) backend: Option<&'a Backend>,
}

/// The listener, the route and, by weight, the backend for a flow to this address.
pub(super) fn decide(local: SocketAddr, snapshot: &Snapshot) -> Result<Decided<'_>, (Ending, Reached<'_>)> {
    let connection = Connection { local, transport: Transport::Udp, hello: None };
    match snapshot.tables.admit(&connection, &mut ()) {
        Ok(Admission::Stream { listener, rule, .. }) => {
            let reached = |route| Reached { listener: Some(listener), route, backend: None };
            let route = snapshot.stream(rule).map_err(|ending| (ending, reached(None)))?;
            let backend = snapshot.backend(route).map_err(|ending| (ending, reached(Some(&**route))))?;
            Ok(Decided { listener, route, backend })
        }
        Ok(Admission::Http | Admission::Https { .. }) => {
            Err((Ending::Refused(Reason::NoListener), Reached::default()))
        }
        Err(refusal) => {
            let reached = Reached { listener: refusal.listener, route: None, backend: None };
            Err((Ending::Refused(refusal.reason), reached))
        }
    }
}

impl Flow {
    pub(super) fn new(
        (uplink, socket): (u32, Arc<OwnedFd>),
        inlet: u32,
        decided: &Decided<'_>,
        place: Place,
        endpoint: Arc<Endpoint>,
        now: Instant,
    ) -> Self {
        Self {
            socket,
            uplink,
            inlet,
            listener: decided.listener.clone(),
            place,
            route: Arc::clone(decided.route),
            backend: Arc::clone(decided.backend),
            endpoint,
            began: now,
            up: Traffic::default(),
            down: Traffic::default(),
            moves: false,
            answered: false,
            runs: Runs::default(),
            bursts: false,
            read_in: 0,
            leaves_at: None,
            sorted: Sorted::default(),
        }
    }

    /// Whether the plan still has the way that was chosen for it. Another choice for new flows is no reason to go.
    pub(super) fn is_planned(&self, snapshot: &Snapshot) -> bool {
        snapshot.still_leads(&self.listener.id, &self.route.rule, &self.backend.plan.id)
    }

    pub(super) fn record(&self, key: &Key, ended: Instant, ending: Ending) -> FlowRecord<'_> {
        FlowRecord {
            began: self.began,
            ended,
            client: key.client,
            local: key.local,
            listener: Some(&self.listener),
            place: Some(&self.place),
            route: Some(&self.route),
            backend: Some(&self.backend),
            endpoint: Some(self.endpoint.address),
            up: self.up,
            down: self.down,
            ending,
        }
    }
}

impl Reached<'_> {
    pub(super) fn record(&self, key: &Key, now: Instant, ending: Ending) -> FlowRecord<'_> {
        FlowRecord {
            began: now,
            ended: now,
            client: key.client,
            local: key.local,
            listener: self.listener,
            place: None,
            route: self.route,
            backend: self.backend,
            endpoint: None,
            up: Traffic::default(),
            down: Traffic::default(),
            ending,
        }
    }
}
