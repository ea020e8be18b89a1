//! A mask: a bit for each scan that may run at once, 64 or 128 of them.

use std::fmt::Debug;
use std::ops::{BitAnd, BitOr, BitXor, Not};

use crate::sync::atomic::{AtomicU64, Ordering};

/// A mask of as many bits as scans may run at once: `u64` or `u128`.
pub trait Mask:
    Copy
    + Eq
    + Debug
    + Send
    + Sync
    + 'static
    + BitAnd<Output = Self>
    + BitOr<Output = Self>
    + BitXor<Output = Self>
    + Not<Output = Self>
{
    /// The number of its bits: the paper's N.
    const BITS: usize;
    /// No bit.
    const ZEROS: Self;
    /// Every bit.
    const ONES: Self;
    /// A mask that threads share. A wide one consists of several words, and only the view's turn counter
    /// makes a read of it atomic.
    type Cell: Default + Send + Sync;

    /// The lowest of its bits alone; no bit if it has none.
    fn lowest(self) -> Self;

    /// Where its lowest bit is. REQUIRES: it has one.
    fn position(self) -> usize;

    /// Reads a shared one, relaxed.
    fn load(cell: &Self::Cell) -> Self;

    /// Writes a shared one, relaxed.
    fn store(self, cell: &Self::Cell);
}

impl Mask for u64 {
    const BITS: usize = 64;
    const ZEROS: u64 = 0;
    const ONES: u64 = u64::MAX;
    type Cell = AtomicU64;

    fn lowest(self) -> u64 {
        self & self.wrapping_neg()
    }

    fn position(self) -> usize {
        self.trailing_zeros() as usize
    }

    fn load(cell: &AtomicU64) -> u64 {
        cell.load(Ordering::Relaxed)
    }

    fn store(self, cell: &AtomicU64) {
        cell.store(self, Ordering::Relaxed);
    }
}

impl Mask for u128 {
    const BITS: usize = 128;
    const ZEROS: u128 = 0;
    const ONES: u128 = u128::MAX;
    type Cell = [AtomicU64; 2];

    fn lowest(self) -> u128 {
        self & self.wrapping_neg()
    }

    fn position(self) -> usize {
        self.trailing_zeros() as usize
    }

    fn load([low, high]: &[AtomicU64; 2]) -> u128 {
        u128::from(u64::load(low)) | u128::from(u64::load(high)) << 64
    }

    fn store(self, [low, high]: &[AtomicU64; 2]) {
        (self as u64).store(low);
        ((self >> 64) as u64).store(high);
    }
}
