//! A store: rows that transactions of any number of threads read and write.

use crate::error::SnapshotError;
use crate::memory;
use crate::rows::Shape;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Arc, yield_now};
use crate::transaction::algorithm::VirtualAlgorithm;
use crate::transaction::locks::Locks;
use crate::transaction::periods::Periods;
use crate::transaction::snapshotter::Snapshotter;
use crate::transaction::transaction::{Transaction, TransactionError};

/// Rows of which snapshots are taken by algorithm `V`, while transactions go on.
pub struct Store<V> {
    pub(crate) shape: Shape,
    pub(crate) algorithm: V,
    pub(crate) locks: Locks,
    pub(crate) periods: Periods,
    conflicts: AtomicU64,
    restarts: AtomicU64,
}

/// How often transactions had to be run again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Another transaction held a row.
    pub conflicts: u64,
    /// A transaction from before a cut met a row that transactions after the cut had accessed.
    pub restarts: u64,
}

impl<V: VirtualAlgorithm> Store<V> {
    /// A store of zeros, and its snapshotter.
    pub fn new(shape: Shape) -> Result<(Arc<Store<V>>, Snapshotter<V>), SnapshotError> {
        memory::check(shape, V::COPIES)?;
        let store = Arc::new(Store {
            shape,
            algorithm: V::new(shape)?,
            locks: Locks::new(shape)?,
            periods: Periods::default(),
            conflicts: AtomicU64::new(0),
            restarts: AtomicU64::new(0),
        });
        Ok((store.clone(), Snapshotter::new(store)))
    }

    /// Runs `body` as a transaction, again and again until it commits or ends itself with an error of its
    /// own. With an error, or if it panics, nothing is changed.
    ///
    /// `body` passes on the errors of its reads and writes; it may be run several times, so what it does
    /// besides must bear that. Keep it short: others that need its rows abort meanwhile. One that needs rows
    /// which many others write may have to be run often.
    pub fn run<T, E>(&self, mut body: impl FnMut(&mut Transaction<'_, V>) -> Result<T, E>) -> Result<T, E> {
        let mut conflicts = 0;
        loop {
            let mut transaction = self.begin();
            let outcome = body(&mut transaction);
            match transaction.interrupted() {
                None => {
                    return outcome.inspect(|_| {
                        transaction.commit().expect("a transaction that nothing interrupted commits");
                    });
                }
                Some(TransactionError::Newer { .. }) => {}
                Some(_) => {
                    drop(transaction);
                    back_off(conflicts);
                    conflicts += 1;
                }
            }
        }
    }

    /// Begins a transaction that is the caller's to commit, and to run again. One thread that has several of
    /// them, or one of them and a snapshot, may wait for itself.
    pub fn begin(&self) -> Transaction<'_, V> {
        Transaction::new(self, self.periods.begin())
    }

    /// How many rows there are, and of what length.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// How often transactions had to be run again, since the store was made.
    pub fn counts(&self) -> Counts {
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

/// Lets others go on, the longer the more often the transaction has met them.
fn back_off(conflicts: u32) {
    let times = if cfg!(loom) { 1 } else { 1 << conflicts.min(9) };
    for _ in 0..times {
        yield_now();
    }
}
