//! Backends that die, refuse, or are not to be asked.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::loopback::Tidegate;
use crate::loopback::manifests::{gateway, service, tcp, tcp_route};
use crate::loopback::traffic::{echo, nobody, round_trip, wait_end};
use crate::support::wait_for;

const PORT: u16 = 20_001;

fn manifests(endpoints: &[SocketAddr]) -> String {
    gateway(&[tcp("tcp", PORT)])
        + &tcp_route("route", "tcp", &[("backend", 1)])
        + &service("backend", endpoints)
}

/// Not a test but the process that another one kills: it says where it listens, and echoes.
#[test]
#[ignore = "it is run by a_killed_backend_ends_its_own_connections_only"]
fn backend_to_be_killed() {
    println!("\nlistening={}", echo());
    std::thread::park();
}

fn start_backend() -> (Child, SocketAddr) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "backends::backend_to_be_killed", "--nocapture"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let address = lines.map_while(Result::ok).find_map(|line| line.strip_prefix("listening=")?.parse().ok());
    (child, address.unwrap())
}

#[test]
fn a_killed_backend_ends_its_own_connections_only() {
    let (mut killed, killed_at) = start_backend();
    let other = echo();
    let text = gateway(&[tcp("killed", PORT), tcp("other", PORT + 1), tcp("both", PORT + 2)])
        + &tcp_route("killed", "killed", &[("killed", 1)])
        + &tcp_route("other", "other", &[("other", 1)])
        + &tcp_route("both", "both", &[("both", 1)])
        + &service("killed", &[killed_at])
        + &service("other", &[other])
        + &service("both", &[killed_at, other]);
    let tidegate = Tidegate::start(&[("all.yaml", &text)], &[]);
    let mut doomed: Vec<_> = (0..10).map(|_| tidegate.connect(PORT)).collect();
    let mut safe: Vec<_> = (0..10).map(|_| tidegate.connect(PORT + 1)).collect();
    for stream in doomed.iter_mut().chain(&mut safe) {
        round_trip(stream, b"before").unwrap();
    }

    killed.kill().unwrap();
    killed.wait().unwrap();
    for stream in &mut doomed {
        // The kernel ends its connections in order; that there is nobody any more shows when more is sent.
        assert!(!wait_end(stream));
        let client = stream.local_addr().unwrap();
        stream.write_all(b"is anybody there?").unwrap();
        assert!(wait_end(stream) || matches!(stream.read(&mut [0]), Ok(0)));
        assert_eq!(tidegate.ending_of(client), "backend_reset");
    }
    for stream in &mut safe {
        round_trip(stream, b"after").unwrap();
    }
    // Two endpoints, one of them dead: each connection gets to the other.
    for _ in 0..50 {
        round_trip(&mut tidegate.connect(PORT + 2), b"new").unwrap();
    }
    let refused = tidegate.metric("tidegate_connect_failures_total{reason=\"refused\"}");
    assert!(
        (1.0..25.0).contains(&refused),
        "a dead endpoint is left out after a while, not asked {refused} times"
    );
    drop((doomed, safe));
    tidegate.wait_active(0);
}

#[test]
fn no_endpoint_that_answers_is_an_end_at_once() {
    let tidegate = Tidegate::start(&[("all.yaml", &manifests(&[nobody(), nobody()]))], &[]);
    let mut stream = tidegate.connect(PORT);
    wait_end(&mut stream);
    assert_eq!(tidegate.ending_of(stream.local_addr().unwrap()), "connect_failed");
    tidegate.wait_active(0);
}

#[test]
fn an_endpoint_that_comes_back_is_used_again() {
    let (mut first, address) = start_backend();
    let tidegate = Tidegate::start(&[("all.yaml", &manifests(&[address]))], &["--connect-time=1s"]);
    round_trip(&mut tidegate.connect(PORT), b"first").unwrap();
    first.kill().unwrap();
    first.wait().unwrap();
    for _ in 0..10 {
        let mut stream = tidegate.connect(PORT);
        wait_end(&mut stream);
    }
    let listener = wait_for("the port is free again", || std::net::TcpListener::bind(address).ok());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let _ = stream.write_all(b"back");
        }
    });
    wait_for("it is asked again", || {
        let mut greeting = String::new();
        tidegate.connect(PORT).read_to_string(&mut greeting).ok().filter(|_| greeting == "back")
    });
}

/// The plan takes such a connection in, and only the backend is the reason.
#[test]
fn a_refusal_for_the_backend_is_told_step_by_step() {
    let ip = crate::loopback::own_address();
    let admin = SocketAddr::from((ip, 9900));
    let cases = [
        ("backend_not_found", ("missing", 1)),
        ("backend_not_permitted", ("elsewhere/backend", 1)),
        ("no_weight", ("backend", 0)),
        ("no_endpoints", ("admin", 1)),
        ("connect_failed", ("nobody", 1)),
    ];
    let listeners: Vec<_> =
        (PORT..).zip(cases).map(|(port, (reason, _))| (port, reason.replace('_', "-"))).collect();
    let mut text = gateway(&listeners.iter().map(|(port, name)| tcp(name, *port)).collect::<Vec<_>>());
    for ((_, name), (_, backend)) in listeners.iter().zip(cases) {
        text += &tcp_route(name, name, &[backend]);
    }
    for (name, endpoint) in
        [("backend", echo()), ("elsewhere/backend", echo()), ("admin", admin), ("nobody", nobody())]
    {
        text += &service(name, &[endpoint]);
    }
    let tidegate = Tidegate::start_on(ip, &[("all.yaml", &text)], &[]);
    for ((port, name), (reason, _)) in listeners.iter().zip(cases) {
        let mut stream = tidegate.connect(*port);
        wait_end(&mut stream);
        assert_eq!(tidegate.ending_of(stream.local_addr().unwrap()), reason);
        let recent: Value = serde_json::from_str(&tidegate.ask("/refused?last=1").unwrap()).unwrap();
        let refused = &recent["refused"][0];
        assert_eq!(refused["reason"], reason, "{refused}");
        assert_eq!(refused["listener"]["name"], name.as_str(), "{refused}");
        let steps = refused["steps"].as_array().unwrap();
        let step = |kind: &str| steps.iter().find(|step| step["step"] == kind);
        assert_eq!(step("route").unwrap()["route"]["object"]["name"], name.as_str(), "{refused}");
        let found = step("backend").map(|step| step["backend"]["object"]["name"].as_str().unwrap());
        let named = match reason {
            "no_endpoints" => Some("admin"),
            "connect_failed" => Some("nobody"),
            _ => None,
        };
        assert_eq!(found, named, "{refused}");
        let said = step("refused").map(|step| step["reason"].as_str().unwrap());
        assert_eq!(said, (reason != "connect_failed").then_some(reason), "{refused}");
    }
}

#[test]
fn tidegates_own_port_is_no_backend_but_loopback_is() {
    let ip = crate::loopback::own_address();
    let admin = SocketAddr::from((ip, 9900));
    let text = gateway(&[tcp("admin", PORT), tcp("loopback", PORT + 1)])
        + &tcp_route("admin", "admin", &[("admin", 1)])
        + &tcp_route("loopback", "loopback", &[("loopback", 1)])
        + &service("admin", &[admin])
        + &service("loopback", &[echo()]);
    let tidegate = Tidegate::start_on(ip, &[("all.yaml", &text)], &[]);
    let mut stream = tidegate.connect(PORT);
    let _ = stream.write_all(b"GET /status HTTP/1.0\r\n\r\n");
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(answer.is_empty(), "{}", String::from_utf8_lossy(&answer));
    let line = tidegate.line_of(stream.local_addr().unwrap());
    assert_eq!(line["ending"], "no_endpoints", "{line}");
    round_trip(&mut tidegate.connect(PORT + 1), b"loopback").unwrap();
}
