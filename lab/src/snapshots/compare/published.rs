//! The orders that the comparative study found. `lab/figures/snapshots.toml` has the numbers and the words
//! that it printed.

use super::super::cell::Algorithm;
use Algorithm::{CopyOnUpdate, Fork, Hourglass, Naive, Piggyback, PingPong, Zigzag};

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
