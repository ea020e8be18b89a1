//! Ranges of values, by which an index is read.

use super::pointers::{Edge, Pointer};
use super::value::IndexValue;
use std::ops::{Bound, RangeBounds};

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
