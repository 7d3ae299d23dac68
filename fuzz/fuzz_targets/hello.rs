//! ClientHellos, with rustls as the oracle. The body is an ordinary test of the hello crate.
#![no_main]

#[path = "../../crates/hello/tests/hello/oracle.rs"]
mod oracle;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| oracle::check(bytes));
