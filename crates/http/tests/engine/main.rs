//! The engine between real clients and backends on loopback, one file for each part of it. Tests have the names of the
//! conformance suite's features where there is one.

#![allow(clippy::unwrap_used, reason = "a test that panics has said what is wrong")]

mod backend;
mod client;
mod gate;
mod raw;

mod auth;
mod bodies;
mod calls;
mod closing;
mod connections;
mod early;
mod faults;
mod filters;
mod framing;
mod grpc;
mod guests;
mod matching;
mod rejected;
mod retries;
mod times;
mod tls;
mod trace;
mod upgrade;
mod web_socket;
