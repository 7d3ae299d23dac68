//! The listeners of a Gateway or ListenerSet, and who is attached to them.

use tidegate_api::listener::Listener;
use tidegate_api::status::Status;
use tidegate_api::{Kind, ObjectKey};
use tidegate_issuing::left_out_in_words;
use tidegate_plan::{ListenerId, ObjectName};
use tidegate_translate::Verdict;

use crate::conditions::{self, Health};
use crate::explain::object::{Entry, Part};
use crate::meaning::Meaning;
use crate::words;

pub(crate) fn of_gateway(meaning: &Meaning, key: &ObjectKey) -> (Vec<String>, Vec<Part>) {
    let Some(gateway) = meaning.resources().gateways.get(&key.name) else { return Default::default() };
    let Some(Status::Gateway(status)) = meaning.status(key) else {
        let state = if meaning.class_is_missing(gateway) {
            format!("there is no GatewayClass {}", gateway.spec.gateway_class_name)
        } else {
            format!("the GatewayClass {} is another controller's", gateway.spec.gateway_class_name)
        };
        return (Vec::new(), vec![Part::without_conditions("class".to_owned(), Health::Bad, &state)]);
    };
    let id = |name: &str| ListenerId { gateway: key.name.clone(), listener_set: None, name: name.into() };
    let mut parts = vec![Part::new("the Gateway".to_owned(), &status.conditions, Vec::new())];
    parts.extend(
        gateway.spec.listeners.iter().map(|listener| part(meaning, listener, &id(listener.name.as_str()))),
    );
    for set in meaning.resources().listener_sets_of(&key.name) {
        let set = ObjectKey { kind: Kind::ListenerSet, name: set.meta.object_name() };
        if let Some(Status::ListenerSet(status)) = meaning.status(&set) {
            parts.push(Part::new(set.to_string(), &status.conditions, Vec::new()));
        }
    }
    (Vec::new(), parts)
}

pub(crate) fn of_set(meaning: &Meaning, key: &ObjectKey) -> (Vec<String>, Vec<Part>) {
    let Some(set) = meaning.resources().listener_sets.get(&key.name) else { return Default::default() };
    let parent = &set.spec.parent_ref;
    let namespace = parent.namespace.as_ref().map_or(&*key.name.namespace, |namespace| namespace.as_str());
    let gateway = ObjectName::new(namespace, parent.name.as_str());
    let Some(Status::ListenerSet(status)) = meaning.status(key) else {
        let state = "it is not there, or another controller's";
        return (
            Vec::new(),
            vec![Part::without_conditions(format!("Gateway {gateway}"), Health::Bad, state)],
        );
    };
    let id = |name: &str| ListenerId {
        gateway: gateway.clone(),
        listener_set: Some(key.name.clone()),
        name: name.into(),
    };
    let mut parts = vec![Part::new("the ListenerSet".to_owned(), &status.conditions, Vec::new())];
    parts.extend(
        set.spec.listeners.iter().map(|listener| part(meaning, listener, &id(listener.name.as_str()))),
    );
    (vec![format!("Its listeners belong to Gateway {gateway}.")], parts)
}

fn part(meaning: &Meaning, listener: &Listener, id: &ListenerId) -> Part {
    let name = format!("listener {} ({})", listener.name, words::listener(listener));
    let Some(conditions) = meaning.listener_conditions(id) else {
        return Part::without_conditions(name, Health::Care, "not looked at");
    };
    let mut entries = attached(meaning, id);
    entries.extend(wanted(meaning, id));
    let mut part = Part::new(name, conditions, entries);
    if !part.entries.iter().any(|entry| entry.good) && conditions::worst(conditions) < Health::Bad {
        part.messages.push("No route is attached.".to_owned());
    }
    part
}

fn attached(meaning: &Meaning, id: &ListenerId) -> Vec<Entry> {
    let mut entries = Vec::new();
    for (route, attachments) in &meaning.translation().attachments {
        let verdicts = attachments.parents.iter().flat_map(|parent| &parent.listeners);
        for (_, verdict) in verdicts.filter(|(listener, _)| listener == id) {
            if let Verdict::Attached(names) = verdict {
                let names = if names.is_empty() { "every name".to_owned() } else { words::some_of(names, 8) };
                entries.push(Entry {
                    name: route.to_string(),
                    good: true,
                    why: format!("for {names}"),
                    change: None,
                });
            }
        }
    }
    entries.dedup_by(|one, other| one.name == other.name && one.why == other.why);
    entries
}

/// What its issuer is asked for.
fn wanted(meaning: &Meaning, id: &ListenerId) -> Vec<Entry> {
    let Some(wants) = meaning.translation().wants.get(id) else { return Vec::new() };
    let names: Vec<_> = wants.names.iter().map(|wanted| &wanted.name).collect();
    let secret = wants.secret.as_ref().map(|secret| format!(", into Secret {secret}")).unwrap_or_default();
    let asked = (!names.is_empty()).then(|| Entry {
        name: "certificate".to_owned(),
        good: true,
        why: format!("asked for {}{secret}", words::some_of(&names, 8)),
        change: None,
    });
    let left_out = wants.left_out.iter().map(|left_out| {
        let name = left_out.name.as_ref().map(|name| format!(" for {name}")).unwrap_or_default();
        let route = left_out.route.as_ref().map(|route| format!(" ({route})")).unwrap_or_default();
        Entry {
            name: format!("no certificate{name}{route}"),
            good: left_out.why.is_served_elsewhere(),
            why: left_out_in_words(left_out).into_owned(),
            change: None,
        }
    });
    asked.into_iter().chain(left_out).collect()
}
