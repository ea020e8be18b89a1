//! Ranges of values, and how far a scan of one has come.

use super::maintain::Index;
use super::pointers::{Edge, Pointer};
use super::value::IndexValue;
use crate::record::Lsn;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

/// The order in which an index is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The smallest value first; keys of one value in their order.
    Ascending,
    /// The reverse of that.
    Descending,
}

/// Values between two bounds.
#[derive(Clone, Debug)]
pub struct IndexRange {
    /// The lower bound.
    pub from: Bound<IndexValue>,
    /// The upper bound.
    pub to: Bound<IndexValue>,
}

impl IndexRange {
    /// All values.
    pub const ALL: IndexRange = IndexRange { from: Bound::Unbounded, to: Bound::Unbounded };

    /// One value.
    pub fn of(value: IndexValue) -> IndexRange {
        IndexRange { from: Bound::Included(value.clone()), to: Bound::Included(value) }
    }

    /// Whether a value is between the bounds.
    pub fn contains(&self, value: &IndexValue) -> bool {
        (self.from.as_ref(), self.to.as_ref()).contains(value)
    }

    pub(super) fn lower(&self) -> Bound<Pointer> {
        match &self.from {
            Bound::Included(value) => Bound::Included(Pointer::edge(value, Edge::Begin)),
            Bound::Excluded(value) => Bound::Included(Pointer::edge(value, Edge::End)),
            Bound::Unbounded => Bound::Unbounded,
        }
    }

    pub(super) fn upper(&self) -> Bound<Pointer> {
        match &self.to {
            Bound::Included(value) => Bound::Included(Pointer::edge(value, Edge::End)),
            Bound::Excluded(value) => Bound::Included(Pointer::edge(value, Edge::Begin)),
            Bound::Unbounded => Bound::Unbounded,
        }
    }
}

/// How far a view has come in a range of an index. Made by `View::scan_index`.
pub struct IndexScan {
    index: Arc<Index>,
    db: u8,
    /// What is left of the range.
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
