//! A process that may open few files.

use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::loopback::manifests::{gateway, passthrough, service, tcp, tcp_route};
use crate::loopback::traffic::{connect, echo, greeter, round_trip};
use crate::loopback::{Tidegate, own_address};
use crate::support::wait_for;

const PORT: u16 = 20_001;
const FILES: usize = 128;

fn start(files: &[(&str, &str)]) -> Tidegate {
    let mut shell = Command::new("sh");
    let limited = format!("ulimit -n {FILES}; exec \"$0\" \"$@\"");
    shell.args(["-c", &limited, env!("CARGO_BIN_EXE_tidegate")]);
    Tidegate::start_by(shell, own_address(), files, &[])
}

/// Clients that never say a hello take all files there are; the kernel keeps the rest for whoever accepts.
fn use_up(tidegate: &mut Tidegate) -> Vec<TcpStream> {
    let waiting = (0..FILES).map(|_| connect(tidegate.at(PORT + 1))).collect();
    tidegate.wait_told("accepting no connections for a moment");
    // Not by a file that Tidegate has open for a moment: the next who accepts takes its place.
    let mut full_since = None;
    wait_for("the last file is used and stays so", || {
        if !tidegate.files().is_superset(&(0..FILES).collect()) {
            full_since = None;
            return None;
        }
        let since = *full_since.get_or_insert_with(Instant::now);
        (since.elapsed() > Duration::from_millis(500)).then_some(())
    });
    waiting
}

fn edge() -> String {
    gateway(&[tcp("tcp", PORT), passthrough("tls", PORT + 1, "a.example.com")])
}

fn route_to(backend: SocketAddr) -> String {
    tcp_route("route", "tcp", &[("backend", 1)]) + &service("backend", &[backend])
}

#[test]
fn accepting_pauses_without_spinning_and_goes_on() {
    let mut tidegate = start(&[("edge.yaml", &edge()), ("route.yaml", &route_to(echo()))]);
    // Two files each.
    let mut live: Vec<_> = (0..20).map(|_| tidegate.connect(PORT)).collect();
    for stream in &mut live {
        round_trip(stream, b"fits").unwrap();
    }
    let waiting = use_up(&mut tidegate);
    let (began, used) = (Instant::now(), tidegate.processor_time());
    wait_for("a second without a file to spare", || (began.elapsed() > Duration::from_secs(1)).then_some(()));
    let used = tidegate.processor_time() - used;
    assert!(used < Duration::from_millis(300), "it used {used:?} in a second");
    for stream in &mut live {
        round_trip(stream, b"still served").unwrap();
    }

    drop(waiting);
    drop(live);
    wait_for("new connections are served", || round_trip(&mut tidegate.connect(PORT), b"again").ok());
    tidegate.wait_active(0);
    let pauses = tidegate.metric("tidegate_accept_pauses_total");
    let said = tidegate.own_log().matches("accepting no connections").count();
    assert!(
        pauses > 2.0 && said <= 2,
        "{pauses} pauses of two workers, said {said} times in a second or two"
    );
}

#[test]
fn a_change_that_no_file_was_left_to_read_is_read_later() {
    let mut tidegate = start(&[("edge.yaml", &edge()), ("route.yaml", &route_to(greeter(b'a')))]);
    let waiting = use_up(&mut tidegate);
    tidegate.write("route.yaml", &route_to(greeter(b'b')));
    tidegate.wait_told("route.yaml");
    drop(waiting);
    wait_for("the change is served", || {
        let mut name = [0];
        tidegate.connect(PORT).read_exact(&mut name).ok().filter(|()| name == *b"b")
    });
}
