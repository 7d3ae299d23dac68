//! Which route carries a TLS, TCP or UDP connection.

mod support;

use support::*;
use tidegate_plan::*;

#[test]
fn a_tls_route_is_found_by_its_hostname_as_written() {
    // On this listener every one of them comes to mean `a.b.example.com`: what counts is what they wrote.
    let tables = tables([
        passthrough("tls", "a.b.example.com"),
        tls_route("widest", "tls", &["*.com"]).created(1),
        tls_route("wide", "tls", &["*.example.com"]).created(2),
        tls_route("narrow", "tls", &["*.b.example.com"]).created(3),
    ]);
    assert_eq!(admitted(&tables, &hello(Some("a.b.example.com"))), "tls -> narrow");
    let exact = Fragment::new(tls_route("exact", "tls", &["a.b.example.com"]).created(4));
    let tables = tables.updated([Change::Upsert(exact.into())]);
    assert_eq!(admitted(&tables, &hello(Some("a.b.example.com"))), "tls -> exact");
}

#[test]
fn of_two_tls_routes_with_one_hostname_the_older_then_the_first_by_name() {
    let route = |name| tls_route(name, "tls", &["a.example.com"]);
    let taken = |routes: Vec<Body>| {
        let tables = tables(routes.into_iter().chain([passthrough("tls", "")]));
        admitted(&tables, &hello(Some("a.example.com")))
    };
    assert_eq!(taken(vec![route("b").created(1), route("a").created(2)]), "tls -> b");
    assert_eq!(taken(vec![route("b").created(1), route("a").created(1)]), "tls -> a");
    assert_eq!(taken(vec![route("b").namespace("x"), route("c").namespace("w")]), "tls -> c");
}

#[test]
fn a_hostname_outside_the_listeners_is_no_reason_to_route() {
    let tables = tables([
        passthrough("narrow", "*.example.com"),
        passthrough("any", ""),
        tls_route("r", "narrow", &["a.example.com", "a.example.net"]),
    ]);
    assert_eq!(admitted(&tables, &hello(Some("a.example.com"))), "narrow -> r");
    assert_eq!(admitted(&tables, &hello(Some("b.example.com"))), "no_route");
    assert_eq!(admitted(&tables, &hello(Some("a.example.net"))), "no_route");
}

#[test]
fn a_tls_route_without_hostnames_takes_every_name_of_the_listener() {
    let tables = tables([passthrough("tls", ""), tls_route("r", "tls", &[])]);
    assert_eq!(admitted(&tables, &hello(Some("a.example.com"))), "tls -> r");
    assert_eq!(admitted(&tables, &hello(None)), "tls -> r");
}

#[test]
fn the_oldest_tcp_or_udp_route_carries_everything() {
    let tables = tables([
        tcp("t", 9000),
        udp("u", 9000),
        tcp("idle", 9001),
        tcp_route("young", "t").created(20),
        tcp_route("old", "t").created(10),
        udp_route("b", "u"),
        udp_route("a", "u"),
    ]);
    assert_eq!(admitted(&tables, &bytes(9000, Transport::Tcp)), "t -> old");
    assert_eq!(admitted(&tables, &bytes(9000, Transport::Udp)), "u -> a");
    assert_eq!(admitted(&tables, &bytes(9001, Transport::Tcp)), "no_route");
}

#[test]
fn a_listener_takes_only_routes_that_it_can_carry() {
    let tables = tables([
        tcp("t", 9000),
        passthrough("tls", ""),
        udp_route("udp", "t"),
        tcp_route("tcp", "tls"),
        http_route("http", "tls", &[], &[&[prefix("/")]]),
    ]);
    assert_eq!(admitted(&tables, &bytes(9000, Transport::Tcp)), "no_route");
    assert_eq!(admitted(&tables, &hello(Some("a.example.com"))), "no_route");
}
