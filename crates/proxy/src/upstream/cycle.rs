//! Weights, dealt smoothly: every stretch of traffic has the shares that were asked for, not only a long one.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use tidegate_plan::{Group, Reason, WeightedBackend};

use crate::Ending;

/// How far a rule has dealt. Shared by all workers: an addition for each connection is nothing beside it.
#[derive(Debug)]
pub(crate) struct Cycle(AtomicU32);

/// The golden ratio as a fraction of 2^32. Its multiples fall into every interval as often as the interval is wide,
/// as evenly as any sequence can, whatever the weights are.
const STEP: u32 = 0x9e37_79b9;

impl Cycle {
    pub(crate) fn new(start: u32) -> Self {
        Self(AtomicU32::new(start))
    }

    /// A point of the circle from 0 to 2^32, the next of the sequence.
    fn next(&self) -> u32 {
        self.0.fetch_add(STEP, Relaxed)
    }
}

/// The backend whose turn it is by weight.
pub(crate) fn deal<'g>(group: &'g Group, cycle: Option<&Cycle>) -> Result<&'g WeightedBackend, Ending> {
    if group.0.is_empty() {
        return Err(Ending::Refused(Reason::NoBackends));
    }
    let total = group.total();
    if total == 0 {
        return Err(Ending::Refused(Reason::NoWeight));
    }
    let mut point = (u64::from(cycle.map_or(0, Cycle::next)) * total) >> 32;
    for backend in &group.0 {
        let weight = u64::from(backend.weight);
        if point < weight {
            return Ok(backend);
        }
        point -= weight;
    }
    unreachable!("the point is below the total of the weights")
}
