//! Two copies of the rows, which vHG and vPB share: copy 0 is their home, and copy 1 takes what is written
//! while a snapshot needs a row there.
//!
//! ```text
//!   snapshot   none | in progress | none      | in progress
//!   copy 0      a   |  a     a    |  a    c   |  c     c      what a snapshot needs stays where it is
//!   copy 1      .   |  .     b    |  b    b   |  b     d
//!   newest      0   |  0     1    |  1    0   |  0     1      in the row's lock, with the version it is of
//! ```
//!
//! - While the snapshot before its version is in progress, the first write of a version to a row that the
//!   snapshot shows goes to the copy that is not the newest. The snapshot finds what it has in the other one.
//! - Later ones of that version go to the newest copy.
//! - When no snapshot needs the row, writes go home. So most rows are in copy 0, and transactions touch half
//!   the pages that two copies have.
//! - A bit a row repeats which copy is the newest. The bits of 64 rows share a word, and those of millions of
//!   rows a core's caches: so a transaction fetches the right copy while it fetches the lock, and touches no
//!   other.

use crate::bits::Bits;
use crate::error::SnapshotError;
use crate::rows::Rows;
use crate::shape::Shape;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::transaction::locks::{Locks, Newest, Version};

pub(crate) struct Pairs {
    copies: [Rows; 2],
    /// Copy 1 is the newest. A hint: the row's lock decides.
    hints: Bits,
    /// The number of snapshots that have ended: the one before version `v` has if this is `v`.
    ended: AtomicU64,
}

impl Pairs {
    pub(crate) fn new(shape: Shape) -> Result<Pairs, SnapshotError> {
        Ok(Pairs {
            copies: [Rows::new(shape)?, Rows::new(shape)?],
            hints: Bits::new(shape)?,
            ended: AtomicU64::new(0),
        })
    }

    /// Has the processor fetch the copy that most likely is the newest. To wait for the lock, which knows it,
    /// and then for the copy would be to wait twice.
    #[inline]
    pub(crate) fn fetch(&self, row: usize) {
        // To loom, a hint would only be more orders to try.
        if !cfg!(loom) {
            self.copies[usize::from(self.hints.get(row, Ordering::Relaxed))].fetch(row);
        }
    }

    /// Reads the newest content of a row.
    #[inline]
    pub(crate) fn read(&self, row: usize, newest: Newest, fields: &mut [u64]) {
        self.copies[newest.copy].read(row, fields);
    }

    /// Reads what the snapshot of a version has of a row. REQUIRES: it is in progress, and the transactions
    /// of the version have ended.
    pub(crate) fn read_of(&self, row: usize, version: Version, locks: &Locks, fields: &mut [u64]) {
        let newest = locks.newest(row);
        let is_later = newest.version > version;
        self.copies[newest.copy ^ usize::from(is_later)].read(row, fields);
    }

    /// Writes a row in a version, where the snapshot before it shows the rows of the versions from `shown`
    /// on; says which copy is the newest from now on.
    #[inline]
    pub(crate) fn write(
        &self,
        row: usize,
        version: Version,
        shown: Version,
        newest: Newest,
        fields: &[u64],
    ) -> usize {
        // Acquire: pairs with the Release in `end`. What the snapshot has read is overwritten after that.
        let in_progress = self.ended.load(Ordering::Acquire) < version;
        let copy = if in_progress && newest.version >= shown {
            newest.copy ^ usize::from(newest.version < version)
        } else {
            0
        };
        if copy != newest.copy && !cfg!(loom) {
            self.hints.put(row, copy == 1);
        }
        self.copies[copy].write(row, fields);
        copy
    }

    /// Ends the snapshot of a version: its rows may be overwritten.
    pub(crate) fn end(&self, version: Version) {
        // Release: pairs with the Acquire in `write`.
        self.ended.store(version + 1, Ordering::Release);
    }
}
