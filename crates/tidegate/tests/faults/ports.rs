//! Listening sockets: ports that others have, and connections that wait while listeners come and go.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use rustix::process::Signal;

use crate::loopback::manifests::{gateway, passthrough, service, tcp, tcp_route, tls_route};
use crate::loopback::tls::client_hello;
use crate::loopback::traffic::{echo, greeter, round_trip};
use crate::loopback::{Tidegate, own_address};
use crate::support::manifest::udp;
use crate::support::wait_for;

const PORT: u16 = 20_001;

#[test]
fn a_port_that_another_process_has_is_said_and_taken_when_free() {
    let ip = own_address();
    let taken = TcpListener::bind((ip, PORT)).unwrap();
    let text = gateway(&[tcp("taken", PORT), tcp("free", PORT + 1)])
        + &tcp_route("taken", "taken", &[("backend", 1)])
        + &tcp_route("free", "free", &[("backend", 1)])
        + &service("backend", &[echo()]);
    let tidegate = Tidegate::start_on(ip, &[("all.yaml", &text)], &[]);
    let (status, message) = tidegate.programmed("taken");
    assert_eq!(status, "False", "{message}");
    assert!(message.contains(&format!("(process {})", std::process::id())), "{message}");
    assert_eq!(tidegate.programmed("free").0, "True");
    round_trip(&mut tidegate.connect(PORT + 1), b"others serve").unwrap();

    drop(taken);
    wait_for("the port is served", || (tidegate.programmed("taken").0 == "True").then_some(()));
    round_trip(&mut tidegate.connect(PORT), b"free at last").unwrap();
}

#[test]
fn two_tidegates_never_share_a_port() {
    let text = |name| {
        gateway(&[tcp("tcp", PORT)])
            + &tcp_route("route", "tcp", &[("backend", 1)])
            + &service("backend", &[greeter(name)])
    };
    let first = Tidegate::start(&[("all.yaml", &text(b'1'))], &[]);
    let also_there = format!("--bind={}", first.ip);
    let second = Tidegate::start(&[("all.yaml", &text(b'2'))], &[&also_there]);
    let (status, message) = second.programmed("tcp");
    assert_eq!(status, "False", "{message}");
    assert!(message.contains("tidegate (process "), "{message}");
    let at_first = first.at(PORT);
    for _ in 0..50 {
        assert_eq!(greeting(&mut first.connect(PORT)), b'1');
    }
    drop(first);
    wait_for("the port is taken over", || (second.programmed("tcp").0 == "True").then_some(()));
    assert_eq!(greeting(&mut TcpStream::connect(at_first).unwrap()), b'2');
}

#[test]
fn two_tidegates_never_share_a_port_of_datagrams() {
    let text = gateway(&[udp("udp", PORT)]);
    let first = Tidegate::start(&[("all.yaml", &text)], &[]);
    let second = Tidegate::start(&[("all.yaml", &text)], &[&format!("--bind={}", first.ip)]);
    let (status, message) = second.programmed("udp");
    assert_eq!(status, "False", "{message}");
    assert!(message.contains("tidegate (process "), "{message}");
    drop(first);
    wait_for("the port is taken over", || (second.programmed("udp").0 == "True").then_some(()));
}

#[test]
fn a_port_that_the_offset_leads_out_of_all_ports_is_said() {
    let text = gateway(&[tcp("beyond", 60_000), tcp("fine", PORT)]);
    let tidegate = Tidegate::start(&[("all.yaml", &text)], &["--port-offset=8000"]);
    let (status, message) = tidegate.programmed("beyond");
    assert_eq!(status, "False", "{message}");
    assert!(message.contains("68000") && message.contains("--port-offset"), "{message}");
    assert_eq!(tidegate.programmed("fine").0, "True");
}

fn greeting(stream: &mut TcpStream) -> u8 {
    let mut name = [0];
    stream.read_exact(&mut name).unwrap();
    name[0]
}

/// The process is stopped while clients connect, so that all of them wait in the kernel's queue when it finds that its
/// manifests have changed.
fn queue_while_stopped(tidegate: &Tidegate, port: u16, change: impl FnOnce(&Tidegate)) -> Vec<TcpStream> {
    let before = tidegate.changes();
    tidegate.signal(Signal::STOP);
    let clients = (0..200).map(|_| tidegate.connect(port)).collect();
    change(tidegate);
    tidegate.signal(Signal::CONT);
    wait_for("the change is taken", || (tidegate.changes() > before).then_some(()));
    clients
}

#[test]
fn queued_connections_survive_listeners_that_come_and_go() {
    let routes = tls_route("stays", "stays", "a.example.com", &[("backend", 1)])
        + &tcp_route("goes", "goes", &[("backend", 1)])
        + &service("backend", &[echo()]);
    let stays = passthrough("stays", PORT, "a.example.com");
    let with = gateway(&[stays.clone(), passthrough("other", PORT, "b.example.com"), tcp("goes", PORT + 1)]);
    let without = gateway(&[stays]);
    let tidegate = Tidegate::start(&[("edge.yaml", &with), ("routes.yaml", &routes)], &[]);
    let hello = client_hello("a.example.com");
    for (round, text) in [&without, &with, &without, &with].into_iter().enumerate() {
        let clients = queue_while_stopped(&tidegate, PORT, |tidegate| tidegate.write("edge.yaml", text));
        for (number, mut client) in clients.into_iter().enumerate() {
            let result = round_trip(&mut client, &hello);
            assert!(result.is_ok(), "round {round}, client {number}: {result:?}");
        }
    }
}

#[test]
fn what_waits_at_a_port_that_is_closed_is_still_taken() {
    let routes = tcp_route("goes", "goes", &[("backend", 1)]) + &service("backend", &[greeter(b'x')]);
    let with = gateway(&[tcp("stays", PORT), tcp("goes", PORT + 1)]);
    let without = gateway(&[tcp("stays", PORT)]);
    let tidegate = Tidegate::start(&[("edge.yaml", &with), ("routes.yaml", &routes)], &["--drain=60s"]);
    let clients = queue_while_stopped(&tidegate, PORT + 1, |tidegate| tidegate.write("edge.yaml", &without));
    for (number, mut client) in clients.into_iter().enumerate() {
        let mut name = [0];
        let result = client.read_exact(&mut name);
        assert!(result.is_ok(), "client {number}: {result:?}");
        client.write_all(b"bye").unwrap();
    }
    wait_for("the port is closed", || TcpStream::connect(tidegate.at(PORT + 1)).is_err().then_some(()));
}
