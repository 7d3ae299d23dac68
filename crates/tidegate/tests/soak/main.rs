//! Many live connections with checked bytes while manifests change all the time: none may break that should stay, no
//! byte may be wrong, new ones must get through at every moment, and memory must not grow.
//!
//! `SOAK=full` takes 2,000 connections and 500 changes, for some minutes; without it a small run takes seconds.
#![allow(clippy::unwrap_used, reason = "a test may")]

#[path = "../loopback/mod.rs"]
mod loopback;
#[path = "../support/mod.rs"]
mod support;

mod changes;
mod connections;
mod course;
mod http;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use loopback::Tidegate;

use crate::changes::Changes;
use crate::connections::Load;
use crate::course::{Course, Size};

const SMALL: Size = Size { load: 200, changes: 48, pause: Duration::from_millis(100) };
const FULL: Size = Size { load: 2_000, changes: 500, pause: Duration::from_millis(150) };

#[test]
fn live_connections_outlive_changes() {
    let _alone = alone();
    let size = if is_full() { FULL } else { SMALL };
    let manifests = Changes::new();
    let files = manifests.files();
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let tidegate = Tidegate::start(&files, &["--drain=1s"]);

    let load = Load::start(&tidegate, &manifests.authority, size.load);
    tidegate.wait_active(size.load as u64);
    load.start_probes();
    let make = |number: usize, tidegate: &Tidegate| manifests.make(number, tidegate);
    let course = Course::run(&tidegate, &size, make, || load.assert_well());
    let carried = load.stop();
    tidegate.wait_active(0);

    course.judge(&format!("{} connections", size.load), carried);
    assert_eq!(tidegate.ended("drained"), 0, "a connection that should stay was drained");
}

fn is_full() -> bool {
    std::env::var_os("SOAK").is_some_and(|value| value == "full")
}

/// One soak at a time: each wants the machine for itself.
fn alone() -> MutexGuard<'static, ()> {
    static SOAK: Mutex<()> = Mutex::new(());
    SOAK.lock().unwrap_or_else(PoisonError::into_inner)
}
