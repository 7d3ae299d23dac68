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
mod http;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use loopback::Tidegate;

use crate::changes::Changes;
use crate::connections::Load;

struct Size {
    connections: usize,
    changes: usize,
    /// Between two changes, for traffic.
    pause: Duration,
}

const SMALL: Size = Size { connections: 200, changes: 48, pause: Duration::from_millis(100) };
const FULL: Size = Size { connections: 2_000, changes: 500, pause: Duration::from_millis(150) };

/// What memory may differ by between two looks at it, for no reason.
const NOISE: u64 = 4 << 20;

#[test]
fn live_connections_outlive_changes() {
    let _alone = alone();
    let Size { connections, changes, pause } = if is_full() { FULL } else { SMALL };
    let manifests = Changes::new();
    let files = manifests.files();
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let tidegate = Tidegate::start(&files, &["--drain=1s"]);

    let load = Load::start(&tidegate, &manifests.authority, connections);
    tidegate.wait_active(connections as u64);
    load.start_probes();
    let began = Instant::now();
    let mut memory = Vec::new();
    let mut slowest = Duration::ZERO;
    for number in 0..changes {
        let before = Instant::now();
        tidegate.change(|tidegate| manifests.make(number, tidegate));
        slowest = slowest.max(before.elapsed());
        memory.push(tidegate.memory());
        load.assert_well();
        std::thread::sleep(pause);
    }
    let took = began.elapsed();
    let carried = load.stop();
    tidegate.wait_active(0);

    let (half, end) = (typical(&memory[changes / 2..changes * 5 / 8]), typical(&memory[changes * 7 / 8..]));
    println!(
        "{connections} connections, {changes} changes in {took:.1?} (slowest {slowest:.0?}): {carried}; memory {} KB at half time, {} KB at the end",
        half / 1024,
        end / 1024
    );
    assert!(end < half + half / 20 + NOISE, "memory grows: {memory:?}");
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

/// The median.
fn typical(samples: &[u64]) -> u64 {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    sorted[sorted.len() / 2]
}
