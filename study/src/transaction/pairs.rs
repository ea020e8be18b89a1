//! Two copies of each row, side by side, which vHG and vPB share. A version writes to one of them, the next
//! version to the other.
//!
//! ```text
//!   row 0           row 1           row 2
//!   | even | odd  | even | odd  | even | odd  |     the copies of a row share a page, and rows of 64 bytes
//!                                                   a pair of cache lines, which are fetched together
//! ```
//!
//! The copy with the newest content of a row is that of the version in which it was last written, which the
//! row's lock has: so a read looks at one copy, and at nothing else.

use crate::error::SnapshotError;
use crate::memory;
use crate::rows::Rows;
use crate::shape::Shape;
use crate::transaction::locks::Version;

pub(crate) struct Pairs {
    rows: Rows,
}

impl Pairs {
    pub(crate) fn new(shape: Shape) -> Result<Pairs, SnapshotError> {
        let rows = shape.rows.checked_mul(2).ok_or_else(|| memory::refused(shape, 2))?;
        Ok(Pairs { rows: Rows::new(Shape { rows, ..shape })? })
    }

    /// Has the processor fetch both copies: which one is the newest only the lock says, and to wait for the
    /// lock first would be to wait twice.
    #[inline]
    pub(crate) fn fetch(&self, row: usize) {
        self.rows.fetch(copy(row, 0));
        self.rows.fetch(copy(row, 1));
    }

    #[inline]
    pub(crate) fn read(&self, row: usize, version: Version, fields: &mut [u64]) {
        self.rows.read(copy(row, version), fields);
    }

    #[inline]
    pub(crate) fn write(&self, row: usize, version: Version, fields: &[u64]) {
        self.rows.write(copy(row, version), fields);
    }

    /// Copies what a version has of a row to where the next version writes.
    pub(crate) fn bring_across(&self, row: usize, version: Version) {
        self.rows.copy_within(copy(row, version), copy(row, version + 1));
    }
}

/// The number of the copy that a version writes.
const fn copy(row: usize, version: Version) -> usize {
    row * 2 + (version % 2) as usize
}
