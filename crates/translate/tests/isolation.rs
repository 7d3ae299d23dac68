//! One bad object spoils only itself and what refers to it.
#![allow(clippy::unwrap_used, reason = "a test may")]

mod support;

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};
use support::{any_object, class, object};
use tidegate_api::{Node, ObjectKey, read_object};
use tidegate_plan::{Body, Fragment, FragmentId, ObjectName};
use tidegate_translate::{Resources, Settings, Source, Translation, translate};

/// Kind, namespace and name.
type Key = (String, String, String);

fn key(value: &Value) -> Key {
    let of = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (of(&value["kind"]), of(&value["metadata"]["namespace"]), of(&value["metadata"]["name"]))
}

fn named(kind: &str, name: &ObjectName) -> Key {
    (kind.to_owned(), name.namespace.to_string(), name.name.to_string())
}

/// What an object names, whether it is there or not.
fn references(value: &Value) -> BTreeSet<Key> {
    fn reference(value: &Value, default: &str, own: &str) -> Key {
        let kind = value["kind"].as_str().unwrap_or(default);
        let namespace = match kind {
            "ClusterTrustBundle" => "",
            _ => value["namespace"].as_str().unwrap_or(own),
        };
        (kind.to_owned(), namespace.to_owned(), value["name"].as_str().unwrap_or_default().to_owned())
    }
    fn walk(value: &Value, own: &str, found: &mut BTreeSet<Key>) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| walk(item, own, found)),
            Value::Object(fields) => {
                for (name, field) in fields {
                    let default = match name.as_str() {
                        "parentRef" | "parentRefs" => "Gateway",
                        "backendRef" | "backendRefs" | "targetRefs" => "Service",
                        "certificateRefs" | "clientCertificateRef" => "Secret",
                        "caCertificateRefs" => "ConfigMap",
                        "parametersRef" => "GatewayParameters",
                        _ => {
                            walk(field, own, found);
                            continue;
                        }
                    };
                    match field {
                        Value::Array(items) => {
                            found.extend(items.iter().map(|item| reference(item, default, own)));
                        }
                        one => _ = found.insert(reference(one, default, own)),
                    }
                    walk(field, own, found);
                }
            }
            _ => {}
        }
    }
    let (_, own, _) = key(value);
    let mut found = BTreeSet::new();
    walk(&value["spec"], &own, &mut found);
    if let Some(class) = value["spec"]["gatewayClassName"].as_str() {
        found.insert(("GatewayClass".to_owned(), String::new(), class.to_owned()));
    }
    if let Some(service) = value["metadata"]["labels"]["kubernetes.io/service-name"].as_str() {
        found.insert(("Service".to_owned(), own, service.to_owned()));
    }
    found
}

fn is_route(value: &Value) -> bool {
    value["kind"].as_str().unwrap().ends_with("Route")
}

/// Whether a change of `one` can change what becomes of `other`.
fn reaches(one: &Value, other: &Value, source: Source) -> bool {
    let (key_of_one, key_of_other) = (key(one), key(other));
    let kind = key_of_one.0.as_str();
    // Who names it; and what it speaks for, where it is the one that names.
    references(other).contains(&key_of_one)
        || matches!(kind, "BackendTLSPolicy" | "XBackendTrafficPolicy" | "ListenerSet" | "EndpointSlice")
            && references(one).contains(&key_of_other)
        || one["spec"]["defaultScope"] == "All" && other["spec"]["useDefaultGateways"] == "All"
        || kind == "ReferenceGrant" && is_permitted(one, other)
        || kind == "Namespace"
            && key_of_other.1 == key_of_one.2
            && (is_route(other) || key_of_other.0 == "ListenerSet")
        // Gateways of a folder share the ports of one machine.
        || source == Source::Folder && kind == "Gateway" && key_of_other.0 == "Gateway"
}

/// Whether some reference of `other` may hang on this grant.
fn is_permitted(grant: &Value, other: &Value) -> bool {
    let (_, namespace, _) = key(grant);
    let (kind, own, _) = key(other);
    let mut from = grant["spec"]["from"].as_array().unwrap().iter();
    from.any(|from| from["kind"] == kind.as_str() && from["namespace"] == own.as_str())
        && references(other).iter().any(|(_, target, _)| *target == namespace)
}

/// All that may change with `broken`, directly or through others.
fn affected<'w>(world: &'w [Value], broken: &'w Value, source: Source) -> BTreeMap<Key, &'w Value> {
    let mut affected = BTreeMap::from([(key(broken), broken)]);
    let mut reached = vec![broken];
    while let Some(one) = reached.pop() {
        for other in world.iter().filter(|other| reaches(one, other, source)) {
            if affected.insert(key(other), other).is_none() {
                reached.push(other);
            }
        }
    }
    affected
}

/// What tells in its status of objects that changed, without changing itself: Gateways count routes, policies and
/// XBackends name the Gateways that lead to them.
fn is_told_of(status: &Key, world: &[Value], affected: &BTreeMap<Key, &Value>) -> bool {
    let leads =
        |value: &&Value| is_route(value) || value["kind"] == "Gateway" || value["kind"] == "ListenerSet";
    let named: BTreeSet<Key> = affected.values().copied().filter(leads).flat_map(references).collect();
    let default = affected.values().any(|value| value["spec"]["useDefaultGateways"] == "All");
    match status.0.as_str() {
        "Gateway" => {
            let of_set = |set: &Value| named.contains(&key(set)) && references(set).contains(status);
            default || named.contains(status) || world.iter().any(of_set)
        }
        "ListenerSet" | "XBackend" => named.contains(status),
        _ => {
            let policy = world.iter().find(|value| key(value) == *status);
            policy.is_some_and(|policy| references(policy).iter().any(|target| named.contains(target)))
        }
    }
}

/// The objects that a fragment is made from.
fn owners(fragment: &Fragment) -> Vec<Key> {
    match &fragment.body {
        Body::Gateway(gateway) => vec![named("Gateway", &gateway.id)],
        Body::Listener(listener) => {
            let set = listener.id.listener_set.as_ref().map(|set| named("ListenerSet", set));
            set.into_iter().chain([named("Gateway", &listener.id.gateway)]).collect()
        }
        Body::Route(route) => vec![named(route.id.kind.as_str(), &route.id.object)],
        Body::Backend(backend) => vec![named(&backend.id.kind.to_string(), &backend.id.object)],
        // Whoever proves names adds them to a plan; translation does not.
        Body::Challenge(_) => Vec::new(),
    }
}

/// The object with something wrong in it: there, and bad. `None`: it is gone, or cannot be read any more.
fn spoiled(value: &Value, how: usize) -> Option<Value> {
    let mut bad = value.clone();
    let spec = &mut bad["spec"];
    let rename = |references: &mut Value| {
        for reference in references.as_array_mut().into_iter().flatten() {
            reference["name"] = json!("nobody");
        }
    };
    match (value["kind"].as_str().unwrap(), how) {
        (_, 0) => return None,
        ("Gateway" | "ListenerSet", 1) => {
            spec["listeners"][0]["protocol"] = json!("example.com/unheard-of");
            spec["listeners"][0].as_object_mut().unwrap().remove("tls");
        }
        ("Gateway" | "ListenerSet", 2) => {
            for listener in spec["listeners"].as_array_mut().unwrap() {
                rename(&mut listener["tls"]["certificateRefs"]);
                if listener["tls"]["certificateRefs"].is_null() {
                    listener.as_object_mut().unwrap().remove("tls");
                }
            }
        }
        ("Gateway", _) => spec["gatewayClassName"] = json!("nobody"),
        ("ListenerSet", _) => spec["parentRef"]["name"] = json!("nobody"),
        (kind, 1) if kind.ends_with("Route") => rename(&mut spec["parentRefs"]),
        (kind, _) if kind.ends_with("Route") => {
            for rule in spec["rules"].as_array_mut().into_iter().flatten() {
                rename(&mut rule["backendRefs"]);
                for filter in rule["filters"].as_array_mut().into_iter().flatten() {
                    filter["type"] = json!("ExtensionRef");
                    *filter = json!({"type": "ExtensionRef", "extensionRef": {"group": "example.net", "kind": "Odd", "name": "odd"}});
                }
            }
        }
        ("Service", 1) => spec["ports"][0]["appProtocol"] = json!("unheard-of"),
        ("Service", _) => spec["ports"][0]["port"] = json!(81),
        ("EndpointSlice", _) => bad["endpoints"] = json!([]),
        ("BackendTLSPolicy", 1) => rename(&mut spec["validation"]["caCertificateRefs"]),
        ("BackendTLSPolicy", 2) => {
            let odd = json!([{"group": "example.net", "kind": "Odd", "name": "ca"}]);
            spec["validation"]["caCertificateRefs"] = odd;
        }
        ("BackendTLSPolicy" | "XBackendTrafficPolicy", _) => rename(&mut spec["targetRefs"]),
        ("XBackend", _) => {
            let ca = json!([{"group": "", "kind": "ConfigMap", "name": "nobody"}]);
            let validation = json!({"hostname": "far.example.org", "caCertificateRefs": ca});
            spec["tls"] = json!({"mode": "ServerOnly", "validation": validation});
        }
        ("Secret", 1) => bad["stringData"]["tls.key"] = json!("no key"),
        ("Secret", _) => bad["stringData"] = json!({"other": "data"}),
        ("ConfigMap", _) => bad["data"] = json!({"ca.crt": "no certificate"}),
        ("ClusterTrustBundle", _) => spec["trustBundle"] = json!("no certificate"),
        ("ReferenceGrant", _) => spec["to"] = json!([{"group": "example.net", "kind": "Odd"}]),
        ("Namespace", _) => bad["metadata"]["labels"] = json!({"team": "green"}),
        ("GatewayClass", 1) => spec["controllerName"] = json!("example.net/nobody"),
        ("GatewayClass", _) => {
            spec["parametersRef"] = json!({"group": "example.net", "kind": "Odd", "name": "odd"});
        }
        _ => return None,
    }
    read_object(&Node::from(&bad)).object.is_some().then_some(bad)
}

fn translation(world: &[Value], source: Source) -> Translation {
    let mut resources = Resources::default();
    resources.insert(object(&class()));
    world.iter().for_each(|value| drop(resources.insert(object(value))));
    translate(&resources, &Settings { source, ..Settings::folder() })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn a_broken_object_leaves_the_others_alone(
        world in prop::collection::vec(any_object(), 10..40),
        broken in any::<Index>(),
        how in 0..4usize,
        folder in any::<bool>(),
    ) {
        let source = if folder { Source::Folder } else { Source::Cluster };
        let world: BTreeMap<Key, Value> = world.into_iter().map(|value| (key(&value), value)).collect();
        let world: Vec<Value> = world.into_values().collect();
        let which = broken.index(world.len());
        let broken = world[which].clone();
        let mut after = world.clone();
        match spoiled(&broken, how) {
            Some(bad) => after[which] = bad,
            None => drop(after.remove(which)),
        }
        let affected = affected(&world, &broken, source);
        let (before, after) = (translation(&world, source), translation(&after, source));

        let ids: BTreeSet<&FragmentId> = before.plan.fragments.keys().chain(after.plan.fragments.keys()).collect();
        for id in ids {
            let (was, is) = (before.plan.fragments.get(id), after.plan.fragments.get(id));
            let touched = was.or(is).is_some_and(|some| owners(some).iter().any(|owner| affected.contains_key(owner)));
            // A backend comes and goes with those that use it.
            let used = |backend: &Key| affected.values().any(|user| references(user).contains(backend));
            let backend = matches!(id, FragmentId::Backend(id) if used(&named(&id.kind.to_string(), &id.object)));
            if !touched && !backend {
                prop_assert_eq!(was, is, "{} changed with {} ({})", id, broken, how);
            }
        }
        for (ObjectKey { kind, name }, status) in &before.statuses {
            let key = named(kind.as_str(), name);
            if !affected.contains_key(&key) && !is_told_of(&key, &world, &affected) {
                let is = after.statuses.get(&ObjectKey { kind: *kind, name: name.clone() });
                prop_assert_eq!(is, Some(status), "the status of {:?} changed with {} ({})", key, broken, how);
            }
        }
    }
}
