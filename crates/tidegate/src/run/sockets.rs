//! What the data plane's sockets mean for the listeners that share them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use tidegate_plan::{Body, FragmentId, Listener, ListenerId, ObjectName, Plan, Transport};
use tidegate_proxy::SocketState;

/// What the sockets of a listener are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Waiting,
    /// Those at some addresses may be open and another not.
    Tried {
        open: BTreeSet<IpAddr>,
        failure: Option<Failure>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) why: String,
    /// Whether it is for an address that a Gateway asked for.
    pub(crate) address: bool,
}

/// Of each listener of a plan.
pub(crate) fn states<'p>(plan: &'p Plan, sockets: &[SocketState]) -> BTreeMap<&'p ListenerId, State> {
    let sockets: BTreeMap<(Option<IpAddr>, u16, Transport), &SocketState> =
        sockets.iter().map(|state| ((state.address, state.port, state.transport), state)).collect();
    listeners(plan).map(|listener| (&listener.id, state(listener, &sockets))).collect()
}

/// Whether the data plane has tried every socket that the plan asks for.
pub(crate) fn all_tried(plan: &Plan, sockets: &[SocketState]) -> bool {
    states(plan, sockets).values().all(|state| *state != State::Waiting)
}

/// In the order of fragments, listeners stand together.
fn listeners(plan: &Plan) -> impl Iterator<Item = &Listener> {
    let first = ListenerId { gateway: ObjectName::new("", ""), listener_set: None, name: "".into() };
    plan.fragments.range(FragmentId::Listener(first)..).map_while(|(_, fragment)| match &fragment.body {
        Body::Listener(listener) => Some(listener),
        _ => None,
    })
}

fn state(listener: &Listener, sockets: &BTreeMap<(Option<IpAddr>, u16, Transport), &SocketState>) -> State {
    let wanted: Vec<Option<IpAddr>> = if listener.addresses.is_empty() {
        vec![None]
    } else {
        listener.addresses.iter().copied().map(Some).collect()
    };
    let mut open = BTreeSet::new();
    let mut failure = None;
    for address in wanted {
        let Some(socket) = sockets.get(&(address, listener.port, listener.handling.transport())) else {
            return State::Waiting;
        };
        match &socket.state {
            Ok(bound) => open.extend(bound.iter().map(std::net::SocketAddr::ip)),
            Err(why) => {
                let transport = if socket.transport == Transport::Udp { "UDP" } else { "TCP" };
                let place = address.map(|ip| format!(" on {ip}")).unwrap_or_default();
                let why = format!("{transport} port {}{place} cannot be bound: {why}", listener.port);
                failure.get_or_insert(Failure { why, address: address.is_some() });
            }
        }
    }
    State::Tried { open, failure }
}
