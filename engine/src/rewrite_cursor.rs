//! The progress of the rewrite of a list: the place of its next part, while clients change the list.
//!
//! ```text
//!   list      a b c d e f g        client: push x at the front     x a b c d e f g
//!   cursor        ^next   ^end     ── both move by one ──>               ^next   ^end
//! ```
//!
//! A thread that applies a change to a list moves the cursor in the same way, under the latch of the list's
//! segment. The rewrite itself is in `renewal`.

use crate::lock::Mutex;
use crate::record::{Change, Lsn, Side};
use crate::table::KeyHash;
use std::sync::atomic::{AtomicU64, Ordering};

/// How far the rewrite of a list has come. At most one rewrite is under way.
#[derive(Debug, Default)]
pub(crate) struct RewriteCursor {
    /// The hash of the list's key, its lowest bit set; 0: no list is rewritten.
    hash: AtomicU64,
    place: Mutex<Option<Place>>,
}

#[derive(Debug)]
struct Place {
    /// The first record of the list, which tells it from other lists of the same name.
    base: Lsn,
    /// The first element that is not logged again yet.
    next: u64,
    /// After the last element that was there at the beginning, and is still.
    end: u64,
}

impl Place {
    fn follow(&mut self, change: &Change<'_>) {
        let shift = |place: &mut u64| match *change {
            Change::ListPush { side: Side::Front, .. } => *place += 1,
            Change::ListPop { side: Side::Front, count } => *place = place.saturating_sub(count),
            Change::ListInsert { index, .. } if index < *place => *place += 1,
            Change::ListRemove { index } if index < *place => *place -= 1,
            _ => {}
        };
        shift(&mut self.next);
        shift(&mut self.end);
    }
}

impl RewriteCursor {
    /// Whether changes of a list with this hash are to be followed. REQUIRES: its segment is latched.
    #[inline]
    pub(crate) fn concerns(&self, hash: KeyHash) -> bool {
        self.hash.load(Ordering::Relaxed) == hash.0 | 1
    }

    /// Follows a change of the list that began with `base`.
    pub(crate) fn follow(&self, base: Option<Lsn>, change: &Change<'_>) {
        if let Some(place) = self.place.lock().as_mut().filter(|place| Some(place.base) == base) {
            place.follow(change);
        }
    }

    /// Begins before the first of `end` elements; `false` if another rewrite is under way.
    pub(crate) fn begin(&self, hash: KeyHash, base: Lsn, end: u64) -> bool {
        let mut place = self.place.lock();
        let is_free = place.is_none();
        if is_free {
            *place = Some(Place { base, next: 0, end });
            self.hash.store(hash.0 | 1, Ordering::Relaxed);
        }
        is_free
    }

    /// The first element that is not logged again yet, and the place after the last one.
    pub(crate) fn place(&self) -> (u64, u64) {
        self.place.lock().as_ref().map_or((0, 0), |place| (place.next, place.end))
    }

    /// Notes that `count` elements more are logged again.
    pub(crate) fn pass(&self, count: u64) {
        if let Some(place) = self.place.lock().as_mut() {
            place.next += count;
        }
    }

    /// Ends the rewrite.
    pub(crate) fn end(&self) {
        self.hash.store(0, Ordering::Relaxed);
        *self.place.lock() = None;
    }
}
