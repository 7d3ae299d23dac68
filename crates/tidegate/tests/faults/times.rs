//! Bounds of time, each with the ending that says which it was.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use crate::loopback::Tidegate;
use crate::loopback::manifests::{
    gateway, passthrough, secret, service, tcp, tcp_route, terminate, tls_route,
};
use crate::loopback::tls::client_hello;
use crate::loopback::traffic::{echo, round_trip, serve, wait_end};
use crate::resets::black_hole;
use crate::support::certificate::Authority;

const PORT: u16 = 20_001;

fn start(flags: &[&str]) -> Tidegate {
    let silent = serve(|mut stream| {
        // It takes all, and keeps its own direction open until it is cut off.
        while matches!(stream.read(&mut [0; 1024]), Ok(1..)) {}
        std::thread::sleep(Duration::from_secs(60));
    });
    let authority = Authority::new("CA");
    let text = gateway(&[
        tcp("echo", PORT),
        tcp("silent", PORT + 1),
        passthrough("pass", PORT + 2, "a.example.com"),
        terminate("term", PORT + 2, "b.example.com", &["web"]),
    ]) + &tcp_route("echo", "echo", &[("echo", 1)])
        + &tcp_route("silent", "silent", &[("silent", 1)])
        + &tls_route("pass", "pass", "a.example.com", &[("echo", 1)])
        + &tls_route("term", "term", "b.example.com", &[("echo", 1)])
        + &service("echo", &[echo()])
        + &service("silent", &[silent])
        + &secret("web", &authority.issue(&["b.example.com"]));
    Tidegate::start(&[("all.yaml", &text)], flags)
}

/// It must have been ended by this bound, and not before its time.
fn assert_ended(tidegate: &Tidegate, stream: &mut TcpStream, began: Instant, ending: &str, limit: &str) {
    wait_end(stream);
    assert!(began.elapsed() > Duration::from_millis(800), "{ending} after {:?}", began.elapsed());
    assert_eq!(tidegate.ending_of(stream.local_addr().unwrap()), ending);
    assert_eq!(tidegate.limit_reached(limit), 1, "{limit}");
    tidegate.wait_active(0);
}

#[test]
fn half_closed_for_ever() {
    let tidegate = start(&["--half-open-time=1s"]);
    let mut stream = tidegate.connect(PORT + 1);
    stream.write_all(b"my last words").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert_ended(&tidegate, &mut stream, Instant::now(), "half_open_timeout", "half_open_time");
}

#[test]
fn idle_for_ever() {
    let tidegate = start(&["--idle-time=1s"]);
    let mut stream = tidegate.connect(PORT);
    round_trip(&mut stream, b"once").unwrap();
    assert_ended(&tidegate, &mut stream, Instant::now(), "idle_timeout", "idle_time");
}

#[test]
fn busy_is_not_idle_and_yet_lives_no_longer_than_it_may() {
    let tidegate = start(&["--idle-time=1s", "--lifetime=3s"]);
    let mut stream = tidegate.connect(PORT);
    let began = Instant::now();
    while round_trip(&mut stream, b"busy").is_ok() {
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(began.elapsed() > Duration::from_millis(2500), "it ended after {:?}", began.elapsed());
    assert_eq!(tidegate.ending_of(stream.local_addr().unwrap()), "lifetime_over");
    assert_eq!(tidegate.limit_reached("lifetime"), 1);
}

/// The endpoint is to blame for it, and so is the route that leads nowhere else.
#[test]
fn an_endpoint_that_does_not_answer() {
    let (hole, _full) = black_hole();
    let text = gateway(&[tcp("tcp", PORT)])
        + &tcp_route("route", "tcp", &[("backend", 1)])
        + &service("backend", &[hole]);
    let tidegate = Tidegate::start(&[("all.yaml", &text)], &["--connect-time=1s"]);
    let mut stream = tidegate.connect(PORT);
    assert_ended(&tidegate, &mut stream, Instant::now(), "connect_timeout", "connect_time");
    for (metric, count) in [
        ("tidegate_connect_failures_total{reason=\"timed_out\"}", 1.0),
        ("tidegate_route_failures_total{route=\"TCPRoute default/route\"}", 1.0),
        ("tidegate_route_connections_total{route=\"TCPRoute default/route\"}", 0.0),
        ("tidegate_backend_connect_failures_total{backend=\"Service default/backend:80\"}", 1.0),
    ] {
        assert_eq!(tidegate.metric(metric), count, "{metric}");
    }
}

#[test]
fn a_hello_that_does_not_come() {
    let tidegate = start(&["--hello-time=1s"]);
    let mut stream = tidegate.connect(PORT + 2);
    let began = Instant::now();
    stream.write_all(&client_hello("a.example.com")[..20]).unwrap();
    assert_ended(&tidegate, &mut stream, began, "hello_timeout", "hello_time");
}

#[test]
fn a_handshake_that_does_not_go_on() {
    let tidegate = start(&["--handshake-time=1s"]);
    let mut stream = tidegate.connect(PORT + 2);
    let began = Instant::now();
    stream.write_all(&client_hello("b.example.com")).unwrap();
    assert_ended(&tidegate, &mut stream, began, "handshake_timeout", "handshake_time");
}
