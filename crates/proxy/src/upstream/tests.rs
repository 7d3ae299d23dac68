use std::collections::HashMap;
use std::time::Duration;

use tidegate_plan::{
    Affinity, BackendId, BackendKind, Body, EndpointsId, Fragment, Hostname, ObjectName, Protocol, Transport,
    Upstream,
};

use super::*;
use crate::Settings;

fn plan(change: impl FnOnce(&mut tidegate_plan::Backend)) -> BackendHandle {
    let object = ObjectName::new("default", "web");
    let mut backend = tidegate_plan::Backend {
        id: BackendId {
            kind: BackendKind::Service,
            object: object.clone(),
            port: 80,
            transport: Transport::Tcp,
        },
        addresses: Addresses::Endpoints(EndpointsId { service: object, port: "".into() }),
        protocol: Protocol::Unspecified,
        upstream: Upstream::Plain,
        affinity: None,
        session: None,
        retry_budget: None,
        prefer_close: false,
        allow_loopback: false,
    };
    change(&mut backend);
    BackendHandle::new(&Arc::new(Fragment::new(Body::Backend(backend)))).unwrap()
}

fn dns(name: &str, port: u16) -> BackendHandle {
    plan(|plan| plan.addresses = Addresses::Dns { hostname: Hostname::parse(name).unwrap(), port })
}

/// `10.0.0.1:80`, with ` terminating` or ` zone-a` behind it.
fn endpoints(written: &[&str]) -> Endpoints {
    let endpoint = |text: &&str| {
        let (address, rest) = text.split_once(' ').unwrap_or((text, ""));
        let address: SocketAddr = address.parse().unwrap();
        let terminating = rest.contains("terminating");
        tidegate_plan::Endpoint {
            address: address.ip(),
            port: address.port(),
            state: if terminating { EndpointState::Terminating } else { EndpointState::Ready },
            zone: rest.split(' ').find(|word| word.starts_with("zone")).map(Into::into),
        }
    };
    let id = EndpointsId { service: ObjectName::new("default", "web"), port: "".into() };
    Endpoints { id, endpoints: written.iter().map(endpoint).collect() }
}

fn place() -> Place {
    let forbidden = vec!["10.0.0.99:9900".parse().unwrap()];
    Place::new(&Settings { forbidden, zone: Some("zone-a".into()), workers: 2, ..Settings::default() })
}

fn backend(written: &[&str]) -> Backend {
    Backend::new(plan(|_| {}), Some(&endpoints(written)), None, &place())
}

fn numbered(count: usize) -> Backend {
    let written: Vec<String> = (0..count).map(|n| format!("10.0.{}.{}:80", n / 250, n % 250 + 1)).collect();
    backend(&written.iter().map(String::as_str).collect::<Vec<_>>())
}

fn used(backend: &Backend) -> Vec<String> {
    backend.endpoints(Instant::now()).map(|endpoint| endpoint.address.to_string()).collect()
}

const CLIENT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 7));

fn times<'b>(picks: impl Iterator<Item = Arc<Endpoint>> + 'b) -> HashMap<SocketAddr, usize> {
    picks.fold(HashMap::new(), |mut times, endpoint| {
        *times.entry(endpoint.address).or_default() += 1;
        times
    })
}

#[test]
fn which_endpoints_are_in_use() {
    let cases: &[(&[&str], &[&str])] = &[
        (&[], &[]),
        (&["10.0.0.2:80", "10.0.0.1:80", "10.0.0.2:80"], &["10.0.0.1:80", "10.0.0.2:80"]),
        (&["10.0.0.1:80 terminating", "10.0.0.2:80"], &["10.0.0.2:80"]),
        (&["10.0.0.1:80 terminating", "10.0.0.2:80 terminating"], &["10.0.0.1:80", "10.0.0.2:80"]),
        (&["10.0.0.99:9900", "10.0.0.99:80"], &["10.0.0.99:80"]),
        (&["127.0.0.1:80", "[::1]:80", "0.0.0.0:80"], &[]),
        // One that is not permitted does not stand for the ready ones.
        (&["127.0.0.1:80", "10.0.0.1:80 terminating"], &["10.0.0.1:80"]),
        (&["10.0.0.1:80 zone-a", "10.0.0.2:80 zone-b"], &["10.0.0.1:80", "10.0.0.2:80"]),
    ];
    for (written, expected) in cases {
        assert_eq!(used(&backend(written)), *expected, "{written:?}");
    }
}

#[test]
fn close_endpoints_come_first_where_that_is_asked_for() {
    let close = |written: &[&str], place: &Place| {
        let plan = plan(|plan| plan.prefer_close = true);
        used(&Backend::new(plan, Some(&endpoints(written)), None, place))
    };
    let both = ["10.0.0.1:80 zone-b", "10.0.0.2:80 zone-a", "10.0.0.3:80"];
    assert_eq!(close(&both, &place()), ["10.0.0.2:80"]);
    assert_eq!(close(&["10.0.0.1:80 zone-b"], &place()), ["10.0.0.1:80"]);
    let ready_elsewhere = ["10.0.0.1:80 zone-b", "10.0.0.2:80 terminating zone-a"];
    assert_eq!(close(&ready_elsewhere, &place()), ["10.0.0.1:80"]);
    let nowhere = Place::new(&Settings::default());
    assert_eq!(close(&both, &nowhere).len(), 3, "a machine without a zone has none that are close");
}

#[test]
fn loopback_is_for_folders_and_the_admin_port_for_nobody() {
    let written = endpoints(&["127.0.0.1:80", "10.0.0.99:9900"]);
    let folder = Backend::new(plan(|plan| plan.allow_loopback = true), Some(&written), None, &place());
    assert_eq!(used(&folder), ["127.0.0.1:80"]);
}

#[test]
fn what_was_seen_of_an_endpoint_stays_with_its_address() {
    let now = Instant::now();
    let before = backend(&["10.0.0.1:80", "10.0.0.2:80"]);
    before.endpoints[1].opened();
    (0..3).for_each(|_| before.endpoints[1].failed(now));
    let written = endpoints(&["10.0.0.2:80", "10.0.0.2:81", "10.0.0.3:80"]);
    let after = Backend::new(plan(|_| {}), Some(&written), Some(&before), &place());
    let seen: Vec<_> = after.endpoints(now).map(|seen| (seen.active, seen.ejected)).collect();
    assert_eq!(seen, [(1, true), (0, false), (0, false)]);
    before.endpoints[1].closed();
    assert_eq!(after.endpoints[0].active(), 0, "a connection made under the old one ends for both");
    before.stats.cell(0).connected();
    assert_eq!(after.stats.connections(), 1, "what was counted goes on");
}

#[test]
fn names_keep_their_addresses_until_they_change() {
    let address = |text: &str| text.parse().unwrap();
    let answer = |name: &str, addresses| Answer {
        backend: plan(|_| {}).id.clone(),
        hostname: Hostname::parse(name).unwrap(),
        addresses,
    };
    let fresh = Backend::new(dns("db.example.com", 5432), None, None, &place());
    assert!(used(&fresh).is_empty());
    let found = vec![address("10.0.0.1"), address("127.0.0.1"), address("169.254.169.254")];
    let resolved = fresh.resolved(&answer("db.example.com", found), &place()).unwrap();
    assert_eq!(used(&resolved), ["10.0.0.1:5432"], "checked like any other");
    resolved.endpoints[0].opened();

    let again = Backend::new(dns("db.example.com", 5432), None, Some(&resolved), &place());
    assert_eq!(again.endpoints[0].active(), 1);
    let other_port = Backend::new(dns("db.example.com", 5433), None, Some(&resolved), &place());
    assert_eq!(used(&other_port), ["10.0.0.1:5433"]);
    let other_name = Backend::new(dns("new.example.com", 5432), None, Some(&resolved), &place());
    assert!(used(&other_name).is_empty());
    let late = answer("db.example.com", vec![address("10.0.0.9")]);
    assert!(other_name.resolved(&late, &place()).is_none(), "an answer to a name that it no longer has");
    assert!(backend(&["10.0.0.1:80"]).resolved(&late, &place()).is_none());
}

#[test]
fn connections_spread_over_endpoints_by_how_busy_they_are() {
    let (backend, mut random, now) = (numbered(10), Random::from_seed(1), Instant::now());
    let picks = times((0..1_000).map(|_| {
        let endpoint = backend.pick(CLIENT, &[], &mut random, now).unwrap();
        endpoint.opened();
        endpoint
    }));
    // Two choices keep the busiest within a few of the mean; chance alone would be off by thirty.
    assert!(picks.values().all(|&times| (95..=105).contains(&times)), "{picks:?}");

    backend.endpoints.iter().for_each(|endpoint| (0..200).for_each(|_| endpoint.opened()));
    let idle = &backend.endpoints[3];
    while idle.active() > 0 {
        idle.closed();
    }
    let picks = times((0..1_000).map(|_| backend.pick(CLIENT, &[], &mut random, now).unwrap()));
    assert!(picks[&idle.address] > 150, "an idle one wins whenever it is drawn: {picks:?}");
}

#[test]
fn equally_busy_endpoints_are_equally_likely() {
    for count in [2, 3, 7] {
        let (backend, mut random, now) = (numbered(count), Random::from_seed(2), Instant::now());
        let picks = times((0..count * 1_000).map(|_| backend.pick(CLIENT, &[], &mut random, now).unwrap()));
        assert_eq!(picks.len(), count);
        assert!(picks.values().all(|times| (850..1150).contains(times)), "{picks:?}");
    }
}

#[test]
fn what_was_tried_is_not_tried_again() {
    let (mut random, now) = (Random::from_seed(3), Instant::now());
    for affinity in [None, Some(Affinity { timeout: Duration::from_secs(10_800) })] {
        for count in [0, 1, 2, 5, 50] {
            let written: Vec<String> = (1..=count).map(|n| format!("10.0.0.{n}:80")).collect();
            let written = endpoints(&written.iter().map(String::as_str).collect::<Vec<_>>());
            let plan = plan(|plan| plan.affinity = affinity);
            let backend = Backend::new(plan, Some(&written), None, &place());
            let mut tried = Vec::new();
            while let Some(endpoint) = backend.pick(CLIENT, &tried, &mut random, now) {
                assert!(!tried.contains(&endpoint.address));
                tried.push(endpoint.address);
            }
            assert_eq!(tried.len(), count, "each is tried once");
        }
    }
}

#[test]
fn a_client_with_affinity_stays_while_its_endpoint_does() {
    let with = |written: &[String], before: Option<&Backend>| {
        let affinity = Affinity { timeout: Duration::from_secs(10_800) };
        let written = endpoints(&written.iter().map(String::as_str).collect::<Vec<_>>());
        Backend::new(plan(|plan| plan.affinity = Some(affinity)), Some(&written), before, &place())
    };
    let clients: Vec<IpAddr> =
        (0..2_000_u32).map(|n| IpAddr::from((0xcb00_7100 + n).to_be_bytes())).collect();
    let all: Vec<String> = (1..=10).map(|n| format!("10.0.0.{n}:80")).collect();
    let (mut random, now) = (Random::new(), Instant::now());
    let mut chosen = |backend: &Backend| -> Vec<SocketAddr> {
        clients.iter().map(|&client| backend.pick(client, &[], &mut random, now).unwrap().address).collect()
    };
    let full = with(&all, None);
    let first = chosen(&full);
    assert_eq!(first, chosen(&full));
    assert_eq!(first, chosen(&with(&all, None)), "also after a restart");
    let shares = times(first.iter().map(|&address| Arc::new(Endpoint::new(address))));
    assert!(shares.len() == 10 && shares.values().all(|n| (140..260).contains(n)), "{shares:?}");

    let fewer = chosen(&with(&all[1..], Some(&full)));
    let gone: SocketAddr = all[0].parse().unwrap();
    for (before, after) in first.iter().zip(&fewer) {
        assert!(before == after || *before == gone, "only the clients of the one that went move");
    }
    let mapped: IpAddr = "::ffff:203.0.113.0".parse().unwrap();
    let endpoint = full.pick(mapped, &[], &mut Random::new(), now).unwrap();
    assert_eq!(endpoint.address, first[0], "the same client on a socket for both families");
}

#[test]
fn an_ejected_endpoint_is_passed_over_then_tried_once_then_back() {
    let (backend, mut random, now) = (numbered(3), Random::from_seed(4), Instant::now());
    let bad = &backend.endpoints[0];
    (0..3).for_each(|_| bad.failed(now));
    let mut picks = |now| times((0..3_000).map(|_| backend.pick(CLIENT, &[], &mut random, now).unwrap()));
    let passed_over = picks(now);
    assert!(!passed_over.contains_key(&bad.address));
    assert!(passed_over.values().all(|times| (1_350..1_650).contains(times)), "{passed_over:?}");

    let later = now + Duration::from_millis(1_100);
    assert_eq!(picks(later)[&bad.address], 1, "one connection tries it, the others wait for how that goes");
    bad.failed(later);
    assert!(!picks(later + Duration::from_millis(1_900)).contains_key(&bad.address), "the pause grows");
    let much_later = later + Duration::from_millis(2_100);
    assert_eq!(picks(much_later)[&bad.address], 1);
    bad.connected();
    assert!(picks(much_later)[&bad.address] > 850);
    assert!(backend.endpoints(much_later).all(|seen| !seen.ejected));
}

#[test]
fn where_all_are_ejected_all_are_tried() {
    let (mut random, now) = (Random::from_seed(5), Instant::now());
    for count in [1, 2, 8] {
        let backend = numbered(count);
        backend.endpoints.iter().for_each(|endpoint| (0..3).for_each(|_| endpoint.failed(now)));
        assert!(backend.endpoints(now).all(|seen| seen.ejected));
        let picks = times((0..1_000).map(|_| backend.pick(CLIENT, &[], &mut random, now).unwrap()));
        assert_eq!(picks.len(), count);
    }
}

#[test]
fn a_good_one_is_found_among_many_that_are_ejected() {
    let (backend, mut random, now) = (numbered(500), Random::from_seed(6), Instant::now());
    for endpoint in
        backend.endpoints.iter().filter(|endpoint| endpoint.address.ip().to_string() != "10.0.1.7")
    {
        (0..3).for_each(|_| endpoint.failed(now));
    }
    for _ in 0..100 {
        let chosen = backend.pick(CLIENT, &[], &mut random, now).unwrap();
        assert_eq!(chosen.address.to_string(), "10.0.1.7:80");
    }
}

#[test]
fn many_threads_pick_and_tell_at_a_time() {
    let (backend, now) = (numbered(8), Instant::now());
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let backend = &backend;
            scope.spawn(move || {
                let mut random = Random::from_seed(seed);
                for round in 0..20_000_u64 {
                    let at = now + Duration::from_millis(round);
                    let endpoint = backend.pick(CLIENT, &[], &mut random, at).unwrap();
                    endpoint.opened();
                    if random.below(3) == 0 {
                        endpoint.failed(at);
                    } else {
                        endpoint.connected();
                    }
                    endpoint.closed();
                }
            });
        }
    });
    assert!(backend.endpoints.iter().all(|endpoint| endpoint.active() == 0));
}
