//! A store: rows that transactions of any number of threads read and write.

use crate::error::SnapshotError;
use crate::shape::Shape;
use crate::sync::{Arc, yield_now};
use crate::transaction::algorithm::VirtualAlgorithm;
use crate::transaction::parts::{Counts, Parts};
use crate::transaction::snapshotter::Snapshotter;
use crate::transaction::transaction::{Transaction, TransactionError};

/// Rows that transactions read and write, and the snapshots of them by algorithm `V`. Clones share the rows.
pub struct Store<V> {
    parts: Arc<Parts<V>>,
}

impl<V> Clone for Store<V> {
    fn clone(&self) -> Store<V> {
        Store { parts: self.parts.clone() }
    }
}

impl<V: VirtualAlgorithm> Store<V> {
    /// A store of zeros, and its snapshotter.
    pub fn new(shape: Shape) -> Result<(Store<V>, Snapshotter<V>), SnapshotError> {
        let parts = Arc::new(Parts::new(shape)?);
        Ok((Store { parts: parts.clone() }, Snapshotter::new(parts)))
    }

    /// Runs `body` as a transaction, again and again until it commits or ends itself with an error of its
    /// own. With an error, or if it panics, nothing is changed.
    ///
    /// `body` passes on the errors of its reads and writes. It may be run several times, so its other effects
    /// must permit that. Keep it short: other transactions that need its rows abort meanwhile. A transaction
    /// that needs rows which many others write may have to be run often.
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
        Transaction::new(&self.parts, self.parts.periods.begin())
    }

    /// The number of rows, and their length.
    pub fn shape(&self) -> Shape {
        self.parts.shape
    }

    /// The number of times that transactions had to be run again, since the store was made.
    pub fn counts(&self) -> Counts {
        self.parts.counts()
    }
}

/// Yields to other threads, for longer the more conflicts the transaction has had.
fn back_off(conflicts: u32) {
    let times = if cfg!(loom) { 1 } else { 1 << conflicts.min(9) };
    for _ in 0..times {
        yield_now();
    }
}
