//! Ports for servers that cannot be told to take any that is free.

use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU16, Ordering};

use super::process::Process;
use super::wait_for;

/// Below what the kernel gives to clients, so that no connection of another test sits on a port that is about to
/// be bound.
const FIRST: u16 = 10_000;
const COUNT: u16 = 20_000;

/// A port that is free for TCP and UDP on loopback, and that nobody else in this process is given. Processes start
/// at different places.
pub(crate) fn free() -> u16 {
    static NEXT: LazyLock<AtomicU16> = LazyLock::new(|| {
        let spread = std::process::id().wrapping_mul(2_654_435_761) >> 16;
        AtomicU16::new((spread % u32::from(COUNT)) as u16)
    });
    for _ in 0..COUNT {
        let port = FIRST + NEXT.fetch_add(1, Ordering::Relaxed) % COUNT;
        let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, port));
        let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, port));
        if tcp.is_ok() && udp.is_ok() {
            return port;
        }
    }
    panic!("no port between {FIRST} and {} is free", FIRST + COUNT);
}

/// Waits until a server accepts connections on loopback.
pub(crate) fn wait_until_open(port: u16, server: &mut Process) {
    wait_for(format!("port {port} of {}", server.name()), || {
        server.assert_alive();
        TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()
    });
}
