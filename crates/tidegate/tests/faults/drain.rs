//! The end of the process, asked for by signals.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::loopback::Tidegate;
use crate::loopback::manifests::{gateway, service, tcp, tcp_route};
use crate::loopback::traffic::{echo, round_trip, wait_end};
use crate::support::wait_for;

const PORT: u16 = 20_001;

fn start(drain: &str) -> Tidegate {
    let text = gateway(&[tcp("tcp", PORT)])
        + &tcp_route("route", "tcp", &[("backend", 1)])
        + &service("backend", &[echo()]);
    Tidegate::start(&[("all.yaml", &text)], &[drain])
}

#[test]
fn live_connections_finish_and_nobody_new_is_let_in() {
    let mut tidegate = start("--drain=60s");
    let mut live = tidegate.connect(PORT);
    round_trip(&mut live, b"before").unwrap();
    tidegate.signal(Signal::TERM);
    wait_for("it says that it drains", || tidegate.ask("/readyz").filter(|answer| answer == "draining\n"));
    let is_open = || std::net::TcpStream::connect(tidegate.at(PORT)).is_ok();
    wait_for("the port is closed", || (!is_open()).then_some(()));
    // Longer than it takes to try again what could not be opened.
    let closed = Instant::now();
    while closed.elapsed() < Duration::from_millis(1500) {
        assert!(!is_open(), "the port is open again");
        std::thread::sleep(Duration::from_millis(50));
    }
    round_trip(&mut live, b"while it drains").unwrap();
    let client = live.local_addr().unwrap();
    drop(live);
    assert_eq!(tidegate.wait_end().code(), Some(0));
    assert_eq!(tidegate.ending_of(client), "done");
}

#[test]
fn what_does_not_finish_is_cut_off_in_time() {
    let mut tidegate = start("--drain=1s");
    let mut live = tidegate.connect(PORT);
    round_trip(&mut live, b"before").unwrap();
    let began = Instant::now();
    tidegate.signal(Signal::TERM);
    wait_end(&mut live);
    assert!(began.elapsed() > Duration::from_millis(800), "cut off after {:?}", began.elapsed());
    assert_eq!(tidegate.wait_end().code(), Some(0));
    assert_eq!(tidegate.ending_of(live.local_addr().unwrap()), "shutdown");
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let mut tidegate = start("--drain=1h");
    let mut live = tidegate.connect(PORT);
    round_trip(&mut live, b"before").unwrap();
    tidegate.signal(Signal::TERM);
    tidegate.wait_told("have 1h to end");
    tidegate.signal(Signal::TERM);
    assert_eq!(tidegate.wait_end().code(), Some(143));
    wait_end(&mut live);
}
