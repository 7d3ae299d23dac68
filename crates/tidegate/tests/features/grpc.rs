//! GRPCRoute, as calls go through it.

use crate::loopback::Tidegate;
use crate::loopback::manifests::http;
use crate::site::{Answer, ask_http2};
use crate::{Case, PORT, with_routes};

fn with_rules(rules: &str) -> Tidegate {
    let route = format!(
        "apiVersion: gateway.networking.k8s.io/v1
kind: GRPCRoute
metadata: {{name: grpc}}
spec:
  parentRefs: [{{name: edge}}]
  rules:
{rules}---
"
    );
    with_routes(&[http("web", PORT)], &route)
}

fn rule(matches: &str, backend: &str) -> String {
    format!("  - backendRefs: [{{name: {backend}, port: 80}}]\n    matches: [{matches}]\n")
}

fn call(tidegate: &Tidegate, method: &str, headers: &[(&str, &str)]) -> Answer {
    let mut all = vec![("content-type", "application/grpc"), ("te", "trailers")];
    all.extend_from_slice(headers);
    ask_http2(tidegate.at(PORT), &format!("POST http://a.test/{method}"), &all)
}

/// Calls with the backend that gets them; none for UNIMPLEMENTED.
#[track_caller]
fn go(tidegate: &Tidegate, cases: &[Case<'_>]) {
    for (method, headers, backend) in cases {
        let answer = call(tidegate, method, headers);
        assert_eq!(answer.header("x-of-backend"), *backend, "{method} {headers:?}: {answer:?}");
        assert_eq!(answer.header("grpc-status"), backend.is_none().then_some("12"), "{method} {headers:?}");
        assert_eq!(answer.status, 200);
    }
}

#[test]
fn grpc_route() {
    let tidegate = with_rules(
        &[
            rule("{method: {service: shop.Cart, method: Add}}", "a"),
            rule("{method: {service: shop.Cart, method: Remove}}", "b"),
            rule("{method: {type: RegularExpression, service: 'shop\\.(Bill|Offer)'}}", "b"),
            rule("{headers: [{name: version, value: two}]}", "b"),
        ]
        .concat(),
    );
    go(
        &tidegate,
        &[
            ("shop.Cart/Add", &[], Some("a")),
            ("shop.Cart/Remove", &[], Some("b")),
            ("shop.Cart/Empty", &[], None),
            ("shop.Cart/Add/x", &[], None),
            ("shop.Offer/Make", &[], Some("b")),
            ("shop.Offers/Make", &[], None),
            ("other.Service/Call", &[("version", "two")], Some("b")),
            ("other.Service/Call", &[("version", "three")], None),
        ],
    );
}

/// A name changes nothing about what a rule takes.
#[test]
fn grpc_route_named_route_rule() {
    let named = rule("{method: {service: shop.Cart, method: Add}}", "a") + "    name: named\n";
    let unnamed = rule("{method: {service: shop.Cart, method: Remove}}", "b");
    let tidegate = with_rules(&(named + &unnamed));
    go(
        &tidegate,
        &[
            ("shop.Cart/Add", &[], Some("a")),
            ("shop.Cart/Remove", &[], Some("b")),
            ("shop.Cart/X", &[], None),
        ],
    );
}

#[test]
fn grpc_route_request_header_modifier() {
    let filter = "    filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: X-Set, value: new}], add: [{name: X-Add, value: more}], remove: [X-Remove]}}]\n";
    let tidegate = with_rules(&(rule("{method: {service: shop.Cart}}", "a") + filter));
    for (name, sent, expected) in [
        ("x-set", Some("old"), &["new"][..]),
        ("x-set", None, &["new"]),
        ("x-add", Some("first"), &["first", "more"]),
        ("x-add", None, &["more"]),
        ("x-remove", Some("old"), &[]),
        ("x-other", Some("kept"), &["kept"]),
    ] {
        let headers: Vec<(&str, &str)> = sent.iter().map(|value| (name, *value)).collect();
        let answer = call(&tidegate, "shop.Cart/Add", &headers);
        assert_eq!(answer.asked(), "a POST /shop.Cart/Add");
        assert_eq!(answer.told(name), expected, "{name} {sent:?}");
    }
}
