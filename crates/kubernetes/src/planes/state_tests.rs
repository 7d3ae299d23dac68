use serde_json::json;

use super::*;

fn gateway() -> ObjectName {
    ObjectName::new("shop", "web")
}

#[allow(clippy::needless_pass_by_value, reason = "callers build the values in place")]
fn managed(kind: ManagedKind, name: &str, spec: Json) -> Managed {
    let owner =
        json!([{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "name": "web", "uid": "u"}]);
    let body = json!({"metadata": {"name": name, "ownerReferences": owner}, "spec": spec});
    Managed { kind, name: ObjectName::new("shop", name), body }
}

fn leading() -> Planes {
    let planes = Planes::default();
    planes.state().listed = ManagedKind::ALL.into_iter().collect();
    planes.lead(true);
    planes
}

fn work(planes: &Planes) -> (Vec<String>, Vec<String>) {
    let Some(job) = planes.take(Instant::now()) else { return Default::default() };
    let names = |names: Vec<ManagedKey>| names.into_iter().map(|key| key.1.name.to_string()).collect();
    (names(job.apply.iter().map(Managed::key).collect()), names(job.delete))
}

#[test]
fn what_is_missing_is_applied_and_what_is_too_much_deleted() {
    let planes = leading();
    let service = managed(ManagedKind::Service, "a", json!({"type": "LoadBalancer"}));
    let old = managed(ManagedKind::Service, "old", json!({}));
    planes.seen(old.kind, old.name.clone(), old.body.clone());
    planes.want(gateway(), Wanted::Objects(vec![service.clone()]));
    assert_eq!(work(&planes), (vec!["a".to_owned()], vec!["old".to_owned()]));
    planes.applied(&gateway(), service.clone(), service.body.clone());
    planes.deleted(&old.key());
    planes.done(&gateway(), None);
    assert_eq!(planes.owners(), BTreeSet::from([gateway()]));
    planes.seen(service.kind, service.name.clone(), service.body.clone());
    assert_eq!(work(&planes), Default::default(), "nothing differs");
}

#[test]
fn what_somebody_changes_is_put_back_and_what_the_api_server_rewrites_is_not() {
    let planes = leading();
    let wanted = managed(ManagedKind::Deployment, "a", json!({"cpu": "1000m"}));
    planes.want(gateway(), Wanted::Objects(vec![wanted.clone()]));
    assert_eq!(work(&planes).0, ["a"]);
    let rewritten = managed(ManagedKind::Deployment, "a", json!({"cpu": "1", "added": true})).body;
    planes.applied(&gateway(), wanted.clone(), rewritten.clone());
    planes.done(&gateway(), None);
    planes.seen(wanted.kind, wanted.name.clone(), rewritten);
    assert_eq!(work(&planes).0, Vec::<String>::new());
    planes.done(&gateway(), None);
    let changed = managed(ManagedKind::Deployment, "a", json!({"cpu": "7"})).body;
    planes.seen(wanted.kind, wanted.name.clone(), changed);
    assert_eq!(work(&planes).0, ["a"]);
}

#[test]
fn a_gateway_that_is_not_accepted_keeps_what_it_has_and_a_foreign_one_loses_it() {
    let planes = leading();
    let service = managed(ManagedKind::Service, "a", json!({}));
    planes.seen(service.kind, service.name.clone(), service.body.clone());
    planes.want(gateway(), Wanted::AsItIs);
    assert_eq!(work(&planes), Default::default());
    planes.done(&gateway(), None);
    planes.want(gateway(), Wanted::Nothing);
    assert_eq!(work(&planes).1, ["a"]);
}

#[test]
fn nothing_is_done_before_all_is_known_or_without_the_lease() {
    let planes = Planes::default();
    planes.lead(true);
    planes.want(gateway(), Wanted::Objects(vec![managed(ManagedKind::Service, "a", json!({}))]));
    assert_eq!(work(&planes), Default::default());
    planes.state().listed = ManagedKind::ALL.into_iter().collect();
    planes.lead(false);
    assert_eq!(work(&planes), Default::default());
    planes.lead(true);
    assert_eq!(work(&planes).0, ["a"]);
}

fn in_version(body: &Json, version: &str, status: &str) -> Json {
    let mut object = body.clone();
    object["metadata"]["resourceVersion"] = version.into();
    object["status"] = status.into();
    object
}

#[test]
fn the_answer_to_an_apply_does_not_undo_what_the_watch_told_since() {
    let planes = leading();
    let service = managed(ManagedKind::Service, "a", json!({}));
    planes.want(gateway(), Wanted::Objects(vec![service.clone()]));
    assert_eq!(work(&planes).0, ["a"]);
    planes.seen(service.kind, service.name.clone(), in_version(&service.body, "10", "an address"));
    planes.applied(&gateway(), service.clone(), in_version(&service.body, "9", "none yet"));
    planes.done(&gateway(), None);
    assert_eq!(planes.service(&gateway(), &service.name).expect("a Service")["status"], "an address");
    assert_eq!(work(&planes), Default::default(), "nothing differs");
}

#[test]
fn what_was_deleted_before_the_answer_to_its_apply_came_is_applied_again() {
    let planes = leading();
    let service = managed(ManagedKind::Service, "a", json!({}));
    planes.want(gateway(), Wanted::Objects(vec![service.clone()]));
    assert_eq!(work(&planes).0, ["a"]);
    planes.seen(service.kind, service.name.clone(), in_version(&service.body, "9", ""));
    planes.gone(service.kind, service.name.clone(), Some(11));
    planes.applied(&gateway(), service.clone(), in_version(&service.body, "9", ""));
    planes.done(&gateway(), None);
    assert_eq!(planes.service(&gateway(), &service.name), None);
    assert_eq!(work(&planes).0, ["a"]);
}

#[test]
fn a_gateway_that_went_while_it_was_worked_on_holds_nobody_up() {
    let planes = leading();
    planes.want(gateway(), Wanted::Objects(vec![managed(ManagedKind::Service, "a", json!({}))]));
    assert_eq!(work(&planes).0, ["a"]);
    planes.forget(&gateway());
    planes.done(&gateway(), Some("no"));
    assert_eq!(planes.next(), None);
    let other = ObjectName::new("shop", "zoo");
    planes.want(other, Wanted::Objects(vec![managed(ManagedKind::Service, "z", json!({}))]));
    let job = planes.take(Instant::now() + LONGEST_DELAY).expect("a job");
    assert_eq!(job.gateway.name.to_string(), "zoo");
}

#[test]
fn a_failure_is_tried_again_later() {
    let planes = leading();
    planes.want(gateway(), Wanted::Objects(vec![managed(ManagedKind::Service, "a", json!({}))]));
    assert_eq!(work(&planes).0, ["a"]);
    assert_eq!(planes.done(&gateway(), Some("no")), 0);
    assert_eq!(work(&planes), Default::default());
    assert!(planes.next().is_some());
    assert!(planes.take(Instant::now() + LONGEST_DELAY).is_some());
    assert_eq!(planes.done(&gateway(), Some("no")), 1);
}

#[test]
fn why_a_gateway_lacks_something_is_known_until_it_does_not() {
    let planes = leading();
    planes.want(gateway(), Wanted::Impossible("two of a name".to_owned()));
    let job = planes.take(Instant::now()).expect("a job");
    assert_eq!((job.impossible.as_deref(), job.apply.len()), (Some("two of a name"), 0));
    planes.done(&gateway(), job.impossible.as_deref());
    assert_eq!(planes.failure(&gateway()).as_deref(), Some("two of a name"));
    planes.want(gateway(), Wanted::Objects(vec![managed(ManagedKind::Service, "a", json!({}))]));
    assert_eq!(work(&planes).0, ["a"]);
    planes.done(&gateway(), None);
    assert_eq!(planes.failure(&gateway()), None);
}

#[test]
fn a_service_of_another_gateway_is_not_this_one_s() {
    let planes = leading();
    let service = managed(ManagedKind::Service, "a", json!({}));
    planes.seen(service.kind, service.name.clone(), service.body.clone());
    assert!(planes.service(&gateway(), &service.name).is_some());
    assert_eq!(planes.service(&ObjectName::new("shop", "other"), &service.name), None);
}
