//! Weights, dealt smoothly: every stretch of traffic has the shares that were asked for, not only a long one.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use tidegate_plan::{Group, Reason};

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

/// Which backend's turn it is by weight.
pub(crate) fn deal(group: &Group, cycle: Option<&Cycle>) -> Result<usize, Ending> {
    if group.0.is_empty() {
        return Err(Ending::Refused(Reason::NoBackends));
    }
    let total = group.total();
    if total == 0 {
        return Err(Ending::Refused(Reason::NoWeight));
    }
    let mut point = (u64::from(cycle.map_or(0, Cycle::next)) * total) >> 32;
    for (index, backend) in group.0.iter().enumerate() {
        let weight = u64::from(backend.weight);
        if point < weight {
            return Ok(index);
        }
        point -= weight;
    }
    unreachable!("the point is below the total of the weights")
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use proptest::prelude::*;
    use tidegate_plan::{BackendId, BackendKind, ObjectName, Target, Transport, WeightedBackend};

    use super::*;

    fn group(weights: &[u32]) -> Group {
        let target = Target::Backend(BackendId {
            kind: BackendKind::Service,
            object: ObjectName::new("default", "web"),
            port: 80,
            transport: Transport::Tcp,
        });
        let backend = |&weight| WeightedBackend { weight, target: target.clone(), filters: vec![] };
        Group(weights.iter().map(backend).collect())
    }

    /// How often each backend had its turn among `count`, dealt by so many threads.
    fn dealt(group: &Group, start: u32, count: usize, threads: usize) -> Vec<usize> {
        let cycle = Cycle::new(start);
        let turns: Vec<AtomicUsize> = group.0.iter().map(|_| AtomicUsize::new(0)).collect();
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let (cycle, turns) = (&cycle, &turns);
                scope.spawn(move || {
                    for _ in (thread..count).step_by(threads) {
                        let chosen = deal(group, Some(cycle)).unwrap();
                        turns[chosen].fetch_add(1, Relaxed);
                    }
                });
            }
        });
        turns.into_iter().map(AtomicUsize::into_inner).collect()
    }

    proptest! {
        #[test]
        fn shares_are_kept_within_two_points_over_500(
            weights in prop_oneof![
                prop::collection::vec(0_u32..10, 1..5),
                prop::collection::vec(0_u32..1_000_001, 1..17),
            ],
            start: u32,
            threads in 1_usize..17,
        ) {
            let group = group(&weights);
            prop_assume!(group.total() > 0);
            for (backend, turns) in group.0.iter().zip(dealt(&group, start, 500, threads)) {
                let off = turns as f64 / 5.0 - backend.percent(group.total());
                prop_assert!(off.abs() < 2.0, "{weights:?}: {turns} of 500, {off} points off");
            }
        }

        #[test]
        fn short_stretches_have_their_shares_too(heavy in 1_u32..100, start: u32) {
            let group = group(&[heavy, 100 - heavy]);
            let turns = dealt(&group, start, 100, 1);
            prop_assert!(turns[0].abs_diff(heavy as usize) <= 3, "{heavy}: {turns:?}");
        }
    }

    #[test]
    fn nothing_to_deal() {
        let refused = |weights: &[u32]| deal(&group(weights), None).unwrap_err();
        assert_eq!(refused(&[]), Ending::Refused(Reason::NoBackends));
        assert_eq!(refused(&[0, 0]), Ending::Refused(Reason::NoWeight));
    }

    #[test]
    fn weight_zero_never_has_its_turn() {
        assert_eq!(dealt(&group(&[0, 1, 0]), 0, 100, 1), [0, 100, 0]);
    }
}
