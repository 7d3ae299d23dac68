//! Gateways of one folder share the ports of one machine.

use tidegate_api::status::Reason;

use super::conflicts::{between, describe};
use super::{GatewayView, ListenerView};
use crate::conditions::Fault;

/// Listeners of several Gateways on one address and port share it by the rules that hold inside one Gateway.
/// Where they cannot, the older Gateway's serves and the other's is told who has the port.
pub(crate) fn share_ports(views: &mut [GatewayView]) {
    views.sort_by(|a, b| (a.created, &a.name).cmp(&(b.created, &b.name)));
    for lower in 1..views.len() {
        let (higher, rest) = views.split_at_mut(lower);
        let Some((view, _)) = rest.split_first_mut() else { return };
        if view.not_accepted().is_some() {
            continue;
        }
        let addresses = view.addresses.clone();
        let rivals: Vec<&GatewayView> = higher
            .iter()
            .filter(|other| other.not_accepted().is_none())
            .filter(|other| {
                let shared = other.addresses.iter().any(|address| addresses.contains(address));
                shared || addresses.is_empty() || other.addresses.is_empty()
            })
            .collect();
        for listener in view.all_listeners_mut().filter(|listener| listener.occupies()) {
            let taken = |other: &&ListenerView| other.occupies() && between(listener, other).is_some();
            let winner = rivals.iter().find_map(|rival| Some((rival, rival.all_listeners().find(taken)?)));
            if let Some((rival, other)) = winner {
                let message = format!(
                    "port {} is taken by {} of Gateway {}, which is older or first by name; use another port, hostname or address",
                    listener.port,
                    describe(other),
                    rival.name
                );
                listener.fault = Some(Fault::new(Reason::PortUnavailable, message));
                listener.refuse = None;
            }
        }
    }
}
