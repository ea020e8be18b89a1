//! Rows of 8-byte fields in one allocation, each field an atomic word.
//!
//! The fields are atomic because the snapshotter may read a word that a client is writing. The algorithms
//! ensure that it then does not use the value, but with plain words even the read would be undefined
//! behaviour. Loads and stores are relaxed, which costs nothing on present processors; each algorithm says
//! what orders them.

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
        // Also for a copy that was not counted with others.
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

    /// Copies a row from `other`.
    pub(crate) fn copy_row(&self, row: usize, other: &Rows) {
        for (to, from) in self.row(row).iter().zip(other.row(row)) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// Copies all rows from `other`.
    pub(crate) fn copy_all(&self, other: &Rows) {
        for (to, from) in self.words.iter().zip(&other.words) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }
}
