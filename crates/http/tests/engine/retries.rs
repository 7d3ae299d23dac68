//! Once more, at another endpoint or after a while.

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body_util::Full;
use tidegate_plan::{Cookie, Group, Retry, RetryBudget, SessionKey, SessionPersistence};

use crate::backend::{self, Served, Speaks, answering};
use crate::client::{Connection, get, get_with};
use crate::gate::{Gate, member, rule, rule_with};

/// Fails so many times, then says what it was sent.
fn failing(times: usize, status: StatusCode) -> Served {
    answering(Speaks::Http1, move |request, nth| {
        let mut response = Response::new(Full::new(request.into_body()));
        if nth < times {
            *response.status_mut() = status;
            *response.body_mut() = Full::new(Bytes::from_static(b"failed"));
        }
        response
    })
}

fn retry(codes: &[u16], attempts: u32) -> Retry {
    Retry {
        codes: codes.to_vec(),
        attempts: Some(attempts),
        backoff: Some(std::time::Duration::from_millis(1)),
    }
}

#[test]
fn http_route_retry_codes() {
    for (failures, attempts, status, tries) in
        [(1, 2, 200, 2), (2, 2, 200, 3), (3, 2, 503, 3), (1, 0, 503, 1)]
    {
        let served = failing(failures, StatusCode::SERVICE_UNAVAILABLE);
        let mut gate = Gate::new();
        let id = gate.backend("a", &[served.port]);
        let mut retried = rule("/", &id);
        retried.retry = Some(retry(&[503], attempts));
        gate.route("web", vec![retried]);
        let gate = gate.serving();
        let answer = Connection::to(gate.address())
            .ask("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 4\r\n\r\nbody");
        assert_eq!((answer.status, served.requests()), (status, tries), "{failures} {attempts}");
        assert_eq!(answer.body, if status == 200 { "body" } else { "failed" });
        if tries > 1 {
            gate.line(&[&format!("retries={}", tries - 1)]);
        }
    }
}

/// Without a word of the rule, too.
#[test]
fn http_route_retry_connection_error() {
    let served = backend::echo("a");
    let mut gate = Gate::new();
    let id = gate.backend("a", &[served.port, backend::nobody()]);
    gate.route("web", vec![rule("/", &id)]);
    let gate = gate.serving();
    for _ in 0..20 {
        assert_eq!(get(gate.address(), "/").status, 200);
    }
    assert_eq!(served.requests(), 20);
}

#[test]
fn a_body_longer_than_is_kept_is_not_sent_twice() {
    let served = failing(1, StatusCode::SERVICE_UNAVAILABLE);
    let bounds = tidegate_proxy::Bounds { retry_size: 10, ..tidegate_proxy::Bounds::default() };
    let mut gate = Gate::with(bounds, 1);
    let id = gate.backend("a", &[served.port]);
    let mut retried = rule("/", &id);
    retried.retry = Some(retry(&[503], 3));
    gate.route("web", vec![retried]);
    let gate = gate.serving();
    let answer = Connection::to(gate.address())
        .ask("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 11\r\n\r\nhello there");
    assert_eq!((answer.status, answer.body.as_str(), served.requests()), (503, "failed", 1));
}

#[test]
fn a_budget_bounds_retries() {
    let served = failing(1_000, StatusCode::SERVICE_UNAVAILABLE);
    let mut gate = Gate::new();
    let hour = std::time::Duration::from_secs(3600);
    let id = gate.backend_with("a", &[served.port], |backend| {
        backend.retry_budget =
            Some(RetryBudget { percent: 20, interval: hour, minimum: 2, minimum_interval: hour });
    });
    let mut retried = rule("/", &id);
    retried.retry = Some(retry(&[503], 1));
    gate.route("web", vec![retried]);
    let gate = gate.serving();
    for _ in 0..40 {
        assert_eq!(get(gate.address(), "/").status, 503);
    }
    // A fifth of all, which 10 are of 50.
    assert!((46..=52).contains(&served.requests()), "{}", served.requests());
    assert!(gate.metric("tidegate_limit_reached_total{limit=\"retries\"}") > 20.0);
}

/// A backend that closes connections after an answer without saying so.
#[test]
fn a_kept_connection_that_has_ended_is_no_failure() {
    use std::io::{BufRead, BufReader, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut lines = BufReader::new(&stream).lines();
            while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
            let _ = (&stream).write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        }
    });
    let mut gate = Gate::new();
    let id = gate.backend("a", &[port]);
    gate.route("web", vec![rule("/", &id)]);
    let gate = gate.serving();
    let mut connection = Connection::to(gate.address());
    for _ in 0..50 {
        assert_eq!(connection.get("/").status, 200);
    }
}

#[test]
fn session_persistence_by_cookie_and_header() {
    let backends = [backend::echo("a"), backend::echo("b"), backend::echo("c")];
    for key in [SessionKey::Cookie(Cookie::default()), SessionKey::Header("x-session".to_owned())] {
        let mut gate = Gate::new();
        let ids: Vec<_> = backends
            .iter()
            .enumerate()
            .map(|(n, served)| gate.backend(&format!("b{n}"), &[served.port]))
            .collect();
        let group = Group(ids.iter().map(|id| member(1, id)).collect());
        let mut kept = rule_with("/", group, vec![]);
        let by_header = matches!(key, SessionKey::Header(_));
        kept.session = Some(SessionPersistence { key, absolute_timeout: None });
        gate.route("web", vec![kept]);
        let gate = gate.serving();
        let first = get(gate.address(), "/");
        let token = if by_header {
            format!("x-session: {}\r\n", first.header("x-session").unwrap())
        } else {
            let cookie = first.header("set-cookie").unwrap();
            format!("cookie: {}\r\n", cookie.split(';').next().unwrap())
        };
        for _ in 0..20 {
            let answer = get_with(gate.address(), "/", &token);
            assert_eq!(answer.body.chars().next(), first.body.chars().next());
            assert_eq!(answer.header("set-cookie"), None);
        }
    }
}
