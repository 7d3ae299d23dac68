//! Sockets over IPv4 as this tool needs them: nothing is hidden between a call here and the system call it makes.

use std::io::{self, IoSlice, Write};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketAddrAny, SocketFlags, SocketType, sockopt};

/// Connections that wait to be accepted.
const BACKLOG: i32 = 8192;
const DATAGRAM_BUFFER: usize = 4 << 20;

pub(crate) fn listen(address: SocketAddrV4) -> io::Result<OwnedFd> {
    let socket = stream()?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    rustix::net::bind(&socket, &address)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

pub(crate) fn accept(listener: impl AsFd) -> io::Result<OwnedFd> {
    let socket = rustix::net::accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC)?;
    sockopt::set_tcp_nodelay(&socket, true)?;
    Ok(socket)
}

/// Begins to connect, and does not wait for it.
pub(crate) fn connect(to: SocketAddrV4) -> io::Result<OwnedFd> {
    let socket = stream()?;
    sockopt::set_tcp_nodelay(&socket, true)?;
    match rustix::net::connect(&socket, &to) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(error) => Err(error.into()),
    }
}

pub(crate) fn datagram_server(address: SocketAddrV4) -> io::Result<OwnedFd> {
    let socket = datagram()?;
    rustix::net::bind(&socket, &address)?;
    sockopt::set_socket_recv_buffer_size(&socket, DATAGRAM_BUFFER)?;
    Ok(socket)
}

/// From an address of its own where one is given, else from whichever the kernel takes.
pub(crate) fn datagram_client(from: Option<Ipv4Addr>, to: SocketAddrV4) -> io::Result<OwnedFd> {
    let socket = datagram()?;
    if let Some(from) = from {
        rustix::net::bind(&socket, &SocketAddrV4::new(from, 0))?;
    }
    rustix::net::connect(&socket, &to)?;
    Ok(socket)
}

pub(crate) fn send(socket: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    Ok(rustix::net::send(socket, bytes, SendFlags::NOSIGNAL)?)
}

pub(crate) fn receive(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    let (length, _) = rustix::net::recv(socket, buffer, RecvFlags::empty())?;
    Ok(length)
}

/// Takes bytes off the connection without copying them out of the kernel.
pub(crate) fn discard(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    let (_, length) = rustix::net::recv(socket, buffer, RecvFlags::TRUNC)?;
    Ok(length)
}

/// Sends one datagram back to where it came from.
pub(crate) fn echo_datagram(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<()> {
    let (length, _, from) = rustix::net::recvfrom(&socket, &mut *buffer, RecvFlags::empty())?;
    let from: SocketAddrAny = from.ok_or(io::ErrorKind::AddrNotAvailable)?;
    rustix::net::sendto(&socket, &buffer[..length], SendFlags::empty(), &from)?;
    Ok(())
}

pub(crate) fn would_block(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}

/// A socket as rustls wants to write to it.
#[derive(Debug)]
pub(crate) struct Outlet<F>(pub(crate) F);

impl<F: AsFd> Write for Outlet<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        send(&self.0, bytes)
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        Ok(rustix::io::writev(&self.0, slices)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn stream() -> io::Result<OwnedFd> {
    socket(SocketType::STREAM)
}

fn datagram() -> io::Result<OwnedFd> {
    socket(SocketType::DGRAM)
}

fn socket(kind: SocketType) -> io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    Ok(rustix::net::socket_with(AddressFamily::INET, kind, flags, None)?)
}
