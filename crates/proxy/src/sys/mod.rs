//! System calls for which no safe wrapper exists. All unsafe code of the data plane is below this folder.

pub(crate) mod datagram;
pub(crate) mod epoll;
