//! Large bodies between a plain client and a plain backend over HTTP/1.1, which nobody needs to look at: they are what they
//! were, counted and timed like others, and end where they say.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use tidegate_plan::{Filter, Fraction, Group, Target, Timeouts};
use tidegate_proxy::Bounds;

use crate::client::{Connection, get, run};
use crate::gate::{Gate, PATIENCE, member, rule, rule_with, wait_for};
use crate::raw::{self, Line};

const LARGE: usize = 3 << 20;

/// So many bytes, of which each place has its own.
fn text(size: usize) -> String {
    let mut text = String::with_capacity(size + 8);
    while text.len() < size {
        text.push_str(&format!("{:07} ", text.len() / 8));
    }
    text.truncate(size);
    text
}

fn value<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

/// A request's body, told whether it is what it should be.
fn receive(line: &mut Line, head: &str) -> String {
    let length = value(head, "content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    match line.read_exact(&mut body) {
        Ok(()) if body == text(length).as_bytes() => format!("{length} as they should be"),
        Ok(()) => "others than they should be".to_owned(),
        Err(error) => error.to_string(),
    }
}

/// Sends as much as the path says, or says what came.
fn store() -> u16 {
    raw::backend(|line| {
        while let Some(head) = raw::head(line) {
            let body = match head.split(['/', ' ']).nth(2).and_then(|size| size.parse().ok()) {
                Some(size) => text(size),
                None => receive(line, &head),
            };
            raw::say(line, &format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()));
        }
    })
}

fn gate(port: u16) -> Gate {
    gate_with(port, Bounds::default(), Timeouts::default())
}

fn gate_with(port: u16, bounds: Bounds, timeouts: Timeouts) -> Gate {
    let mut gate = Gate::with(bounds, 1);
    let id = gate.backend("a", &[port]);
    let mut rule = rule("/", &id);
    rule.timeouts = timeouts;
    gate.route("web", vec![rule]);
    gate.serving()
}

fn post(size: usize) -> String {
    format!("POST /up HTTP/1.1\r\nHost: a.test\r\nContent-Length: {size}\r\n\r\n{}", text(size))
}

const SIZES: [usize; 8] = [0, 8 << 10, (64 << 10) - 1, 64 << 10, 200_000, 1 << 20, (1 << 20) + 1, LARGE];

/// On one connection each way, one after the other.
#[test]
fn bodies_of_any_size() {
    let gate = gate(store());
    let mut connection = Connection::to(gate.address());
    for size in SIZES {
        assert!(connection.get(&format!("/{size}")).body == text(size), "{size} down");
        gate.line(&[&format!("path=\"/{size}\""), &format!("bytes_down={size} "), "ending=\"done\""]);
        assert_eq!(connection.ask(&post(size)).body, format!("{size} as they should be"));
        gate.line(&[&format!("bytes_up={size} "), "ending=\"done\""]);
    }
}

/// What stands right behind a body is the next request, and is read as such.
#[test]
fn a_request_behind_a_large_one() {
    let gate = gate(store());
    let mut connection = Connection::to(gate.address());
    for size in SIZES {
        let both = format!("{}GET /{size} HTTP/1.1\r\nHost: a.test\r\n\r\n{}", post(size), post(5));
        let sending = std::thread::spawn({
            let mut stream = connection.stream();
            move || stream.write_all(both.as_bytes())
        });
        assert_eq!(connection.answer().unwrap().body, format!("{size} as they should be"));
        assert!(connection.answer().unwrap().body == text(size), "{size}");
        assert_eq!(connection.answer().unwrap().body, "5 as they should be");
        sending.join().unwrap().unwrap();
    }
}

/// What comes behind an answer is nobody's, least of all the next request's.
#[test]
fn answers_that_are_longer_than_they_say() {
    let port = raw::backend(|line| {
        while raw::head(line).is_some() {
            let evil = "HTTP/1.1 200 OK\r\nX-Evil: 1\r\n\r\n";
            raw::say(
                line,
                &format!("HTTP/1.1 200 OK\r\nContent-Length: {LARGE}\r\n\r\n{}{evil}", text(LARGE)),
            );
        }
    });
    let gate = gate(port);
    let mut connection = Connection::to(gate.address());
    for _ in 0..5 {
        let answer = connection.get("/");
        assert!(answer.body == text(LARGE) && answer.header("x-evil").is_none());
    }
}

#[test]
fn a_backend_that_stops_in_the_middle() {
    let port = raw::backend(|line| {
        raw::head(line);
        raw::say(line, &format!("HTTP/1.1 200 OK\r\nContent-Length: {LARGE}\r\n\r\n{}", text(LARGE - 1)));
    });
    let gate = gate(port);
    let mut connection = Connection::to(gate.address());
    connection.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
    assert!(connection.rest().len() < LARGE + 1000);
    gate.line(&[&format!("bytes_down={} ", LARGE - 1), "ending=\"backend_reset\""]);
}

/// A length that nobody says is known at the end.
#[test]
fn an_answer_until_the_end() {
    let port = raw::backend(|line| {
        raw::head(line);
        raw::say(line, &format!("HTTP/1.0 200 OK\r\n\r\n{}", text(LARGE)));
    });
    let gate = gate(port);
    let mut old = Connection::to(gate.address());
    old.send("GET / HTTP/1.0\r\nHost: a.test\r\n\r\n");
    let got = String::from_utf8(old.rest()).unwrap();
    assert!(got.split_once("\r\n\r\n").unwrap().1 == text(LARGE));
    gate.line(&["version=\"HTTP/1.0\"", &format!("bytes_down={LARGE} "), "ending=\"done\""]);
    assert!(get(gate.address(), "/").body == text(LARGE), "in chunks");
}

/// A backend that sends one answer, as long as its requests say, and counts connections that have ended.
fn until_it_is_let_go() -> (u16, Arc<AtomicUsize>) {
    let ended = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&ended);
    let port = raw::backend(move |line| {
        raw::head(line);
        raw::say(line, "HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n");
        let piece = text(1 << 20);
        while line.get_mut().write_all(piece.as_bytes()).is_ok() {}
        counted.fetch_add(1, SeqCst);
    });
    (port, ended)
}

#[test]
fn a_client_that_leaves_in_the_middle_of_an_answer() {
    let (port, ended) = until_it_is_let_go();
    let gate = gate(port);
    for taken in [1, LARGE] {
        let mut connection = Connection::to(gate.address());
        connection.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
        connection.bytes(taken);
        drop(connection);
    }
    wait_for("the backend to be let go", || (ended.load(SeqCst) == 2).then_some(()));
    gate.line(&["status=200", "ending=\"client_reset\""]);
    wait_for("no connection", || (gate.proxy().connections() == 0).then_some(()));
}

#[test]
fn a_client_that_leaves_in_the_middle_of_its_body() {
    let (said, heard) = std::sync::mpsc::channel();
    let port = raw::backend(move |line| {
        let head = raw::head(line).unwrap();
        said.send(receive(line, &head)).unwrap();
    });
    let gate = gate(port);
    let mut connection = Connection::to(gate.address());
    connection.send(&post(LARGE)[..LARGE]);
    connection.end();
    let told = heard.recv_timeout(PATIENCE).unwrap();
    assert!(!told.contains("should"), "{told}");
    gate.line(&["method=\"POST\"", "ending=\"client_reset\""]);
}

/// The times of a rule hold for a body that stops on its way as for any other.
#[test]
fn an_answer_that_takes_too_long() {
    let port = raw::backend(|line| {
        raw::head(line);
        raw::say(line, &format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{}", 2 * LARGE, text(LARGE)));
        raw::to_the_end(line);
    });
    let time = Some(Duration::from_millis(500));
    for timeouts in [
        Timeouts { request: time, ..Timeouts::default() },
        Timeouts { backend_request: time, ..Timeouts::default() },
    ] {
        let gate = gate_with(port, Bounds::default(), timeouts);
        let mut connection = Connection::to(gate.address());
        connection.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
        assert!(connection.rest().ends_with(text(LARGE).as_bytes()));
        gate.line(&[&format!("bytes_down={LARGE} "), "ending=\"request_timeout\""]);
    }
}

/// Also where there is always more to be sent, and where the client takes nothing.
#[test]
fn an_endless_answer_takes_too_long() {
    let (port, ended) = until_it_is_let_go();
    let timeouts = Timeouts { request: Some(Duration::from_millis(500)), ..Timeouts::default() };
    let gate = gate_with(port, Bounds::default(), timeouts);
    for reads in [true, false] {
        let mut connection = Connection::to(gate.address());
        connection.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
        if reads {
            std::io::copy(&mut connection.stream(), &mut std::io::sink()).ok();
        } else {
            wait_for("the backend to be let go", || (ended.load(SeqCst) == 2).then_some(()));
        }
        gate.line(&["status=200", "ending=\"request_timeout\""]);
    }
}

#[test]
fn a_client_that_takes_nothing_for_too_long() {
    let (port, ended) = until_it_is_let_go();
    // A connection is looked at as often as the shortest of its times asks for.
    let time = Duration::from_millis(500);
    let bounds = Bounds { idle_time: time, header_time: time, ..Bounds::default() };
    let gate = gate_with(port, bounds, Timeouts::default());
    let mut connection = Connection::to(gate.address());
    connection.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
    wait_for("the bound to be counted", || {
        (gate.metric("tidegate_limit_reached_total{limit=\"idle_time\"}") == 1.0).then_some(())
    });
    wait_for("the backend to be let go", || (ended.load(SeqCst) == 1).then_some(()));
    wait_for("no connection", || (gate.proxy().connections() == 0).then_some(()));
    drop(connection);
}

#[test]
fn a_client_that_sends_nothing_for_too_long() {
    let bounds = Bounds { body_time: Duration::from_millis(300), ..Bounds::default() };
    let gate = gate_with(store(), bounds, Timeouts::default());
    let mut connection = Connection::to(gate.address());
    let post = post(2 * LARGE);
    assert_eq!(connection.ask(&post[..LARGE]).status, 408);
    let head = post.len() - 2 * LARGE;
    gate.line(&[&format!("bytes_up={} ", LARGE - head), "ending=\"body_timeout\""]);
}

/// Also one who has sent much before and was not asked for it.
#[test]
fn a_client_that_waits_to_be_told_that_its_body_is_wanted() {
    let gate = gate(store());
    let mut connection = Connection::to(gate.address());
    for _ in 0..3 {
        assert_eq!(connection.ask(&post(LARGE)).body, format!("{LARGE} as they should be"));
        let post = post(LARGE).replacen("Host", "Expect: 100-continue\r\nHost", 1);
        let (head, body) = post.split_once("\r\n\r\n").unwrap();
        connection.send(&format!("{head}\r\n\r\n"));
        assert_eq!(connection.bare_answer().unwrap().status, 100);
        assert_eq!(connection.ask(body).body, format!("{LARGE} as they should be"));
    }
}

/// What goes up does not wait for what comes down, nor the other way round.
#[test]
fn both_ways_at_once() {
    let port = raw::backend(|line| {
        let head = raw::head(line).unwrap();
        let length = value(&head, "content-length").unwrap();
        raw::say(line, &format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n"));
        let mut back = line.get_ref().try_clone().unwrap();
        let length: u64 = length.parse().unwrap();
        std::io::copy(&mut line.take(length), &mut back).unwrap();
    });
    let gate = gate(port);
    let mut connection = Connection::to(gate.address());
    let sending = std::thread::spawn({
        let mut stream = connection.stream();
        move || stream.write_all(post(10 * LARGE).as_bytes())
    });
    assert!(connection.answer().unwrap().body == text(10 * LARGE));
    sending.join().unwrap().unwrap();
    gate.line(&[&format!("bytes_up={0} bytes_down={0} ", 10 * LARGE), "ending=\"done\""]);
}

/// A backend may answer before it has read all, and close on the rest.
#[test]
fn an_answer_in_the_middle_of_an_upload() {
    let port = raw::backend(|line| {
        raw::head(line);
        raw::take(line, LARGE);
        raw::say(line, "HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nno!");
        let _ = line.get_mut().shutdown(Shutdown::Write);
        raw::to_the_end(line);
    });
    let gate = gate(port);
    let mut connection = Connection::to(gate.address());
    let answer = connection.ask(&post(100 * LARGE)[..2 * LARGE]);
    assert_eq!((answer.status, answer.body.as_str()), (413, "no!"));
    gate.line(&["status=413"]);
}

/// Who takes little at a time gets the same.
#[test]
fn a_slow_reader() {
    let gate = gate(store());
    let mut connection = Connection::to(gate.address());
    connection.send(&format!("GET /{} HTTP/1.1\r\nHost: a.test\r\n\r\n", 10 * LARGE));
    assert_eq!(connection.bare_answer().unwrap().status, 200);
    let (all, mut at) = (text(10 * LARGE), 0);
    while at < all.len() {
        let count = 100_000.min(all.len() - at);
        assert!(connection.bytes(count) == all.as_bytes()[at..at + count], "{at}");
        at += count;
        std::thread::yield_now();
    }
    assert_eq!(connection.get("/5").body, text(5));
}

/// What is under way is finished, and is the last.
#[test]
fn a_drain_in_the_middle_of_an_answer() {
    let gate = gate(store());
    let mut connection = Connection::to(gate.address());
    connection.send(&format!("GET /{} HTTP/1.1\r\nHost: a.test\r\n\r\n", 10 * LARGE));
    assert_eq!(connection.bare_answer().unwrap().status, 200);
    let reading = std::thread::spawn(move || connection.rest());
    run(gate.proxy().drain(Duration::from_secs(10)));
    assert!(reading.join().unwrap() == text(10 * LARGE).as_bytes());
}

/// Whoever wants a copy has it whole, and so does the backend.
#[test]
fn a_large_body_with_a_mirror() {
    let (said, heard) = std::sync::mpsc::channel();
    let copies = raw::backend(move |line| {
        let head = raw::head(line).unwrap();
        said.send(receive(line, &head)).unwrap();
    });
    let mut gate = Gate::with(Bounds::default(), 1);
    let (id, mirror) = (gate.backend("a", &[store()]), gate.backend("m", &[copies]));
    let mirror = Filter::Mirror { target: Target::Backend(mirror), share: Fraction::ALL };
    gate.route("web", vec![rule_with("/", Group(vec![member(1, &id)]), vec![mirror])]);
    let gate = gate.serving();
    let size = 500_000;
    let answer = Connection::to(gate.address()).ask(&post(size));
    assert_eq!(answer.body, format!("{size} as they should be"));
    assert_eq!(heard.recv_timeout(PATIENCE).unwrap(), format!("{size} as they should be"));
}
