#![allow(clippy::unwrap_used, reason = "a test that panics has said what is wrong")]

mod identity;
mod plans;
mod raw;
mod sequences;
mod stage;
mod stream;
mod versions;
