//! Bytes of the constants that functions make while a statement is planned, or one of its batches is made.
//!
//! A thread counts them: it works for one statement until its next pause, where another one may have its
//! turn.

use std::cell::Cell;

thread_local! {
    /// Bytes since [`new_turn`].
    static BYTES: Cell<u64> = const { Cell::new(0) };
}

/// Another statement may have its turn on this thread now.
pub(crate) fn new_turn() {
    BYTES.set(0);
}

/// Counts a constant.
pub(crate) fn add(bytes: u64) {
    BYTES.set(BYTES.get() + bytes);
}

/// Bytes since [`new_turn`].
pub(crate) fn bytes() -> u64 {
    BYTES.get()
}
