//! What the requests of a route came to, a cell for each worker.

use std::time::Duration;

use super::count::{Count, Counts, PerWorker};
use super::line::RequestRecord;
use crate::Ending;

/// Classes of status codes, as metrics name them; the first is for requests without an answer.
pub(super) const CLASSES: [&str; 6] = ["none", "1xx", "2xx", "3xx", "4xx", "5xx"];

pub(super) fn class(status: u16) -> usize {
    match status / 100 {
        class @ 1..=5 => usize::from(class),
        _ => 0,
    }
}

/// Upper ends of the buckets of a histogram of times, in microseconds; what is longer is in none of them.
pub(super) const BUCKETS: [u64; 15] = [
    500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000,
    5_000_000, 10_000_000, 60_000_000,
];

/// What the requests of one route came to.
#[derive(Debug)]
pub struct RequestStats(PerWorker<RequestCell>);

/// One worker's share of that.
#[derive(Debug, Default)]
pub(crate) struct RequestCell {
    classes: Counts<{ CLASSES.len() }>,
    endings: Counts<{ Ending::COUNT }>,
    time: Times,
    upstream: Times,
    retries: Count,
    up: Count,
    down: Count,
}

/// A histogram of times; the bucket after the last is for all that are longer.
#[derive(Debug, Default)]
struct Times {
    buckets: Counts<{ BUCKETS.len() + 1 }>,
    microseconds: Count,
}

/// The same of all workers together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Histogram {
    pub(super) buckets: [u64; BUCKETS.len() + 1],
    pub(super) microseconds: u64,
}

impl RequestStats {
    pub(crate) fn new(workers: usize) -> Self {
        Self(PerWorker::new(workers))
    }

    #[inline]
    pub(crate) fn cell(&self, worker: usize) -> &RequestCell {
        self.0.cell(worker)
    }

    pub(super) fn class(&self, class: usize) -> u64 {
        self.0.sum(|cell| cell.classes.get(class))
    }

    pub(super) fn requests(&self) -> u64 {
        self.0.sum(|cell| cell.classes.sum())
    }

    pub(super) fn ended(&self, ending: Ending) -> u64 {
        self.0.sum(|cell| cell.endings.get(ending.index()))
    }

    pub(super) fn retries(&self) -> u64 {
        self.0.sum(|cell| cell.retries.get())
    }

    pub(super) fn up(&self) -> u64 {
        self.0.sum(|cell| cell.up.get())
    }

    pub(super) fn down(&self) -> u64 {
        self.0.sum(|cell| cell.down.get())
    }

    pub(super) fn time(&self) -> Histogram {
        self.histogram(|cell| &cell.time)
    }

    pub(super) fn upstream(&self) -> Histogram {
        self.histogram(|cell| &cell.upstream)
    }

    fn histogram(&self, of: impl Fn(&RequestCell) -> &Times) -> Histogram {
        Histogram {
            buckets: std::array::from_fn(|bucket| self.0.sum(|cell| of(cell).buckets.get(bucket))),
            microseconds: self.0.sum(|cell| of(cell).microseconds.get()),
        }
    }
}

impl RequestCell {
    #[inline]
    pub(crate) fn over(&self, request: &RequestRecord<'_>) {
        self.classes.add(class(request.status), 1);
        self.endings.add(request.ending.index(), 1);
        self.time.add(request.duration);
        if let Some(time) = request.upstream {
            self.upstream.add(time);
        }
        self.retries.add(request.retries.into());
        self.up.add(request.up);
        self.down.add(request.down);
    }
}

impl Times {
    #[inline]
    fn add(&self, time: Duration) {
        let microseconds = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.buckets.add(BUCKETS.partition_point(|end| *end < microseconds), 1);
        self.microseconds.add(microseconds);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_fall_into_the_bucket_that_ends_behind_them() {
        let times = Times::default();
        for microseconds in [0, 500, 501, 60_000_000, 60_000_001] {
            times.add(Duration::from_micros(microseconds));
        }
        let counts: Vec<u64> = (0..=BUCKETS.len()).map(|bucket| times.buckets.get(bucket)).collect();
        assert_eq!((counts[0], counts[1], counts[14], counts[15]), (2, 1, 1, 1));
        assert_eq!(times.microseconds.get(), 120_001_002);
    }

    #[test]
    fn every_status_has_a_class() {
        for (status, name) in
            [(0, "none"), (101, "1xx"), (204, "2xx"), (308, "3xx"), (421, "4xx"), (599, "5xx"), (999, "none")]
        {
            assert_eq!(CLASSES[class(status)], name, "{status}");
        }
    }
}
