//! One bad object spoils only itself and what refers to it.
#![allow(clippy::unwrap_used, reason = "a test may")]

mod support;

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::Value;
use support::{any_object, class, object};
use tidegate_plan::{Body, Fragment, FragmentId};
use tidegate_translate::{Resources, Settings, Source, Translation, translate};

fn name(value: &Value) -> String {
    value["metadata"]["name"].as_str().unwrap().to_owned()
}

/// In the small world an object is told by its name; whoever has that name in it refers to it.
fn refers(value: &Value, names: &BTreeSet<String>) -> bool {
    let text = value.to_string();
    names.iter().any(|name| text.contains(&format!("\"{name}\"")))
}

/// The names of all objects that refer to `broken`, directly or through others.
fn affected(world: &[Value], broken: &Value) -> BTreeSet<String> {
    let mut names = BTreeSet::from([name(broken)]);
    // Grants and namespaces are referred to without being named.
    if matches!(broken["kind"].as_str(), Some("ReferenceGrant" | "Namespace" | "GatewayClass")) {
        return world.iter().map(name).collect();
    }
    // What a policy or a ListenerSet names is changed by it.
    let mut reached = vec![broken.clone()];
    while let Some(value) = reached.pop() {
        for other in world {
            // A route may take whichever Gateway is the default.
            let by_default =
                value["spec"]["defaultScope"] == "All" && other["spec"]["useDefaultGateways"] == "All";
            let points_at = by_default || refers(other, &BTreeSet::from([name(&value)]));
            let is_target = matches!(
                value["kind"].as_str(),
                Some("BackendTLSPolicy" | "XBackendTrafficPolicy" | "ListenerSet" | "EndpointSlice")
            ) && refers(&value, &BTreeSet::from([name(other)]));
            if (points_at || is_target) && names.insert(name(other)) {
                reached.push(other.clone());
            }
        }
    }
    names
}

/// The objects that a fragment is made from.
fn owners(fragment: &Fragment) -> Vec<String> {
    match &fragment.body {
        Body::Gateway(gateway) => vec![gateway.id.name.to_string()],
        Body::Listener(listener) => {
            let set = listener.id.listener_set.as_ref().map(|set| set.name.to_string());
            set.into_iter().chain([listener.id.gateway.name.to_string()]).collect()
        }
        Body::Route(route) => vec![route.id.object.name.to_string()],
        Body::Backend(backend) => vec![backend.id.object.name.to_string()],
        // Whoever proves names adds them to a plan; translation does not.
        Body::Challenge(_) => Vec::new(),
    }
}

fn translation(world: &[Value]) -> Translation {
    let mut resources = Resources::default();
    resources.insert(object(&class()));
    world.iter().for_each(|value| drop(resources.insert(object(value))));
    translate(&resources, &Settings { source: Source::Cluster, ..Settings::folder() })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn a_broken_object_leaves_the_others_alone(
        world in prop::collection::vec(any_object(), 10..40),
        broken in any::<Index>(),
    ) {
        let by_key: BTreeMap<String, Value> = world
            .into_iter()
            .map(|value| (format!("{} {} {}", value["kind"], value["metadata"]["namespace"], value["metadata"]["name"]), value))
            .collect();
        let world: Vec<Value> = by_key.into_values().collect();
        let broken = world[broken.index(world.len())].clone();
        let affected = affected(&world, &broken);
        let before = translation(&world);
        // An object that cannot be read is not there at all; what it used to say is gone.
        let rest: Vec<Value> = world.iter().filter(|value| **value != broken).cloned().collect();
        let after = translation(&rest);
        for (id, fragment) in &before.plan.fragments {
            let touched = owners(fragment).iter().any(|owner| affected.contains(owner));
            // A backend goes with the last route that used it.
            let lost_a_user = |backend: &str| {
                let mut users = world.iter().filter(|value| affected.contains(&name(value)));
                users.any(|user| refers(user, &BTreeSet::from([backend.to_owned()])))
            };
            let unused = matches!(id, FragmentId::Backend(backend) if lost_a_user(&backend.object.name));
            if !touched && !unused {
                prop_assert_eq!(after.plan.fragments.get(id), Some(fragment), "{} changed with {}", id, broken);
            }
        }
    }
}
