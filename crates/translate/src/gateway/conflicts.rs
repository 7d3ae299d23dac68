//! Listeners that cannot stand beside each other on one port.
//!
//! First what loses to an object of higher precedence is dropped: the Gateway goes before its ListenerSets,
//! and these go by age and name. Only then are listeners inside one object compared, where nobody wins.

use tidegate_api::status::Reason;

use super::listener::{ListenerView, Protocol};
use super::sets::SetView;
use crate::conditions::{Fault, few};

pub(super) fn resolve(own: &mut [ListenerView], sets: &mut [SetView]) {
    let mut objects: Vec<&mut [ListenerView]> = vec![own];
    objects.extend(sets.iter_mut().filter(|set| set.fault.is_none()).map(|set| set.listeners.as_mut_slice()));
    for lower in 1..objects.len() {
        let (higher, rest) = objects.split_at_mut(lower);
        for listener in rest[0].iter_mut() {
            let winner = higher.iter().flat_map(|object| object.iter()).find_map(|other| {
                if other.conflict.is_some() {
                    None
                } else {
                    between(listener, other).map(|reason| (reason, other))
                }
            });
            if let Some((reason, winner)) = winner {
                listener.conflict = Some(lost(listener, winner, reason));
            }
        }
    }
    for object in &mut objects {
        compare_equals(object);
    }
    find_overlaps(&mut objects);
}

/// Why two listeners cannot both serve, if they cannot.
pub(super) fn between(a: &ListenerView, b: &ListenerView) -> Option<Reason> {
    let (first, second) = (a.protocol?, b.protocol?);
    let is_udp = |protocol| protocol == Protocol::Udp;
    if a.port != b.port || is_udp(first) != is_udp(second) {
        return None;
    }
    let has_hello = |protocol| matches!(protocol, Protocol::Https | Protocol::Tls);
    let by_hostname = first == second && !matches!(first, Protocol::Tcp | Protocol::Udp);
    if by_hostname {
        (a.hostname == b.hostname).then_some(Reason::HostnameConflict)
    } else if has_hello(first) && has_hello(second) {
        (a.hostname == b.hostname).then_some(Reason::ProtocolConflict)
    } else {
        Some(Reason::ProtocolConflict)
    }
}

fn compare_equals(listeners: &mut [ListenerView]) {
    let found: Vec<Option<Fault>> = listeners
        .iter()
        .enumerate()
        .map(|(index, listener)| {
            if listener.conflict.is_some() {
                return None;
            }
            let others = listeners
                .iter()
                .enumerate()
                .filter(|(other, view)| *other != index && view.conflict.is_none());
            let (reason, other) =
                others.filter_map(|(_, other)| Some((between(listener, other)?, other))).next()?;
            let message = format!(
                "port {} cannot be shared with {} beside it, and neither serves; {}",
                listener.port,
                describe(other),
                way_out(listener, other)
            );
            Some(Fault::new(reason, message))
        })
        .collect();
    for (listener, fault) in listeners.iter_mut().zip(found) {
        if fault.is_some() {
            listener.conflict = fault;
        }
    }
}

fn lost(listener: &ListenerView, winner: &ListenerView, reason: Reason) -> Fault {
    let owner = match &winner.id.listener_set {
        None => format!("Gateway {}", winner.id.gateway),
        Some(set) => format!("ListenerSet {set}"),
    };
    let message = format!(
        "port {} is taken by {} of {owner}, which goes before this ListenerSet; {}",
        listener.port,
        describe(winner),
        way_out(listener, winner)
    );
    Fault::new(reason, message)
}

/// What to change so that both can serve.
fn way_out(a: &ListenerView, b: &ListenerView) -> &'static str {
    let has_hello = |view: &ListenerView| matches!(view.protocol, Some(Protocol::Https | Protocol::Tls));
    let both_http = a.protocol == Some(Protocol::Http) && b.protocol == Some(Protocol::Http);
    if both_http || has_hello(a) && has_hello(b) {
        "use another hostname or port for one of them"
    } else {
        "use another port for one of them"
    }
}

/// A listener in words.
pub(super) fn describe(listener: &ListenerView) -> String {
    let protocol = listener.protocol.map_or("?", Protocol::as_str);
    let name = &listener.id.name;
    match (&listener.hostname, listener.protocol) {
        (Some(hostname), _) => format!("listener {name} ({protocol}, {hostname})"),
        (None, Some(Protocol::Tcp | Protocol::Udp)) => format!("listener {name} ({protocol})"),
        (None, _) => format!("listener {name} ({protocol}, no hostname)"),
    }
}

/// Listeners with TLS on one port whose names overlap are told so: a client that reuses a connection for
/// another name would get the first one's TLS settings.
fn find_overlaps(objects: &mut [&mut [ListenerView]]) {
    let mut found = Vec::new();
    {
        let tls: Vec<(usize, usize, &ListenerView)> = objects
            .iter()
            .enumerate()
            .flat_map(|(object, listeners)| {
                listeners.iter().enumerate().map(move |(index, view)| (object, index, view))
            })
            .filter(|(_, _, view)| matches!(view.protocol, Some(Protocol::Https | Protocol::Tls)))
            .filter(|(_, _, view)| view.conflict.is_none())
            .collect();
        for (object, index, view) in &tls {
            let others: Vec<String> = tls
                .iter()
                .filter(|(other_object, other_index, other)| {
                    (other_object, other_index) != (object, index)
                        && other.port == view.port
                        && overlap(view, other)
                })
                .map(|(_, _, other)| other.id.name.to_string())
                .collect();
            if !others.is_empty() {
                found.push((*object, *index, others));
            }
        }
    }
    for (object, index, others) in found {
        let message = format!(
            "its hostname overlaps with that of listener {} on the same port; the most specific one takes a connection",
            few(&others)
        );
        objects[object][index].overlapping = Some(message);
    }
}

fn overlap(a: &ListenerView, b: &ListenerView) -> bool {
    match (&a.hostname, &b.hostname) {
        (Some(a), Some(b)) => a.intersects(b),
        _ => true,
    }
}
