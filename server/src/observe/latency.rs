//! Latency of commands: a histogram for each worker, written by that worker alone.
//!
//! A bucket is an eighth of a power of two wide, so a percentile is right to one part in eight. Fast commands
//! are noted by sample (`dispatch`), so that the histogram costs them nothing more than their timing does.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::observe::counter;

/// The unit of the finest buckets.
const STEP_NANOS: u64 = 64;
/// The last bucket begins at some nine minutes.
const BUCKETS: usize = 256;

/// Calls by how long they took; without memory before the first.
#[derive(Debug, Default)]
pub struct Histogram(OnceLock<Box<[AtomicU64]>>);

/// The calls of several histograms together, by bucket; empty if there were none.
pub(crate) type Counts = Vec<u64>;

impl Histogram {
    /// Counts `calls` calls that took `nanos` each.
    pub fn note(&self, nanos: u64, calls: u64) {
        let buckets = self.0.get_or_init(|| (0..BUCKETS).map(|_| AtomicU64::new(0)).collect());
        counter::add(&buckets[bucket_of(nanos)], calls);
    }

    /// Adds these calls to `counts`.
    pub fn add_to(&self, counts: &mut Counts) {
        let Some(buckets) = self.0.get() else { return };
        counts.resize(BUCKETS, 0);
        for (count, bucket) in counts.iter_mut().zip(buckets) {
            *count += bucket.load(Ordering::Relaxed);
        }
    }
}

/// The nanoseconds that so many per cent of the calls did not exceed; `None` without calls.
pub(crate) fn percentile(counts: &Counts, percent: f64) -> Option<u64> {
    let calls: u64 = counts.iter().sum();
    let wanted = ((calls as f64 * percent / 100.0).ceil() as u64).max(1);
    let mut seen = 0;
    let bucket = counts.iter().position(|count| {
        seen += count;
        seen >= wanted
    })?;
    Some(last_of(bucket))
}

/// Numbers of microseconds that are powers of two, each with the calls that took no longer; without those
/// that add no calls. A bucket that goes beyond such a number belongs to the next one.
pub(crate) fn cumulative_us(counts: &Counts) -> Vec<(u64, u64)> {
    let mut sums: Vec<(u64, u64)> = Vec::new();
    let mut calls = 0;
    for (bucket, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        calls += count;
        let us = last_of(bucket).div_ceil(1000).next_power_of_two();
        match sums.last_mut() {
            Some(last) if last.0 == us => last.1 = calls,
            _ => sums.push((us, calls)),
        }
    }
    sums
}

fn bucket_of(nanos: u64) -> usize {
    let steps = nanos / STEP_NANOS;
    if steps < 8 {
        return steps as usize;
    }
    let power = steps.ilog2() as usize;
    ((power - 2) * 8 + (steps >> (power - 3)) as usize % 8).min(BUCKETS - 1)
}

/// The largest number of nanoseconds in a bucket.
fn last_of(bucket: usize) -> u64 {
    let steps = match bucket {
        0..8 => bucket as u64 + 1,
        _ => (8 + bucket as u64 % 8 + 1) << (bucket / 8 - 1),
    };
    steps * STEP_NANOS - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other_without_a_gap() {
        for bucket in 0..BUCKETS - 1 {
            let last = last_of(bucket);
            assert_eq!((bucket_of(last), bucket_of(last + 1)), (bucket, bucket + 1), "{last}");
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn sums_rise_by_powers_of_two() {
        let (histogram, mut counts) = (Histogram::default(), Counts::new());
        for (us, calls) in [(0, 5), (1, 2), (3, 1), (100, 10), (120, 1), (100_000, 1)] {
            histogram.note(us * 1000 + 10, calls);
        }
        histogram.add_to(&mut counts);
        let sums = cumulative_us(&counts);
        assert_eq!(sums, [(1, 5), (2, 7), (4, 8), (128, 19), (131_072, 20)]);
        assert!(cumulative_us(&Counts::new()).is_empty());
    }

    #[test]
    fn percentiles_are_right_to_one_part_in_eight() {
        let (one, other, mut counts) = (Histogram::default(), Histogram::default(), Counts::new());
        one.add_to(&mut counts);
        assert_eq!(percentile(&counts, 50.0), None);
        for us in 1..=1000 {
            let worker = if us % 2 == 0 { &one } else { &other };
            worker.note(us * 1000, 16);
        }
        one.add_to(&mut counts);
        other.add_to(&mut counts);
        for (percent, us) in [(0.0, 1.0), (50.0, 500.0), (99.0, 990.0), (99.9, 999.0), (100.0, 1000.0)] {
            let found_us = percentile(&counts, percent).expect("there were calls") as f64 / 1000.0;
            assert!((us..us * 1.125).contains(&found_us), "{percent} %: {found_us}");
        }
    }
}
