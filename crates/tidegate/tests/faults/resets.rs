//! Resets at every step of a connection: nothing may be left of it.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;

use rustls::{ClientConnection, StreamOwned};

use crate::loopback::Tidegate;
use crate::loopback::manifests::{
    gateway, passthrough, secret, service, tcp, tcp_route, terminate, tls_route,
};
use crate::loopback::tls::{client, client_hello, server_name};
use crate::loopback::traffic::{echo, reset, round_trip, serve, wait_end};
use crate::support::certificate::Authority;
use crate::support::manifest::{backend_tls, config_map};
use crate::support::wait_for;

const TLS: u16 = 20_443;
const ECHO: u16 = 20_001;
const RESETS: u16 = 20_002;
const SILENT: u16 = 20_003;
/// Backends that are to be spoken to in TLS: one resets instead, one never answers.
const SHAKY: u16 = 20_004;
const MUTE: u16 = 20_005;
const UNWILLING: u16 = 20_006;
/// Of each kind.
const COUNT: u64 = 25;

#[test]
fn a_reset_at_any_step_leaves_nothing_behind() {
    let (hole, _full) = black_hole();
    let resetting = serve(|mut stream| {
        let _ = stream.read(&mut [0; 1024]);
        let _ = stream.write_all(b"a word before I go");
        reset(stream);
    });
    let shaky = serve(|mut stream| {
        let _ = stream.read(&mut [0; 1024]);
        reset(stream);
    });
    let mute = serve(|mut stream| while matches!(stream.read(&mut [0; 1024]), Ok(1..)) {});
    let authority = Authority::new("CA");
    let text = gateway(&[
        passthrough("pass", TLS, "a.example.com"),
        terminate("term", TLS, "b.example.com", &["web"]),
        tcp("echo", ECHO),
        tcp("resets", RESETS),
        tcp("silent", SILENT),
        tcp("shaky", SHAKY),
        tcp("mute", MUTE),
        tcp("unwilling", UNWILLING),
    ]) + &tls_route("pass", "pass", "a.example.com", &[("echo", 1)])
        + &tls_route("term", "term", "b.example.com", &[("echo", 1)])
        + &tcp_route("echo", "echo", &[("echo", 1)])
        + &tcp_route("resets", "resets", &[("resets", 1)])
        + &tcp_route("silent", "silent", &[("silent", 1)])
        + &service("echo", &[echo()])
        + &service("resets", &[resetting])
        + &service("silent", &[hole])
        + &to_tls("shaky", shaky)
        + &to_tls("mute", mute)
        + &tcp_route("unwilling", "unwilling", &[("unwilling", 1)])
        + &service("unwilling", &[serve(reset)])
        + &config_map("ca", &authority.pem)
        + "---\n"
        + &secret("web", &authority.issue(&["b.example.com"]));
    let tidegate = Tidegate::start(&[("all.yaml", &text)], &["--connect-time=60s"]);
    round_trip(&mut tidegate.connect(ECHO), b"all is well").unwrap();
    tidegate.wait_active(0);
    let files = tidegate.metric("process_open_fds");
    let (pass, term) = (client_hello("a.example.com"), client_hello("b.example.com"));

    let again = |step: &dyn Fn()| (0..COUNT).for_each(|_| step());
    again(&|| reset(tidegate.connect(TLS)));
    again(&|| reset(sending(&tidegate, TLS, &pass[..pass.len() / 2])));
    again(&|| reset(sending(&tidegate, TLS, &term)));
    again(&|| {
        let mut in_handshake = sending(&tidegate, TLS, &term);
        in_handshake.read_exact(&mut [0; 5]).unwrap();
        reset(in_handshake);
    });
    again(&|| reset(sending(&tidegate, SILENT, b"is anybody there?")));
    again(&|| {
        let mut in_relay = tidegate.connect(TLS);
        round_trip(&mut in_relay, &pass).unwrap();
        reset(in_relay);
    });
    let config = client(&authority);
    again(&|| {
        let tls = ClientConnection::new(Arc::clone(&config), server_name("b.example.com")).unwrap();
        let mut in_relay = StreamOwned::new(tls, tidegate.connect(TLS));
        round_trip(&mut in_relay, b"terminated").unwrap();
        reset(in_relay.sock);
    });
    again(&|| {
        let mut in_relay = tidegate.connect(ECHO);
        round_trip(&mut in_relay, b"relayed").unwrap();
        // With bytes on the way in both directions.
        in_relay.write_all(&[7; 100_000]).unwrap();
        reset(in_relay);
    });
    again(&|| {
        assert!(wait_end(&mut sending(&tidegate, RESETS, b"answer me")), "the backend's reset is passed on");
    });

    // Of connections to TLS backends, while these are to shake hands.
    again(&|| reset(sending(&tidegate, MUTE, b"is anybody there?")));
    again(&|| {
        wait_end(&mut sending(&tidegate, SHAKY, b"answer me"));
    });
    again(&|| {
        wait_end(&mut sending(&tidegate, UNWILLING, b"take me"));
    });

    tidegate.wait_active(0);
    wait_for("no file is left open", || (tidegate.metric("process_open_fds") <= files).then_some(()));
    assert_eq!(tidegate.ended("client_reset"), 5 * COUNT);
    assert_eq!(tidegate.ended("backend_handshake_failed"), COUNT);
    // Whether the last reset comes before its connection is known to be there is a matter of chance.
    assert_eq!(tidegate.ended("backend_reset") + tidegate.ended("connect_failed"), 2 * COUNT);
    assert_eq!(tidegate.ended("client_gone"), 4 * COUNT, "before a backend was asked");
    round_trip(&mut tidegate.connect(ECHO), b"all is well").unwrap();
}

/// A TCP route to a backend whose policy asks for TLS.
fn to_tls(name: &str, backend: SocketAddr) -> String {
    let policy = backend_tls(name, "b.example.com", "ca") + "---\n";
    tcp_route(name, name, &[(name, 1)]) + &service(name, &[backend]) + &policy
}

fn sending(tidegate: &Tidegate, port: u16, bytes: &[u8]) -> TcpStream {
    let mut stream = tidegate.connect(port);
    stream.write_all(bytes).unwrap();
    stream
}

/// An address at which nobody answers at all: its queue is full, and more is dropped.
pub(crate) fn black_hole() -> (SocketAddr, impl Sized) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    let listener = runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        socket.listen(0).unwrap()
    });
    let address = listener.local_addr().unwrap();
    let short = std::time::Duration::from_millis(200);
    let queued: Vec<TcpStream> =
        std::iter::from_fn(|| TcpStream::connect_timeout(&address, short).ok()).collect();
    (address, (runtime, listener, queued))
}
