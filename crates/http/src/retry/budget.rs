//! A budget for the retries of a backend: a share of its requests over a while, and a few in any case. Retries must
//! not be what keeps an overloaded backend down.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tidegate_plan::RetryBudget;

/// Shared by all workers; nothing is locked. Times are since any one moment, the same for all calls.
#[derive(Debug)]
pub struct Budget {
    percent: u64,
    minimum: u64,
    requests: Window,
    retries: Window,
    /// The same retries over the time that the minimum is said for.
    spared: Window,
}

impl Budget {
    #[must_use]
    pub fn new(budget: &RetryBudget) -> Self {
        Self {
            percent: u64::from(budget.percent),
            minimum: u64::from(budget.minimum),
            requests: Window::new(budget.interval),
            retries: Window::new(budget.interval),
            spared: Window::new(budget.minimum_interval),
        }
    }

    /// A request begins; retries are not counted here.
    pub fn request(&self, now: Duration) {
        self.requests.add(now);
    }

    /// Whether one more retry is within the budget; if so it is spent. Workers that ask at the same moment may overdraw
    /// it by one each.
    pub fn spend(&self, now: Duration) -> bool {
        let retries = self.retries.count(now) + 1;
        let all = self.requests.count(now) + retries;
        let within = retries * 100 <= all * self.percent || self.spared.count(now) < self.minimum;
        if within {
            self.retries.add(now);
            self.spared.add(now);
        }
        within
    }
}

const SLOTS: u64 = 10;

/// How often something happened in the last while, to a tenth of it.
#[derive(Debug)]
struct Window {
    slot: Duration,
    /// In the upper half which tenth since the beginning it is for, in the lower how often.
    slots: [AtomicU64; SLOTS as usize],
}

impl Window {
    fn new(length: Duration) -> Self {
        let slot = (length / SLOTS as u32).max(Duration::from_millis(1));
        Self { slot, slots: Default::default() }
    }

    fn add(&self, now: Duration) {
        let tenth = self.tenth(now);
        let slot = &self.slots[(tenth % SLOTS) as usize];
        let added = |old: u64| {
            let count = if old >> 32 == tenth { old & u64::from(u32::MAX) } else { 0 };
            Some(tenth << 32 | (count + 1).min(u64::from(u32::MAX)))
        };
        // It never says no.
        let _ = slot.fetch_update(Relaxed, Relaxed, added);
    }

    fn count(&self, now: Duration) -> u64 {
        let tenth = self.tenth(now);
        let counted = self.slots.iter().map(|slot| slot.load(Relaxed));
        let recent = counted.filter(|slot| slot >> 32 <= tenth && (slot >> 32) + SLOTS > tenth);
        recent.map(|slot| slot & u64::from(u32::MAX)).sum()
    }

    fn tenth(&self, now: Duration) -> u64 {
        // It has the upper half of a slot; with the shortest slots it begins anew after 49 days.
        (now.as_nanos() / self.slot.as_nanos()) as u64 & u64::from(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn budget(percent: u32, minimum: u32) -> Budget {
        let interval = 10 * SECOND;
        Budget::new(&RetryBudget { percent, interval, minimum, minimum_interval: SECOND })
    }

    fn spent(budget: &Budget, wanted: u32, now: Duration) -> usize {
        (0..wanted).filter(|_| budget.spend(now)).count()
    }

    #[test]
    fn retries_are_a_share_of_all() {
        let twenty = budget(20, 0);
        assert_eq!(spent(&twenty, 100, SECOND), 0);
        (0..80).for_each(|_| twenty.request(SECOND));
        assert_eq!(spent(&twenty, 100, SECOND), 20);
        assert_eq!(spent(&budget(0, 0), 10, SECOND), 0);
        assert_eq!(spent(&budget(100, 0), 10, SECOND), 10);
    }

    #[test]
    fn a_few_are_always_allowed() {
        let few = budget(20, 10);
        assert_eq!(spent(&few, 100, SECOND), 10);
        assert_eq!(spent(&few, 100, SECOND + SECOND / 2), 0);
        assert_eq!(spent(&few, 100, 3 * SECOND), 10);
    }

    #[test]
    fn what_was_long_ago_does_not_count() {
        let twenty = budget(20, 0);
        (0..80).for_each(|_| twenty.request(SECOND));
        assert_eq!(spent(&twenty, 10, 5 * SECOND), 10);
        assert_eq!(spent(&twenty, 10, 10 * SECOND), 10);
        assert_eq!(spent(&twenty, 10, 10 * SECOND), 0);
        assert_eq!(spent(&twenty, 10, 30 * SECOND), 0);
    }

    #[test]
    fn workers_lose_no_count() {
        let window = Window::new(10 * SECOND);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1000).for_each(|_| window.add(SECOND)));
            }
        });
        assert_eq!(window.count(SECOND), 4000);
    }
}
