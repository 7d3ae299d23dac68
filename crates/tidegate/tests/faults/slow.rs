//! Peers that do not take what they are sent: their senders are held up, and nothing piles up in between.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rustls::{ClientConnection, StreamOwned};

use crate::loopback::Tidegate;
use crate::loopback::manifests::{gateway, secret, service, tcp, tcp_route, terminate, tls_route};
use crate::loopback::tls::{client, server_name};
use crate::loopback::traffic::{echo, round_trip, serve};
use crate::support::certificate::Authority;
use crate::support::wait_for;

const PLAIN: u16 = 20_001;
const TLS: u16 = 20_443;
const ECHO: u16 = 20_002;
const CLIENTS: u64 = 20;
const DEAF: u64 = 5;
/// A read's worth of bytes and what it takes to encrypt them.
const MOST_EACH: u64 = 512 * 1024;

/// A backend that sends for as long as anybody takes it, and counts how much that was.
fn flood() -> (SocketAddr, Arc<AtomicU64>) {
    let sent = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&sent);
    let address = serve(move |mut stream| {
        while let Ok(count) = stream.write(&[7; 64 * 1024]) {
            counted.fetch_add(count as u64, Relaxed);
        }
    });
    (address, sent)
}

/// Waits until nobody takes anything more.
fn wait_still(sent: &AtomicU64) {
    let mut last = (Instant::now(), 0);
    wait_for("the senders stand still", || {
        let now = sent.load(Relaxed);
        if now != last.1 {
            last = (Instant::now(), now);
        }
        (now > 0 && last.0.elapsed() > Duration::from_secs(1)).then_some(())
    });
}

#[test]
fn clients_that_do_not_read_hold_up_their_backends_and_nobody_else() {
    let (backend, sent) = flood();
    let authority = Authority::new("CA");
    let text =
        gateway(&[tcp("plain", PLAIN), terminate("tls", TLS, "a.example.com", &["web"]), tcp("echo", ECHO)])
            + &tcp_route("plain", "plain", &[("flood", 1)])
            + &tls_route("tls", "tls", "a.example.com", &[("flood", 1)])
            + &tcp_route("echo", "echo", &[("echo", 1)])
            + &service("flood", &[backend])
            + &service("echo", &[echo()])
            + &secret("web", &authority.issue(&["a.example.com"]));
    let tidegate = Tidegate::start(&[("all.yaml", &text)], &[]);
    round_trip(&mut tidegate.connect(ECHO), b"before").unwrap();
    let before = tidegate.memory();

    let mut plain: Vec<TcpStream> = (0..CLIENTS).map(|_| tidegate.connect(PLAIN)).collect();
    let config = client(&authority);
    let mut encrypted: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let connection =
                ClientConnection::new(Arc::clone(&config), server_name("a.example.com")).unwrap();
            let mut stream = StreamOwned::new(connection, tidegate.connect(TLS));
            stream.read_exact(&mut [0]).unwrap();
            stream
        })
        .collect();
    wait_still(&sent);
    let each = tidegate.memory().saturating_sub(before) / (2 * CLIENTS);
    println!("{each} bytes for each connection that stands still");
    assert!(each < MOST_EACH, "{each} bytes for each connection");
    round_trip(&mut tidegate.connect(ECHO), b"others are served").unwrap();

    // Whoever begins to read gets all that was meant for it, and more than was on its way.
    for reader in [&mut plain[0] as &mut dyn Read, &mut encrypted[0]] {
        let mut piece = vec![0; 1 << 20];
        for _ in 0..32 {
            reader.read_exact(&mut piece).unwrap();
            assert!(piece.iter().all(|byte| *byte == 7), "not what was sent");
        }
    }
    drop((plain, encrypted));
    tidegate.wait_active(0);
}

#[test]
fn a_backend_that_does_not_read_holds_up_its_clients() {
    let deaf = serve(|_stream| std::thread::sleep(Duration::from_secs(120)));
    let text = gateway(&[tcp("plain", PLAIN), tcp("echo", ECHO)])
        + &tcp_route("plain", "plain", &[("deaf", 1)])
        + &tcp_route("echo", "echo", &[("echo", 1)])
        + &service("deaf", &[deaf])
        + &service("echo", &[echo()]);
    let tidegate = Tidegate::start(&[("all.yaml", &text)], &[]);
    round_trip(&mut tidegate.connect(ECHO), b"before").unwrap();
    let before = tidegate.memory();
    let mut clients: Vec<TcpStream> = (0..DEAF).map(|_| tidegate.connect(PLAIN)).collect();
    for client in &mut clients {
        client.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
        let held_up = std::iter::repeat_with(|| client.write(&[7; 64 * 1024])).find_map(Result::err).unwrap();
        assert!(matches!(held_up.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{held_up}");
    }
    let each = tidegate.memory().saturating_sub(before) / DEAF;
    assert!(each < MOST_EACH, "{each} bytes for each connection");
    round_trip(&mut tidegate.connect(ECHO), b"others are served").unwrap();
}
