//! Counts the memory that a write leaves in the clones of a value: nodes that they no longer share with it.

use std::cell::Cell;
use std::sync::Arc;

/// The nodes of a value that count when it is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    /// Those that nobody else has.
    Own,
    /// All.
    All,
}

/// Bytes that an `Arc` keeps in front of what it holds.
pub(crate) const ARC_BYTES: usize = 16;

thread_local! {
    static LEFT_BYTES: Cell<usize> = const { Cell::new(0) };
}

/// To be called before a node is copied, or replaced, by a write.
#[inline]
pub(super) fn note<T: ?Sized>(node: &Arc<T>) {
    if Arc::strong_count(node) > 1 {
        note_bytes(size_of_val::<T>(node) + ARC_BYTES);
    }
}

/// To be called when a write takes away nodes as a whole that a clone has.
pub(super) fn note_bytes(bytes: usize) {
    LEFT_BYTES.with(|left| left.set(left.get().wrapping_add(bytes)));
}

/// Bytes of the nodes that the writes of this thread have left to others since this was called last.
pub(crate) fn take_bytes() -> usize {
    LEFT_BYTES.with(|left| left.replace(0))
}
