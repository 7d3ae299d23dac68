//! Tidegate between real programs: what they say to each other through it is what they would say without it.

#![allow(clippy::unwrap_used, reason = "a test that panics has said what is wrong")]

#[path = "parts/openssl.rs"]
mod openssl;
#[path = "parts/passthrough.rs"]
mod passthrough;
mod support;
