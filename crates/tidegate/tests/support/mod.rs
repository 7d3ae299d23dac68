//! What tests of the running binary share: Tidegate and other programs as guards that end what they started,
//! certificates, manifests and ports. It knows nothing of any one test.

#![allow(dead_code, reason = "each test binary uses a part of it")]

pub(crate) mod backend;
pub(crate) mod certificate;
pub(crate) mod manifest;
pub(crate) mod port;
pub(crate) mod process;
pub(crate) mod tidegate;
pub(crate) mod web;

use std::fmt::Display;
use std::thread;
use std::time::{Duration, Instant};

/// So long a test waits for what must come. No test asserts that something took less.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Asks until there is an answer.
pub(crate) fn wait_for<T>(what: impl Display, mut ask: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(start.elapsed() < PATIENCE, "waited in vain for {what}");
        thread::sleep(Duration::from_millis(5));
    }
}
