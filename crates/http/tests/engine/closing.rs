//! A connection over HTTP/1.1 that ends because a request's body was not read says so in the answer: who is not told
//! sends the next request into it.

use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body_util::Full;
use tidegate_proxy::Bounds;

use crate::backend::{self, Speaks};
use crate::client::Connection;
use crate::gate::{Gate, rule};

/// Asks with less of a body than it says, and gives the status of an answer that is the last one and says so.
fn cut_short(gate: &Gate, path: &str, more: &str) -> u16 {
    let mut connection = Connection::to(gate.address());
    let first = format!("POST {path} HTTP/1.1\r\nHost: a.test\r\n{more}");
    let answer = connection.ask(&format!("{first}Content-Length: 100000\r\n\r\n"));
    assert_eq!(answer.header("connection"), Some("close"), "{path}: {answer:?}");
    assert!(connection.rest().is_empty(), "{path}");
    answer.status
}

#[test]
fn answers_of_our_own() {
    let stuck = backend::serving(Speaks::Http1, |_, _| std::future::pending::<Response<Full<Bytes>>>());
    let bounds = Bounds { body_time: Duration::from_millis(100), ..Bounds::default() };
    let mut gate = Gate::with(bounds, 1);
    let id = gate.backend("a", &[stuck.port]);
    let mut hasty = rule("/hasty", &id);
    hasty.timeouts.request = Some(Duration::from_millis(50));
    gate.route("web", vec![rule("/slow", &id), hasty]);
    let gate = gate.serving();
    for (path, more, status) in [
        ("/nowhere", "", 404),
        ("/nowhere", "Expect: 100-continue\r\n", 404),
        ("/%00", "", 400),
        ("/slow", "", 408),
        ("/hasty", "", 504),
    ] {
        assert_eq!(cut_short(&gate, path, more), status, "{path} {more:?}");
    }
}

#[test]
fn a_backend_that_answers_before_it_has_read() {
    let early = backend::raw("HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\n\r\nno");
    let mut gate = Gate::with(Bounds::default(), 1);
    let id = gate.backend("a", &[early.port]);
    gate.route("web", vec![rule("/", &id)]);
    let gate = gate.serving();
    assert_eq!(cut_short(&gate, "/", ""), 413);
}

/// What is there is thrown away, and the connection is as good as before.
#[test]
fn a_body_that_has_come_is_no_reason() {
    let served = backend::echo("a");
    let mut gate = Gate::with(Bounds::default(), 1);
    let id = gate.backend("a", &[served.port]);
    gate.route("web", vec![rule("/open", &id)]);
    let gate = gate.serving();
    let mut connection = Connection::to(gate.address());
    for (path, status) in [("/nowhere", 404), ("/open", 200), ("/nowhere", 404), ("/open", 200)] {
        for body in
            ["Content-Length: 5\r\n\r\nhello", "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"]
        {
            let answer = connection.ask(&format!("POST {path} HTTP/1.1\r\nHost: a.test\r\n{body}"));
            assert_eq!((answer.status, answer.header("connection")), (status, None), "{path} {body:?}");
        }
    }
}
