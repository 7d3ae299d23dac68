//! The table of Gateways, listeners, routes and policies.

use std::collections::BTreeMap;

use tidegate_api::gateway::Gateway;
use tidegate_api::listener::Listener;
use tidegate_api::policy::XBackend;
use tidegate_api::scalar::port_number;
use tidegate_api::status::{Condition, ListenerStatus, Status};
use tidegate_api::{Kind, Object, ObjectKey};
use tidegate_translate::{Attachment, Note};

use crate::check::findings::Finding;
use crate::conditions;
use crate::layout::{Cell, Table, paragraph};
use crate::meaning::{Meaning, Parentage};
use crate::output::{BAD, CARE, FAINT, STRONG, styled};
use crate::words;

pub(crate) fn render(meaning: &Meaning, findings: &[Finding]) -> String {
    let mut parts: Vec<String> = Vec::new();
    parts.extend(meaning.resources().gateways.values().map(|gateway| gateway_part(meaning, gateway)));
    parts.extend(meaning.resources().listener_sets.iter().map(|(name, set)| {
        let key = ObjectKey { kind: Kind::ListenerSet, name: name.clone() };
        let title = format!("{key} (Gateway {})", set.spec.parent_ref.name);
        match meaning.status(&key) {
            Some(Status::ListenerSet(status)) => {
                head(&title, &status.conditions) + &listeners(&set.spec.listeners, &status.listeners)
            }
            _ if meaning.gateway_is_missing(set) => bad(&title, "there is no such Gateway"),
            _ if meaning.has_no_class(set) => bad(&title, "its Gateway's class does not exist"),
            _ => silent(&title, "its Gateway is not served here"),
        }
    }));
    parts.extend([routes(meaning), policies(meaning), classes(meaning), invalid(findings)]);
    parts.retain(|part| !part.is_empty());
    if parts.is_empty() {
        let mut written = meaning.manifests.as_written();
        let of_the_api = written.any(|(_, object)| {
            object["apiVersion"].as_str().is_some_and(|version| version.starts_with("gateway.networking."))
        });
        let words =
            if of_the_api { "No Gateways, routes or policies.\n" } else { "No Gateway API objects.\n" };
        return words.to_owned();
    }
    parts.join("\n")
}

fn gateway_part(meaning: &Meaning, gateway: &Gateway) -> String {
    let key = ObjectKey { kind: Kind::Gateway, name: gateway.meta.object_name() };
    let class = &gateway.spec.gateway_class_name;
    let title = format!("{key} (class {class})");
    match meaning.status(&key) {
        Some(Status::Gateway(status)) => {
            head(&title, &status.conditions) + &listeners(&gateway.spec.listeners, &status.listeners)
        }
        _ if meaning.class_is_missing(gateway) => bad(&title, &format!("there is no GatewayClass {class}")),
        _ => silent(&title, "its class is another controller's"),
    }
}

fn head(title: &str, conditions: &[Condition]) -> String {
    let mut text = format!("{}: {}\n", styled(STRONG, title), conditions::state(conditions));
    for message in conditions::messages(conditions) {
        text.push_str(&paragraph(4, &message));
    }
    text
}

/// For what is wrong and has no status.
fn bad(title: &str, why: &str) -> String {
    format!("{}: {}\n", styled(STRONG, title), styled(BAD, why))
}

/// For what is not ours to judge.
fn silent(title: &str, why: &str) -> String {
    format!("{}: {}\n", styled(STRONG, title), styled(FAINT, why))
}

fn listeners(written: &[Listener], statuses: &[ListenerStatus]) -> String {
    let mut table = Table::new(2, &["LISTENER", "PORT", "PROTOCOL", "HOSTNAME", "ROUTES", "STATE"]);
    let statuses: BTreeMap<&str, &ListenerStatus> =
        statuses.iter().map(|status| (&*status.name, status)).collect();
    for listener in written {
        let status = statuses.get(listener.name.as_str());
        let conditions = status.map_or(&[][..], |status| &status.conditions);
        table.row(
            vec![
                listener.name.as_str().into(),
                port_number(listener.port).to_string().into(),
                words::protocol(listener).into(),
                names(listener).into(),
                status.map_or_else(|| "-".to_owned(), |status| status.attached_routes.to_string()).into(),
                status.map_or_else(|| Cell::new(FAINT, "not looked at"), |_| conditions::state(conditions)),
            ],
            conditions::messages(conditions),
        );
    }
    table.render()
}

/// TCP and UDP know no names.
fn names(listener: &Listener) -> &str {
    if listener.protocol == "TCP" || listener.protocol == "UDP" {
        return "-";
    }
    words::hostname(listener.hostname.as_ref())
}

fn routes(meaning: &Meaning) -> String {
    let mut table = Table::new(0, &["ROUTE", "HOSTNAMES", "PARENT", "STATE"]);
    for object in meaning.resources().iter().filter(is_route) {
        let (key, hostnames) = (object.key(), hostnames(&object));
        let parents = meaning.parents(&key);
        if parents.is_empty() {
            let state = Cell::new(CARE, "it names no parent");
            table.row(vec![key.to_string().into(), hostnames.clone().into(), "-".into(), state], Vec::new());
        }
        for (index, attachment) in parents.iter().enumerate() {
            let (state, remarks) = attachment_state(meaning, &key, attachment);
            let first = index == 0;
            table.row(
                vec![
                    if first { key.to_string() } else { String::new() }.into(),
                    if first { hostnames.as_str() } else { "" }.into(),
                    words::parent(&attachment.parent_ref, &key.name.namespace).into(),
                    state,
                ],
                remarks,
            );
        }
    }
    if table.is_empty() { String::new() } else { table.render() }
}

fn attachment_state(meaning: &Meaning, route: &ObjectKey, attachment: &Attachment) -> (Cell, Vec<String>) {
    if let Some(conditions) = meaning.parent_conditions(route, &attachment.parent_ref) {
        return (conditions::state(conditions), conditions::messages(conditions));
    }
    let state = match meaning.parentage(&attachment.parent_ref, &route.name.namespace) {
        Parentage::Missing => Cell::new(BAD, "there is no such parent"),
        Parentage::Classless => Cell::new(BAD, "its Gateway's class does not exist"),
        Parentage::Foreign | Parentage::Ours => Cell::new(FAINT, "another controller's"),
    };
    (state, Vec::new())
}

fn is_route(object: &Object) -> bool {
    matches!(
        object,
        Object::HttpRoute(_)
            | Object::GrpcRoute(_)
            | Object::TlsRoute(_)
            | Object::TcpRoute(_)
            | Object::UdpRoute(_)
    )
}

fn hostnames(object: &Object) -> String {
    let hostnames = match object {
        Object::HttpRoute(route) => &*route.spec.hostnames,
        Object::GrpcRoute(route) => &*route.spec.hostnames,
        Object::TlsRoute(route) => &*route.spec.hostnames,
        _ => return "-".to_owned(),
    };
    if hostnames.is_empty() { "*".to_owned() } else { words::some_of(hostnames, 2) }
}

/// Policies and XBackends: both are told of at the Gateways that use them.
fn policies(meaning: &Meaning) -> String {
    let mut policies = Table::new(0, &["POLICY", "TARGETS", "GATEWAY", "STATE"]);
    let mut backends = Table::new(0, &["BACKEND", "HOST", "GATEWAY", "STATE"]);
    for object in meaning.resources().iter() {
        let (table, about) = match &object {
            Object::BackendTlsPolicy(policy) => {
                let targets: Vec<String> = policy.spec.target_refs.iter().map(target).collect();
                (&mut policies, words::all_of(&targets))
            }
            Object::XBackendTrafficPolicy(policy) => {
                let targets = policy.spec.target_refs.iter();
                let targets: Vec<String> =
                    targets.map(|target| format!("{} {}", target.kind, target.name)).collect();
                (&mut policies, words::all_of(&targets))
            }
            Object::XBackend(backend) => (&mut backends, host(backend)),
            _ => continue,
        };
        let key = object.key();
        let ancestors = match meaning.status(&key) {
            Some(Status::Policy(status)) => &*status.ancestors,
            _ => &[],
        };
        if ancestors.is_empty() {
            let (state, remarks) = match meaning.refused_in_notes(&key) {
                Some(Note { reason: Some(reason), message }) => {
                    (Cell::new(BAD, format!("refused: {reason:?}")), vec![message.clone()])
                }
                _ => (Cell::new(CARE, "no Gateway uses it"), Vec::new()),
            };
            table.row(vec![key.to_string().into(), about.as_str().into(), "-".into(), state], remarks);
        }
        for (index, ancestor) in ancestors.iter().enumerate() {
            let first = index == 0;
            table.row(
                vec![
                    if first { key.to_string() } else { String::new() }.into(),
                    if first { about.as_str() } else { "" }.into(),
                    words::parent(&ancestor.ancestor_ref, &key.name.namespace).into(),
                    conditions::state(&ancestor.conditions),
                ],
                conditions::messages(&ancestor.conditions),
            );
        }
    }
    let tables = [policies, backends].into_iter().filter(|table| !table.is_empty());
    tables.map(|table| table.render()).collect::<Vec<_>>().join("\n")
}

fn host(backend: &XBackend) -> String {
    backend.spec.external_hostname.as_ref().map_or_else(|| "-".to_owned(), |host| host.hostname.0.to_string())
}

fn target(target: &tidegate_api::refs::PolicyTargetReference) -> String {
    let section = target.section_name.as_ref().map(|section| format!(":{section}")).unwrap_or_default();
    format!("{} {}{section}", target.kind, target.name)
}

/// A class is worth a line only where something is wrong with it.
fn classes(meaning: &Meaning) -> String {
    let statuses = meaning.statuses().filter_map(|(key, status)| match status {
        Status::GatewayClass(status) => Some((key, &status.conditions)),
        _ => None,
    });
    statuses
        .filter(|(_, conditions)| conditions::worst(conditions) > conditions::Health::Good)
        .map(|(key, conditions)| head(&format!("{} {}", key.kind, words::object(&key.name)), conditions))
        .collect()
}

fn invalid(findings: &[Finding]) -> String {
    let mut table = Table::new(0, &["INVALID", "PLACE"]);
    for finding in findings {
        if let Some(place) = &finding.place {
            table.row(vec![Cell::new(BAD, &finding.what), place.as_str().into()], Vec::new());
        }
    }
    if table.is_empty() { String::new() } else { table.render() }
}
