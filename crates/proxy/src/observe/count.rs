//! Counting without a lock: every worker adds to a number of its own, and whoever wants the sum reads them all.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A number that one thread adds to and any may read. Two that add at a time would lose some, which is why it is
/// only ever part of a worker's cell.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    /// A load and a store, with no locked instruction.
    #[inline]
    pub(crate) fn add(&self, more: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(more), Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// While nobody adds.
    pub(super) fn clear(&self) {
        self.0.store(0, Relaxed);
    }
}

/// A row of counts, one for each member of a closed set.
#[derive(Debug)]
pub(crate) struct Counts<const N: usize>([Count; N]);

impl<const N: usize> Default for Counts<N> {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Count::default()))
    }
}

impl<const N: usize> Counts<N> {
    #[inline]
    pub(crate) fn add(&self, index: usize, more: u64) {
        self.0[index].add(more);
    }

    pub(crate) fn get(&self, index: usize) -> u64 {
        self.0[index].get()
    }

    pub(crate) fn sum(&self) -> u64 {
        self.0.iter().map(Count::get).sum()
    }
}

/// A cell for each worker, made when it first asks: of ten thousand listeners few are busy on every worker.
#[derive(Debug)]
pub(crate) struct PerWorker<T>(Box<[OnceLock<Box<Padded<T>>>]>);

/// Two of the lines that caches fetch together: no worker's adding slows another's.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Padded<T>(T);

impl<T: Default> PerWorker<T> {
    pub(crate) fn new(workers: usize) -> Self {
        Self((0..workers).map(|_| OnceLock::new()).collect())
    }

    /// The cell of this worker, which alone may add to it.
    #[inline]
    pub(crate) fn cell(&self, worker: usize) -> &T {
        &self.0[worker].get_or_init(Box::default).0
    }

    pub(crate) fn sum(&self, of: impl Fn(&T) -> u64) -> u64 {
        self.0.iter().filter_map(OnceLock::get).map(|cell| of(&cell.0)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_worker_counts_for_itself_and_the_sum_is_exact() {
        let cells: PerWorker<Counts<2>> = PerWorker::new(4);
        std::thread::scope(|scope| {
            for worker in 0..3 {
                let cells = &cells;
                scope.spawn(move || (0..10_000).for_each(|n| cells.cell(worker).add(n % 2, 3)));
            }
        });
        assert_eq!(cells.sum(|cell| cell.get(0)), 3 * 5_000 * 3);
        assert_eq!(cells.sum(Counts::sum), 3 * 10_000 * 3);
        assert!(cells.0[3].get().is_none(), "a worker that never asked has no cell");
    }
}
