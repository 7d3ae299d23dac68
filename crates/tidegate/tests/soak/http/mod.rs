//! Requests over HTTP/1.1 and HTTP/2 and WebSockets with checked bodies while manifests change all the time: none may
//! fail, no byte may be wrong, tunnels stay, and memory must not grow.

mod changes;
mod load;
mod traffic;

use std::time::{Duration, Instant};

use self::changes::Changes;
use self::load::Load;
use crate::loopback::Tidegate;
use crate::{NOISE, alone, is_full, typical};

struct Size {
    /// Clients of each kind.
    clients: usize,
    changes: usize,
    /// Between two changes, for traffic.
    pause: Duration,
}

const SMALL: Size = Size { clients: 8, changes: 40, pause: Duration::from_millis(100) };
const FULL: Size = Size { clients: 100, changes: 500, pause: Duration::from_millis(150) };

#[test]
fn requests_outlive_changes() {
    let _alone = alone();
    let Size { clients, changes, pause } = if is_full() { FULL } else { SMALL };
    let manifests = Changes::new();
    let files = manifests.files();
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let tidegate = Tidegate::start(&files, &["--drain=1s"]);

    let load = Load::start(&tidegate, &manifests.authority, clients);
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
        "{clients} clients of each kind, {changes} changes in {took:.1?} (slowest {slowest:.0?}): {carried}; memory {} KB at half time, {} KB at the end",
        half / 1024,
        end / 1024
    );
    assert!(end < half + half / 20 + NOISE, "memory grows: {memory:?}");
}
