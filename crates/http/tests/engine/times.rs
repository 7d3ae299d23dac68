//! The times of rules, a request's and a backend's, and the times that are measured.

use std::io::Read;
use std::time::Duration;

use tidegate_plan::Timeouts;
use tidegate_proxy::Bounds;

use crate::client::{Connection, get};
use crate::gate::{Gate, rule, wait_for};
use crate::raw;

fn gate(port: u16, timeouts: Timeouts) -> Gate {
    let mut gate = Gate::with(Bounds::default(), 1);
    let id = gate.backend("a", &[port]);
    let mut rule = rule("/", &id);
    rule.timeouts = timeouts;
    gate.route("web", vec![rule]);
    gate.serving()
}

/// A rule that gives little time to a backend that never stops.
fn endless() -> Gate {
    let port = raw::backend(|line| {
        raw::head(line);
        raw::say(line, "HTTP/1.1 200 OK\r\n\r\n");
        let many = "x".repeat(100_000);
        while std::io::Write::write_all(line.get_mut(), many.as_bytes()).is_ok() {}
    });
    gate(port, Timeouts { request: Some(Duration::from_millis(500)), ..Timeouts::default() })
}

/// Also where there is always more to be sent.
#[test]
fn http_route_request_timeout_of_an_endless_answer() {
    let gate = endless();
    let stream = std::net::TcpStream::connect(gate.address()).unwrap();
    std::io::Write::write_all(&mut &stream, b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n").unwrap();
    let mut buffer = vec![0; 1 << 20];
    let start = std::time::Instant::now();
    while matches!((&stream).read(&mut buffer), Ok(1..)) {
        assert!(start.elapsed() < crate::gate::PATIENCE, "it does not end");
    }
    gate.line(&["status=200", "ending=\"request_timeout\""]);
}

/// Also where the client takes nothing.
#[test]
fn http_route_request_timeout_of_an_answer_that_nobody_reads() {
    let gate = endless();
    let mut connection = Connection::to(gate.address());
    connection.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
    gate.line(&["status=200", "ending=\"request_timeout\""]);
}

/// It begins with the first byte of the request and not again with the answer.
#[test]
fn http_route_backend_timeout_covers_the_whole_answer() {
    let port = raw::backend(|line| {
        raw::head(line);
        std::thread::sleep(Duration::from_millis(1000));
        raw::say(line, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello");
        std::thread::sleep(Duration::from_millis(1200));
        raw::say(line, "there");
    });
    let time = Some(Duration::from_millis(1500));
    let gate = gate(port, Timeouts { backend_request: time, ..Timeouts::default() });
    let mut connection = Connection::to(gate.address());
    connection.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
    let got = String::from_utf8(connection.rest()).unwrap();
    assert!(got.ends_with("\r\n\r\nhello"), "{got}");
    gate.line(&["status=200", "ending=\"request_timeout\""]);
}

/// Readers of histograms want a bucket for all, which has as much as the count says.
#[test]
fn histograms_have_a_bucket_for_all() {
    let gate = gate(raw::always("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"), Timeouts::default());
    assert_eq!(get(gate.address(), "/").status, 200);
    let series = |page: &str, suffix: &str, label: &str| -> Vec<(String, String)> {
        let lines = page.lines().filter(|line| !line.starts_with('#') && line.contains(label));
        let named = lines.filter_map(|line| {
            let name = line.split(['{', ' ']).next()?.strip_suffix(suffix)?;
            Some((name.to_owned(), line.rsplit_once(' ')?.1.to_owned()))
        });
        named.collect()
    };
    let page = wait_for("the request to be counted", || {
        let page = gate.proxy().metrics();
        series(&page, "_count", "").iter().any(|(_, count)| count == "1").then_some(page)
    });
    assert_eq!(series(&page, "_count", ""), series(&page, "_bucket", "le=\"+Inf\""));
}
