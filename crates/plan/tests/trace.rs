//! What a trace tells: every step of a decision in words, and the same decision as without it.

#[path = "support/random.rs"]
mod random;
#[path = "support/mod.rs"]
mod support;

use proptest::collection::vec;
use proptest::prelude::*;
use random::{ASKED, asking, listener, route};
use support::*;
use tidegate_plan::*;

fn told(tables: &Tables, flow: &Flow<'_>) -> Vec<String> {
    let mut steps: Vec<Step> = Vec::new();
    let _ = decide(tables, flow, &mut steps);
    steps.iter().map(Step::to_string).collect()
}

#[test]
fn a_passthrough_connection() {
    let tables = tables([
        passthrough("wide", "*.example.com"),
        https("any", ""),
        tls_route("old", "wide", &["*.example.com"]).created(1),
        tls_route("young", "wide", &["*.example.com"]).created(2),
    ]);
    let flow = Flow { connection: hello(Some("A.Example.com")), request: None };
    assert_eq!(
        told(&tables, &flow),
        [
            "on 10.0.0.1:443 over TCP answer: default/gw/any; default/gw/wide",
            "the server name \"A.Example.com\" is read as a.example.com",
            "listener default/gw/wide (TLS passthrough) takes it: *.example.com is the most specific hostname",
            "routes written for *.example.com: TLSRoute default/old; TLSRoute default/young",
            "TLSRoute default/old carries it; it is older or first by name before TLSRoute default/young",
        ]
    );
}

#[test]
fn a_request_that_falls_through_to_the_next_hostname() {
    let tables = tables([
        https("any", ""),
        http_route("shop", "any", &["a.example.com"], &[&[prefix("/shop").method("POST"), exact("/cart")]]),
        http_route("rest", "any", &[], &[&[prefix("/").header("beta", "1")], &[prefix("/")]]),
    ]);
    let flow = Flow { connection: hello(None), request: Some(get("a.example.com", "/shop/1")) };
    assert_eq!(
        told(&tables, &flow),
        [
            "on 10.0.0.1:443 over TCP answer: default/gw/any",
            "the client gives no server name",
            "listener default/gw/any (HTTPS) takes it: it has no hostname and takes any",
            "the certificate of Secret default/cert-0 is shown: none names the server, and it is the first",
            "the host is a.example.com",
            "listener default/gw/any (HTTPS) takes it: it has no hostname and takes any",
            "routes written for a.example.com: HTTPRoute default/shop",
            "HTTPRoute default/shop rule 0 match 0 [POST prefix /shop]: does not apply, the method is not POST",
            "no rule for a.example.com applies; there are: POST prefix /shop; path /cart",
            "routes written for no hostname, which take any: HTTPRoute default/rest",
            "HTTPRoute default/rest rule 0 match 0 [prefix /, header beta=1]: does not apply, \
             the header beta is missing or differs",
            "HTTPRoute default/rest rule 1 match 0 [prefix /]: applies",
        ]
    );
}

#[test]
fn refusals_end_with_their_reason() {
    let tables = tables([
        https("a", "a.example.com"),
        https("b", "b.example.com").refuse(Reason::NoClientCa),
        tcp("t", 9000),
    ]);
    let last = |connection, request| told(&tables, &Flow { connection, request }).pop().unwrap();
    assert_eq!(last(hello(None), None), format!("refused: {}", Reason::NoSni.text()));
    assert_eq!(last(hello(Some("b.example.com")), None), format!("refused: {}", Reason::NoClientCa.text()));
    assert_eq!(last(bytes(9000, Transport::Tcp), None), format!("refused: {}", Reason::NoRoute.text()));
    assert_eq!(last(bytes(9001, Transport::Tcp), None), format!("refused: {}", Reason::NoListener.text()));
    let told = told(
        &tables,
        &Flow { connection: hello(Some("a.example.com")), request: Some(get("b.example.com", "/")) },
    );
    assert_eq!(
        told[told.len() - 2..],
        [
            "the connection belongs to listener default/gw/a, the host to listener default/gw/b".to_owned(),
            format!("refused: {}", Reason::Misdirected.text()),
        ]
    );
}

#[test]
fn names_that_nobody_takes_are_told_with_those_that_somebody_does() {
    let tables = tables([
        https("a", "a.example.com"),
        http("web", "*.example.org"),
        http("bare", "bare.example.org"),
        http_route("shop", "web", &["shop.example.org"], &[&[prefix("/")]]),
    ]);
    let before_last = |connection, request| {
        let mut told = told(&tables, &Flow { connection, request });
        told.pop();
        told.pop().unwrap()
    };
    assert_eq!(
        before_last(hello(Some("z.example.com")), None),
        "no listener takes it: default/gw/a is for a.example.com"
    );
    let asked = |host| before_last(bytes(80, Transport::Tcp), Some(get(host, "/")));
    assert_eq!(
        asked("example.net"),
        "no listener takes it: default/gw/bare is for bare.example.org; default/gw/web is for *.example.org"
    );
    assert_eq!(
        asked("cart.example.org"),
        "no route of the listener takes it: HTTPRoute default/shop is for shop.example.org"
    );
    assert_eq!(asked("bare.example.org"), "the listener has no routes");
}

#[test]
fn long_lists_are_cut_and_counted() {
    let routes =
        (0..40).map(|n| http_route(&format!("r{n:02}"), "web", &[], &[&[exact(&format!("/{n:02}"))]]));
    let tables = tables(routes.chain([http("web", "")]));
    let connection = bytes(80, Transport::Tcp);
    let told = told(&tables, &Flow { connection, request: Some(get("a.example.com", "/x")) });
    assert!(told[3].ends_with("HTTPRoute default/r15; and 24 more"), "{}", told[3]);
    assert!(told[4].ends_with("path /15; and 24 more"), "{}", told[4]);
}

#[test]
fn steps_are_json_for_machines() {
    let mut steps: Vec<Step> = Vec::new();
    let tables = tables([http("web", ""), http_route("r", "web", &[], &[&[prefix("/a").query("q", "1")]])]);
    let flow = Flow { connection: bytes(80, Transport::Tcp), request: Some(get("a.example.com", "/a")) };
    let _ = decide(&tables, &flow, &mut steps);
    let json = serde_json::to_value(&steps[4]).unwrap();
    let expected = serde_json::json!({
        "step": "match",
        "route": {"kind": "HTTPRoute", "object": {"namespace": "default", "name": "r"}},
        "rule": 0, "name": null, "which": 0, "on": "prefix /a, query q=1",
        "miss": {"miss": "query", "name": "q"},
    });
    assert_eq!(json, expected);
}

proptest! {
    #[test]
    fn a_trace_changes_no_decision(
        parts in vec(prop_oneof![1 => listener(), 2 => route()], 0..16),
        requests in vec(asking(), 4),
    ) {
        let tables = tables(parts);
        let sockets = [80, 443].map(|port| local("10.0.0.1", port));
        for (sni, asking, socket) in ASKED.iter().flat_map(|sni| requests.iter().flat_map(move |asking| sockets.map(|socket| (sni, asking, socket)))) {
            let flow = Flow { connection: hello_to(socket, Some(sni)), request: Some(asking.request()) };
            let mut steps: Vec<Step> = Vec::new();
            let traced = decide(&tables, &flow, &mut steps);
            let silent = decide(&tables, &flow, &mut ());
            prop_assert_eq!(format!("{:?}", &traced), format!("{:?}", silent));
            let refused = matches!(steps.last(), Some(Step::Refused { .. }));
            prop_assert_eq!(refused, traced.is_err());
        }
    }
}
