//! System calls for which no safe wrapper exists. All unsafe code of the data plane is below this folder.
#![allow(unsafe_code, reason = "each use says why it is sound")]

pub(crate) mod epoll;
