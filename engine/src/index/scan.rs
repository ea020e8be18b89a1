//! The progress of a view in a range of an index.

use super::maintain::Index;
use super::pointers::Pointer;
use super::range::IndexRange;
use crate::record::Lsn;
use std::ops::Bound;
use std::sync::Arc;

/// The order in which an index is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The smallest value first; keys of one value in their order.
    Ascending,
    /// The reverse of that.
    Descending,
}

/// How far a view has come in a range of an index. Made by `View::scan_index`.
pub struct IndexScan {
    index: Arc<Index>,
    db: u8,
    /// The rest of the range.
    lower: Bound<Pointer>,
    upper: Bound<Pointer>,
    direction: Direction,
    has_ended: bool,
}

impl IndexScan {
    pub(crate) fn new(index: Arc<Index>, db: u8, range: &IndexRange, direction: Direction) -> IndexScan {
        IndexScan { index, db, lower: range.lower(), upper: range.upper(), direction, has_ended: false }
    }

    /// The index that is read.
    pub fn index(&self) -> &Arc<Index> {
        &self.index
    }

    /// The database that it is of.
    pub fn db(&self) -> u8 {
        self.db
    }

    /// The next pointers that are seen at `cut`, `most` at most; none at the end.
    pub(crate) fn next(&mut self, cut: Lsn, most: usize) -> Vec<Pointer> {
        let is_backward = self.direction == Direction::Descending;
        while !self.has_ended {
            let batch = self.index.seen_at(cut, (&self.lower, &self.upper), is_backward, most.max(1));
            match batch.last {
                None => self.has_ended = true,
                Some(last) if is_backward => self.upper = Bound::Excluded(last),
                Some(last) => self.lower = Bound::Excluded(last),
            }
            if !batch.seen.is_empty() {
                return batch.seen;
            }
        }
        Vec::new()
    }
}
