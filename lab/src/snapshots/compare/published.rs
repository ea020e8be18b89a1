//! The orders that the comparative study found. `lab/figures/snapshots.toml` has the numbers and the words
//! that it printed.

use super::super::cell::Algorithm;
use Algorithm::{CopyOnUpdate, Fork, Hourglass, Naive, Piggyback, PingPong, Zigzag};

/// Figures 10 a to d: groups of algorithms by mean tick latency, the lowest first; the order within a group
/// is open. The text has HG and PB below COU. Table 4 has COU below both, and the authors' own repeats of
/// that cell (`run-count.txt` and `run-row.txt` of their repository) contradict each other: COU 2.455 and
/// 2.723 ms, HG 2.468 and 2.665, PB 2.758 and 2.833. So the order of these three is not judged.
pub(crate) const MEAN_ORDER: &[&[Algorithm]] =
    &[&[Naive, Fork], &[Hourglass, Piggyback, CopyOnUpdate], &[Zigzag], &[PingPong]];

/// Figure 16 of the arXiv text: groups by the updates that they reach, the fewest first.
pub(crate) const FLOOD_ORDER: &[&[Algorithm]] =
    &[&[Naive, CopyOnUpdate, Zigzag, PingPong], &[Hourglass, Piggyback, Fork]];

/// Table 4: groups by cache misses, the fewest first.
pub(crate) const MISSES_ORDER: &[&[Algorithm]] =
    &[&[Naive, Fork], &[Hourglass, Piggyback, CopyOnUpdate], &[Zigzag, PingPong]];

/// Figures 9 and 10 e: whose latency has spikes that grow with the data.
pub(crate) const SPIKES: &[Algorithm] = &[Naive, CopyOnUpdate, Fork, Zigzag];

/// Figures 9 and 10 e: whose latency stays flat.
pub(crate) const FLAT: &[Algorithm] = &[PingPong, Hourglass, Piggyback];

/// Figure 10 b: whose mean rises as rows grow.
pub(crate) const RISES: &[Algorithm] = &[Naive, CopyOnUpdate, Hourglass, Piggyback];

/// Figure 10 b: whose mean does not.
pub(crate) const LEVEL: &[Algorithm] = &[Zigzag, PingPong];

/// Figure 10 f: whose maximum falls as rows grow.
pub(crate) const FALLS_WITH_ROW: &[Algorithm] = &[CopyOnUpdate, Zigzag];

/// Figure 10 of the arXiv text: groups by mean tick latency, the lowest first.
pub(crate) const ARXIV_MEAN_ORDER: &[&[Algorithm]] =
    &[&[Naive], &[Hourglass, Piggyback, Fork], &[Zigzag], &[CopyOnUpdate, PingPong]];

/// Figure 19 of the arXiv text: groups by maximum, the lowest first.
pub(crate) const ARXIV_FORK_ORDER: &[&[Algorithm]] = &[&[Hourglass, Piggyback], &[Fork]];
