//! Moves entries together, so that the allocator can give back what lies between them.
//!
//! ```text
//!   before   [e . . .][. . e .][e . . .]     pages of the allocator; the other keys are gone
//!   after    [e e e .][. . . .][. . . .]     the last two hold nothing
//! ```
//!
//! An allocator takes the oldest page that has room. So a walk that puts each entry into a new allocation,
//! and frees the old ones behind that, fills few pages and leaves the others empty.
//!
//! - What an entry says does not change, so nothing is logged, and nobody is told.
//! - A view may read an entry that it sees when nobody has its latch: such an entry stays where it is.
//! - The walk goes by positions ([`crate::table::KeyHash::position`]), which stay the same when segments are
//!   merged or split. When most keys have just gone, the table shrinks during the walk: by the numbers of
//!   segments, it would miss what goes from one before it into one behind it.
//! - Large values stay: their nodes are shared with others, and fill the allocations that they have.

use std::time::Duration;

use crate::record::Lsn;
use crate::store::Store;
use crate::table::{END, Entry};

/// The longest wait for a latch.
const LATCH_WAIT: Duration = Duration::from_micros(200);
/// The longest wait for the gate.
const GATE_WAIT: Duration = Duration::from_millis(10);
/// So often a segment is tried again that somebody has for long; then it is left for the next walk.
const TRIES: u8 = 20;
/// Behind each cut that a view can have.
const BEHIND_CUTS: Lsn = Lsn(1 << 63);

/// The place that a walk over all entries has come to; the default is the front.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MovePlace {
    db: usize,
    position: u64,
    /// How often the segment there was tried in vain.
    tries: u8,
}

/// One step of such a walk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Entries that have been moved.
    pub moved: usize,
    /// Entries that stayed where they are.
    pub stayed: usize,
    /// The place to go on from; `None`: the walk is over.
    pub next: Option<MovePlace>,
}

/// Moves the entries of one segment. It may be the same place where it goes on, if the gate was closed or
/// somebody has the segment.
///
/// REQUIRES: the caller is not inside the gate.
pub(crate) fn step(store: &Store, place: MovePlace) -> Moved {
    let at = |place: MovePlace| Moved { next: Some(place), ..Moved::default() };
    let Some(databases) = store.background_within(GATE_WAIT) else { return at(place) };
    let Some(table) = databases.tables.get(place.db) else { return Moved::default() };
    let (end, segment) = table.write_at(place.position, LATCH_WAIT);
    let db = if end == END { place.db + 1 } else { place.db };
    let next = MovePlace { db, position: end % END, tries: 0 };
    let Some(mut segment) = segment else {
        let again = MovePlace { tries: place.tries + 1, ..place };
        return at(if again.tries < TRIES { again } else { next });
    };
    // Under the latch: who reads entries without it has looked for them under it before.
    let readers = store.views().before(BEHIND_CUTS, || store.last_lsn(&databases));
    let is_pinned = |entry: &Entry| table.is_pinned(readers, entry);
    let (all, old) = (segment.len(), segment.move_entries(is_pinned));
    drop(segment);
    Moved { moved: old.len(), stayed: all - old.len(), next: Some(next) }
}
