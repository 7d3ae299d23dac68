//! An epoll as one descriptor of a tokio runtime.
#![allow(unsafe_code, reason = "the runtime must be promised that the descriptor stays")]

use std::io;
use std::os::fd::OwnedFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Must be called inside the runtime that is to watch it.
pub(crate) fn watch(epoll: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: the descriptor is owned by what is returned, which gives out no more than references to it and takes it
    // out of the runtime before closing it.
    Ok(unsafe { AsyncFd::register_with_interest(epoll, Interest::READABLE) }?)
}
