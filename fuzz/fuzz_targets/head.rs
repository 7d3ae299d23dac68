//! Bytes of HTTP/1.1. The body is an ordinary test of the http crate.
#![no_main]

#[path = "../../crates/http/tests/head/body.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| body::check(bytes));
