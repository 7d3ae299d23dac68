//! The ListenerSets of a Gateway.

use tidegate_api::gateway::{FromListenerNamespaces, Gateway, ListenerSet};
use tidegate_api::status::Reason;
use tidegate_plan::ObjectName;

use super::listener::{self, ListenerView};
use crate::conditions::Fault;
use crate::lookup::Lookup;

/// What became of a ListenerSet.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SetView {
    pub(crate) name: ObjectName,
    pub(crate) generation: i64,
    /// Why it is not attached at all; its listeners then count for nothing.
    pub(crate) fault: Option<Fault>,
    pub(crate) listeners: Vec<ListenerView>,
}

impl SetView {
    /// Why it is not accepted; one listener that serves, or waits for its certificate, is enough.
    pub(crate) fn not_accepted(&self) -> Option<Fault> {
        self.fault.clone().or_else(|| {
            let serves = self.listeners.iter().any(|one| one.serves() || one.awaits_certificate());
            (!serves).then(|| Fault::new(Reason::ListenersNotValid, self.bad_listeners()))
        })
    }

    /// The listeners that cannot serve, in words.
    pub(super) fn bad_listeners(&self) -> String {
        let is_bad = |listener: &&ListenerView| !listener.serves() && !listener.awaits_certificate();
        let bad = self.listeners.iter().filter(is_bad).map(|listener| {
            let fault = listener.not_accepted().or(listener.unresolved.as_ref());
            let why = fault.map_or("it cannot serve", |fault| &fault.message);
            format!("listener {}: {why}", listener.id.name)
        });
        bad.collect::<Vec<_>>().join("; ")
    }
}

/// The sets that name this Gateway, those of higher precedence first.
pub(super) fn views(gateway: &Gateway, has_issuer: bool, lookup: &Lookup<'_>) -> Vec<SetView> {
    let mut sets = lookup.listener_sets_of(&gateway.meta.object_name());
    sets.retain(|set| {
        let parent = &set.spec.parent_ref;
        parent.kind == "Gateway" && parent.group == tidegate_api::refs::GATEWAY_GROUP
    });
    sets.sort_by(|a, b| a.meta.precedence().cmp(&b.meta.precedence()));
    sets.into_iter().map(|set| view(set, gateway, has_issuer, lookup)).collect()
}

fn view(set: &ListenerSet, gateway: &Gateway, has_issuer: bool, lookup: &Lookup<'_>) -> SetView {
    let fault = (!is_allowed(set, gateway, lookup)).then(|| {
        Fault::new(
            Reason::NotAllowed,
            format!(
                "Gateway {} does not take ListenerSets of namespace {}: its spec.allowedListeners.namespaces.from is {}, and its owner can change that",
                gateway.meta.object_name(),
                set.meta.namespace,
                gateway.spec.allowed_listeners.as_ref().map_or(FromListenerNamespaces::None, |allowed| allowed.namespaces.from)
            ),
        )
    });
    let owner = listener::Owner::set(set, gateway, has_issuer);
    let evaluated = |entry| listener::evaluate(entry, &owner, gateway, lookup);
    let listeners = set.spec.listeners.iter().map(evaluated).collect();
    SetView { name: set.meta.object_name(), generation: set.meta.generation, fault, listeners }
}

fn is_allowed(set: &ListenerSet, gateway: &Gateway, lookup: &Lookup<'_>) -> bool {
    let Some(allowed) = &gateway.spec.allowed_listeners else { return false };
    match allowed.namespaces.from {
        FromListenerNamespaces::All => true,
        FromListenerNamespaces::None => false,
        FromListenerNamespaces::Same => set.meta.namespace == gateway.meta.namespace,
        FromListenerNamespaces::Selector => {
            let labels = lookup.namespace(&set.meta.namespace).map(|namespace| &namespace.meta.labels);
            let selector = allowed.namespaces.selector.as_ref();
            selector.zip(labels).is_some_and(|(selector, labels)| selector.matches(labels))
        }
    }
}
