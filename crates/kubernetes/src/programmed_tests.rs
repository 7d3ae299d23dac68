use super::*;

fn gateway() -> ObjectName {
    ObjectName::new("shop", "web")
}

fn id(name: &str) -> ListenerId {
    ListenerId { gateway: gateway(), listener_set: None, name: name.into() }
}

fn programmed(generation: i64) -> Condition {
    Condition {
        kind: ConditionType::Programmed,
        status: ConditionStatus::Unknown,
        reason: Reason::Pending,
        message: String::new(),
        observed_generation: generation,
    }
}

/// As translation gives it.
fn status(generation: i64, listeners: &[&str]) -> GatewayStatus {
    let listener = |name: &&str| ListenerStatus {
        name: (*name).into(),
        supported_kinds: Vec::new(),
        attached_routes: 0,
        conditions: vec![programmed(generation)],
    };
    GatewayStatus {
        addresses: Vec::new(),
        conditions: vec![programmed(generation)],
        listeners: listeners.iter().map(listener).collect(),
        attached_listener_sets: 0,
    }
}

fn report(proxy: &str, version: u64, listeners: &[(&str, Result<(), &str>)]) -> Report {
    let listeners =
        listeners.iter().map(|(name, state)| (id(name), state.map_err(ToOwned::to_owned))).collect();
    Report {
        gateway: gateway(),
        proxy: proxy.to_owned(),
        version,
        listeners,
        refused: BTreeMap::new(),
        failed: None,
    }
}

struct World {
    reports: BTreeMap<String, Report>,
    needed: u64,
    ready: Ready,
    failure: Option<&'static str>,
    addresses: Addresses,
    asked_addresses: usize,
}

fn world(reports: &[Report]) -> World {
    let reports = reports.iter().map(|report| (report.proxy.clone(), report.clone())).collect();
    World {
        reports,
        needed: 3,
        ready: ready(&[]),
        failure: None,
        addresses: Addresses::default(),
        asked_addresses: 0,
    }
}

/// One endpoint that is no Pod, and these Pods.
fn ready(pods: &[&str]) -> Ready {
    let pods = pods.iter().map(|pod| (*pod).to_owned()).collect();
    Ready { pods, others: [IpAddr::from([10, 0, 0, 1])].into() }
}

impl World {
    fn status(&self, status: &GatewayStatus, before: Option<&Status>) -> GatewayStatus {
        let gateway = gateway();
        let serving = Serving {
            gateway: &gateway,
            reports: &self.reports,
            needed: self.needed,
            ready: &self.ready,
            failure: self.failure,
            addresses: &self.addresses,
            asked_addresses: self.asked_addresses,
        };
        serving.gateway(status, before)
    }

    /// The Gateway's condition, then each listener's.
    fn told(&self, listeners: &[&str]) -> Vec<(ConditionStatus, Reason)> {
        let status = self.status(&status(1, listeners), None);
        let own = status.conditions.iter().filter(|condition| condition.kind == ConditionType::Programmed);
        let listeners = status.listeners.iter().flat_map(|listener| &listener.conditions);
        own.chain(listeners).map(|condition| (condition.status, condition.reason)).collect()
    }
}

const SERVED: (ConditionStatus, Reason) = (ConditionStatus::True, Reason::Programmed);
const PENDING: (ConditionStatus, Reason) = (ConditionStatus::False, Reason::Pending);
const UNAVAILABLE: (ConditionStatus, Reason) = (ConditionStatus::False, Reason::PortUnavailable);
const INVALID: (ConditionStatus, Reason) = (ConditionStatus::False, Reason::Invalid);

#[test]
fn served_is_what_all_that_serve_have_said() {
    let good = report("a", 3, &[("http", Ok(()))]);
    for (reports, expected) in [
        (vec![], PENDING),
        (vec![good.clone()], SERVED),
        (vec![good.clone(), report("b", 4, &[("http", Ok(()))])], SERVED),
        (vec![good.clone(), report("new", 0, &[])], SERVED),
        (vec![report("new", 0, &[])], PENDING),
        (vec![good.clone(), report("late", 2, &[("http", Ok(()))])], PENDING),
        (vec![good.clone(), report("b", 3, &[("http", Err("in use"))])], UNAVAILABLE),
        (vec![good.clone(), report("b", 3, &[])], PENDING),
    ] {
        assert_eq!(world(&reports).told(&["http"]), [expected, expected], "{reports:?}");
    }
}

#[test]
fn one_that_is_not_ready_is_silent_beside_one_that_is() {
    let good = report("a", 3, &[("http", Ok(()))]);
    let leaving = report("b", 3, &[("http", Err("it ends"))]);
    let late = report("c", 2, &[]);
    for (reports, pods, expected) in [
        (vec![good.clone(), leaving.clone()], &["a"][..], SERVED),
        (vec![good.clone(), late.clone()], &["a"], SERVED),
        (vec![good.clone(), leaving.clone()], &["a", "b"], UNAVAILABLE),
        (vec![leaving.clone()], &["a"], UNAVAILABLE),
        // Who is ready has not come yet, or is no Pod: all speak.
        (vec![good.clone(), leaving.clone()], &["new"], UNAVAILABLE),
        (vec![good.clone(), leaving.clone()], &[], UNAVAILABLE),
        (vec![good.clone(), report("d", 0, &[])], &["d"], SERVED),
    ] {
        let mut world = world(&reports);
        world.ready = ready(pods);
        assert_eq!(world.told(&["http"]), [expected, expected], "{pods:?}: {reports:?}");
    }
}

#[test]
fn a_pod_counts_once_however_many_addresses_it_has() {
    let endpoint = |json: serde_json::Value| {
        let slice = serde_json::json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": json["type"],
            "metadata": {"name": "a", "namespace": "shop"}, "endpoints": [json["endpoint"]],
        });
        match tidegate_api::read_object(&tidegate_api::Node::from(&slice)).object {
            Some(tidegate_api::Object::EndpointSlice(slice)) => slice.spec.endpoints[0].clone(),
            other => panic!("{other:?}"),
        }
    };
    let pod = serde_json::json!({"kind": "Pod", "name": "a", "uid": "u"});
    let four = serde_json::json!({"type": "IPv4", "endpoint": {"addresses": ["10.0.0.1"], "targetRef": pod}});
    let six = serde_json::json!({"type": "IPv6", "endpoint": {"addresses": ["fd00::1"], "targetRef": pod}});
    let bare = serde_json::json!({"type": "IPv4", "endpoint": {"addresses": ["10.0.0.2"]}});
    assert_eq!(Ready::of(&[endpoint(four), endpoint(six), endpoint(bare)]).count(), 2);
}

#[test]
fn one_bad_listener_leaves_the_others() {
    let mixed = world(&[report("a", 3, &[("good", Ok(())), ("bad", Err("in use"))])]);
    assert_eq!(mixed.told(&["good", "bad"]), [UNAVAILABLE, SERVED, UNAVAILABLE]);
    let message = &mixed.status(&status(1, &["good", "bad"]), None).conditions[0].message;
    assert_eq!(message, "listener bad: data plane a: in use");
}

#[test]
fn a_part_that_is_refused_is_not_served() {
    let mut refusing = report("a", 3, &[("b", Ok(()))]);
    refusing.refused.insert(FragmentId::Listener(id("a")), "it cannot do that".to_owned());
    assert_eq!(world(&[refusing]).told(&["a", "b"]), [INVALID, INVALID, SERVED]);
    let mut failing = report("a", 2, &[("a", Ok(()))]);
    failing.failed = Some("broken".to_owned());
    assert_eq!(world(&[failing]).told(&["a"]), [INVALID, INVALID]);
}

#[test]
fn a_data_plane_that_gets_no_traffic_serves_nobody() {
    let mut world = world(&[report("a", 3, &[("http", Ok(()))])]);
    world.ready = Ready::default();
    assert_eq!(world.told(&["http"]), [PENDING, PENDING]);
}

#[test]
fn what_could_not_be_made_is_why_nobody_serves() {
    let message = |world: &World| world.status(&status(1, &["http"]), None).conditions[0].message.clone();
    let mut world = world(&[]);
    world.failure = Some("Service shop/tidegate-web cannot be applied");
    assert_eq!(message(&world), "Service shop/tidegate-web cannot be applied");
    world.reports.insert("a".to_owned(), report("a", 3, &[("http", Ok(()))]));
    assert_eq!(message(&world), "the Gateway is served", "whatever else is missing");
    world.addresses.fault = Some((Reason::AddressNotAssigned, "not yet".to_owned()));
    assert_eq!(message(&world), "Service shop/tidegate-web cannot be applied");
}

#[test]
fn a_gateway_without_a_listener_that_can_be_served_still_needs_a_data_plane() {
    let mut given = status(1, &["refused"]);
    given.listeners[0].conditions[0].status = ConditionStatus::False;
    let told = |world: &World| world.status(&given, None).conditions[0].reason;
    assert_eq!(told(&world(&[])), Reason::Pending);
    assert_eq!(told(&world(&[report("a", 3, &[])])), Reason::Programmed);
}

#[test]
fn what_was_said_of_an_older_generation_holds_until_the_newer_is_served() {
    let mut world = world(&[report("a", 3, &[("http", Ok(()))])]);
    let first = Status::Gateway(world.status(&status(1, &["http"]), None));
    world.needed = 4;
    let second = world.status(&status(2, &["http", "new"]), Some(&first));
    let own = &second.conditions[0];
    assert_eq!((own.status, own.observed_generation), (ConditionStatus::True, 1));
    let listener = |index: usize| {
        let condition = &second.listeners[index].conditions[0];
        (condition.status, condition.observed_generation)
    };
    assert_eq!(listener(0), (ConditionStatus::True, 1));
    assert_eq!(listener(1), (ConditionStatus::False, 2), "it has never been served");
    world.reports.insert("a".to_owned(), report("a", 4, &[("http", Ok(())), ("new", Ok(()))]));
    let third = world.status(&status(2, &["http", "new"]), Some(&Status::Gateway(second)));
    assert_eq!(
        (third.conditions[0].status, third.conditions[0].observed_generation),
        (ConditionStatus::True, 2)
    );
}

#[test]
fn what_translation_has_decided_stays() {
    let mut given = status(1, &["http"]);
    for condition in given.conditions.iter_mut().chain(&mut given.listeners[0].conditions) {
        condition.status = ConditionStatus::False;
        condition.reason = Reason::Invalid;
    }
    assert_eq!(world(&[report("a", 3, &[("http", Ok(()))])]).status(&given, None), given);
}

#[test]
fn addresses_are_part_of_it() {
    let mut world = world(&[report("a", 3, &[("http", Ok(()))])]);
    world.addresses.fault = Some((Reason::AddressNotAssigned, "not yet".to_owned()));
    let waiting = (ConditionStatus::False, Reason::AddressNotAssigned);
    assert_eq!(world.told(&["http"]), [waiting, SERVED]);
    world.addresses.fault = Some((Reason::AddressNotUsable, "10.1.2.3".to_owned()));
    let unusable = (ConditionStatus::False, Reason::AddressNotUsable);
    assert_eq!(world.told(&["http"]), [unusable, SERVED]);
    world.reports.clear();
    assert_eq!(world.told(&["http"]), [unusable, PENDING], "whatever the data planes do");

    world.asked_addresses = 2;
    let assigned = |world: &World| {
        let status = world.status(&status(7, &["http"]), None);
        let last = status.conditions.last().expect("a condition").clone();
        (last.kind, last.status, last.reason, last.observed_generation)
    };
    let kind = ConditionType::AddressesAssigned;
    assert_eq!(assigned(&world), (kind, ConditionStatus::False, Reason::NotAssigned, 7));
    let address =
        tidegate_api::status::StatusAddress { kind: "IPAddress".to_owned(), value: "192.0.2.1".to_owned() };
    world.addresses.found.push(address);
    assert_eq!(assigned(&world), (kind, ConditionStatus::False, Reason::PartiallyAssigned, 7));
    world.addresses.fault = None;
    assert_eq!(assigned(&world), (kind, ConditionStatus::True, Reason::AddressesAssigned, 7));
}
