//! Rows of 8-byte fields in one allocation, each field an atomic word.
//!
//! The fields are atomic because the snapshotter may read a word that a client is writing. The algorithms
//! ensure that it then does not use the value, but with plain words even the read would be undefined
//! behaviour. Loads and stores are relaxed, which costs nothing on present processors; each algorithm says
//! what orders them.

use std::mem::MaybeUninit;

use crate::error::SnapshotError;
use crate::memory;
#[cfg(not(loom))]
use crate::pages::{HUGE_BYTES, Pages};
use crate::shape::Shape;
use crate::sync::atomic::{AtomicU64, Ordering};

/// One copy of the data.
pub(crate) struct Rows {
    /// The rows, and before and after them some words that make row 0 begin at a pair of cache lines.
    words: Vec<AtomicU64>,
    first: usize,
    /// Words of all rows.
    count: usize,
    fields: usize,
}

/// Words of a pair of cache lines, which processors fetch together. An allocator may begin anywhere in a
/// line, and each row of 64 bytes would then lie in two of them.
const ALIGN_WORDS: usize = if cfg!(loom) { 1 } else { 128 / size_of::<u64>() };

impl Rows {
    /// All zeros.
    pub(crate) fn new(shape: Shape) -> Result<Rows, SnapshotError> {
        Rows::aligned(shape, ALIGN_WORDS)
    }

    /// All zeros, in whole pages that nothing else is in.
    #[cfg(not(loom))]
    pub(crate) fn in_pages(shape: Shape, page_bytes: usize) -> Result<Rows, SnapshotError> {
        Rows::aligned(shape, page_bytes / size_of::<u64>())
    }

    /// All zeros: `hot` rows, and those behind them in their last huge page, in small pages, the others in
    /// huge ones where the kernel has some.
    #[cfg(not(loom))]
    pub(crate) fn hot_and_cold(shape: Shape, hot: usize) -> Result<Rows, SnapshotError> {
        let words_per_page = HUGE_BYTES / size_of::<u64>();
        Rows::prepared(shape, words_per_page, |memory| {
            let hot_words = (hot * shape.fields).next_multiple_of(words_per_page);
            let (hot, cold) = memory.split_at_mut(hot_words.min(memory.len()));
            Pages::Small.ask(hot)?;
            Pages::Huge.ask(cold)
        })
    }

    fn aligned(shape: Shape, align_words: usize) -> Result<Rows, SnapshotError> {
        Rows::prepared(shape, align_words, |_| Ok(()))
    }

    /// `prepare` is shown the memory of the rows before it is touched.
    fn prepared(
        shape: Shape,
        align_words: usize,
        prepare: impl FnOnce(&mut [MaybeUninit<AtomicU64>]) -> Result<(), SnapshotError>,
    ) -> Result<Rows, SnapshotError> {
        let Shape { rows, fields } = shape;
        // Also for a copy that was not counted with others.
        memory::check(shape, 1)?;
        let refused = || memory::refused(shape, 1);
        let count = rows.checked_mul(fields).ok_or_else(refused)?;
        let padded = count.checked_next_multiple_of(align_words).ok_or_else(refused)?;
        let all = padded.saturating_add(align_words - 1);
        let mut words: Vec<AtomicU64> = memory::reserved(all, shape)?;
        let first = words.as_ptr().align_offset(align_words * size_of::<u64>()).min(align_words - 1);
        prepare(&mut words.spare_capacity_mut()[first..][..padded])?;
        words.resize_with(all, AtomicU64::default);
        Ok(Rows { words, first, count, fields })
    }

    /// The number of pages that the rows are in.
    #[cfg(not(loom))]
    pub(crate) fn pages(&self, page_bytes: usize) -> usize {
        (self.count * size_of::<u64>()).div_ceil(page_bytes)
    }

    /// The rows and what fills their last page. REQUIRES: they were made in pages of this size.
    #[cfg(not(loom))]
    pub(crate) fn whole_pages(&self, page_bytes: usize) -> &[AtomicU64] {
        &self.words[self.first..][..self.pages(page_bytes) * (page_bytes / size_of::<u64>())]
    }

    /// Copies a page from `other`. REQUIRES: both were made in pages of this size.
    #[cfg(not(loom))]
    pub(crate) fn copy_page(&self, page: usize, page_bytes: usize, other: &Rows) {
        let words = page_bytes / size_of::<u64>();
        let at = |rows: &Rows| rows.first + page * words;
        for (to, from) in self.words[at(self)..][..words].iter().zip(&other.words[at(other)..][..words]) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// All fields of all rows.
    pub(crate) fn words(&self) -> &[AtomicU64] {
        &self.words[self.first..][..self.count]
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

    /// Copies all rows from `other`.
    pub(crate) fn copy_all(&self, other: &Rows) {
        for (to, from) in self.words().iter().zip(other.words()) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }
}
