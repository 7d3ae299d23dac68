//! The features that we claim for HTTP and gRPC, each by the name that the conformance suite has for it: manifests in,
//! requests through the binary, a table of what becomes of them. What a feature has in detail is tested where it is
//! made; tests there that have a feature's name count as its test.
#![allow(clippy::unwrap_used, reason = "a test may")]

mod grpc;
mod listeners;
#[path = "../loopback/mod.rs"]
mod loopback;
mod matching;
mod names;
mod redirects;
mod rewrites;
mod site;
#[path = "../support/mod.rs"]
mod support;

use std::net::SocketAddr;

use loopback::Tidegate;
use loopback::manifests::{gateway, http, service};

const PORT: u16 = 8080;

/// A request, its headers, and the backend that gets it.
type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], Option<&'a str>);

/// Tidegate with the Gateway `edge`, the Services `a` and `b`, and an HTTPRoute for all of its listeners with these rules.
fn with_rules(rules: &str) -> Tidegate {
    with_routes(&[http("web", PORT)], &route("web", "", rules))
}

/// The same with any routes.
fn with_routes(listeners: &[String], routes: &str) -> Tidegate {
    let text = gateway(listeners) + routes + &services(site::start);
    serve(&text)
}

/// All of the text must be right.
fn serve(text: &str) -> Tidegate {
    let tidegate = Tidegate::start(&[("all.yaml", text)], &[]);
    let log = tidegate.own_log();
    assert!(!log.contains("\"event\":\"invalid\""), "{log}{text}");
    tidegate
}

fn services(start: impl Fn(&'static str) -> SocketAddr) -> String {
    service("a", &[start("a")]) + &service("b", &[start("b")])
}

/// `parent`: more about the Gateway that it is for.
fn route(name: &str, parent: &str, rules: &str) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{name: {name}}}
spec:
  parentRefs: [{{name: edge{parent}}}]
  rules:
{rules}---
"
    )
}
