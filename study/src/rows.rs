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
    /// The rows, and before and after them some words that make row 0 begin at a pair of cache lines.
    words: Vec<AtomicU64>,
    first: usize,
    fields: usize,
}

/// Words of a pair of cache lines, which processors fetch together. An allocator may begin anywhere in a
/// line, and each row of 64 bytes would then lie in two of them.
const ALIGN_WORDS: usize = if cfg!(loom) { 1 } else { 128 / size_of::<u64>() };

impl Rows {
    /// All zeros.
    pub(crate) fn new(shape: Shape) -> Result<Rows, SnapshotError> {
        let Shape { rows, fields } = shape;
        // Also for a copy that was not counted with others.
        memory::check(shape, 1)?;
        let count = rows.checked_mul(fields).ok_or_else(|| memory::refused(shape, 1))?;
        let words: Vec<AtomicU64> = memory::zeros(count.saturating_add(ALIGN_WORDS - 1), shape)?;
        let first = words.as_ptr().align_offset(ALIGN_WORDS * size_of::<u64>()).min(ALIGN_WORDS - 1);
        Ok(Rows { words, first, fields })
    }

    /// All fields of all rows.
    pub(crate) fn words(&self) -> &[AtomicU64] {
        &self.words[self.first..self.words.len() + self.first + 1 - ALIGN_WORDS]
    }

    #[inline]
    pub(crate) fn row(&self, row: usize) -> &[AtomicU64] {
        &self.words[self.first + row * self.fields..][..self.fields]
    }

    /// Has the processor fetch the first line of a row.
    #[inline]
    pub(crate) fn fetch(&self, row: usize) {
        if cfg!(loom) {
            return;
        }
        // A load whose value nobody waits for.
        std::hint::black_box(self.words[self.first + row * self.fields].load(Ordering::Relaxed));
    }

    #[inline]
    pub(crate) fn read(&self, row: usize, fields: &mut [u64]) {
        for (field, word) in fields.iter_mut().zip(self.row(row)) {
            *field = word.load(Ordering::Relaxed);
        }
    }

    #[inline]
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

    /// Copies a row over another one.
    pub(crate) fn copy_within(&self, from: usize, to: usize) {
        for (to, from) in self.row(to).iter().zip(self.row(from)) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// Copies all rows from `other`.
    pub(crate) fn copy_all(&self, other: &Rows) {
        for (to, from) in self.words().iter().zip(other.words()) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }
}
