//! Opening the sockets of a port: one for each worker, all at once, after making sure that nobody else has it. A
//! second process with SO_REUSEPORT would otherwise silently get a share of the connections.

use std::io;
use std::net::{Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use tidegate_plan::Transport;

use crate::net::owner;
use crate::udp;

/// Connections that wait for a worker; the kernel bounds it by `net.core.somaxconn`.
const BACKLOG: i32 = 4096;

#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    #[error("{0} is in use{who}", who = .1.as_ref().map(|who| format!(" by {who}")).unwrap_or_default())]
    InUse(SocketAddr, Option<String>),
    #[error(
        "no permission to bind {0}; ports below 1024 need the capability NET_BIND_SERVICE or a lower net.ipv4.ip_unprivileged_port_start"
    )]
    NotPermitted(SocketAddr),
    #[error("{0} is not an address of this machine")]
    NotLocal(SocketAddr),
    #[error("cannot bind {0}: {1}")]
    Other(SocketAddr, io::Error),
}

/// `hello`: the client speaks first, so that the acknowledgement of its first bytes may wait for an answer.
/// `shared`: this process has other sockets on the port.
pub(crate) fn open_tcp(
    address: SocketAddr,
    count: usize,
    hello: bool,
    shared: bool,
) -> Result<Vec<OwnedFd>, OpenError> {
    let open = || {
        let socket = bound(address, SocketType::STREAM, true)?;
        sockopt::set_tcp_nodelay(&socket, true)?;
        if hello {
            sockopt::set_tcp_quickack(&socket, false)?;
        }
        rustix::net::listen(&socket, BACKLOG)?;
        Ok(socket)
    };
    let probe = || {
        let socket = bound(address, SocketType::STREAM, false)?;
        rustix::net::listen(&socket, 1)
    };
    open_all(address, Transport::Tcp, count, shared, probe, open)
}

pub(crate) fn open_udp(address: SocketAddr, count: usize, shared: bool) -> Result<Vec<OwnedFd>, OpenError> {
    let open = || bound(address, SocketType::DGRAM, true);
    let probe = || bound(address, SocketType::DGRAM, false).map(drop);
    open_all(address, Transport::Udp, count, shared, probe, open)
}

/// Whether this machine speaks IPv6 at all.
pub(crate) fn has_ipv6() -> bool {
    bound((Ipv6Addr::UNSPECIFIED, 0).into(), SocketType::DGRAM, false).is_ok()
}

fn open_all(
    address: SocketAddr,
    transport: Transport,
    count: usize,
    shared: bool,
    probe: impl Fn() -> Result<(), Errno>,
    open: impl Fn() -> Result<OwnedFd, Errno>,
) -> Result<Vec<OwnedFd>, OpenError> {
    let failed = |error: Errno| match error {
        Errno::ADDRINUSE => OpenError::InUse(address, owner::of(address, transport)),
        Errno::ACCESS => OpenError::NotPermitted(address),
        Errno::ADDRNOTAVAIL => OpenError::NotLocal(address),
        other => OpenError::Other(address, other.into()),
    };
    if shared {
        // A probe would meet our own sockets.
        if let Some(other) = owner::of(address, transport) {
            return Err(OpenError::InUse(address, Some(other)));
        }
    } else {
        probe().map_err(failed)?;
    }
    (0..count).map(|_| open().map_err(failed)).collect()
}

fn bound(address: SocketAddr, kind: SocketType, shared: bool) -> Result<OwnedFd, Errno> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(family, kind, flags, None)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    // For TCP it lets the port be taken again while old connections linger; for UDP it would let others share it.
    if kind == SocketType::STREAM {
        sockopt::set_socket_reuseaddr(&socket, true)?;
    }
    if shared {
        sockopt::set_socket_reuseport(&socket, true)?;
        if kind == SocketType::DGRAM {
            let prepared = udp::prepare(socket.as_fd(), address);
            prepared.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::INVAL))?;
        }
    }
    rustix::net::bind(&socket, &address)?;
    Ok(socket)
}
