//! What all soaks have in common: change after change while traffic goes on, and memory that must not grow by it.

use std::fmt::Display;
use std::time::{Duration, Instant};

use crate::loopback::Tidegate;

/// How much of a soak there is.
pub(crate) struct Size {
    /// Connections, or clients of each kind.
    pub(crate) load: usize,
    pub(crate) changes: usize,
    /// Between two changes, for traffic.
    pub(crate) pause: Duration,
}

/// Changes that were made, and what was seen meanwhile.
pub(crate) struct Course {
    took: Duration,
    slowest: Duration,
    /// After each change.
    memory: Vec<u64>,
}

/// What memory may differ by between two looks at it, for no reason.
const NOISE: u64 = 4 << 20;

impl Course {
    /// `make` makes the change of a number, and `well` looks at the traffic after each.
    pub(crate) fn run(
        tidegate: &Tidegate,
        size: &Size,
        make: impl Fn(usize, &Tidegate),
        well: impl Fn(),
    ) -> Self {
        let began = Instant::now();
        let mut memory = Vec::new();
        let mut slowest = Duration::ZERO;
        for number in 0..size.changes {
            let before = Instant::now();
            tidegate.change(|tidegate| make(number, tidegate));
            slowest = slowest.max(before.elapsed());
            memory.push(tidegate.memory());
            well();
            std::thread::sleep(size.pause);
        }
        Self { took: began.elapsed(), slowest, memory }
    }

    /// Tells how it was for `who`, who had `carried` so much, and sees that memory did not grow in its second half.
    pub(crate) fn judge(&self, who: &str, carried: impl Display) {
        let Self { took, slowest, memory } = self;
        let changes = memory.len();
        let (half, end) =
            (typical(&memory[changes / 2..changes * 5 / 8]), typical(&memory[changes * 7 / 8..]));
        println!(
            "{who}, {changes} changes in {took:.1?} (slowest {slowest:.0?}): {carried}; memory {} KB at half time, {} KB at the end",
            half / 1024,
            end / 1024
        );
        assert!(end < half + half / 20 + NOISE, "memory grows: {memory:?}");
    }
}

/// The median.
fn typical(samples: &[u64]) -> u64 {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    sorted[sorted.len() / 2]
}
