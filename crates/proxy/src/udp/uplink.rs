//! The socket of a flow towards its endpoint. It is connected, so that the kernel lets in nothing but answers of that
//! endpoint and says when it refuses; and its port is the flow's own, so that answers need no telling apart.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType};

use crate::sys::datagram::BATCH;

pub(super) fn open(endpoint: SocketAddr) -> io::Result<OwnedFd> {
    let family = if endpoint.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(family, SocketType::DGRAM, flags, None)?;
    rustix::net::connect(&socket, &endpoint)?;
    Ok(socket)
}

/// Makes a socket one as if newly opened: it gives up its port, and what came to that is thrown away. Cheaper than a
/// new one, of which epoll would have to be told.
pub(super) fn renew(socket: BorrowedFd<'_>, endpoint: SocketAddr) -> io::Result<()> {
    rustix::net::connect_unspec(socket)?;
    empty(socket)?;
    Ok(rustix::net::connect(socket, &endpoint)?)
}

/// Throws away what waits at a socket.
pub(super) fn empty(socket: BorrowedFd<'_>) -> io::Result<()> {
    // More than any receive buffer holds.
    const ALL: usize = 1024 * BATCH;
    for _ in 0..ALL {
        let received = rustix::net::recv(socket, &mut [0; 1][..], RecvFlags::DONTWAIT | RecvFlags::TRUNC);
        if received == Err(rustix::io::Errno::AGAIN) {
            return Ok(());
        }
    }
    Err(io::ErrorKind::ResourceBusy.into())
}

/// Whether the machine had nothing left for a socket, as opposed to no way to the endpoint.
pub(super) fn is_shortage(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let Some(error) = Errno::from_io_error(error) else { return false };
    [
        Errno::MFILE,
        Errno::NFILE,
        Errno::NOBUFS,
        Errno::NOMEM,
        Errno::NOSPC,
        // No port is left.
        Errno::AGAIN,
        Errno::ADDRINUSE,
        Errno::ADDRNOTAVAIL,
    ]
    .contains(&error)
}

/// Whether the endpoint, or the way to it, is at fault.
pub(super) fn is_refusal(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let Some(error) = Errno::from_io_error(error) else { return false };
    [
        Errno::CONNREFUSED,
        Errno::HOSTUNREACH,
        Errno::HOSTDOWN,
        Errno::NETUNREACH,
        Errno::NETDOWN,
        // The socket could not be connected to another endpoint earlier.
        Errno::DESTADDRREQ,
    ]
    .contains(&error)
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    use super::*;

    fn server() -> (UdpSocket, SocketAddr) {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = server.local_addr().unwrap();
        (server, address)
    }

    /// What makes a socket safe to hand from one client to another.
    #[test]
    fn a_renewed_socket_has_nothing_of_what_it_was() {
        let (server, address) = server();
        let uplink = UdpSocket::from(open(address).unwrap());
        let port = uplink.local_addr().unwrap();
        uplink.send(b"question").unwrap();
        let (_, from) = server.recv_from(&mut [0; 16]).unwrap();
        assert_eq!(from, port);
        for _ in 0..100 {
            server.send_to(b"an answer that waits", port).unwrap();
        }
        renew(uplink.as_fd(), address).unwrap();
        server.send_to(b"an answer that is late", port).unwrap();
        assert_eq!(uplink.recv(&mut [0; 16]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        assert_ne!(uplink.local_addr().unwrap(), port);
        uplink.send(b"question").unwrap();
        let (_, from) = server.recv_from(&mut [0; 16]).unwrap();
        assert_eq!(from, uplink.local_addr().unwrap());
        server.send_to(b"answer", from).unwrap();
        assert_eq!(uplink.recv(&mut [0; 16]).unwrap(), 6);
    }

    #[test]
    fn a_renewed_socket_has_no_error_of_before() {
        let (gone, dead) = server();
        drop(gone);
        let (_server, alive) = server();
        let uplink = UdpSocket::from(open(dead).unwrap());
        uplink.send(b"anyone?").unwrap();
        renew(uplink.as_fd(), alive).unwrap();
        assert_eq!(uplink.send(b"question").unwrap(), 8);
    }

    #[test]
    fn a_socket_takes_answers_of_its_endpoint_alone() {
        let (_server, address) = server();
        let (stranger, _) = server();
        let uplink = UdpSocket::from(open(address).unwrap());
        let _ = stranger.send_to(b"mine", uplink.local_addr().unwrap());
        assert_eq!(uplink.recv(&mut [0; 16]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }
}
