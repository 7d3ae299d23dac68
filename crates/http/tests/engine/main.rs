//! The engine between real clients and backends on loopback, one file for each part of it. Tests have the names of the
//! conformance suite's features where there is one.

#![allow(clippy::unwrap_used, reason = "a test that panics has said what is wrong")]

mod backend;
mod client;
mod gate;

mod auth;
mod connections;
mod early;
mod filters;
mod grpc;
mod matching;
mod rejected;
mod retries;
mod tls;
mod upgrade;
