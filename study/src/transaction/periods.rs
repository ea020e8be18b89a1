//! Periods, and the number of transactions in progress in each.
//!
//! ```text
//!   period     0        | 1          | 2
//!   T1     |------|     |            |
//!   T2           |----------|        |
//!   T3                  |      |-------|
//!               advance ^   ^ drain returns: no transaction of an earlier period is left
//! ```
//!
//! - A transaction belongs to the period in which it began, to its end.
//! - Work done before an advance happens before the transactions of the later period. The work of
//!   transactions happens before the drain that waits for them returns.
//!
//! All transactions count in the same few words. Counters for each thread would share less, and would need a
//! handle for each thread.

use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
use crate::sync::yield_now;

/// The number of a period; the first is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Period(pub(crate) u64);

impl Period {
    /// 0, 1, 2 …
    pub const fn number(self) -> u64 {
        self.0
    }
}

/// The number of periods, and of phases of CALC, of which transactions may be in progress at a time. A period
/// begins only when the transactions of the one `COUNTERS` before it have ended.
const COUNTERS: u64 = 5;

/// A counter with a cache line of its own.
#[repr(align(128))]
#[derive(Default)]
struct Counter(AtomicUsize);

/// The current period, and the transactions in progress.
#[derive(Default)]
pub struct Periods {
    now: AtomicU64,
    active: [Counter; COUNTERS as usize],
}

impl Periods {
    /// The period that is now.
    #[inline]
    pub fn now(&self) -> Period {
        // Acquire: pairs with the Release in `advance`.
        Period(self.now.load(Ordering::Acquire))
    }

    /// The number of the period before the one that is now. REQUIRES: there is one.
    pub(crate) fn before(&self) -> u64 {
        self.now().0 - 1
    }

    /// Begins a transaction.
    #[inline]
    pub(crate) fn begin(&self) -> Period {
        loop {
            let period = self.now();
            let active = &self.active(period).0;
            active.fetch_add(1, Ordering::Relaxed);
            // Pairs with the fence in `advance`: either it is seen here that the period is over, or the drain
            // sees the transaction.
            fence(Ordering::SeqCst);
            if self.now() == period {
                return period;
            }
            active.fetch_sub(1, Ordering::Release);
        }
    }

    /// Ends a transaction whose writes have all been installed.
    #[inline]
    pub(crate) fn end(&self, period: Period) {
        // Release: pairs with the Acquire in `drain`.
        self.active(period).0.fetch_sub(1, Ordering::Release);
    }

    /// Ends the period that is now and begins the next. REQUIRES: one thread does so, and a drain since the
    /// last time or the time before.
    pub fn advance(&self) {
        let now = self.now.load(Ordering::Relaxed);
        // Release: pairs with the Acquire in `now`.
        self.now.store(now + 1, Ordering::Release);
        fence(Ordering::SeqCst);
    }

    /// Waits until the transactions of all earlier periods have ended.
    pub fn drain(&self) {
        let now = Period(self.now.load(Ordering::Relaxed));
        for earlier in 1..COUNTERS {
            let active = self.active(Period(now.0 + earlier));
            // Pairs with the Release in `end`.
            while active.0.load(Ordering::Acquire) != 0 {
                yield_now();
            }
        }
    }

    fn active(&self, period: Period) -> &Counter {
        &self.active[(period.0 % COUNTERS) as usize]
    }
}
