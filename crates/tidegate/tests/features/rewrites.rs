//! What backends see of paths, hosts and headers that filters change.

use crate::loopback::Tidegate;
use crate::site::{Answer, ask};
use crate::{PORT, with_rules};

/// A rule with filters, and a backend with filters of its own.
fn rule(prefix: &str, filters: &str, backend: &str) -> String {
    format!(
        "  - matches: [{{path: {{value: {prefix}}}}}]
    filters: [{filters}]
    backendRefs: [{{name: a, port: 80, filters: [{backend}]}}]
"
    )
}

fn path(kind: &str, to: &str) -> String {
    let field = if kind == "ReplaceFullPath" { "replaceFullPath" } else { "replacePrefixMatch" };
    format!("{{type: URLRewrite, urlRewrite: {{path: {{type: {kind}, {field}: {to}}}}}}}")
}

fn host(to: &str) -> String {
    format!("{{type: URLRewrite, urlRewrite: {{hostname: {to}}}}}")
}

fn get(tidegate: &Tidegate, target: &str, headers: &[(&str, &str)]) -> Answer {
    let answer = ask(tidegate.at(PORT), &format!("GET http://a.test{target}"), headers);
    assert_eq!(answer.status, 200, "{target}: {}", answer.body);
    answer
}

#[track_caller]
fn seen(tidegate: &Tidegate, cases: &[(&str, &str, &str)]) {
    for (target, expected, host) in cases {
        let answer = get(tidegate, target, &[]);
        assert_eq!(answer.asked(), format!("a GET {expected}"), "{target}");
        assert_eq!(answer.told("host"), [*host], "{target}");
    }
}

#[test]
fn http_route_path_rewrite() {
    let tidegate = with_rules(
        &[
            rule("/prefix/one", &path("ReplacePrefixMatch", "/one"), ""),
            rule("/strip", &path("ReplacePrefixMatch", "/"), ""),
            rule("/full/one", &path("ReplaceFullPath", "/one"), ""),
        ]
        .concat(),
    );
    seen(
        &tidegate,
        &[
            ("/prefix/one/two", "/one/two", "a.test"),
            ("/prefix/one?q=/prefix/one", "/one?q=/prefix/one", "a.test"),
            ("/strip/three", "/three", "a.test"),
            ("/strip", "/", "a.test"),
            ("/full/one/two?q=1", "/one?q=1", "a.test"),
        ],
    );
}

#[test]
fn http_route_host_rewrite() {
    let both = "{type: URLRewrite, urlRewrite: {hostname: two.example.org, path: {type: ReplacePrefixMatch, replacePrefixMatch: /x}}}";
    let tidegate =
        with_rules(&[rule("/one", &host("one.example.org"), ""), rule("/both", both, "")].concat());
    let cases = [("/one/a", "/one/a", "one.example.org"), ("/both/a", "/x/a", "two.example.org")];
    seen(&tidegate, &cases);
    // What the client asked for is told all the same.
    assert_eq!(get(&tidegate, "/one", &[]).told("x-forwarded-host"), ["a.test"]);
}

/// A backend's own takes the place of the rule's.
#[test]
fn http_route_backend_url_rewrite() {
    let tidegate = with_rules(
        &[
            rule("/own", "", &path("ReplacePrefixMatch", "/mine")),
            rule("/over", &path("ReplacePrefixMatch", "/rule"), &path("ReplaceFullPath", "/backend")),
            rule("/host", &host("rule.example.org"), &host("backend.example.org")),
        ]
        .concat(),
    );
    seen(
        &tidegate,
        &[
            ("/own/x?y", "/mine/x?y", "a.test"),
            ("/over/x", "/backend", "a.test"),
            ("/host", "/host", "backend.example.org"),
        ],
    );
}

fn change(kind: &str, what: &str) -> String {
    let field = if kind.starts_with("Request") { "requestHeaderModifier" } else { "responseHeaderModifier" };
    format!("{{type: {kind}, {field}: {{{what}}}}}")
}

const SET: &str = "set: [{name: X-Header-Set, value: new}]";
const ADD: &str = "add: [{name: X-Header-Add, value: more}]";
const REMOVE: &str = "remove: [X-Header-Remove]";

/// Headers as the client sends them, and as the backend gets them.
const CHANGES: [(&str, &[&str], &[&str]); 3] = [
    ("x-header-set", &["old"], &["new"]),
    ("x-header-add", &["first"], &["first", "more"]),
    ("x-header-remove", &["old"], &[]),
];

#[test]
fn http_route_backend_request_header_modification() {
    let all = change("RequestHeaderModifier", &[SET, ADD, REMOVE].join(", "));
    let tidegate = with_rules(&rule("/", "", &all));
    for (name, before, after) in CHANGES {
        let sent: Vec<(&str, &str)> = before.iter().map(|value| (name, *value)).collect();
        assert_eq!(get(&tidegate, "/", &sent).told(name), after, "{name}");
    }
    assert_eq!(get(&tidegate, "/", &[]).told("x-header-set"), ["new"]);
}

#[test]
fn http_route_response_header_modification() {
    let of = |what: &str| change("ResponseHeaderModifier", what);
    let tidegate = with_rules(
        &[
            rule("/set", &of("set: [{name: X-Of-Backend, value: new}]"), ""),
            rule("/add", &of("add: [{name: X-Of-Backend, value: more}]"), ""),
            rule("/remove", &of("remove: [X-Of-Backend]"), ""),
            rule("/backend", "", &of("set: [{name: X-Of-Backend, value: own}]")),
        ]
        .concat(),
    );
    for (target, expected) in
        [("/set", &["new"][..]), ("/add", &["a", "more"]), ("/remove", &[]), ("/backend", &["own"])]
    {
        let answer = get(&tidegate, target, &[]);
        let values: Vec<&str> =
            answer.headers.get_all("x-of-backend").iter().map(|value| value.to_str().unwrap()).collect();
        assert_eq!(values, expected, "{target}");
    }
}
