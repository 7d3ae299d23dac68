//! Which rule answers a gRPC call.

mod support;

use support::*;
use tidegate_plan::*;

fn call<'a>(path: &'a str, headers: &'a dyn Headers) -> Request<'a> {
    Request { host: Some("a.example.com"), method: "POST", path, query: None, headers }
}

const GRPC: [(&str, &str); 1] = [("content-type", "application/grpc+proto")];

#[test]
fn names_match_word_for_word_and_the_more_of_them_the_better() {
    let tables = tables([
        http("web", ""),
        grpc_route(
            "r",
            "web",
            &[],
            &[
                &[rpc("*", "*")],
                &[rpc("*", "Get")],
                &[rpc("~shop[.].*", "*")],
                &[rpc("shop.Cart", "*")],
                &[rpc("shop.Cart", "~Get.*")],
                &[rpc("shop.Cart", "Get")],
                &[rpc_with_header("shop.Cart", "Get", "version", "2")],
            ],
        ),
    ]);
    for (path, answer) in [
        ("/shop.Cart/Get", "5/0"),
        ("/shop.Cart/GetAll", "4/0"),
        ("/shop.Cart/Put", "3/0"),
        ("/shop.Other/Get", "2/0"),
        ("/other/Get", "1/0"),
        ("/other/Put", "0/0"),
        ("/shop.cart/Get", "2/0"),
        ("/shop.Cart/Get/more", "0/0"),
        ("/shop.Cart", "0/0"),
    ] {
        assert_eq!(plain(&tables, &call(path, &GRPC)), format!("web -> r/{answer}"), "{path}");
    }
    let headers = [("content-type", "application/grpc"), ("Version", "2")];
    assert_eq!(plain(&tables, &call("/shop.Cart/Get", &headers)), "web -> r/6/0");
}

#[test]
fn a_call_without_a_match_is_unimplemented() {
    let tables = tables([http("web", ""), grpc_route("r", "web", &[], &[&[rpc("a", "B")]])]);
    let inbound = Inbound { local: local("10.0.0.1", 80), https: None };
    let refusal = tables.matched(&inbound, &call("/a/C", &GRPC), &mut ()).unwrap_err();
    assert_eq!((refusal.reason, refusal.reason.grpc_status()), (Reason::NoMatchingRule, 12));
    assert_eq!(Reason::BackendNotFound.grpc_status(), 14);
}

#[test]
fn the_method_of_http_is_not_asked_for() {
    let tables = tables([http("web", ""), grpc_route("r", "web", &[], &[&[rpc("a", "B")]])]);
    assert_eq!(plain(&tables, &get("x", "/a/B")), "web -> r/0/0");
}

#[test]
fn on_one_hostname_calls_go_to_grpc_routes_first_and_others_to_http_routes() {
    let tables = tables([
        http("web", ""),
        http_route("h", "web", &["a.example.com"], &[&[exact("/a/B"), prefix("/only")]]),
        grpc_route("g", "web", &["a.example.com"], &[&[rpc("a", "B")], &[rpc("c", "D")]]),
        http_route("rest", "web", &[], &[&[prefix("/")]]),
    ]);
    assert_eq!(plain(&tables, &call("/a/B", &GRPC)), "web -> g/0/0");
    assert_eq!(plain(&tables, &call("/a/B", &())), "web -> h/0/0");
    assert_eq!(plain(&tables, &call("/c/D", &())), "web -> g/1/0");
    assert_eq!(plain(&tables, &call("/only/x", &GRPC)), "web -> h/0/1");
    assert_eq!(plain(&tables, &call("/x/Y", &GRPC)), "web -> rest/0/0");
}
