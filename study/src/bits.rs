//! One bit a row.
//!
//! A client owns whole words, as its rows begin at a multiple of [`ROWS_PER_WORD`]; so bits that only clients
//! change need no atomic instruction.

use crate::error::SnapshotError;
use crate::memory;
use crate::shape::Shape;
use crate::sync::atomic::{AtomicU64, Ordering};

/// Rows whose bits share a word.
pub(crate) const ROWS_PER_WORD: usize = 64;

pub(crate) struct Bits {
    words: Vec<AtomicU64>,
}

impl Bits {
    /// All clear.
    pub(crate) fn new(shape: Shape) -> Result<Bits, SnapshotError> {
        Ok(Bits { words: memory::zeros(shape.rows.div_ceil(ROWS_PER_WORD), shape)? })
    }

    #[inline]
    pub(crate) fn get(&self, row: usize, order: Ordering) -> bool {
        self.words[row / ROWS_PER_WORD].load(order) & mask(row) != 0
    }

    /// Sets or clears a bit of a word that no other thread changes meanwhile.
    #[inline]
    pub(crate) fn put_alone(&self, row: usize, bit: bool) {
        let word = &self.words[row / ROWS_PER_WORD];
        let old = word.load(Ordering::Relaxed);
        word.store(if bit { old | mask(row) } else { old & !mask(row) }, Ordering::Relaxed);
    }

    /// Sets a bit; says whether it was set before.
    #[inline]
    pub(crate) fn set(&self, row: usize, order: Ordering) -> bool {
        self.words[row / ROWS_PER_WORD].fetch_or(mask(row), order) & mask(row) != 0
    }

    /// Clears a bit.
    #[inline]
    pub(crate) fn clear(&self, row: usize, order: Ordering) {
        self.words[row / ROWS_PER_WORD].fetch_and(!mask(row), order);
    }

    /// Sets or clears a bit of a word that other threads may change meanwhile. Orders nothing.
    #[inline]
    pub(crate) fn put(&self, row: usize, bit: bool) {
        if bit {
            self.set(row, Ordering::Relaxed);
        } else {
            self.clear(row, Ordering::Relaxed);
        }
    }

    /// The words, 64 rows each.
    pub(crate) fn words(&self) -> &[AtomicU64] {
        &self.words
    }

    /// Gives every word the same value.
    pub(crate) fn fill(&self, value: u64) {
        for word in &self.words {
            word.store(value, Ordering::Relaxed);
        }
    }
}

const fn mask(row: usize) -> u64 {
    1 << (row % ROWS_PER_WORD)
}
