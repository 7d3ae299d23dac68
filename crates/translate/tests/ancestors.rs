//! How many Gateways the status of a policy or an XBackend names, and where the others hear of it.
#![allow(clippy::unwrap_used, reason = "a test may")]
#![allow(dead_code, reason = "of the support only objects are used here")]

mod support;

use serde_json::{Value, json};
use support::{class, object};
use tidegate_api::status::Status;
use tidegate_api::{Kind, ObjectKey};
use tidegate_plan::ObjectName;
use tidegate_translate::{Resources, Settings, Translation, translate};

const XBACKENDS: &str = "gateway.networking.x-k8s.io";

fn gateway(index: usize) -> Value {
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway",
        "metadata": {"namespace": "default", "name": format!("g{index:02}")},
        "spec": {
            "gatewayClassName": "tidegate",
            "listeners": [{"name": "http", "port": 8000 + index, "protocol": "HTTP"}],
        }
    })
}

fn route(index: usize) -> Value {
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
        "metadata": {"namespace": "default", "name": format!("r{index:02}")},
        "spec": {
            "parentRefs": [{"name": format!("g{index:02}")}],
            "rules": [{"backendRefs": [{"group": XBACKENDS, "kind": "XBackend", "name": "api"}]}],
        }
    })
}

fn translated(gateways: usize) -> Translation {
    let backend = json!({
        "apiVersion": format!("{XBACKENDS}/v1alpha1"), "kind": "XBackend",
        "metadata": {"namespace": "default", "name": "api"},
        "spec": {"type": "ExternalHostname", "port": {"number": 80}, "externalHostname": {"hostname": "a.example"}}
    });
    let mut resources = Resources::default();
    let objects = (0..gateways).flat_map(|index| [gateway(index), route(index)]).chain([class(), backend]);
    for value in objects {
        resources.insert(object(&value));
    }
    translate(&resources, &Settings::folder())
}

#[test]
fn an_xbackend_has_room_for_twice_as_many_as_a_policy() {
    let translation = translated(33);
    let name = |name: &str| ObjectName::new("default", name);
    let status = &*translation.statuses[&ObjectKey { kind: Kind::XBackend, name: name("api") }];
    let Status::Policy(status) = status else { panic!("{status:?}") };
    assert_eq!(status.ancestors.len(), 32);
    let notes = &translation.notes[&ObjectKey { kind: Kind::Gateway, name: name("g32") }];
    assert!(notes[0].message.contains("its status has room for 32 Gateways"), "{}", notes[0].message);
}
