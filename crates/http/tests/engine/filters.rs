//! Filters on rules and backends, as they come out at the other end. What each does in detail is tested without
//! sockets.

use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body_util::Full;
use tidegate_plan::{
    Cors, Filter, Fraction, Group, Header, HeaderChange, PathChange, Redirect, Rewrite, Target, Timeouts,
};

use crate::backend::{self, Speaks};
use crate::client::{Connection, get, get_with, http2, request, run, whole};
use crate::gate::{Gate, PATIENCE, member, rule, rule_with, wait_for};

fn set(name: &str, value: &str) -> HeaderChange {
    let header = Header { name: name.to_owned(), value: value.to_owned() };
    HeaderChange { set: vec![header], ..HeaderChange::default() }
}

#[test]
fn http_route_request_and_response_header_modification() {
    let served = backend::echo("a");
    let mut gate = Gate::new();
    let id = gate.backend("a", &[served.port]);
    let mut backend = member(1, &id);
    backend.filters = vec![
        Filter::RequestHeaders(set("x-backend", "b")),
        Filter::ResponseHeaders(set("x-answer", "of the backend")),
        Filter::Rewrite(Rewrite { hostname: None, path: Some(PathChange::Prefix("/v2".to_owned())) }),
    ];
    let filters = vec![
        Filter::RequestHeaders(set("x-rule", "a")),
        Filter::ResponseHeaders(set("x-rule-answer", "of the rule")),
    ];
    gate.route("web", vec![rule_with("/v1", Group(vec![backend]), filters)]);
    let gate = gate.serving();
    let answer = get(gate.address(), "/v1/x?y");
    assert!(answer.body.starts_with("a GET /v2/x?y HTTP/1.1\n"), "{}", answer.body);
    assert!(answer.body.contains("x-rule: a\n") && answer.body.contains("x-backend: b\n"), "{}", answer.body);
    assert_eq!(answer.header("x-answer"), Some("of the backend"));
    assert_eq!(answer.header("x-rule-answer"), Some("of the rule"));
}

#[test]
fn http_route_redirect() {
    let mut gate = Gate::new();
    let redirect = Redirect {
        scheme: Some("https".to_owned()),
        hostname: None,
        port: None,
        path: Some(PathChange::Prefix("/new".to_owned())),
        status: 308,
    };
    gate.route("web", vec![rule_with("/old", Group(vec![]), vec![Filter::Redirect(redirect)])]);
    let gate = gate.serving();
    let answer = get(gate.address(), "/old/x?y=1");
    assert_eq!((answer.status, answer.header("location")), (308, Some("https://a.test/new/x?y=1")));
    gate.line(&["status=308", "ending=\"answered\""]);
}

#[test]
fn http_route_cors() {
    let served = backend::echo("a");
    let mut gate = Gate::new();
    let id = gate.backend("a", &[served.port]);
    let cors = Cors {
        allow_origins: vec!["https://*.example.com".to_owned()],
        allow_credentials: true,
        allow_methods: vec!["GET".to_owned()],
        allow_headers: vec![],
        expose_headers: vec![],
        max_age: 60,
    };
    gate.route("web", vec![rule_with("/", Group(vec![member(1, &id)]), vec![Filter::Cors(cors)])]);
    let gate = gate.serving();
    let preflight = "OPTIONS / HTTP/1.1\r\nHost: a.test\r\nOrigin: https://www.example.com\r\nAccess-Control-Request-Method: GET\r\n\r\n";
    let answer = Connection::to(gate.address()).ask(preflight);
    assert_eq!((answer.status, answer.header("access-control-max-age")), (204, Some("60")));
    assert_eq!(served.requests(), 0);
    let answer = get_with(gate.address(), "/", "Origin: https://www.example.com\r\n");
    assert_eq!(answer.header("access-control-allow-origin"), Some("https://www.example.com"));
    let answer = get_with(gate.address(), "/", "Origin: https://example.org\r\n");
    assert_eq!((answer.status, answer.header("access-control-allow-origin")), (200, None));
}

/// With its body, and without the request waiting for a mirror that never answers.
#[test]
fn http_route_request_multiple_mirrors() {
    let served = backend::echo("a");
    let copies = backend::echo("mirror");
    let stuck = backend::serving(Speaks::Http1, |_, _| std::future::pending::<Response<Full<Bytes>>>());
    let mut gate = Gate::new();
    let id = gate.backend("a", &[served.port]);
    let (copies_id, stuck_id) = (gate.backend("m", &[copies.port]), gate.backend("s", &[stuck.port]));
    let mirror = |id| Filter::Mirror { target: Target::Backend(id), share: Fraction::ALL };
    let half = Filter::Mirror {
        target: Target::Backend(copies_id.clone()),
        share: Fraction { numerator: 1, denominator: 2 },
    };
    let group = || Group(vec![member(1, &id)]);
    gate.route(
        "web",
        vec![
            rule_with("/", group(), vec![mirror(copies_id), mirror(stuck_id)]),
            rule_with("/half", group(), vec![half]),
        ],
    );
    let gate = gate.serving();
    let body = "x".repeat(100_000);
    let text = format!("POST /p HTTP/1.1\r\nHost: a.test\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let answer = Connection::to(gate.address()).ask(&text);
    assert!(answer.body.ends_with(&body));
    wait_for("the copies", || (copies.requests() == 1 && stuck.requests() == 1).then_some(()));
    let mut connection = Connection::to(gate.address());
    for _ in 0..40 {
        assert_eq!(connection.get("/half").status, 200);
    }
    wait_for("half of them", || (copies.requests() == 21).then_some(()));
}

/// A copy is as long as it is said to be, in the way in which the request said it.
#[test]
fn a_mirror_is_told_the_length() {
    let served = backend::echo("a");
    let copies = backend::raw("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    let mut gate = Gate::new();
    let (id, mirror) = (gate.backend("a", &[served.port]), gate.backend("m", &[copies.port]));
    let mirror = Filter::Mirror { target: Target::Backend(mirror), share: Fraction::ALL };
    gate.route("web", vec![rule_with("/", Group(vec![member(1, &id)]), vec![mirror])]);
    let gate = gate.serving();
    let (length, chunked) = ("content-length: 5\r\n", "transfer-encoding: chunked\r\n");
    for (nth, (head, body, wanted, unwanted)) in [
        (length, "hello", length, "transfer-encoding"),
        (chunked, "5\r\nhello\r\n0\r\n\r\n", chunked, "content-length"),
    ]
    .into_iter()
    .enumerate()
    {
        let text = format!("POST / HTTP/1.1\r\nHost: a.test\r\n{head}\r\n{body}");
        assert!(Connection::to(gate.address()).ask(&text).body.ends_with("\nhello"));
        let copy = wait_for("the copy", || copies.heads().get(nth).cloned());
        assert!(copy.contains(wanted) && !copy.contains(unwanted), "{copy}");
    }
    run(async {
        let mut client = http2(gate.address()).await;
        let answer = client.send_request(request("POST", "http://a.test/", "hello")).await.unwrap();
        assert!(whole(answer).await.body.ends_with("\nhello"));
    });
    let copy = wait_for("the copy", || copies.heads().get(2).cloned());
    assert!(copy.contains(length) && !copy.contains("transfer-encoding"), "{copy}");
}

#[test]
fn http_route_request_timeout() {
    ends_in_time("request_timeout", |timeouts, time| timeouts.request = Some(time));
}

#[test]
fn http_route_backend_timeout() {
    ends_in_time("backend_timeout", |timeouts, time| timeouts.backend_request = Some(time));
}

fn ends_in_time(reason: &str, set: fn(&mut Timeouts, Duration)) {
    let slow = backend::serving(Speaks::Http1, |_, _| std::future::pending::<Response<Full<Bytes>>>());
    let quick = backend::echo("quick");
    let mut gate = Gate::new();
    let (slow, quick) = (gate.backend("slow", &[slow.port]), gate.backend("quick", &[quick.port]));
    let [mut short, mut enough, mut off] =
        [rule("/short", &slow), rule("/enough", &quick), rule("/off", &quick)];
    set(&mut short.timeouts, Duration::from_millis(100));
    set(&mut enough.timeouts, PATIENCE);
    set(&mut off.timeouts, Duration::ZERO);
    gate.route("web", vec![short, enough, off]);
    let gate = gate.serving();
    for (path, status, reason) in [("/short", 504, Some(reason)), ("/enough", 200, None), ("/off", 200, None)]
    {
        let answer = get(gate.address(), path);
        assert_eq!((answer.status, answer.header("x-tidegate-reason")), (status, reason), "{path}");
    }
}

/// An answer that takes longer than the rule allows is cut off, and not taken for whole.
#[test]
fn a_timeout_holds_for_the_whole_answer() {
    let endless = backend::serving(Speaks::Http1, |_, _| async {
        let first = futures_once();
        Response::new(first)
    });
    let mut gate = Gate::new();
    let id = gate.backend("endless", &[endless.port]);
    let mut limited = rule("/", &id);
    limited.timeouts.request = Some(Duration::from_millis(200));
    gate.route("web", vec![limited]);
    let gate = gate.serving();
    let mut connection = Connection::to(gate.address());
    connection.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
    let text = String::from_utf8(connection.rest()).unwrap();
    assert!(
        text.starts_with("HTTP/1.1 200") && text.contains("begin") && !text.ends_with("0\r\n\r\n"),
        "{text}"
    );
    gate.line(&["ending=\"request_timeout\""]);
}

/// A body of which one piece comes and then nothing.
fn futures_once() -> impl hyper::body::Body<Data = Bytes, Error = std::convert::Infallible> {
    struct Once(bool);
    impl hyper::body::Body for Once {
        type Data = Bytes;
        type Error = std::convert::Infallible;
        fn poll_frame(
            mut self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Result<hyper::body::Frame<Bytes>, Self::Error>>> {
            if std::mem::replace(&mut self.0, false) {
                let frame = hyper::body::Frame::data(Bytes::from_static(b"begin"));
                return std::task::Poll::Ready(Some(Ok(frame)));
            }
            std::task::Poll::Pending
        }
    }
    Once(true)
}
