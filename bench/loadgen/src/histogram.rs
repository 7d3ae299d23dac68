//! Times in buckets: each power of two is cut in 64, so that what is read back is within 1.6 % of what was noted.

use std::time::Duration;

use crate::record::Record;

const STEPS: usize = 64;
const POWERS: usize = 60;

#[derive(Debug)]
pub(crate) struct Histogram {
    buckets: Vec<u64>,
    count: u64,
    longest: Duration,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: vec![0; STEPS * POWERS], count: 0, longest: Duration::ZERO }
    }
}

impl Histogram {
    pub(crate) fn note(&mut self, time: Duration) {
        self.buckets[bucket(time.as_nanos() as u64)] += 1;
        self.count += 1;
        self.longest = self.longest.max(time);
    }

    /// In microseconds; `share` is 0.99 for the time that 99 of 100 stay within.
    pub(crate) fn quantile(&self, share: f64) -> f64 {
        let wanted = ((self.count as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return lower_bound(bucket) as f64 / 1e3;
            }
        }
        0.0
    }

    pub(crate) fn longest(&self) -> f64 {
        self.longest.as_secs_f64() * 1e6
    }

    pub(crate) fn describe(&self, record: Record) -> Record {
        record
            .number("p50_us", self.quantile(0.5), 1)
            .number("p99_us", self.quantile(0.99), 1)
            .number("p999_us", self.quantile(0.999), 1)
            .number("max_us", self.longest(), 1)
    }
}

fn bucket(nanoseconds: u64) -> usize {
    if nanoseconds < STEPS as u64 {
        return nanoseconds as usize;
    }
    let power = nanoseconds.ilog2() as usize;
    (power - 5) * STEPS + (nanoseconds >> (power - 6)) as usize % STEPS
}

fn lower_bound(bucket: usize) -> u64 {
    if bucket < STEPS {
        return bucket as u64;
    }
    let power = bucket / STEPS + 5;
    ((STEPS + bucket % STEPS) as u64) << (power - 6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_back_is_close_to_what_was_noted() {
        for nanoseconds in [0, 1, 63, 64, 65, 1000, 12_345, 9_999_999, 60_000_000_000] {
            let back = lower_bound(bucket(nanoseconds));
            assert!(
                back <= nanoseconds && nanoseconds - back <= nanoseconds / 63,
                "{nanoseconds} became {back}"
            );
        }
    }

    #[test]
    fn quantiles_are_those_of_what_was_noted() {
        let mut times = Histogram::default();
        for microseconds in 1..=1000 {
            times.note(Duration::from_micros(microseconds));
        }
        assert!((times.quantile(0.5) - 500.0).abs() < 8.0);
        assert!((times.quantile(0.99) - 990.0).abs() < 16.0);
        assert!((times.longest() - 1000.0).abs() < 0.01);
    }
}
