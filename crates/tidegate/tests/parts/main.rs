//! Tidegate between real programs: what they say to each other through it is what they would say without it.

#![allow(clippy::unwrap_used, reason = "a test that panics has said what is wrong")]

mod client_certificates;
mod curl;
mod dns;
mod kept;
mod mqtt;
mod nginx;
mod openssl;
mod passthrough;
mod postgres;
mod redis;
mod ssh;
#[path = "../support/mod.rs"]
mod support;
mod terminate;
mod web;

/// So that curl is the same whoever runs it.
const CURL: [&str; 5] = ["--disable", "--silent", "--show-error", "--noproxy", "*"];
