//! Datagrams in batches: `recvmmsg` and `sendmmsg` with the control messages that say which address a client used
//! and how large the datagrams in a run are. It knows nothing of flows.

#![allow(unsafe_code, reason = "system calls over many messages at once take raw pointers")]

mod address;
mod receive;
mod send;
#[cfg(test)]
mod tests;

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

pub(crate) use self::receive::{Batch, Datagram, Names};
pub(crate) use self::send::Outbox;

/// Messages of one system call.
pub(crate) const BATCH: usize = 64;

/// Room for what comes with a message: an IPv6 packet info and an integer.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Control([u8; CONTROL]);

const CONTROL: usize = 64;

/// SAFETY: arithmetic only.
const PACKET_INFO_V4: usize = unsafe { libc::CMSG_SPACE(size_of::<libc::in_pktinfo>() as u32) } as usize;
/// SAFETY: arithmetic only.
const PACKET_INFO_V6: usize = unsafe { libc::CMSG_SPACE(size_of::<libc::in6_pktinfo>() as u32) } as usize;
/// SAFETY: arithmetic only.
const INTEGER: usize = unsafe { libc::CMSG_SPACE(size_of::<libc::c_int>() as u32) } as usize;
const _: () = assert!(PACKET_INFO_V4 <= PACKET_INFO_V6 && PACKET_INFO_V6 + INTEGER <= CONTROL);

/// Makes a socket that is about to be bound to `local` say for each datagram which address it was sent to, where
/// the binding alone does not. Datagrams that came before this do not tell.
pub(crate) fn tell_local_address(socket: BorrowedFd<'_>, local: SocketAddr) -> io::Result<()> {
    match local {
        _ if !local.ip().is_unspecified() => Ok(()),
        SocketAddr::V4(_) => set(socket, libc::IPPROTO_IP, libc::IP_PKTINFO, 1),
        SocketAddr::V6(_) => set(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1),
    }
}

/// Lets the kernel hand over runs of datagrams from one sender as one message.
pub(crate) fn receive_runs(socket: BorrowedFd<'_>) -> io::Result<()> {
    set(socket, libc::SOL_UDP, libc::UDP_GRO, 1)
}

fn set(socket: BorrowedFd<'_>, level: libc::c_int, name: libc::c_int, value: libc::c_int) -> io::Result<()> {
    let size = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the value is an integer that lives until the call returns, and `size` is its size.
    let result =
        unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const value).cast(), size) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
