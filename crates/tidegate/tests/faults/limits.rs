//! Bounds on how many connections there may be. What is over is turned away, what is there stays.

use std::net::TcpStream;

use crate::loopback::Tidegate;
use crate::loopback::manifests::{gateway, passthrough, service, tcp, tcp_route, tls_route};
use crate::loopback::tls::client_hello;
use crate::loopback::traffic::{echo, round_trip, wait_end};
use crate::support::wait_for;

const PORT: u16 = 20_001;

fn start(flag: &str) -> Tidegate {
    let text = gateway(&[tcp("one", PORT), tcp("two", PORT + 1)])
        + &tcp_route("one", "one", &[("backend", 1)])
        + &tcp_route("two", "two", &[("backend", 1)])
        + &service("backend", &[echo()]);
    Tidegate::start(&[("all.yaml", &text)], &[flag])
}

fn fill(tidegate: &Tidegate) -> Vec<TcpStream> {
    let mut live: Vec<_> = (0..5).map(|_| tidegate.connect(PORT)).collect();
    for stream in &mut live {
        round_trip(stream, b"fits").unwrap();
    }
    live
}

/// The sixth is turned away for this reason; when one of the five ends there is room again.
fn assert_full(tidegate: &Tidegate, mut live: Vec<TcpStream>, ending: &str, limit: &str) {
    let mut sixth = tidegate.connect(PORT);
    wait_end(&mut sixth);
    assert_eq!(tidegate.ending_of(sixth.local_addr().unwrap()), ending);
    assert_eq!(tidegate.limit_reached(limit), 1);
    assert!(tidegate.ask("/refused").unwrap().contains(ending));
    for stream in &mut live {
        round_trip(stream, b"not touched").unwrap();
    }
    live.pop();
    wait_for("there is room", || round_trip(&mut tidegate.connect(PORT), b"fits again").ok());
    drop(live);
    tidegate.wait_active(0);
}

#[test]
fn in_all() {
    let tidegate = start("--max-connections=5");
    let live = fill(&tidegate);
    assert_full(&tidegate, live, "too_many_connections", "connections");
}

#[test]
fn for_a_listener() {
    let tidegate = start("--max-connections-per-listener=5");
    let live = fill(&tidegate);
    round_trip(&mut tidegate.connect(PORT + 1), b"another listener").unwrap();
    assert_full(&tidegate, live, "too_many_for_listener", "connections_per_listener");
}

#[test]
fn for_a_source() {
    let tidegate = start("--max-connections-per-source=5");
    let live = fill(&tidegate);
    let mut other = connect_from([127, 0, 0, 77], &tidegate);
    round_trip(&mut other, b"another source").unwrap();
    drop(other);
    assert_full(&tidegate, live, "too_many_for_source", "connections_per_source");
}

#[test]
fn of_a_hello() {
    let text = gateway(&[passthrough("tls", PORT, "a.example.com")])
        + &tls_route("route", "tls", "a.example.com", &[("backend", 1)])
        + &service("backend", &[echo()]);
    let hello = client_hello("a.example.com");
    for (size, fits) in [(hello.len(), true), (100, false)] {
        let tidegate = Tidegate::start(&[("all.yaml", &text)], &[&format!("--hello-size={size}")]);
        let mut stream = tidegate.connect(PORT);
        assert_eq!(round_trip(&mut stream, &hello).is_ok(), fits, "{size}");
        assert_eq!(tidegate.limit_reached("hello_size"), u64::from(!fits));
        if !fits {
            let line = tidegate.line_of(stream.local_addr().unwrap());
            assert_eq!(line["ending"], "hello_invalid", "{line}");
        }
    }
}

/// The standard library cannot say where a connection comes from.
fn connect_from(source: [u8; 4], tidegate: &Tidegate) -> TcpStream {
    let source = std::net::SocketAddrV4::new(source.into(), 0);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind(source.into()).unwrap();
        let stream = socket.connect(tidegate.at(PORT)).await.unwrap().into_std().unwrap();
        stream.set_nonblocking(false).unwrap();
        crate::loopback::traffic::patient(stream)
    })
}
