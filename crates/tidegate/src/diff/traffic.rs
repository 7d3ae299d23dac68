//! Ports that open and close, and flows that start, stop or go elsewhere.

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde::Serialize;
use tidegate_plan::{Hostname, Transport};

use crate::diff::destination::Destination;
use crate::diff::probe::{Place, Places};
use crate::diff::{Side, Sign};

#[derive(Debug, Serialize)]
pub(crate) struct Port {
    pub(crate) change: Sign,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) address: Option<IpAddr>,
    pub(crate) port: u16,
    pub(crate) transport: Transport,
}

pub(crate) fn ports(old: &Side<'_>, new: &Side<'_>) -> Vec<Port> {
    let sockets = |side: &Side<'_>| -> BTreeSet<(u16, Transport, Option<IpAddr>)> {
        side.tables.sockets().map(|(address, port, transport)| (port, transport, address)).collect()
    };
    let (old, new) = (sockets(old), sockets(new));
    let named = |change| move |&(port, transport, address): &_| Port { change, address, port, transport };
    old.difference(&new)
        .map(named(Sign::Stops))
        .chain(new.difference(&old).map(named(Sign::Starts)))
        .collect()
}

#[derive(Debug, Serialize)]
pub(crate) struct Change {
    pub(crate) change: Sign,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) address: Option<IpAddr>,
    pub(crate) port: u16,
    pub(crate) transport: Transport,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) hostname: Option<Hostname>,
    #[serde(rename = "match", skip_serializing_if = "Option::is_none")]
    pub(crate) matched: Option<String>,
    pub(crate) old: Destination,
    pub(crate) new: Destination,
}

pub(crate) fn changes(places: &Places, old: &Side<'_>, new: &Side<'_>) -> Vec<Change> {
    let changes = places.iter().filter_map(|(place, asks)| {
        let was = Destination::of(place, asks, old);
        let is = Destination::of(place, asks, new);
        (was != is).then(|| change(place.clone(), was, is))
    });
    changes.collect()
}

impl Change {
    /// Whether it is what the other says, at this place.
    pub(crate) fn tells(&self, place: &Place, other: &Self) -> bool {
        let Place { port, transport, address, hostname, matched } = place;
        (self.port, self.transport, self.address) == (*port, *transport, *address)
            && (&self.hostname, &self.matched) == (hostname, matched)
            && (&self.old, &self.new) == (&other.old, &other.new)
    }
}

pub(crate) fn change(place: Place, old: Destination, new: Destination) -> Change {
    let change = match (old.is_refused(), new.is_refused()) {
        (true, false) => Sign::Starts,
        (false, true) => Sign::Stops,
        _ => Sign::Changes,
    };
    let Place { port, transport, address, hostname, matched } = place;
    Change { change, address, port, transport, hostname, matched, old, new }
}
