//! What the data plane's sockets say about Gateways and ListenerSets: `Programmed`, and the addresses that are bound.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use tidegate_api::status::{
    Condition, ConditionStatus, ConditionType, GatewayStatus, ListenerSetStatus, ListenerStatus, Reason,
    Status, StatusAddress,
};
use tidegate_api::{Kind, ObjectKey};
use tidegate_issuing::Issuing;
use tidegate_plan::{ListenerId, ObjectName, Plan};
use tidegate_proxy::SocketState;
use tidegate_translate::{AskedAddress, Source};

use crate::meaning::Meaning;
use crate::run::sockets::{Failure, State, states};

/// Brings the statuses of these objects in line with the sockets, and names those that differ now.
pub(crate) fn update<'k>(
    meaning: &mut Meaning,
    sockets: &[SocketState],
    keys: impl IntoIterator<Item = &'k ObjectKey>,
) -> BTreeSet<ObjectKey> {
    let keys = keys.into_iter().filter(|key| matches!(key.kind, Kind::Gateway | Kind::ListenerSet));
    let keys: BTreeSet<ObjectKey> = keys.cloned().collect();
    if keys.is_empty() {
        return keys;
    }
    let served = {
        let states = States::new(&meaning.translation().plan, sockets);
        let foreign = meaning.manifests.foreign_secrets();
        let issuing = Issuing {
            wants: &meaning.translation().wants,
            picture: meaning.issuance.as_deref(),
            foreign: &foreign,
            source: Source::Folder,
        };
        let status = |key: &ObjectKey| {
            let status = meaning.translation().statuses.get(key)?;
            let mut status = match &**status {
                Status::Gateway(status) => {
                    let infrastructure = meaning.translation().infrastructure.get(&key.name);
                    let asked = infrastructure.map_or(&[][..], |infrastructure| &infrastructure.addresses);
                    Status::Gateway(states.gateway(&key.name, asked, status.clone()))
                }
                Status::ListenerSet(status) => Status::ListenerSet(states.set(&key.name, status.clone())),
                other => other.clone(),
            };
            issuing.add(&mut status, key);
            Some(Arc::new(status))
        };
        keys.iter().map(|key| (key.clone(), status(key))).collect::<Vec<_>>()
    };
    let mut changed = BTreeSet::new();
    for (key, status) in served {
        if meaning.served.get(&key) == status.as_ref() {
            continue;
        }
        match status {
            Some(status) => meaning.served.insert(key.clone(), status),
            None => meaning.served.remove(&key),
        };
        changed.insert(key);
    }
    changed
}

/// Every Gateway and ListenerSet that has a status.
pub(crate) fn all(meaning: &Meaning) -> Vec<ObjectKey> {
    let keys = meaning.translation().statuses.keys();
    keys.take_while(|key| key.kind <= Kind::ListenerSet).cloned().collect()
}

struct States<'a> {
    listeners: BTreeMap<&'a ListenerId, State>,
}

impl<'a> States<'a> {
    fn new(plan: &'a Plan, sockets: &[SocketState]) -> Self {
        Self { listeners: states(plan, sockets) }
    }

    fn gateway(&self, name: &ObjectName, asked: &[AskedAddress], mut status: GatewayStatus) -> GatewayStatus {
        let of_gateway = || self.listeners.iter().filter(|(id, _)| id.gateway == *name);
        let own: BTreeMap<&str, &State> = of_gateway()
            .filter(|(id, _)| id.listener_set.is_none())
            .map(|(id, state)| (&*id.name, state))
            .collect();
        program_listeners(&mut status.listeners, &own);
        program_owner(&mut status.conditions, &own, "the Gateway is served");
        let bound: BTreeSet<IpAddr> = of_gateway()
            .filter_map(|(_, state)| if let State::Tried { open, .. } = state { Some(open) } else { None })
            .flatten()
            .copied()
            .collect();
        if !asked.is_empty() && of_gateway().all(|(_, state)| *state != State::Waiting) {
            let generation = status.conditions.first().map_or(0, |condition| condition.observed_generation);
            status.conditions.push(assigned(asked, &bound, generation));
        }
        status.addresses = bound
            .into_iter()
            .map(|ip| StatusAddress { kind: "IPAddress".to_owned(), value: ip.to_string() })
            .collect();
        status
    }

    fn set(&self, name: &ObjectName, mut status: ListenerSetStatus) -> ListenerSetStatus {
        let own = self.listeners.iter().filter(|(id, _)| id.listener_set.as_ref() == Some(name));
        let own: BTreeMap<&str, &State> = own.map(|(id, state)| (&*id.name, state)).collect();
        program_listeners(&mut status.listeners, &own);
        program_owner(&mut status.conditions, &own, "the ListenerSet is served");
        status
    }
}

/// Whether the addresses that a Gateway asks for are bound, whatever became of its ports there.
fn assigned(asked: &[AskedAddress], bound: &BTreeSet<IpAddr>, generation: i64) -> Condition {
    let is_bound = |address: &&AskedAddress| address.ip.map_or(!bound.is_empty(), |ip| bound.contains(&ip));
    let missing: Vec<String> = asked
        .iter()
        .filter(|address| !is_bound(address))
        .map(|address| address.ip.map_or_else(|| "any".to_owned(), |ip| ip.to_string()))
        .collect();
    let (status, reason) = if missing.is_empty() {
        (ConditionStatus::True, Reason::AddressesAssigned)
    } else if missing.len() < asked.len() {
        (ConditionStatus::False, Reason::PartiallyAssigned)
    } else {
        (ConditionStatus::False, Reason::NotAssigned)
    };
    let message = if missing.is_empty() {
        "all addresses are assigned".to_owned()
    } else {
        format!("not bound: {}", missing.join(", "))
    };
    let kind = ConditionType::AddressesAssigned;
    Condition { kind, status, reason, message, observed_generation: generation }
}

fn program_listeners(statuses: &mut [ListenerStatus], states: &BTreeMap<&str, &State>) {
    for status in statuses {
        match states.get(&*status.name) {
            Some(State::Tried { failure: None, .. }) => {
                say(&mut status.conditions, None, "the listener is served");
            }
            Some(State::Tried { failure: Some(failure), .. }) => {
                say(&mut status.conditions, Some(Reason::PortUnavailable), &failure.why);
            }
            Some(State::Waiting) | None => {}
        }
    }
}

/// A Gateway or ListenerSet is served where all of its listeners are that could be.
fn program_owner(conditions: &mut [Condition], states: &BTreeMap<&str, &State>, good: &str) {
    let mut failures = Vec::new();
    let mut for_address = true;
    for (name, state) in states {
        match state {
            State::Waiting => return,
            State::Tried { failure, .. } => {
                if let Some(Failure { why, address }) = failure {
                    failures.push(format!("listener {name}: {why}"));
                    for_address &= *address;
                }
            }
        }
    }
    if failures.is_empty() {
        return say(conditions, None, good);
    }
    let reason = if for_address { Reason::AddressNotUsable } else { Reason::PortUnavailable };
    say(conditions, Some(reason), &failures.join("; "));
}

/// Answers the question that translation left open; where it could say no itself, that stays.
fn say(conditions: &mut [Condition], fault: Option<Reason>, message: &str) {
    let open = conditions.iter_mut().find(|condition| {
        condition.kind == ConditionType::Programmed && condition.status == ConditionStatus::Unknown
    });
    if let Some(condition) = open {
        condition.status = if fault.is_some() { ConditionStatus::False } else { ConditionStatus::True };
        condition.reason = fault.unwrap_or(Reason::Programmed);
        message.clone_into(&mut condition.message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_that_was_asked_for_is_looked_for_among_those_that_are_bound() {
        let ip = |text: &str| Some(text.parse().unwrap());
        let asked = |ips: &[Option<IpAddr>]| -> Vec<AskedAddress> {
            ips.iter().map(|ip| AskedAddress { ip: *ip, in_cluster: false }).collect()
        };
        let bound = BTreeSet::from(["127.0.0.1".parse().unwrap()]);
        for (ips, bound, expected) in [
            (&[ip("127.0.0.1"), None][..], &bound, (Reason::AddressesAssigned, "all addresses are assigned")),
            (
                &[ip("127.0.0.1"), ip("192.0.2.1")],
                &bound,
                (Reason::PartiallyAssigned, "not bound: 192.0.2.1"),
            ),
            (&[ip("192.0.2.1")], &bound, (Reason::NotAssigned, "not bound: 192.0.2.1")),
            (&[None], &BTreeSet::new(), (Reason::NotAssigned, "not bound: any")),
        ] {
            let condition = assigned(&asked(ips), bound, 3);
            assert_eq!((condition.reason, &*condition.message), expected, "{ips:?}");
            let is_true = condition.status == ConditionStatus::True;
            assert_eq!(is_true, condition.reason == Reason::AddressesAssigned);
        }
    }
}
