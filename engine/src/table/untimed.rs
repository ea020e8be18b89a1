//! Tells whether a view may see hashes whose fields have times, without a look at any.
//!
//! ```text
//!   writer   newest change that took times away = max(.., lsn) ──> one count of hashes with times - 1
//!   asker    sum of the counts ──> if it is 0: is that newest change behind the cut?
//! ```
//!
//! An asker may find the counts at different moments. But it finds one that has gone down only with the
//! change that it went down for: the count is released behind that, and acquired. So a hash that had times as
//! of the cut is either counted, or taken away by a change behind the cut, which the asker sees.

use super::latch::{AtomicU64, Ordering};
use crate::record::Lsn;

/// Hashes that got times, less those that have none any more, in some segments. They move between segments,
/// so it may be below zero.
pub(super) struct TimedCount(AtomicU64);

impl Default for TimedCount {
    fn default() -> TimedCount {
        TimedCount(AtomicU64::new(0))
    }
}

impl TimedCount {
    /// Adds to it. REQUIRES: what it goes down for is noted.
    pub(super) fn add(&self, by: i64) {
        // Release: see the head of this file.
        self.0.fetch_add(by as u64, Ordering::Release);
    }

    pub(super) fn get(&self) -> i64 {
        // Acquire: see the head of this file.
        self.0.load(Ordering::Acquire) as i64
    }
}

/// The newest change that took the times of the fields of a hash away, or the hash with them.
pub(super) struct Untimed(AtomicU64);

impl Default for Untimed {
    fn default() -> Untimed {
        Untimed(AtomicU64::new(0))
    }
}

impl Untimed {
    /// Notes such a change. REQUIRES: it is not counted yet.
    pub(super) fn note(&self, lsn: Lsn) {
        self.0.fetch_max(lsn.0, Ordering::Relaxed);
    }

    /// Whether there are hashes with times, or were as of this cut. REQUIRES: all changes up to the cut that
    /// give or take times have been applied, and the caller knows of them.
    pub(super) fn may_be_timed_at<'c>(&self, counts: impl Iterator<Item = &'c TimedCount>, cut: Lsn) -> bool {
        counts.map(TimedCount::get).sum::<i64>() > 0 || self.0.load(Ordering::Relaxed) > cut.0
    }
}

#[cfg(all(test, loom))]
mod model {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    #[test]
    fn a_hash_that_had_times_as_of_the_cut_is_counted_or_known_to_have_lost_them() {
        loom::model(|| {
            let cut = Lsn(5);
            let table = Arc::new(([TimedCount::default(), TimedCount::default()], Untimed::default()));
            let (counts, _) = &*table;
            // A hash got a time in a segment that was split since.
            counts[0].add(1);
            let writers = [6, 7].map(|lsn| {
                let table = table.clone();
                thread::spawn(move || {
                    let (counts, untimed) = &*table;
                    // One loses it in the new segment; of another one it comes and goes.
                    if lsn == 7 {
                        counts[0].add(1);
                    }
                    untimed.note(Lsn(lsn));
                    counts[1].add(-1);
                })
            });
            let (counts, untimed) = &*table;
            assert!(untimed.may_be_timed_at(counts.iter(), cut));
            writers.into_iter().for_each(|writer| writer.join().expect("a writer does not panic"));
            assert!(!untimed.may_be_timed_at(counts.iter(), Lsn(7)), "one that begins later sees none");
        });
    }
}
