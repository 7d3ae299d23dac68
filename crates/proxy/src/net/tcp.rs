//! TCP sockets as the engine sees them.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketAddrAny, SocketFlags, SocketType, sockopt,
};

use crate::engine::{Network, Stream};
use crate::net::pipes::{Pipe, again};

#[derive(Debug)]
pub(crate) struct TcpStream(OwnedFd);

const FLAGS: SocketFlags = SocketFlags::NONBLOCK.union(SocketFlags::CLOEXEC);

/// The next connection of a listening socket, with the address of its client.
pub(crate) fn accept(listener: &OwnedFd) -> io::Result<(TcpStream, SocketAddr)> {
    let (socket, address) = rustix::net::acceptfrom_with(listener, FLAGS)?;
    let address = address.and_then(std_address).ok_or(Errno::CONNABORTED)?;
    Ok((TcpStream(socket), address))
}

/// An IP address, with IPv4 always written as such.
pub(crate) fn std_address(address: SocketAddrAny) -> Option<SocketAddr> {
    let address = SocketAddr::try_from(address).ok()?;
    Some(SocketAddr::new(address.ip().to_canonical(), address.port()))
}

impl TcpStream {
    /// The address that the client connected to.
    pub(crate) fn local(&self) -> Option<SocketAddr> {
        rustix::net::getsockname(&self.0).ok().and_then(std_address)
    }

    pub(crate) fn into_fd(self) -> OwnedFd {
        self.0
    }
}

impl AsFd for TcpStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Stream for TcpStream {
    type Pipe = Pipe;

    fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let (count, _) = again(|| rustix::net::recv(&self.0, &mut *buffer, RecvFlags::empty()))?;
        Ok(count)
    }

    fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        again(|| rustix::net::send(&self.0, bytes, SendFlags::NOSIGNAL))
    }

    fn end(&self) -> io::Result<()> {
        match rustix::net::shutdown(&self.0, Shutdown::Write) {
            // The peer is gone already; its end comes as its own event.
            Err(Errno::NOTCONN) => Ok(()),
            result => Ok(result?),
        }
    }

    fn connected(&self) -> io::Result<()> {
        sockopt::socket_error(&self.0)??;
        match rustix::net::getpeername(&self.0) {
            // An event of the socket that was tried before may have come in its place.
            Err(Errno::NOTCONN) => Err(io::ErrorKind::WouldBlock.into()),
            result => Ok(result.map(drop)?),
        }
    }

    fn reset(&self) {
        // Without it the close is an orderly one; that is all that is lost.
        let _ = sockopt::set_socket_linger(&self.0, Some(Duration::ZERO));
    }

    fn fill(&self, pipe: &Pipe) -> io::Result<usize> {
        pipe.fill(self.0.as_fd(), pipe.size)
    }

    fn drain(&self, pipe: &Pipe, length: usize) -> io::Result<usize> {
        pipe.drain(self.0.as_fd(), length)
    }
}

/// Opens connections to backends.
#[derive(Debug)]
pub(crate) struct Dialer;

impl Network for Dialer {
    type Stream = TcpStream;

    fn connect(&mut self, to: SocketAddr, bytes_in_hand: bool) -> io::Result<TcpStream> {
        let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let socket = rustix::net::socket_with(family, SocketType::STREAM, FLAGS, None)?;
        sockopt::set_tcp_nodelay(&socket, true)?;
        if bytes_in_hand {
            sockopt::set_tcp_quickack(&socket, false)?;
        }
        match rustix::net::connect(&socket, &to) {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(TcpStream(socket)),
            Err(error) => Err(error.into()),
        }
    }
}
