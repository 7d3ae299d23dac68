//! Which listeners take a route, and why the others do not.

use tidegate_api::refs::{GATEWAY_GROUP, ParentReference};
use tidegate_api::scalar::port_number;
use tidegate_api::status::{ParentRefStatus, Reason};
use tidegate_plan::{Hostname, ObjectName};

use super::{Common, Gateways};
use crate::conditions::{Fault, few};
use crate::gateway::{GatewayView, ListenerView};
use crate::lookup::{Dependency, Lookup};
use crate::translation::{Attachment, Verdict};

/// One parent of ours and what it says to the route.
#[derive(Debug)]
pub(super) struct Parent {
    pub(super) attachment: Attachment,
    /// For each listener of the attachment: whether it passes TLS through.
    pub(super) passthrough: Vec<bool>,
    pub(super) fault: Option<Fault>,
}

/// The parents that are ours, in the order of the spec, then the default Gateways. Parents of other
/// controllers are theirs to speak of.
pub(super) fn parents(
    route: &Common<'_>,
    gateways: &Gateways,
    lookup: &Lookup<'_>,
) -> (Vec<Parent>, Vec<String>) {
    let mut parents = Vec::new();
    let mut notes = Vec::new();
    for reference in &route.parents.parent_refs {
        match find(reference, route, gateways, lookup) {
            Found::Listeners(listeners) => {
                let selector = Selector {
                    section: reference.section_name.as_ref().map(tidegate_api::scalar::SectionName::as_str),
                    port: reference.port.map(port_number),
                };
                parents.push(judge(reference.into(), &selector, listeners, route, lookup));
            }
            Found::SetNotAttached(name, fault) => {
                let message = format!("ListenerSet {name} is not attached to its Gateway: {}", fault.message);
                parents.push(Parent {
                    attachment: Attachment { parent_ref: reference.into(), listeners: Vec::new() },
                    passthrough: Vec::new(),
                    fault: Some(Fault::new(Reason::NoMatchingParent, message)),
                });
            }
            Found::Nothing(what) => {
                notes.push(format!("{what} does not exist; create it, or name another in parentRefs"));
            }
            Found::NotOurs => {}
        }
    }
    for gateway in defaults(route, gateways, lookup) {
        let parent_ref = ParentRefStatus {
            group: GATEWAY_GROUP.to_owned(),
            kind: "Gateway".to_owned(),
            namespace: Some(gateway.name.namespace.as_ref().to_owned()),
            name: gateway.name.name.as_ref().to_owned(),
            section_name: None,
            port: None,
        };
        parents.push(judge(parent_ref, &Selector::default(), &gateway.listeners, route, lookup));
    }
    if parents.is_empty() && notes.is_empty() && route.parents.parent_refs.is_empty() {
        notes.push("it has no parentRefs and attaches to nothing; name a Gateway there".to_owned());
    }
    (parents, notes)
}

enum Found<'a> {
    Listeners(&'a [ListenerView]),
    SetNotAttached(ObjectName, &'a Fault),
    /// What was looked for.
    Nothing(String),
    NotOurs,
}

fn find<'a>(
    reference: &ParentReference,
    route: &Common<'_>,
    gateways: &'a Gateways,
    lookup: &Lookup<'_>,
) -> Found<'a> {
    let namespace = reference.namespace.as_ref().map_or(&*route.meta.namespace, |name| name.as_str());
    let name = ObjectName::new(namespace, reference.name.shared());
    if reference.group != GATEWAY_GROUP {
        return Found::NotOurs;
    }
    match reference.kind.as_str() {
        "Gateway" => {
            lookup.saw(Dependency::GatewayView(name.clone()));
            match gateways.get(&name) {
                Some(gateway) => Found::Listeners(&gateway.listeners),
                None if lookup.gateway(&name).is_some() => Found::NotOurs,
                None => Found::Nothing(format!("Gateway {name}")),
            }
        }
        "ListenerSet" => {
            let Some(set) = lookup.listener_set(&name) else {
                return Found::Nothing(format!("ListenerSet {name}"));
            };
            let parent = &set.spec.parent_ref;
            let parent_namespace =
                parent.namespace.as_ref().map_or(&*set.meta.namespace, |name| name.as_str());
            let gateway = ObjectName::new(parent_namespace, parent.name.shared());
            lookup.saw(Dependency::GatewayView(gateway.clone()));
            let view =
                gateways.get(&gateway).and_then(|gateway| gateway.sets.iter().find(|set| set.name == name));
            match view {
                Some(set) => match &set.fault {
                    None => Found::Listeners(&set.listeners),
                    Some(fault) => Found::SetNotAttached(name, fault),
                },
                None if lookup.gateway(&gateway).is_some() => Found::NotOurs,
                None => Found::Nothing(format!("Gateway {gateway} of ListenerSet {name}")),
            }
        }
        _ => Found::NotOurs,
    }
}

/// The Gateways that take routes which name none, unless the route names them as a whole anyway. One of which it names
/// a listener is still a default for the others.
fn defaults<'a>(route: &Common<'_>, gateways: &'a Gateways, lookup: &Lookup<'_>) -> Vec<&'a GatewayView> {
    if route.parents.use_default_gateways != tidegate_api::gateway::Scope::All {
        return Vec::new();
    }
    lookup.saw(Dependency::DefaultGateways);
    let named = |gateway: &GatewayView| {
        route.parents.parent_refs.iter().any(|reference| {
            let namespace = reference.namespace.as_ref().map_or(&*route.meta.namespace, |name| name.as_str());
            reference.group == GATEWAY_GROUP
                && reference.kind == "Gateway"
                && reference.name == *gateway.name.name
                && *namespace == *gateway.name.namespace
                && reference.section_name.is_none()
                && reference.port.is_none()
        })
    };
    let found = gateways.values().filter(|gateway| gateway.is_default && !named(gateway));
    found
        .map(|gateway| &**gateway)
        .inspect(|gateway| lookup.saw(Dependency::GatewayView(gateway.name.clone())))
        .collect()
}

/// What a parentRef picks out of its parent's listeners.
#[derive(Debug, Default)]
struct Selector<'a> {
    section: Option<&'a str>,
    port: Option<u16>,
}

fn judge(
    parent_ref: ParentRefStatus,
    selector: &Selector<'_>,
    listeners: &[ListenerView],
    route: &Common<'_>,
    lookup: &Lookup<'_>,
) -> Parent {
    let verdicts: Vec<Verdict> =
        listeners.iter().map(|listener| verdict(listener, selector, route, lookup)).collect();
    let fault = fault(&parent_ref, &verdicts, listeners, route);
    let attachment = Attachment {
        parent_ref,
        listeners: listeners.iter().map(|listener| listener.id.clone()).zip(verdicts).collect(),
    };
    Parent { attachment, passthrough: listeners.iter().map(ListenerView::is_passthrough).collect(), fault }
}

fn verdict(
    listener: &ListenerView,
    selector: &Selector<'_>,
    route: &Common<'_>,
    lookup: &Lookup<'_>,
) -> Verdict {
    if selector.section.is_some_and(|section| section != &*listener.id.name) {
        Verdict::OtherSection
    } else if selector.port.is_some_and(|port| port != listener.port) {
        Verdict::OtherPort
    } else if !listener.kinds.contains(&route.kind) {
        Verdict::KindNotAllowed
    } else if !listener.allows_namespace(&route.meta.namespace, lookup) {
        Verdict::NamespaceNotAllowed
    } else {
        match common_hostnames(listener.hostname.as_ref(), route.hostnames) {
            Some(hostnames) => Verdict::Attached(hostnames),
            None => Verdict::NoCommonHostname,
        }
    }
}

/// The names in which listener and route meet; empty: all of them; `None`: nowhere.
fn common_hostnames(listener: Option<&Hostname>, route: &[Hostname]) -> Option<Vec<Hostname>> {
    let mut common: Vec<Hostname> = match listener {
        None => route.to_vec(),
        Some(listener) if route.is_empty() => vec![listener.clone()],
        Some(listener) => {
            let common: Vec<_> =
                route.iter().filter_map(|name| name.intersection(listener).cloned()).collect();
            if common.is_empty() {
                return None;
            }
            common
        }
    };
    common.sort();
    common.dedup();
    Some(common)
}

/// Why no listener took the route: the verdict that came furthest decides.
fn fault(
    parent: &ParentRefStatus,
    verdicts: &[Verdict],
    listeners: &[ListenerView],
    route: &Common<'_>,
) -> Option<Fault> {
    let any = |wanted: fn(&Verdict) -> bool| verdicts.iter().any(wanted);
    if any(|verdict| matches!(verdict, Verdict::Attached(_))) {
        return None;
    }
    if any(|verdict| *verdict == Verdict::NoCommonHostname) {
        let theirs = listeners
            .iter()
            .zip(verdicts)
            .filter(|(_, verdict)| **verdict == Verdict::NoCommonHostname)
            .filter_map(|(listener, _)| {
                Some(format!("{} ({})", listener.id.name, listener.hostname.as_ref()?))
            });
        let message = format!(
            "spec.hostnames: {} has nothing in common with the hostname of listener {}",
            few(route.hostnames),
            few(theirs)
        );
        return Some(Fault::new(Reason::NoMatchingListenerHostname, message));
    }
    if any(|verdict| matches!(verdict, Verdict::KindNotAllowed | Verdict::NamespaceNotAllowed)) {
        let why = listeners.iter().zip(verdicts).filter_map(|(listener, verdict)| match verdict {
            Verdict::KindNotAllowed => Some(other_kinds(listener, route)),
            Verdict::NamespaceNotAllowed => Some(format!(
                "listener {} does not take routes of namespace {}: its allowedRoutes.namespaces.from is {}",
                listener.id.name, route.meta.namespace, listener.from.from
            )),
            _ => None,
        });
        return Some(Fault::new(Reason::NotAllowedByListeners, why.collect::<Vec<_>>().join("; ")));
    }
    let wanted = match (&parent.section_name, parent.port) {
        (Some(section), Some(port)) => format!("named {section} on port {port}"),
        (Some(section), None) => format!("named {section}"),
        (None, Some(port)) => format!("on port {port}"),
        (None, None) => "at all".to_owned(),
    };
    let names = listeners.iter().map(|listener| format!("{} (port {})", listener.id.name, listener.port));
    let message = format!("{} {} has no listener {wanted}; it has {}", parent.kind, parent.name, few(names));
    Some(Fault::new(Reason::NoMatchingParent, message))
}

fn other_kinds(listener: &ListenerView, route: &Common<'_>) -> String {
    let name = &listener.id.name;
    let protocol = listener.protocol.map_or("an unknown protocol", |protocol| protocol.as_str());
    if listener.kinds.is_empty() {
        format!("listener {name} ({protocol}) takes no routes")
    } else {
        let kinds: Vec<String> = listener.kinds.iter().map(|kind| format!("{kind}s")).collect();
        format!("listener {name} ({protocol}) takes {}, not {}s", kinds.join(" and "), route.kind)
    }
}
