//! The results that the comparative study printed: its numbers, its words and the orders that it found.

use super::super::cell::Algorithm;
use Algorithm::{CopyOnUpdate, Fork, Hourglass, Naive, Piggyback, PingPong, Zigzag};

/// Table 4: the mean tick latency at the default parameters, in milliseconds.
pub(crate) const MEAN_TICK_MS: [(Algorithm, f64); 7] = [
    (Naive, 1.475),
    (CopyOnUpdate, 2.455),
    (Fork, 1.745),
    (Zigzag, 3.646),
    (PingPong, 4.183),
    (Hourglass, 2.468),
    (Piggyback, 2.758),
];

/// Table 4: the cache misses of a run, in millions.
pub(crate) const CACHE_MISSES_MILLIONS: [(Algorithm, f64); 7] = [
    (Naive, 711.0),
    (CopyOnUpdate, 1226.0),
    (Fork, 649.0),
    (Zigzag, 1517.0),
    (PingPong, 1368.0),
    (Hourglass, 865.0),
    (Piggyback, 934.0),
];

/// Table 2, the summary.
pub(crate) const TABLE_2: [(Algorithm, [&str; 6]); 7] = [
    (Naive, ["low", "high", "O(n)", "low", "yes", "2×"]),
    (CopyOnUpdate, ["high", "middle", "O(n)", "middle", "yes", "2×"]),
    (Fork, ["low", "middle", "O(n)", "high", "yes", "2×"]),
    (Zigzag, ["middle", "middle", "O(n)", "middle", "yes", "2×"]),
    (PingPong, ["high", "almost none", "O(1)", "low", "no", "3×"]),
    (Hourglass, ["low", "almost none", "O(1)", "high", "no", "2×"]),
    (Piggyback, ["low", "almost none", "O(1)", "high", "yes", "2×"]),
];

/// Figures 10 a to d: groups of algorithms by mean tick latency, the lowest first; the order within a group
/// is open.
pub(crate) const MEAN_ORDER: &[&[Algorithm]] =
    &[&[Naive, Fork], &[Hourglass, Piggyback], &[CopyOnUpdate, Zigzag], &[PingPong]];

/// Figure 16 of the earlier text: groups by the updates that they reach, the fewest first.
pub(crate) const FLOOD_ORDER: &[&[Algorithm]] =
    &[&[Naive, CopyOnUpdate, Zigzag, PingPong], &[Hourglass, Piggyback, Fork]];

/// Table 4: groups by cache misses, the fewest first.
pub(crate) const MISSES_ORDER: &[&[Algorithm]] =
    &[&[Naive, Fork], &[Hourglass, Piggyback, CopyOnUpdate], &[Zigzag, PingPong]];

/// Figures 9 and 10 e: whose latency has spikes that grow with the data.
pub(crate) const SPIKES: &[Algorithm] = &[Naive, CopyOnUpdate, Fork, Zigzag];

/// Figures 9 and 10 e: whose latency stays flat.
pub(crate) const FLAT: &[Algorithm] = &[PingPong, Hourglass, Piggyback];

/// Figure 10 f: whose maximum falls as rows grow.
pub(crate) const FALLS_WITH_ROW: &[Algorithm] = &[CopyOnUpdate, Zigzag];

/// A number that was printed for an algorithm.
pub(crate) fn of(table: &[(Algorithm, f64)], algorithm: Algorithm) -> Option<f64> {
    table.iter().find(|row| row.0 == algorithm).map(|row| row.1)
}
