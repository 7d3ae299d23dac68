//! A process that may open few files.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::loopback::manifests::{gateway, passthrough, service, tcp, tcp_route};
use crate::loopback::traffic::{connect, echo, round_trip};
use crate::loopback::{Tidegate, own_address};
use crate::support::wait_for;

const PORT: u16 = 20_001;
const FILES: usize = 128;

#[test]
fn accepting_pauses_without_spinning_and_goes_on() {
    let mut shell = Command::new("sh");
    let limited = format!("ulimit -n {FILES}; exec \"$0\" \"$@\"");
    shell.args(["-c", &limited, env!("CARGO_BIN_EXE_tidegate")]);
    let text = gateway(&[tcp("tcp", PORT), passthrough("tls", PORT + 1, "a.example.com")])
        + &tcp_route("route", "tcp", &[("backend", 1)])
        + &service("backend", &[echo()]);
    let mut tidegate = Tidegate::start_by(shell, own_address(), &[("all.yaml", &text)], &[]);

    // Two files each: these fit.
    let mut live: Vec<_> = (0..20).map(|_| tidegate.connect(PORT)).collect();
    for stream in &mut live {
        round_trip(stream, b"fits").unwrap();
    }
    // These, which never say a hello, do not; the kernel keeps them for whoever accepts.
    let waiting: Vec<_> = (0..FILES).map(|_| connect(tidegate.at(PORT + 1))).collect();
    tidegate.wait_told("accepting no connections for a moment");
    let (began, used) = (Instant::now(), tidegate.processor_time());
    wait_for("a second without a file to spare", || (began.elapsed() > Duration::from_secs(1)).then_some(()));
    let used = tidegate.processor_time() - used;
    assert!(used < Duration::from_millis(300), "it used {used:?} in a second");
    for stream in &mut live {
        round_trip(stream, b"still served").unwrap();
    }

    drop(waiting);
    drop(live);
    wait_for("new connections are served", || {
        let mut stream = tidegate.connect(PORT);
        round_trip(&mut stream, b"again").ok()
    });
    tidegate.wait_active(0);
    assert!(tidegate.metric("tidegate_accept_pauses_total") >= 1.0);
}
