//! Memory of blocks: records gather in it, flights carry it, it is kept until the device has it, and then for
//! use again. All of it is counted, as a limit of memory must not count it: what is evicted makes it no
//! smaller.

use std::ops::Deref;
use std::sync::Arc;
// Nothing is done by this number: no checker need have threads change it in each order.
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The bytes that all buffers of a log take.
#[derive(Clone, Debug, Default)]
pub(in crate::log) struct Buffers(Arc<AtomicU64>);

impl Buffers {
    /// The bytes that they take now.
    pub(in crate::log) fn bytes(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// One more, with these bytes.
    pub(in crate::log) fn with(&self, bytes: Vec<u8>) -> Buffer {
        let mut buffer = Buffer { bytes, counted: 0, all: self.clone() };
        buffer.count();
        buffer
    }
}

/// Bytes that are counted as long as they are there.
#[derive(Debug)]
pub(in crate::log) struct Buffer {
    bytes: Vec<u8>,
    /// The capacity that has been counted.
    counted: usize,
    all: Buffers,
}

impl Buffer {
    /// The bytes that it takes.
    pub(in crate::log) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Changes what it holds.
    pub(in crate::log) fn change(&mut self, change: impl FnOnce(&mut Vec<u8>)) {
        change(&mut self.bytes);
        self.count();
    }

    fn count(&mut self) {
        let capacity = self.bytes.capacity();
        if capacity != self.counted {
            self.all.0.fetch_add(capacity as u64, Relaxed);
            self.all.0.fetch_sub(self.counted as u64, Relaxed);
            self.counted = capacity;
        }
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.all.0.fetch_sub(self.counted as u64, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_counted_while_they_are_there() {
        let all = Buffers::default();
        let (mut one, other) = (all.with(Vec::with_capacity(100)), all.with(vec![0; 50]));
        assert_eq!(all.bytes(), (one.capacity() + other.capacity()) as u64);
        one.change(|bytes| bytes.resize(1000, 7));
        assert_eq!((one.len(), one[999]), (1000, 7));
        assert_eq!(all.bytes(), (one.capacity() + other.capacity()) as u64);
        drop(one);
        assert_eq!(all.bytes(), other.capacity() as u64);
        drop(other);
        assert_eq!(all.bytes(), 0);
    }
}
