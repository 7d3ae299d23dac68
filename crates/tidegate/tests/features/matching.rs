//! Which rule takes a request.

use crate::loopback::Tidegate;
use crate::loopback::manifests::http;
use crate::site::{ask, ask_http2};
use crate::{Case, PORT, route, with_routes, with_rules};

fn rule(name: &str, matches: &str, backend: &str) -> String {
    let name = if name.is_empty() { String::new() } else { format!("    name: {name}\n") };
    format!("  - backendRefs: [{{name: {backend}, port: 80}}]\n{name}    matches: [{matches}]\n")
}

/// Requests with the backend that gets them; none for 404. Over both versions of HTTP.
#[track_caller]
fn go(tidegate: &Tidegate, cases: &[Case<'_>]) {
    for (request, headers, backend) in cases {
        let (method, target) = request.split_once(' ').unwrap();
        let request = format!("{method} http://a.test{target}");
        for answer in
            [ask(tidegate.at(PORT), &request, headers), ask_http2(tidegate.at(PORT), &request, headers)]
        {
            let got = (answer.status == 200).then(|| answer.header("x-of-backend").unwrap());
            assert_eq!(got, *backend, "{request} {headers:?}: {answer:?}");
            assert!(got.is_some() || answer.status == 404, "{answer:?}");
        }
    }
}

/// What each implementation must have: paths and headers, and which of several matches is the better one.
#[test]
fn http_route() {
    let tidegate = with_rules(
        &[
            rule("", "{path: {type: PathPrefix, value: /v1}}", "a"),
            rule("", "{path: {type: Exact, value: /v1/exact}}", "b"),
            rule("", "{path: {value: /v1}, headers: [{name: Version, value: two}]}", "b"),
            rule("", "{path: {value: /v1/longer}}", "b"),
        ]
        .concat(),
    );
    go(
        &tidegate,
        &[
            ("GET /v1", &[], Some("a")),
            ("GET /v1/x", &[], Some("a")),
            ("GET /v1x", &[], None),
            ("GET /", &[], None),
            ("GET /v1/exact", &[], Some("b")),
            ("GET /v1/exact/x", &[], Some("a")),
            ("GET /v1/x", &[("version", "two")], Some("b")),
            ("GET /v1/x", &[("version", "Two")], Some("a")),
            ("GET /v1/longer/x", &[], Some("b")),
        ],
    );
}

#[test]
fn http_route_method_matching() {
    let tidegate = with_rules(
        &[
            rule("", "{method: POST}", "a"),
            rule("", "{method: GET}", "b"),
            rule(
                "",
                "{path: {value: /path}, method: DELETE}, {method: PATCH, headers: [{name: kind, value: new}]}",
                "b",
            ),
        ]
        .concat(),
    );
    go(
        &tidegate,
        &[
            ("POST /", &[], Some("a")),
            ("GET /", &[], Some("b")),
            ("PUT /", &[], None),
            ("HEAD /", &[], None),
            ("DELETE /path/x", &[], Some("b")),
            ("DELETE /", &[], None),
            ("PATCH /", &[("kind", "new")], Some("b")),
            ("PATCH /", &[], None),
        ],
    );
}

#[test]
fn http_route_query_param_matching() {
    let tidegate = with_rules(
        &[
            rule("", "{queryParams: [{name: animal, value: whale}]}", "a"),
            rule("", "{queryParams: [{name: animal, value: dolphin}]}", "b"),
            rule("", "{queryParams: [{name: animal, value: dolphin}, {name: color, value: blue}]}", "a"),
        ]
        .concat(),
    );
    go(
        &tidegate,
        &[
            ("GET /?animal=whale", &[], Some("a")),
            ("GET /?animal=dolphin", &[], Some("b")),
            ("GET /?animal=dolphin&color=blue", &[], Some("a")),
            ("GET /?x=y&animal=%77hale", &[], Some("a")),
            ("GET /?ANIMAL=whale", &[], None),
            ("GET /?animal=Whale", &[], None),
            ("GET /", &[], None),
        ],
    );
}

/// A name changes nothing about what a rule takes.
#[test]
fn http_route_named_route_rule() {
    let tidegate = with_rules(
        &[rule("named", "{path: {value: /named}}", "a"), rule("", "{path: {value: /unnamed}}", "b")].concat(),
    );
    go(&tidegate, &[("GET /named", &[], Some("a")), ("GET /unnamed", &[], Some("b")), ("GET /", &[], None)]);
}

const OTHER: u16 = PORT + 10;

/// Two listeners of one Gateway, and routes for a port of it.
fn by_port() -> Tidegate {
    let of = |name, port, backend| route(name, &format!(", port: {port}"), &rule("", "", backend));
    let both = route("both", "", &rule("", "{path: {value: /both}}", "b"));
    with_routes(
        &[http("one", PORT), http("two", OTHER)],
        &[of("one", PORT, "a"), of("two", OTHER, "b"), both].concat(),
    )
}

#[track_caller]
fn at_ports(tidegate: &Tidegate, host: &str) {
    for (port, target, backend) in
        [(PORT, "/", "a"), (OTHER, "/", "b"), (PORT, "/both", "b"), (OTHER, "/both", "b")]
    {
        let answer = ask(tidegate.at(port), &format!("GET http://{host}{target}"), &[]);
        assert_eq!(answer.header("x-of-backend"), Some(backend), "{host} {port}{target}");
    }
}

#[test]
fn http_route_parent_ref_port() {
    at_ports(&by_port(), "a.test");
}

/// The port that the client connected to counts, whatever it says in its Host.
#[test]
fn http_route_destination_port_matching() {
    let tidegate = by_port();
    for host in [format!("a.test:{PORT}"), format!("a.test:{OTHER}"), "a.test:1".to_owned()] {
        at_ports(&tidegate, &host);
    }
}
