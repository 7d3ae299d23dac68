//! Which requests go where, and what is answered where none goes anywhere.

use tidegate_plan::{Group, Handling, Reason, Rules, Target, WeightedBackend};

use crate::backend::{self, Speaks, answering, told};
use crate::client::{Connection, get, get_with, http2, request, run, whole};
use crate::gate::{Gate, grpc_rule, member, rule, rule_with};

#[test]
fn http_route_simple_same_namespace() {
    let (a, b) = (backend::echo("a"), backend::echo("b"));
    let mut gate = Gate::new();
    let (a, b) = (gate.backend("a", &[a.port]), gate.backend("b", &[b.port]));
    gate.route("web", vec![rule("/", &a), rule("/b", &b)]);
    let gate = gate.serving();
    assert!(get(gate.address(), "/x?y=1").body.starts_with("a GET /x?y=1 HTTP/1.1\nhost: a.test\n"));
    assert!(get(gate.address(), "/b/../b//c").body.starts_with("b GET /b/c HTTP/1.1\n"));
    let answer = get_with(
        gate.address(),
        "/x",
        "X-Forwarded-For: 1.2.3.4\r\nConnection: x-secret, x-forwarded-for\r\nX-Secret: 1\r\n",
    );
    assert!(answer.body.contains("x-forwarded-for: 127.0.0.1\n"), "{}", answer.body);
    assert!(!answer.body.contains("x-secret") && !answer.body.contains("1.2.3.4"), "{}", answer.body);
    let line = gate.line(&["path=\"/x?y=1\"", "status=200"]);
    assert!(line.contains("route=\"HTTPRoute default/web\"") && line.contains("ending=\"done\""), "{line}");
    assert_eq!(
        gate.metric("tidegate_route_requests_total{route=\"HTTPRoute default/web\",code=\"2xx\"}"),
        3.0
    );
}

/// Answers of our own have a status, a reason, and for gRPC a status of its own.
#[test]
fn what_goes_nowhere_is_answered() {
    let mut gate = Gate::new();
    let empty = gate.backend("empty", &[]);
    let gone = gate.backend("gone", &[backend::nobody()]);
    let invalid =
        WeightedBackend { weight: 1, target: Target::Invalid(Reason::BackendNotFound), filters: Vec::new() };
    gate.route(
        "web",
        vec![
            rule("/empty", &empty),
            rule("/gone", &gone),
            rule_with("/none", Group(vec![]), vec![]),
            rule_with("/invalid", Group(vec![invalid]), vec![]),
        ],
    );
    let gate = gate.serving();
    for (path, status, reason) in [
        ("/", 404, "no_matching_rule"),
        ("/empty", 503, "no_endpoints"),
        ("/gone", 503, "connect_failed"),
        ("/none", 500, "no_backends"),
        ("/invalid", 500, "backend_not_found"),
        ("/%00", 400, "request_invalid"),
    ] {
        let answer = get(gate.address(), path);
        assert_eq!((answer.status, answer.header("x-tidegate-reason")), (status, Some(reason)), "{path}");
        gate.line(&[&format!("path={path:?}"), &format!("ending={reason:?}")]);
    }
    let grpc = get_with(gate.address(), "/", "content-type: application/grpc\r\n");
    assert_eq!((grpc.status, grpc.header("grpc-status")), (200, Some("12")));
    let refused = gate.proxy().refused().refused;
    let words = "no rule of the routes for this host matches";
    assert!(
        refused.iter().flat_map(|one| &one.steps).any(|step| step.to_string().contains(words)),
        "{refused:?}"
    );
}

/// Not even one of our own.
#[test]
fn what_answers_head_has_no_body() {
    let gate = Gate::new().serving();
    let mut connection = Connection::to(gate.address());
    connection.send("HEAD / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n");
    let text = String::from_utf8(connection.rest()).unwrap();
    assert!(text.starts_with("HTTP/1.1 404 ") && text.ends_with("\r\n\r\n"), "{text}");
    run(async {
        let mut client = http2(gate.address()).await;
        for _ in 0..2 {
            let answer = client.send_request(request("HEAD", "http://a.test/", "")).await.unwrap();
            assert_eq!(whole(answer).await.status, 404);
        }
    });
}

#[test]
fn http_route_weight() {
    let (a, b) = (backend::echo("a"), backend::echo("b"));
    let mut gate = Gate::new();
    let (heavy, light) = (gate.backend("a", &[a.port]), gate.backend("b", &[b.port]));
    let group = Group(vec![member(7, &heavy), member(3, &light)]);
    gate.route("web", vec![rule_with("/", group, vec![])]);
    let gate = gate.serving();
    let mut connection = Connection::to(gate.address());
    for _ in 0..100 {
        assert_eq!(connection.get("/").status, 200);
    }
    assert!(a.requests().abs_diff(70) <= 3, "{}", a.requests());
    assert_eq!(a.requests() + b.requests(), 100);
    // Kept connections carry them: no more than one at a time, on the one worker that has this client.
    assert_eq!((a.connections(), b.connections()), (1, 1));
}

#[test]
fn http_route_backend_protocol_h2c() {
    let served = answering(Speaks::Http2, |request, _| http::Response::new(told("h2c", &request).into()));
    let mut gate = Gate::new();
    let id = gate.backend_with("web", &[served.port], |backend| {
        backend.protocol = tidegate_plan::Protocol::Http2;
    });
    gate.route("web", vec![rule("/", &id)]);
    let gate = gate.serving();
    for _ in 0..3 {
        let answer = get(gate.address(), "/x");
        assert!(answer.body.starts_with("h2c GET http://a.test/x HTTP/2\n"), "{}", answer.body);
    }
    assert!(served.connections() <= 2, "one for each worker");
}

/// By prior knowledge, many requests at a time on one connection.
#[test]
fn http2_without_tls() {
    let served = backend::echo("a");
    let mut gate = Gate::new();
    let id = gate.backend("a", &[served.port]);
    gate.route("web", vec![rule("/", &id)]);
    let gate = gate.serving();
    run(async {
        let sender = http2(gate.address()).await;
        let asked = (0..20).map(|number| {
            let mut sender = sender.clone();
            async move {
                let asked = request("POST", &format!("http://a.test/{number}"), &format!("body {number}"));
                whole(sender.send_request(asked).await.unwrap()).await
            }
        });
        for (number, answer) in futures(asked).await.into_iter().enumerate() {
            assert!(answer.body.starts_with(&format!("a POST /{number} HTTP/1.1\n")), "{}", answer.body);
            assert!(answer.body.ends_with(&format!("\nbody {number}")), "{}", answer.body);
        }
    });
    gate.line(&["version=\"HTTP/2\"", "path=\"/19\"", "bytes_up=7"]);
}

async fn futures<T>(all: impl Iterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let mut pinned: Vec<_> = all.map(Box::pin).collect();
    let mut answers: Vec<Option<T>> = pinned.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        for (future, answer) in pinned.iter_mut().zip(&mut answers) {
            if answer.is_none()
                && let std::task::Poll::Ready(value) = future.as_mut().poll(context)
            {
                *answer = Some(value);
            }
        }
        if answers.iter().all(Option::is_some) {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
    answers.into_iter().flatten().collect()
}

#[test]
fn gateway_http_listener_isolation() {
    let (a, b) = (backend::echo("a"), backend::echo("b"));
    let mut gate = Gate::new();
    let wide = gate.listener("http", Handling::Http, None);
    let narrow = gate.listener("narrow", Handling::Http, Some("*.example.com"));
    gate.plan.insert(tidegate_plan::Body::Listener(wide));
    gate.plan.insert(tidegate_plan::Body::Listener(narrow));
    let (a, b) = (gate.backend("a", &[a.port]), gate.backend("b", &[b.port]));
    gate.route_for("wide", &[], &["http"], Rules::Http(vec![rule("/wide", &a)]));
    gate.route_for("narrow", &[], &["narrow"], Rules::Http(vec![rule("/narrow", &b)]));
    let gate = gate.serving();
    for (host, path, status) in [
        ("www.example.com", "/narrow", 200),
        ("www.example.com", "/wide", 404),
        ("other.test", "/wide", 200),
        ("other.test:8080", "/narrow", 404),
    ] {
        let answer =
            Connection::to(gate.address()).ask(&format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert_eq!(answer.status, status, "{host}{path}");
    }
}

#[test]
fn grpc_and_http_routes_share_a_listener() {
    let (a, b) = (
        backend::echo("a"),
        answering(Speaks::Http2, |request, _| http::Response::new(told("grpc", &request).into())),
    );
    let mut gate = Gate::new();
    let (a, b) = (gate.backend("a", &[a.port]), gate.backend("b", &[b.port]));
    gate.route_for("web", &["web.test"], &["http"], Rules::Http(vec![rule("/", &a)]));
    gate.route_for("orders", &["grpc.test"], &["http"], Rules::Grpc(vec![grpc_rule(&b)]));
    let gate = gate.serving();
    run(async {
        let mut sender = http2(gate.address()).await;
        let mut asked = request("POST", "http://grpc.test/orders.Orders/Get", "");
        asked.headers_mut().insert("content-type", "application/grpc".parse().unwrap());
        let answer = whole(sender.send_request(asked).await.unwrap()).await;
        assert!(
            answer.body.starts_with("grpc POST http://grpc.test/orders.Orders/Get HTTP/2\n"),
            "{}",
            answer.body
        );
        let answer = whole(sender.send_request(request("GET", "http://web.test/", "")).await.unwrap()).await;
        assert!(answer.body.starts_with("a GET / HTTP/1.1\n"), "{}", answer.body);
    });
}
