//! Why a route is attached where it is and not elsewhere.

use tidegate_api::listener::{FromNamespaces, Listener};
use tidegate_api::scalar::port_number;
use tidegate_api::{Kind, Object, ObjectKey};
use tidegate_plan::{Hostname, ListenerId};
use tidegate_translate::{Attachment, Verdict};

use crate::conditions::{self, Health};
use crate::explain::object::{Entry, Part};
use crate::meaning::{Meaning, Parentage};
use crate::words;

pub(crate) fn parts(meaning: &Meaning, key: &ObjectKey) -> Vec<Part> {
    let parents = meaning.parents(key);
    if parents.is_empty() {
        return vec![Part::without_conditions(
            "parents".to_owned(),
            Health::Bad,
            "it names no parent; write `parentRefs`",
        )];
    }
    parents.iter().map(|attachment| part(meaning, key, attachment)).collect()
}

fn part(meaning: &Meaning, key: &ObjectKey, attachment: &Attachment) -> Part {
    let name = words::parent(&attachment.parent_ref, &key.name.namespace);
    let entries = attachment
        .listeners
        .iter()
        .map(|(id, verdict)| entry(meaning, key, attachment, id, verdict))
        .collect();
    match meaning.parent_conditions(key, &attachment.parent_ref) {
        Some(conditions) => Part::new(name, conditions, entries),
        None => match meaning.parentage(&attachment.parent_ref, &key.name.namespace) {
            Parentage::Missing => Part::without_conditions(name, Health::Bad, "there is no such parent"),
            Parentage::Classless => {
                Part::without_conditions(name, Health::Bad, "its Gateway's class does not exist")
            }
            Parentage::Foreign | Parentage::Ours => {
                Part::without_conditions(name, Health::Care, "it belongs to another controller")
            }
        },
    }
}

fn entry(
    meaning: &Meaning,
    key: &ObjectKey,
    attachment: &Attachment,
    id: &ListenerId,
    verdict: &Verdict,
) -> Entry {
    let listener = meaning.listener(id);
    let name = format!(
        "{id}{}",
        listener.map(|listener| format!(" ({})", words::listener(listener))).unwrap_or_default()
    );
    let (why, change) = match verdict {
        Verdict::Attached(names) => (attached(meaning, id, names), None),
        Verdict::OtherSection => {
            let section = attachment.parent_ref.section_name.as_deref().unwrap_or_default();
            let change = format!("write `sectionName: {}` in the parentRef, or leave it out", id.name);
            (format!("not meant: the parentRef names the section {section}"), Some(change))
        }
        Verdict::OtherPort => {
            let port = attachment.parent_ref.port.unwrap_or_default();
            let own = listener.map(|listener| port_number(listener.port)).unwrap_or_default();
            let change = format!("write `port: {own}` in the parentRef, or leave it out");
            (format!("not meant: the parentRef names port {port}"), Some(change))
        }
        Verdict::KindNotAllowed => kind_not_allowed(key, listener),
        Verdict::NamespaceNotAllowed => namespace_not_allowed(key, listener),
        Verdict::NoCommonHostname => {
            let written = meaning
                .resources()
                .get(key)
                .map(|object| words::some_of(hostnames(&object), 8))
                .unwrap_or_default();
            let own = words::hostname(listener.and_then(|listener| listener.hostname.as_ref()));
            let change = format!(
                "give the route a hostname that {own} stands for, or the listener one that stands for the route's"
            );
            (format!("no common hostname: the listener has {own}, the route {written}"), Some(change))
        }
    };
    // Where the reference means a listener that is there, the others are none of its business.
    let aside = |verdict: &Verdict| matches!(verdict, Verdict::OtherSection | Verdict::OtherPort);
    let missed = attachment.listeners.iter().all(|(_, verdict)| aside(verdict));
    let change = change.filter(|_| missed || !aside(verdict));
    Entry { name, good: matches!(verdict, Verdict::Attached(_)), why, change }
}

/// A route may be attached to a listener that serves nothing.
fn attached(meaning: &Meaning, id: &ListenerId, names: &[Hostname]) -> String {
    let names =
        if names.is_empty() { "every name of the listener".to_owned() } else { words::some_of(names, 8) };
    match meaning.listener_conditions(id) {
        Some(conditions) if conditions::worst(conditions) == Health::Bad => {
            let why = conditions::messages(conditions).join(" ");
            format!("attached, for {names}, but the listener itself is not in order: {why}")
        }
        _ => format!("attached, for {names}"),
    }
}

fn kind_not_allowed(key: &ObjectKey, listener: Option<&Listener>) -> (String, Option<String>) {
    let Some(listener) = listener else { return ("it takes other kinds of route".to_owned(), None) };
    let (kind, protocol) = (key.kind, &listener.protocol);
    if !carriers(kind).contains(&protocol.as_str()) {
        let why = format!("a listener with protocol {protocol} does not carry a {kind}");
        let change = format!("attach the route to a listener with protocol {}", carriers(kind).join(" or "));
        return (why, Some(change));
    }
    let kinds: Vec<&str> = listener.allowed_routes.kinds.iter().map(|kind| kind.kind.as_str()).collect();
    let why = format!("its `allowedRoutes.kinds` has {} only", kinds.join(", "));
    (why, Some(format!("add `kind: {kind}` there")))
}

/// The protocols of listeners that take a kind of route.
const fn carriers(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::TlsRoute => &["TLS"],
        Kind::TcpRoute => &["TCP"],
        Kind::UdpRoute => &["UDP"],
        _ => &["HTTP", "HTTPS"],
    }
}

fn namespace_not_allowed(key: &ObjectKey, listener: Option<&Listener>) -> (String, Option<String>) {
    let namespace = &key.name.namespace;
    let from = listener.map(|listener| listener.allowed_routes.namespaces.from);
    match from {
        Some(FromNamespaces::Selector) => (
            format!("its `allowedRoutes.namespaces.selector` does not select the namespace {namespace}"),
            Some(format!("give the namespace {namespace} the labels that the selector asks for")),
        ),
        _ => (
            format!("it takes routes of its own namespace only, and this one is in {namespace}"),
            Some(
                "write `allowedRoutes: {namespaces: {from: All}}` in the listener, or a selector".to_owned(),
            ),
        ),
    }
}

/// The names that a route was written for.
pub(crate) fn hostnames(object: &Object) -> &[Hostname] {
    match object {
        Object::HttpRoute(route) => &route.spec.hostnames,
        Object::GrpcRoute(route) => &route.spec.hostnames,
        Object::TlsRoute(route) => &route.spec.hostnames,
        _ => &[],
    }
}
