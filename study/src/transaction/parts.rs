//! The parts of a store, which its transactions and its snapshotter share.

use crate::error::SnapshotError;
use crate::memory;
use crate::shape::Shape;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::transaction::algorithm::VirtualAlgorithm;
use crate::transaction::locks::Locks;
use crate::transaction::periods::Periods;

/// Rows, in the form that algorithm `V` gives them, with the locks and periods that order the transactions.
pub(crate) struct Parts<V> {
    pub(crate) shape: Shape,
    pub(crate) algorithm: V,
    pub(crate) locks: Locks,
    pub(crate) periods: Periods,
    conflicts: AtomicU64,
    restarts: AtomicU64,
}

/// The number of times that transactions had to be run again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Another transaction held a row.
    pub conflicts: u64,
    /// A transaction from before a cut met a row that transactions after the cut had accessed.
    pub restarts: u64,
}

impl<V: VirtualAlgorithm> Parts<V> {
    /// Rows of zeros.
    pub(crate) fn new(shape: Shape) -> Result<Parts<V>, SnapshotError> {
        memory::check(shape, V::COPIES)?;
        Ok(Parts {
            shape,
            algorithm: V::new(shape)?,
            locks: Locks::new(shape)?,
            periods: Periods::default(),
            conflicts: AtomicU64::new(0),
            restarts: AtomicU64::new(0),
        })
    }
}

impl<V> Parts<V> {
    pub(crate) fn counts(&self) -> Counts {
        Counts {
            conflicts: self.conflicts.load(Ordering::Relaxed),
            restarts: self.restarts.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn count_conflict(&self) {
        self.conflicts.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_restart(&self) {
        self.restarts.fetch_add(1, Ordering::Relaxed);
    }
}
