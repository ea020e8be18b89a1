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
//! - Large values stay: their nodes are shared with others, and fill the allocations that they have.

use std::time::Duration;

use crate::record::Lsn;
use crate::store::Store;
use crate::table::Entry;

/// The longest wait for a latch.
const LATCH_WAIT: Duration = Duration::from_micros(200);
/// The longest wait for the gate.
const GATE_WAIT: Duration = Duration::from_millis(10);
/// Behind each cut that a view can have.
const BEHIND_CUTS: Lsn = Lsn(1 << 63);

/// The place that a walk over all entries has come to; the default is the front.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MovePlace {
    db: usize,
    segment: usize,
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

/// Moves the entries of one segment. It may be the same place where it goes on, if the gate was closed.
///
/// REQUIRES: the caller is not inside the gate.
pub(crate) fn step(store: &Store, place: MovePlace) -> Moved {
    let at = |place: MovePlace| Moved { next: Some(place), ..Moved::default() };
    let Some(databases) = store.background_within(GATE_WAIT) else { return at(place) };
    let Some(table) = databases.tables.get(place.db) else { return Moved::default() };
    if place.segment >= table.segments() {
        return at(MovePlace { db: place.db + 1, segment: 0 });
    }
    let next = MovePlace { segment: place.segment + 1, ..place };
    // One that somebody has for long is left for the next walk.
    let Some(mut segment) = table.write_within(place.segment, Some(LATCH_WAIT)) else { return at(next) };
    // Under the latch: who reads entries without it has looked for them under it before.
    let readers = store.views().before(BEHIND_CUTS, || store.last_lsn(&databases));
    let is_pinned = |entry: &Entry| table.is_pinned(readers, entry);
    let (all, old) = (segment.len(), segment.move_entries(is_pinned));
    drop(segment);
    Moved { moved: old.len(), stayed: all - old.len(), next: Some(next) }
}
