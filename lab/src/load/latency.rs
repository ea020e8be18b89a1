//! The histogram in which a load records latencies.

use hdrhistogram::Histogram;

/// Latencies above this are recorded as this.
const LATENCY_NS_MAX: u64 = 600_000_000_000;

/// A histogram of nanoseconds, from 1 to [`LATENCY_NS_MAX`], with three significant digits.
pub(super) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3).expect("the bounds are valid")
}
