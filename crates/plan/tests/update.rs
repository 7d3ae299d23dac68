//! Tables that were changed bit by bit decide as tables that are made of the whole plan at once.

#[path = "support/random.rs"]
mod random;
#[path = "support/mod.rs"]
mod support;

use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use random::{ASKED, Asking, PATHS, asking, listener, route};
use support::*;
use tidegate_plan::*;

/// Either a part to put in, under its name, or one of those that are there to take out.
#[derive(Clone, Debug)]
enum Doing {
    Put(Box<Body>),
    Take(Index),
}

fn doing() -> impl Strategy<Value = Doing> {
    prop_oneof![
        2 => listener().prop_map(Box::new).prop_map(Doing::Put),
        3 => route().prop_map(Box::new).prop_map(Doing::Put),
        2 => any::<Index>().prop_map(Doing::Take),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn changed_tables_equal_new_tables(
        batches in vec(vec(doing(), 1..6), 1..8),
        requests in vec(asking(), 6),
    ) {
        let mut plan = Plan::default();
        let mut tables = Tables::default();
        for batch in batches {
            let mut changes = Vec::new();
            for doing in batch {
                match doing {
                    Doing::Put(body) => {
                        let fragment = Arc::new(Fragment::new(*body));
                        plan.fragments.insert(fragment.id(), Arc::clone(&fragment));
                        changes.push(Change::Upsert(fragment));
                    }
                    Doing::Take(_) if plan.fragments.is_empty() => {}
                    Doing::Take(index) => {
                        let id = plan.fragments.keys().nth(index.index(plan.fragments.len())).unwrap().clone();
                        plan.fragments.remove(&id);
                        changes.push(Change::Remove(id));
                    }
                }
            }
            let before = decisions(&tables, &requests);
            let changed = tables.updated(changes);
            prop_assert_eq!(decisions(&changed, &requests), decisions(&Tables::new(&plan), &requests));
            // Those who still have the old tables see no change.
            prop_assert_eq!(decisions(&tables, &requests), before);
            tables = changed;
        }
        let everything = plan.fragments.keys().cloned().map(Change::Remove).collect::<Vec<_>>();
        let emptied = tables.updated(everything);
        prop_assert_eq!(emptied.sockets().count() + emptied.listeners().count(), 0);
    }
}

/// Every decision over the few names and paths that there are, in words.
fn decisions(tables: &Tables, requests: &[Asking]) -> Vec<String> {
    let mut all: Vec<String> = tables.sockets().map(|socket| format!("{socket:?}")).collect();
    all.sort();
    for address in ["10.0.0.1", "10.0.0.2"] {
        for name in ASKED {
            all.push(admitted(tables, &hello_to(local(address, 443), Some(name))));
            for path in PATHS {
                let inbound = Inbound { local: local(address, 80), https: None };
                all.push(answered(tables, &inbound, &get(name, path)));
            }
        }
        for asking in requests {
            for https in [None, Some(listener_id("l0")), Some(listener_id("l1"))] {
                let port = if https.is_some() { 443 } else { 80 };
                let inbound = Inbound { local: local(address, port), https: https.as_ref() };
                all.push(answered(tables, &inbound, &asking.request()));
            }
        }
    }
    all
}

#[test]
fn a_route_may_come_before_its_listener() {
    let route = Change::Upsert(Arc::new(Fragment::new(tcp_route("r", "t"))));
    let listener = Change::Upsert(Arc::new(Fragment::new(tcp("t", 9000))));
    let tables = Tables::default().updated([route]);
    assert_eq!(admitted(&tables, &bytes(9000, Transport::Tcp)), "no_listener");
    let tables = tables.updated([listener]);
    assert_eq!(admitted(&tables, &bytes(9000, Transport::Tcp)), "t -> r");
}

#[test]
fn a_listener_that_changes_its_name_or_port_takes_its_routes_along() {
    let tables = tables([passthrough("tls", "a.example.com"), tls_route("r", "tls", &["*.example.com"])]);
    let change = |tables: &Tables, body| tables.updated([Change::Upsert(Arc::new(Fragment::new(body)))]);
    let renamed = change(&tables, passthrough("tls", "b.example.com"));
    assert_eq!(admitted(&renamed, &hello(Some("a.example.com"))), "no_listener_for_sni");
    assert_eq!(admitted(&renamed, &hello(Some("b.example.com"))), "tls -> r");
    let moved = change(&tables, passthrough("tls", "a.example.com").port(8443));
    assert_eq!(admitted(&moved, &hello(Some("a.example.com"))), "no_listener");
    assert_eq!(admitted(&moved, &hello_to(local("10.0.0.1", 8443), Some("a.example.com"))), "tls -> r");
    let terminated = change(&tables, terminate("tls", "a.example.com"));
    assert_eq!(admitted(&terminated, &hello(Some("a.example.com"))), "tls -> r");
}

#[test]
fn gateways_and_backends_are_found_by_their_ids() {
    let gateway = Gateway { id: ObjectName::new("default", "gw"), client_certificate: None };
    let tables = tables([Body::Gateway(gateway.clone()), tcp("t", 9000), tcp_route("r", "t")]);
    assert_eq!(tables.gateway(&gateway.id).map(|found| &**found), Some(&gateway));
    assert!(tables.listener(&listener_id("t")).is_some());
    assert!(tables.route(&route_id(RouteKind::Tcp, "r")).is_some());
    let tables = tables.updated([Change::Remove(FragmentId::Gateway(gateway.id.clone()))]);
    assert!(tables.gateway(&gateway.id).is_none());
}
