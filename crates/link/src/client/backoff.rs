//! How long to wait before the next try: longer each time, and never the same for two data planes.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

const FIRST: Duration = Duration::from_millis(200);
const MOST: Duration = Duration::from_secs(15);

#[derive(Debug, Default)]
pub(crate) struct Backoff {
    tries: u32,
    random: RandomState,
}

impl Backoff {
    /// Between half and the whole of a time that doubles.
    pub(crate) fn next(&mut self) -> Duration {
        let whole = FIRST.saturating_mul(1 << self.tries.min(16)).min(MOST);
        self.tries = self.tries.saturating_add(1);
        // A new state each time: the hash of nothing is as random as its keys.
        let share = self.random.hash_one(self.tries) as f64 / u64::MAX as f64;
        self.random = RandomState::new();
        whole.mul_f64(0.5 + share / 2.0)
    }

    pub(crate) fn reset(&mut self) {
        self.tries = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_to_a_bound_and_begins_again() {
        let mut backoff = Backoff::default();
        for tries in 0..40 {
            let whole = (FIRST * 2_u32.pow(tries.min(10))).min(MOST);
            let wait = backoff.next();
            assert!(wait >= whole / 2 && wait <= whole, "{tries}: {wait:?}");
        }
        backoff.reset();
        assert!(backoff.next() <= FIRST);
    }

    #[test]
    fn two_do_not_wait_alike() {
        let waits = |mut backoff: Backoff| (0..8).map(|_| backoff.next()).collect::<Vec<_>>();
        assert_ne!(waits(Backoff::default()), waits(Backoff::default()));
    }
}
