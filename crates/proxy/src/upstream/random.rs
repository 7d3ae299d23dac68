//! Chance for choices among endpoints: quick, a worker's own, and of no use as a secret.

use std::hash::{BuildHasher, RandomState};

/// Wyrand: an addition and a wide multiplication for each number.
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// Starts where no other starts, in this process or in the next.
    pub(crate) fn new() -> Self {
        Self::from_seed(RandomState::new().hash_one(0))
    }

    pub(crate) const fn from_seed(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0xa076_1d64_78bd_642f);
        mixed(self.0, 0xe703_7ed1_a0b4_28db)
    }

    /// One of 0 to `bound`, which it never reaches; 0 where there is nothing to choose from.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        let wide = u128::from(self.next()) * bound as u128;
        (wide >> 64) as usize
    }
}

/// Every bit of the result depends on every bit of both.
pub(super) const fn mixed(a: u64, b: u64) -> u64 {
    let wide = ((a ^ b) as u128).wrapping_mul(a as u128 | 1);
    (wide >> 64) as u64 ^ wide as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_spread_evenly_and_stay_below_their_bound() {
        for bound in [1, 2, 3, 10, 1000] {
            let mut random = Random::from_seed(bound as u64);
            let mut seen = vec![0_u32; bound];
            for _ in 0..bound * 1000 {
                seen[random.below(bound)] += 1;
            }
            assert!(seen.iter().all(|&times| (850..1150).contains(&times)), "{bound}: {seen:?}");
        }
        assert_eq!(Random::from_seed(1).below(0), 0);
    }

    #[test]
    fn two_start_in_different_places() {
        assert_ne!(Random::new().next(), Random::new().next());
    }
}
