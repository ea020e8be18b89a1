//! Rows of 8-byte fields in one allocation, each field an atomic word.
//!
//! Atomics, because the snapshotter may look at a word that a client is writing: the algorithms see to it
//! that it then does not use what it saw, but even the look would be undefined behaviour with plain words.
//! Loads and stores are relaxed, which costs nothing on the processors of today; what orders them is said in
//! each algorithm.

use crate::error::SnapshotError;
use crate::memory;
use crate::shape::Shape;
use crate::sync::atomic::{AtomicU64, Ordering};

/// One copy of the data.
pub(crate) struct Rows {
    words: Vec<AtomicU64>,
    fields: usize,
}

impl Rows {
    /// All zeros.
    pub(crate) fn new(shape: Shape) -> Result<Rows, SnapshotError> {
        let Shape { rows, fields } = shape;
        // Also for a copy that nobody has counted with others.
        memory::check(shape, 1)?;
        let count = rows.checked_mul(fields).ok_or_else(|| memory::refused(shape, 1))?;
        Ok(Rows { words: memory::zeros(count, shape)?, fields })
    }

    /// All fields of all rows.
    #[cfg(not(loom))]
    pub(crate) fn words(&self) -> &[AtomicU64] {
        &self.words
    }

    pub(crate) fn row(&self, row: usize) -> &[AtomicU64] {
        &self.words[row * self.fields..][..self.fields]
    }

    pub(crate) fn read(&self, row: usize, fields: &mut [u64]) {
        for (field, word) in fields.iter_mut().zip(self.row(row)) {
            *field = word.load(Ordering::Relaxed);
        }
    }

    pub(crate) fn write(&self, row: usize, fields: &[u64]) {
        for (field, word) in fields.iter().zip(self.row(row)) {
            word.store(*field, Ordering::Relaxed);
        }
    }

    pub(crate) fn read_field(&self, row: usize, field: usize) -> u64 {
        self.row(row)[field].load(Ordering::Relaxed)
    }

    pub(crate) fn write_field(&self, row: usize, field: usize, value: u64) {
        self.row(row)[field].store(value, Ordering::Relaxed);
    }

    /// Makes a row what it is in `other`.
    pub(crate) fn copy_row(&self, row: usize, other: &Rows) {
        for (to, from) in self.row(row).iter().zip(other.row(row)) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// Makes all rows what they are in `other`.
    pub(crate) fn copy_all(&self, other: &Rows) {
        for (to, from) in self.words.iter().zip(&other.words) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }
}
