//! Deadlines of many connections, of which hardly any is ever met. A connection is entered once and looked at when
//! its time has come; that it was active meanwhile, or is long gone, is found out only then.

use std::time::Duration;

/// Tenths of a second since the worker began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Tick(u32);

/// A connection by its place, and which of the connections that were at that place it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Due {
    pub(crate) place: u32,
    pub(crate) generation: u32,
}

#[derive(Debug)]
pub(crate) struct Wheel {
    slots: Vec<Vec<Due>>,
    /// The next tick to be looked at.
    next: Tick,
}

/// A little less than a minute: what is due later is looked at in between, which costs nothing.
const SLOTS: u32 = 512;

impl Tick {
    pub(crate) const LENGTH: Duration = Duration::from_millis(100);
    pub(crate) const NEVER: Self = Self(u32::MAX);

    pub(crate) fn at(since_beginning: Duration) -> Self {
        // Every turn asks, and a division of the whole time in milliseconds would be one of 128 bits.
        let tenths = since_beginning.as_secs() * 10 + u64::from(since_beginning.subsec_millis() / 100);
        Self(u32::try_from(tenths).unwrap_or(u32::MAX))
    }

    /// Rounded up: nobody has less time than was promised.
    pub(crate) fn after(self, time: Duration) -> Self {
        let rest = u64::from(time.subsec_nanos().div_ceil(100_000_000));
        let tenths = time.as_secs().saturating_mul(10).saturating_add(rest);
        Self(self.0.saturating_add(u32::try_from(tenths).unwrap_or(u32::MAX)).saturating_add(1))
    }
}

impl Wheel {
    pub(crate) fn new(now: Tick) -> Self {
        Self { slots: (0..SLOTS).map(|_| Vec::new()).collect(), next: now }
    }

    /// Enters a connection to be looked at when `at` has come, or before. Says when that will be.
    pub(crate) fn enter(&mut self, at: Tick, due: Due) -> Tick {
        let at = at.clamp(self.next, Tick(self.next.0.saturating_add(SLOTS - 1)));
        self.slots[(at.0 % SLOTS) as usize].push(due);
        at
    }

    /// Moves to `due` all that is to be looked at up to now.
    pub(crate) fn turn(&mut self, now: Tick, due: &mut Vec<Due>) {
        for _ in 0..SLOTS {
            if self.next > now {
                return;
            }
            due.append(&mut self.slots[(self.next.0 % SLOTS) as usize]);
            self.next.0 = self.next.0.saturating_add(1);
        }
        // After a stop of the whole machine every slot has been looked at once.
        self.next = self.next.max(Tick(now.0.saturating_add(1)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(place: u32) -> Due {
        Due { place, generation: 0 }
    }

    #[test]
    fn what_is_due_comes_once_and_in_time() {
        let mut wheel = Wheel::new(Tick(7));
        for (place, at) in [(1, 7), (2, 10), (3, 10), (4, 400)] {
            assert_eq!(wheel.enter(Tick(at), due(place)), Tick(at));
        }
        let mut turned = |now| {
            let mut found = Vec::new();
            wheel.turn(Tick(now), &mut found);
            found.iter().map(|due| due.place).collect::<Vec<_>>()
        };
        assert_eq!(turned(6), [] as [u32; 0]);
        assert_eq!(turned(7), [1]);
        assert_eq!(turned(9), [] as [u32; 0]);
        assert_eq!(turned(10), [2, 3]);
        assert_eq!(turned(399), [] as [u32; 0]);
        assert_eq!(turned(100_000), [4]);
        assert_eq!(turned(200_000), [] as [u32; 0]);
    }

    #[test]
    fn what_is_far_is_looked_at_before() {
        let mut wheel = Wheel::new(Tick(0));
        let at = wheel.enter(Tick::NEVER, due(1));
        assert_eq!(at, Tick(SLOTS - 1));
        let mut found = Vec::new();
        wheel.turn(at, &mut found);
        assert_eq!(found, [due(1)]);
    }

    #[test]
    fn what_is_past_is_due_at_the_next_turn() {
        let mut wheel = Wheel::new(Tick(100));
        assert_eq!(wheel.enter(Tick(3), due(1)), Tick(100));
    }

    #[test]
    fn nobody_has_less_time_than_promised() {
        assert!(Tick::at(Duration::from_millis(199)).after(Duration::from_millis(250)) >= Tick(5));
        assert_eq!(Tick(5).after(Duration::MAX), Tick::NEVER);
    }
}
