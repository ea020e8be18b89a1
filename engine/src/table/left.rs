//! The bytes of a table that is no database any more, while somebody goes on to read it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The bytes that a table has in a sum of all such tables; it takes them out again when it is freed.
pub(super) struct LeftBytes {
    bytes: AtomicU64,
    sum: Arc<AtomicU64>,
}

impl LeftBytes {
    /// None yet.
    pub(super) fn of(sum: &Arc<AtomicU64>) -> LeftBytes {
        LeftBytes { bytes: AtomicU64::new(0), sum: sum.clone() }
    }

    pub(super) fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.sum.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

impl Drop for LeftBytes {
    fn drop(&mut self) {
        self.sum.fetch_sub(*self.bytes.get_mut(), Ordering::Relaxed);
    }
}
