//! YAML to objects to a translation to decisions. The body is an ordinary test of the translate crate.
#![no_main]

#[path = "../../crates/translate/tests/manifests/body.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| body::check(bytes));
