use crate::status::{
    ConditionStatus, ConditionType, GatewayStatus, ListenerStatus, ParentRefStatus, PolicyAncestorStatus,
    PolicyStatus, Reason, RouteParentStatus, RouteStatus, StatusAddress,
};

use super::*;

const OURS: &str = "gateway.tidegate.io/controller";
const OLD: &str = "2026-01-01T00:00:00Z";
const NOW: &str = "2026-11-16T12:00:00Z";

/// The kind counts for ancestors alone.
fn merged(current: &Json, desired: Option<&Status>) -> Merged {
    merged_of(Kind::BackendTlsPolicy, current, desired)
}

fn merged_of(kind: Kind, current: &Json, desired: Option<&Status>) -> Merged {
    merge(kind, current, desired, Writer { controller: OURS, now: NOW })
}

fn condition(kind: ConditionType, good: bool, generation: i64) -> Condition {
    Condition {
        kind,
        status: if good { ConditionStatus::True } else { ConditionStatus::False },
        reason: if good { Reason::Accepted } else { Reason::Invalid },
        message: "as it is".to_owned(),
        observed_generation: generation,
    }
}

fn written(kind: &str, status: &str, generation: i64, time: &str) -> Json {
    let reason = if status == "True" { "Accepted" } else { "Invalid" };
    json!({
        "type": kind, "status": status, "reason": reason, "message": "as it is",
        "observedGeneration": generation, "lastTransitionTime": time,
    })
}

fn gateway(good: bool, generation: i64) -> Status {
    Status::Gateway(GatewayStatus {
        addresses: vec![StatusAddress { kind: "IPAddress".to_owned(), value: "192.0.2.1".to_owned() }],
        conditions: vec![condition(ConditionType::Accepted, good, generation)],
        listeners: vec![ListenerStatus {
            name: "http".into(),
            supported_kinds: Vec::new(),
            attached_routes: 2,
            conditions: vec![condition(ConditionType::Accepted, true, generation)],
        }],
        attached_listener_sets: 0,
    })
}

fn parent(name: &str) -> ParentRefStatus {
    ParentRefStatus {
        group: "gateway.networking.k8s.io".to_owned(),
        kind: "Gateway".to_owned(),
        namespace: None,
        name: name.to_owned(),
        section_name: None,
        port: None,
    }
}

fn route(parents: &[&str], good: bool) -> Status {
    let entry = |name: &&str| RouteParentStatus {
        parent_ref: parent(name),
        controller_name: OURS.into(),
        conditions: vec![condition(ConditionType::Accepted, good, 1)],
    };
    Status::Route(RouteStatus { parents: parents.iter().map(entry).collect() })
}

fn entry(list: &str, controller: &str, name: &str, status: &str) -> Json {
    json!({
        list: parent(name), "controllerName": controller,
        "conditions": [written("Accepted", status, 1, OLD)],
    })
}

#[test]
fn a_new_gateway_gets_all_of_it() {
    let fields = merged(&Json::Null, Some(&gateway(true, 1))).fields.expect("a write");
    assert_eq!(fields["conditions"], json!([written("Accepted", "True", 1, NOW)]));
    assert_eq!(fields["listeners"][0]["attachedRoutes"], 2);
    assert!(!fields.contains_key("attachedListenerSets"), "nothing is said with 0 where nothing is");
}

#[test]
fn nothing_is_written_twice() {
    let first = merged(&Json::Null, Some(&gateway(true, 1))).fields.expect("a write");
    assert_eq!(merged(&Json::Object(first), Some(&gateway(true, 1))).fields, None);
}

#[test]
fn a_condition_keeps_its_time_until_its_status_changes() {
    let current = json!({"conditions": [written("Accepted", "True", 1, OLD)]});
    let time = |good, generation| {
        let fields = merged(&current, Some(&gateway(good, generation))).fields.expect("a write");
        fields.get("conditions").map(|conditions| conditions[0]["lastTransitionTime"].clone())
    };
    assert_eq!(time(true, 2), Some(json!(OLD)), "only the generation is new");
    assert_eq!(time(false, 2), Some(json!(NOW)));
    assert_eq!(time(true, 1), None, "the conditions are the same");
}

#[test]
fn conditions_of_others_stay_where_they_are() {
    let foreign = written("example.com/Weather", "True", 7, OLD);
    let current = json!({
        "conditions": [foreign, written("Accepted", "False", 1, OLD), written("InsecureFrontendValidationMode", "True", 1, OLD)],
        "listeners": [{"name": "http", "conditions": [foreign]}, {"name": "gone", "conditions": []}],
    });
    let fields = merged(&current, Some(&gateway(true, 1))).fields.expect("a write");
    assert_eq!(fields["conditions"], json!([foreign, written("Accepted", "True", 1, NOW)]));
    let listeners = fields["listeners"].as_array().expect("a list");
    assert_eq!(listeners.len(), 1);
    assert_eq!(listeners[0]["conditions"], json!([foreign, written("Accepted", "True", 1, NOW)]));
}

#[test]
fn what_was_said_of_a_newer_generation_is_told_apart() {
    let current = json!({"conditions": [written("Accepted", "False", 3, OLD)]});
    assert!(is_outdated(&gateway(true, 2), &current));
    assert!(!is_outdated(&gateway(true, 3), &current));
    assert!(!is_outdated(&gateway(true, 2), &Json::Null));
}

#[test]
fn parents_of_others_stay_and_ours_go_with_their_reason() {
    let foreign = entry("parentRef", "example.com/other", "a", "False");
    let current = json!({"parents": [
        entry("parentRef", OURS, "gone", "True"), foreign, entry("parentRef", OURS, "a", "True"),
    ]});
    let fields = merged(&current, Some(&route(&["b", "a"], true))).fields.expect("a write");
    let names: Vec<_> = list(&fields["parents"])
        .iter()
        .map(|entry| (entry["controllerName"].as_str() == Some(OURS), entry["parentRef"]["name"].clone()))
        .collect();
    assert_eq!(names, [(false, json!("a")), (true, json!("a")), (true, json!("b"))]);
    assert_eq!(fields["parents"][0], foreign);
    assert_eq!(fields["parents"][1], entry("parentRef", OURS, "a", "True"), "with its old time");

    let fields = merged(&current, None).fields.expect("a write");
    assert_eq!(fields["parents"], json!([foreign]));
    assert_eq!(merged(&json!({"parents": [foreign]}), None).fields, None);
    assert!(has_entries_of(&current, OURS) && !has_entries_of(&json!({"parents": [foreign]}), OURS));
}

#[test]
fn a_section_and_a_port_tell_parents_apart() {
    let mut there = entry("parentRef", OURS, "a", "True");
    there["parentRef"]["sectionName"] = json!("http");
    let current = json!({"parents": [there]});
    let fields = merged(&current, Some(&route(&["a"], true))).fields.expect("a write");
    assert_eq!(fields["parents"].as_array().map(Vec::len), Some(1));
    assert_eq!(fields["parents"][0]["parentRef"].get("sectionName"), None);
    assert_eq!(fields["parents"][0]["conditions"][0]["lastTransitionTime"], NOW);
}

#[test]
fn sixteen_ancestors_and_no_more_with_others_first() {
    let policy = |count: usize| {
        let entry = |index| PolicyAncestorStatus {
            ancestor_ref: parent(&format!("ours-{index}")),
            controller_name: OURS.into(),
            conditions: vec![condition(ConditionType::Accepted, true, 1)],
        };
        Status::Policy(PolicyStatus { ancestors: (0..count).map(entry).collect() })
    };
    let foreign: Vec<Json> = (0..10)
        .map(|index| entry("ancestorRef", "example.com/other", &format!("a-{index}"), "True"))
        .collect();
    let current = json!({ "ancestors": foreign });
    let result = merged(&current, Some(&policy(8)));
    let ancestors = &result.fields.expect("a write")["ancestors"];
    assert_eq!((list(ancestors).len(), result.left_out), (16, 2));
    assert_eq!(list(ancestors)[..10], foreign[..]);
    assert_eq!(merged(&current, Some(&policy(6))).left_out, 0);
    assert_eq!(merged_of(Kind::XBackend, &current, Some(&policy(23))).left_out, 1);

    let full: Vec<Json> = (0..16)
        .map(|index| entry("ancestorRef", "example.com/other", &format!("a-{index}"), "True"))
        .collect();
    let result = merged(&json!({ "ancestors": full }), Some(&policy(1)));
    assert_eq!((result.fields, result.left_out), (None, 1));
}

#[test]
fn a_message_is_cut_at_what_the_api_server_takes() {
    let mut status = gateway(true, 1);
    if let Status::Gateway(gateway) = &mut status {
        gateway.conditions[0].message = "é".repeat(MAX_MESSAGE + 1);
    }
    let fields = merged(&Json::Null, Some(&status)).fields.expect("a write");
    assert_eq!(
        fields["conditions"][0]["message"].as_str().map(|text| text.chars().count()),
        Some(MAX_MESSAGE)
    );
}

#[test]
fn conditions_of_our_own_are_told_apart_by_their_whole_name() {
    let issued = |good: bool| {
        let conditions = vec![condition(ConditionType::CertificatesIssued, good, 1)];
        let listener = ListenerStatus {
            name: "http".into(),
            supported_kinds: Vec::new(),
            attached_routes: 0,
            conditions,
        };
        Status::Gateway(GatewayStatus {
            addresses: Vec::new(),
            conditions: Vec::new(),
            listeners: vec![listener],
            attached_listener_sets: 0,
        })
    };
    let kind = "gateway.tidegate.io/CertificatesIssued";
    let current = json!({"listeners": [{
        "name": "http", "supportedKinds": [], "attachedRoutes": 0, "conditions": [written(kind, "False", 1, OLD)],
    }]});
    let fields = merged(&current, Some(&issued(true))).fields.unwrap();
    assert_eq!(fields["listeners"][0]["conditions"], json!([written(kind, "True", 1, NOW)]));
    assert_eq!(merged(&current, Some(&issued(false))).fields, None);
    let without = merged(&current, Some(&gateway(true, 1))).fields.unwrap();
    assert_eq!(
        without["listeners"][0]["conditions"].as_array().map(Vec::len),
        Some(1),
        "nobody asks any more"
    );
}
