use std::collections::BTreeMap;

use serde_json::json;
use tidegate_api::Kind;
use tidegate_plan::{Hostname, ListenerId};

use super::super::annotations;
use super::super::targets::{Owner, Target};
use super::*;

const NOW: i64 = 1_800_000_000;
/// Where nobody sets it.
const GATHERING: Duration = Duration::from_secs(3);

fn name() -> ObjectName {
    ObjectName::new("infra", "tls")
}

fn listener() -> ListenerId {
    ListenerId { gateway: ObjectName::new("infra", "front"), listener_set: None, name: "https".into() }
}

fn wanted(names: &[&str]) -> Targets {
    let mut meta = tidegate_api::Meta::new("infra", "front");
    meta.annotations.insert("cert-manager.io/issuer".to_owned(), "ca".to_owned());
    let asked = annotations::read(&meta, Grouping::Namespace, &mut Vec::new()).expect("an issuer");
    let owner =
        Owner { kind: Kind::Gateway, name: ObjectName::new("infra", "front"), uid: "gateway-uid".to_owned() };
    let names = names.iter().map(|name| (Hostname::parse(name).expect("a name"), "infra".into())).collect();
    let target = Target {
        secret: name(),
        gateway: owner.name.clone(),
        owner,
        names,
        asked: Arc::new(asked),
        parent: BTreeMap::new(),
    };
    Targets {
        all: BTreeMap::from([(name(), target)]),
        listeners: BTreeMap::from([(listener(), name())]),
        ..Targets::default()
    }
}

fn leading() -> Certificates {
    let certificates = Certificates::default();
    certificates.installed(true);
    certificates.listed(&BTreeSet::new());
    certificates.lead(true);
    certificates
}

/// What the API server makes of a body.
fn stored(body: &Json, version: u64) -> Json {
    let mut object = body.clone();
    object["metadata"]["uid"] = json!("u");
    object["metadata"]["generation"] = json!(1);
    object["metadata"]["resourceVersion"] = json!(version.to_string());
    object
}

fn created(certificates: &Certificates, names: &[&str], now: Instant) -> Json {
    certificates.want(wanted(names), now);
    let actions = certificates.round(now + GATHERING, NOW);
    let [Action { deed: Deed::Create(body), .. }] = &actions[..] else { panic!("{actions:?}") };
    certificates.done(&name(), Deed::Create(body.clone()), Some(stored(body, 7)), now);
    assert_eq!(certificates.round(now + GATHERING, NOW), []);
    body.clone()
}

fn told(certificates: &Certificates, names: &[&str]) -> String {
    let names: Vec<Hostname> = names.iter().map(|name| Hostname::parse(name).expect("a name")).collect();
    let names: Vec<&Hostname> = names.iter().collect();
    match certificates.told(&listener(), &names, true) {
        Some((status, reason, message)) => format!("{status:?} {reason:?} {message}"),
        None => "nothing".to_owned(),
    }
}

#[test]
fn ten_routes_are_one_change() {
    let certificates = leading();
    let now = Instant::now();
    let names: Vec<String> = (0..10).map(|number| format!("n{number}.example.com")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for count in 1..=10 {
        let moment = now + Duration::from_millis(200) * count;
        certificates.want(wanted(&names[..count as usize]), moment);
        assert_eq!(certificates.round(moment, NOW), []);
    }
    assert_eq!(certificates.wakes(now, NOW), Some(now + Duration::from_millis(200) + GATHERING));
    let actions = certificates.round(now + Duration::from_millis(200) + GATHERING, NOW);
    let [Action { deed: Deed::Create(body), .. }] = &actions[..] else { panic!("{actions:?}") };
    assert_eq!(body["spec"]["dnsNames"].as_array().map(Vec::len), Some(10));
}

#[test]
fn how_many_names_and_how_long_they_wait_is_for_the_operator_to_set() {
    let gather = Duration::from_secs(60);
    let certificates = Certificates::within(Bounds { names: 2, gather, ..Bounds::default() });
    certificates.installed(true);
    certificates.listed(&BTreeSet::new());
    certificates.lead(true);
    let now = Instant::now();
    certificates.want(wanted(&["a.example.com", "b.example.com", "c.example.com"]), now);
    assert_eq!(certificates.wakes(now, NOW), Some(now + gather));
    assert_eq!(certificates.round(now + GATHERING, NOW), []);
    let sizes = certificates.round(now + gather, NOW).into_iter().map(|action| match action.deed {
        Deed::Create(body) => body["spec"]["dnsNames"].as_array().map(Vec::len),
        other => panic!("{other:?}"),
    });
    assert_eq!(sizes.collect::<Vec<_>>(), [Some(2), Some(1)]);
}

#[test]
fn only_a_leader_that_has_seen_all_does_anything() {
    let certificates = Certificates::default();
    let later = Instant::now() + GATHERING;
    certificates.want(wanted(&["a.example.com"]), Instant::now());
    certificates.lead(true);
    assert_eq!(certificates.round(later, NOW), []);
    certificates.installed(true);
    assert_eq!(certificates.round(later, NOW), []);
    certificates.listed(&BTreeSet::new());
    assert_eq!(certificates.round(later + GATHERING, NOW).len(), 1);
    certificates.lead(false);
    assert_eq!(certificates.round(later + GATHERING, NOW), []);
}

#[test]
fn a_change_by_hand_is_put_back_at_once() {
    let certificates = leading();
    let now = Instant::now();
    let body = created(&certificates, &["a.example.com"], now);
    let mut changed = stored(&body, 9);
    changed["spec"]["isCA"] = json!(true);
    certificates.seen(name(), changed);
    let actions = certificates.round(now + GATHERING, NOW);
    let [Action { deed: Deed::Patch { patch, .. }, .. }] = &actions[..] else { panic!("{actions:?}") };
    let expected = json!({"metadata": {"resourceVersion": "9", "uid": "u"}, "spec": {"isCA": null}});
    assert_eq!(*patch, expected);
    // What the API server leaves in its own way is not said again.
    let mut result = stored(&body, 10);
    result["spec"]["isCA"] = json!(false);
    let deed = Deed::Patch { patch: expected, body: body.clone() };
    certificates.done(&name(), deed, Some(result.clone()), now);
    assert_eq!(certificates.round(now + GATHERING, NOW), []);
    result["metadata"]["resourceVersion"] = json!("11");
    result["status"] = json!({"revision": 2});
    certificates.seen(name(), result);
    assert_eq!(certificates.round(now + GATHERING, NOW), []);
    // A late word of the watch changes nothing.
    let mut late = stored(&body, 8);
    late["spec"]["secretName"] = json!("other");
    certificates.seen(name(), late);
    assert_eq!(certificates.round(now + GATHERING, NOW), []);
}

#[test]
fn names_that_change_all_the_time_are_changed_a_few_times() {
    let certificates = leading();
    let mut now = Instant::now();
    created(&certificates, &["n0.example.com"], now);
    let mut changes = 0;
    for number in 1..20_u64 {
        now += GATHERING;
        certificates.want(wanted(&[&format!("n{number}.example.com")]), now);
        now += GATHERING;
        let actions = certificates.round(now, NOW);
        let Some(Action { deed, .. }) = actions.first() else { break };
        let Deed::Patch { body, .. } = deed else { panic!("{deed:?}") };
        changes += 1;
        certificates.done(&name(), deed.clone(), Some(stored(body, 10 + number)), now);
    }
    assert_eq!(changes, 5, "besides the first");
    let again = certificates.wakes(now, NOW).unwrap();
    assert!(again > now + Duration::from_secs(300), "{:?}", again - now);
    let why = told(&certificates, &["n6.example.com"]);
    assert!(why.contains("n6.example.com: waits some minutes"), "{why}");
    assert_eq!(certificates.round(again, NOW).len(), 1);
}

#[test]
fn what_is_not_wanted_goes_at_once_and_only_once() {
    let certificates = leading();
    let now = Instant::now();
    let body = created(&certificates, &["a.example.com"], now);
    certificates.want(Targets::default(), now);
    let actions = certificates.round(now, NOW);
    assert!(matches!(&actions[..], [Action { deed: Deed::Delete(uid), .. }] if uid == "u"), "{actions:?}");
    let mut leaving = stored(&body, 12);
    leaving["metadata"]["deletionTimestamp"] = json!("2026-11-17T10:00:00Z");
    certificates.seen(name(), leaving);
    assert_eq!(certificates.round(now, NOW), [], "it is on its way");
}

#[test]
fn what_failed_is_tried_later() {
    let certificates = leading();
    let now = Instant::now();
    certificates.want(wanted(&["a.example.com"]), now);
    let now = now + GATHERING;
    assert_eq!(certificates.round(now, NOW).len(), 1);
    assert_eq!(certificates.failed(&name(), "Certificate infra/tls: refused".to_owned(), now), 0);
    assert_eq!(certificates.round(now, NOW), []);
    assert_eq!(certificates.wakes(now, NOW), Some(now + FIRST_DELAY));
    assert_eq!(
        told(&certificates, &["a.example.com"]).split("; ").next(),
        Some("False IssuanceFailed Certificate infra/tls: refused")
    );
    assert_eq!(certificates.round(now + FIRST_DELAY, NOW).len(), 1);
    assert_eq!(certificates.failed(&name(), String::new(), now), 1);
    certificates.taken(&name(), now);
    assert_eq!(certificates.round(now + Duration::from_secs(5), NOW), []);
    assert!(told(&certificates, &["a.example.com"]).contains("Secret infra/tls exists"));
    assert_eq!(certificates.round(now + TAKEN, NOW).len(), 1);
}

#[test]
fn the_keeper_wakes_when_names_are_to_be_dropped() {
    let certificates = leading();
    let now = Instant::now();
    let body = created(&certificates, &["a.example.com", "b.example.com"], now);
    let mut issued = stored(&body, 9);
    let time = std::time::UNIX_EPOCH + Duration::from_secs(NOW.unsigned_abs() + 1000);
    issued["status"] = json!({
        "notAfter": "2030-01-01T00:00:00Z",
        "renewalTime": humantime::format_rfc3339_seconds(time).to_string(),
    });
    certificates.seen(name(), issued);
    certificates.want(wanted(&["a.example.com"]), now);
    assert_eq!(certificates.round(now + GATHERING, NOW), []);
    assert_eq!(certificates.wakes(now, NOW), Some(now + Duration::from_secs(700)));
    assert_eq!(certificates.round(now + Duration::from_secs(700), NOW + 700).len(), 1);
}

#[test]
fn a_listener_says_how_far_it_is() {
    let certificates = Certificates::default();
    let names = ["a.example.com"];
    assert_eq!(told(&certificates, &names), "nothing", "not ours");
    certificates.want(wanted(&names), Instant::now());
    assert_eq!(told(&certificates, &[]), "nothing");
    certificates.installed(false);
    assert!(told(&certificates, &names).starts_with("False IssuanceFailed cert-manager is not installed"));
    let certificates = leading();
    let body = created(&certificates, &names, Instant::now());
    let waits = "False Pending Certificate infra/tls: cert-manager has not answered yet";
    assert_eq!(told(&certificates, &names), waits);
    let mut object = stored(&body, 9);
    let ready = |status: &str, generation: i64| json!({"type": "Ready", "status": status, "message": "Issuing certificate as Secret does not exist", "observedGeneration": generation});
    object["status"]["conditions"] = json!([ready("False", 1)]);
    certificates.seen(name(), object.clone());
    assert!(
        told(&certificates, &names)
            .ends_with("Certificate infra/tls: Issuing certificate as Secret does not exist")
    );
    object["status"]["conditions"] = json!([ready("True", 1)]);
    certificates.seen(name(), object.clone());
    assert_eq!(told(&certificates, &names), "True CertificatesIssued all names have a certificate (1)");
    object["metadata"]["generation"] = json!(2);
    certificates.seen(name(), object.clone());
    assert_eq!(told(&certificates, &names), waits, "it was ready as it was before");
    assert!(
        told(&certificates, &["a.example.com", "b.example.com"]).contains("b.example.com: waits a moment")
    );
    object["status"] = json!({
        "lastFailureTime": "2026-11-17T10:00:00Z",
        "conditions": [ready("False", 2), {"type": "Issuing", "status": "False", "reason": "Failed", "message": "no such name"}],
    });
    assert!(certificates.seen(name(), object.clone()), "for the first time");
    assert!(!certificates.seen(name(), object));
    assert_eq!(told(&certificates, &names), "False IssuanceFailed Certificate infra/tls: no such name");
    assert_eq!(
        certificates.failure(&name()).map(|(owner, why)| (owner.to_string(), why)),
        Some(("Gateway infra/front".to_owned(), "no such name".to_owned()))
    );
}
