//! One byte a row, where a bit would do: to set a bit is to read it first, and a client that writes a whole
//! row would wait for that alone. `docs/design/0011-flags-are-bytes.md` has the measurement.

use crate::error::SnapshotError;
use crate::memory;
use crate::shape::Shape;
use crate::sync::atomic::{AtomicU8, Ordering};

pub(crate) struct Flags {
    bytes: Vec<AtomicU8>,
}

impl Flags {
    /// All zero.
    pub(crate) fn new(shape: Shape) -> Result<Flags, SnapshotError> {
        Ok(Flags { bytes: memory::zeros(shape.rows, shape)? })
    }

    #[inline]
    pub(crate) fn get(&self, row: usize, order: Ordering) -> u8 {
        self.bytes[row].load(order)
    }

    #[inline]
    pub(crate) fn put(&self, row: usize, flag: u8, order: Ordering) {
        self.bytes[row].store(flag, order);
    }

    /// Turns one flag into another; `false` if it was not the one. Orders nothing else.
    #[inline]
    pub(crate) fn swing(&self, row: usize, from: u8, to: u8) -> bool {
        self.bytes[row].compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// The rows whose flag is not zero.
    pub(crate) fn set(&self) -> impl Iterator<Item = usize> {
        let set = |(row, flag): (usize, &AtomicU8)| (flag.load(Ordering::Relaxed) != 0).then_some(row);
        self.bytes.iter().enumerate().filter_map(set)
    }

    /// Makes all zero.
    pub(crate) fn clear(&self) {
        for byte in &self.bytes {
            byte.store(0, Ordering::Relaxed);
        }
    }
}
