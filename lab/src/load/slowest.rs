//! The slowest requests of a phase, in bounded memory: a heap with the fastest of them on top.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Requests of a phase that are kept: one in a thousand of four million.
const KEPT: usize = 4096;
/// One request in so many counts as slow.
const ONE_IN: u64 = 1000;

/// A request. Times are nanoseconds since the start of the load; slower ones are greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slow {
    /// From when it was due until its reply had come.
    pub latency_ns: u64,
    /// The time when it was due.
    pub due_ns: u64,
}

/// The slowest requests so far. Invariant: no request that was offered and is not kept is slower than one
/// that is.
#[derive(Debug, Clone)]
pub struct Slowest {
    kept: BinaryHeap<Reverse<Slow>>,
    limit: usize,
}

impl Default for Slowest {
    fn default() -> Slowest {
        Slowest { kept: BinaryHeap::new(), limit: KEPT }
    }
}

impl Slowest {
    /// Keeps a request if it is among the slowest.
    #[inline]
    pub(crate) fn offer(&mut self, slow: Slow) {
        if self.kept.len() < self.limit {
            self.kept.push(Reverse(slow));
        } else if self.kept.peek().is_some_and(|fastest| fastest.0 < slow) {
            self.kept.pop();
            self.kept.push(Reverse(slow));
        }
    }

    /// The slowest of several phases with so many requests in all, slowest first: one in a thousand, at least
    /// one, and no more than are kept of one phase.
    pub fn of<'s>(all: impl IntoIterator<Item = &'s Slowest>, requests: u64) -> Vec<Slow> {
        let mut slow: Vec<Slow> = all.into_iter().flat_map(|one| &one.kept).map(|own| own.0).collect();
        slow.sort_unstable_by(|a, b| b.cmp(a));
        slow.truncate(requests.div_ceil(ONE_IN).min(KEPT as u64) as usize);
        slow
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    #[test]
    fn the_slowest_are_kept_in_whatever_order_they_come() {
        for seed in 0..20 {
            let mut rng = SmallRng::seed_from_u64(seed);
            let count = rng.random_range(0..300);
            let all: Vec<Slow> =
                (0..count).map(|due_ns| Slow { latency_ns: rng.random_range(0..100), due_ns }).collect();
            let mut slowest = Slowest { limit: 10, ..Slowest::default() };
            all.iter().for_each(|slow| slowest.offer(*slow));
            let mut expected = all;
            expected.sort_unstable_by(|a, b| b.cmp(a));
            expected.truncate(10);
            assert!(slowest.kept.len() <= 10, "seed {seed}");
            assert_eq!(Slowest::of([&slowest], 1_000_000), expected, "seed {seed}");
        }
    }

    #[test]
    fn one_in_a_thousand_of_all_phases_together_is_slow() {
        let mut phases = [Slowest::default(), Slowest::default()];
        for due_ns in 0..5000 {
            phases[usize::from(due_ns % 5 == 0)].offer(Slow { latency_ns: due_ns, due_ns });
        }
        let due =
            |requests| Slowest::of(&phases, requests).iter().map(|slow| slow.due_ns).collect::<Vec<_>>();
        assert_eq!(due(2001), [4999, 4998, 4997]);
        assert_eq!(due(1), [4999]);
        assert!(due(0).is_empty());
        // Of one phase no more than the limit is known.
        assert_eq!(due(u64::MAX).len(), KEPT);
    }
}
