//! What goes wrong around a running Tidegate: backends, clients, the machine, manifests. Everything happens on
//! loopback and ends by itself; times are kept short by the flags of the bounds.
#![allow(clippy::unwrap_used, reason = "a test may")]

#[path = "../loopback/mod.rs"]
mod loopback;
#[path = "../support/mod.rs"]
mod support;

mod backends;
mod changes;
mod datagrams;
mod descriptors;
mod drain;
mod floods;
mod hellos;
mod limits;
mod log;
mod ports;
mod resets;
mod sharing;
mod slow;
mod slow_requests;
mod times;
