//! External auth over HTTP and gRPC. What is asked and what answers mean is tested without sockets.

use bytes::Bytes;
use http::Response;
use http_body_util::Full;
use tidegate_plan::{BackendId, Body, ExternalAuth, Filter, Group, Handling, Target};

use crate::backend::{self, Speaks, answering};
use crate::client::{Connection, get, get_with};
use crate::gate::{Gate, member, rule, rule_with};

fn auth(server: &BackendId, body_limit: u32) -> ExternalAuth {
    ExternalAuth {
        target: Target::Backend(server.clone()),
        grpc: false,
        path: "/check".to_owned(),
        request_headers: vec!["x-user".to_owned()],
        response_headers: vec!["x-role".to_owned()],
        body_limit,
    }
}

/// Lets `x-user: ann` pass, and whoever has a body that says please.
fn guard() -> backend::Served {
    answering(Speaks::Http1, |request, _| {
        assert!(request.uri().path().starts_with("/check/"), "{}", request.uri());
        let known = request.headers().get("x-user").is_some_and(|user| user == "ann");
        let mut response = Response::new(Full::new(Bytes::from_static(b"who are you?")));
        if known || request.body() == "please" {
            *response.body_mut() = Full::default();
            response.headers_mut().insert("x-role", "admin".parse().unwrap());
        } else {
            *response.status_mut() = http::StatusCode::UNAUTHORIZED;
        }
        response
    })
}

#[test]
fn external_auth_on_a_rule() {
    let (served, guard) = (backend::echo("a"), guard());
    let mut gate = Gate::new();
    let (id, server) = (gate.backend("a", &[served.port]), gate.backend("guard", &[guard.port]));
    let gone = gate.backend("gone", &[backend::nobody()]);
    let ruled = |path, auth| rule_with(path, Group(vec![member(1, &id)]), vec![Filter::ExternalAuth(auth)]);
    gate.route(
        "web",
        vec![ruled("/", auth(&server, 0)), ruled("/body", auth(&server, 6)), ruled("/gone", auth(&gone, 0))],
    );
    let gate = gate.serving();
    let answer = get_with(gate.address(), "/x", "X-User: ann\r\nX-Role: forged\r\n");
    assert!(answer.body.contains("x-role: admin\n") && !answer.body.contains("forged"), "{}", answer.body);
    let answer = get(gate.address(), "/x");
    assert_eq!((answer.status, answer.body.as_str()), (401, "who are you?"));
    assert_eq!((get(gate.address(), "/gone").status, served.requests()), (503, 1));
    let post = |body: &str| {
        let length = body.len();
        Connection::to(gate.address())
            .ask(&format!("POST /body HTTP/1.1\r\nHost: a.test\r\nContent-Length: {length}\r\n\r\n{body}"))
    };
    let answer = post("please");
    assert!(answer.body.ends_with("\nplease"), "the backend has the body too: {}", answer.body);
    assert_eq!(post("do it!").status, 401);
    assert_eq!(post("pleaseplease").status, 413);
    gate.line(&["status=401", "ending=\"denied\""]);
}

/// Before any route is looked at more closely.
#[test]
fn external_auth_of_a_listener() {
    let (served, guard) = (backend::echo("a"), guard());
    let mut gate = Gate::new();
    let (id, server) = (gate.backend("a", &[served.port]), gate.backend("guard", &[guard.port]));
    let mut listener = gate.listener("http", Handling::Http, None);
    listener.external_auth = vec![auth(&server, 0)];
    gate.plan.insert(Body::Listener(listener));
    gate.route("web", vec![rule("/", &id)]);
    let gate = gate.serving();
    assert_eq!(get(gate.address(), "/x").status, 401);
    assert_eq!(get_with(gate.address(), "/x", "X-User: ann\r\n").status, 200);
}

#[test]
fn external_auth_over_grpc() {
    let served = backend::echo("a");
    // `CheckResponse` whose status has code 7, or which has an empty status, as gRPC frames it.
    let guard = answering(Speaks::Http2, |request, _| {
        assert_eq!(request.uri().path(), "/envoy.service.auth.v3.Authorization/Check");
        let known = request.body().windows(3).any(|word| word == b"ann");
        let message: &'static [u8] =
            if known { &[0, 0, 0, 0, 2, 0x0a, 0] } else { &[0, 0, 0, 0, 4, 0x0a, 2, 0x08, 7] };
        let response = Response::builder().header("grpc-status", "0");
        response.body(Full::new(Bytes::from_static(message))).unwrap()
    });
    let mut gate = Gate::new();
    let (id, server) = (gate.backend("a", &[served.port]), gate.backend("guard", &[guard.port]));
    let asked = ExternalAuth { grpc: true, ..auth(&server, 0) };
    gate.route("web", vec![rule_with("/", Group(vec![member(1, &id)]), vec![Filter::ExternalAuth(asked)])]);
    let gate = gate.serving();
    assert_eq!(get(gate.address(), "/").status, 403);
    assert_eq!(get_with(gate.address(), "/", "X-User: ann\r\n").status, 200);
}
