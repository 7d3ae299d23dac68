//! Many clients that never finish their ClientHello.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::loopback::Tidegate;
use crate::loopback::manifests::{gateway, passthrough, service, tls_route};
use crate::loopback::tls::client_hello;
use crate::loopback::traffic::{connect, echo, round_trip};

const PORT: u16 = 20_443;
const HELLO_TIME: Duration = Duration::from_secs(4);

#[test]
fn drip_fed_hellos_are_cut_by_time_and_hold_up_nobody() {
    let count = if std::env::var_os("SOAK").is_some_and(|value| value == "full") { 10_000 } else { 1_000 };
    let most = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: most, maximum: most }).unwrap();
    let text = gateway(&[passthrough("tls", PORT, "*.example.com")])
        + &tls_route("route", "tls", "a.example.com", &[("backend", 1)])
        + &service("backend", &[echo()]);
    let tidegate = Tidegate::start(&[("all.yaml", &text)], &["--hello-time=4s"]);
    let hello = client_hello("a.example.com");
    round_trip(&mut tidegate.connect(PORT), &hello).unwrap();
    let empty = tidegate.memory();

    let mut clients: Vec<Option<TcpStream>> = (0..count)
        .map(|_| {
            let stream = connect(tidegate.at(PORT));
            stream.set_nonblocking(true).unwrap();
            Some(stream)
        })
        .collect();
    let (mut most, mut peak, mut next, mut slowest) = (0, 0, 0, Duration::ZERO);
    // A byte to each in turn until all were cut, with others served in between.
    let deadline = Instant::now() + HELLO_TIME * 10;
    while clients.iter().any(Option::is_some) {
        assert!(Instant::now() < deadline, "{} still there", clients.iter().flatten().count());
        for client in &mut clients {
            let cut = client.as_mut().is_some_and(|stream| {
                let sent = stream.write(&hello[next..=next]);
                let gone = |kind| matches!(kind, ErrorKind::ConnectionReset | ErrorKind::BrokenPipe);
                sent.is_err_and(|error| gone(error.kind())) || matches!(stream.read(&mut [0]), Ok(0))
            });
            if cut {
                *client = None;
            }
        }
        // The last byte is never sent.
        next = (next + 1).min(hello.len() - 2);
        let began = Instant::now();
        round_trip(&mut tidegate.connect(PORT), &hello).unwrap();
        slowest = slowest.max(began.elapsed());
        most = most.max(tidegate.memory());
        peak = peak.max(tidegate.active());
        std::thread::sleep(Duration::from_millis(50));
    }
    tidegate.wait_active(0);
    assert_eq!(tidegate.limit_reached("hello_time"), count);
    let each = most.saturating_sub(empty) / count;
    println!("{count} clients, {peak} at a time: {each} bytes each, others waited {slowest:?} at most");
    assert!(peak > count / 2, "no more than {peak} at a time");
    assert!(each < 16 * 1024, "{each} bytes for each client");
    assert!(slowest < HELLO_TIME, "another client waited {slowest:?}");
}
