//! Takes snapshots of a store, one after the other.

use std::marker::PhantomData;
use std::ops::ControlFlow;

use crate::sync::Arc;
use crate::transaction::algorithm::VirtualAlgorithm;
use crate::transaction::store::Store;

/// Takes snapshots of a store. There is one for each.
pub struct Snapshotter<V> {
    store: Arc<Store<V>>,
}

/// A snapshot that has been taken. It may be traversed again if that failed. Given up, dropped without a
/// whole traversal, it leaves what it has to the next one. Dropping it may wait for transactions under way.
pub struct Snapshot<'s, V: VirtualAlgorithm> {
    store: &'s Store<V>,
    settled: bool,
    shown: bool,
    // Until it is dropped, the snapshotter takes no other.
    _snapshotter: PhantomData<&'s mut Snapshotter<V>>,
}

impl<V: VirtualAlgorithm> Snapshotter<V> {
    pub(crate) fn new(store: Arc<Store<V>>) -> Snapshotter<V> {
        Snapshotter { store }
    }

    /// Takes a snapshot and stops nobody. It has all transactions that committed before this is called and
    /// none that begin when it has returned. vHG and vPB return at once; CALC waits for the transactions
    /// under way, for its point of consistency.
    pub fn take(&mut self) -> Snapshot<'_, V> {
        self.store.algorithm.take(&self.store.periods);
        Snapshot { store: &self.store, settled: false, shown: false, _snapshotter: PhantomData }
    }
}

impl<V: VirtualAlgorithm> Snapshot<'_, V> {
    /// Waits for the transactions that began before the cut, then shows each row of the snapshot: all, or
    /// those that changed since the snapshot before ([`VirtualAlgorithm::FULL`]). The first error of `visit`
    /// ends it.
    pub fn traverse<E>(&mut self, mut visit: impl FnMut(usize, &[u64]) -> Result<(), E>) -> Result<(), E> {
        self.settle();
        let mut failed = None;
        let outcome = self.store.algorithm.traverse(&mut |row, fields| match visit(row, fields) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        });
        self.shown |= outcome.is_continue();
        failed.map_or(Ok(()), Err)
    }

    fn settle(&mut self) {
        if !self.settled {
            self.store.algorithm.settle(&self.store.periods);
            self.settled = true;
        }
    }
}

impl<V: VirtualAlgorithm> Drop for Snapshot<'_, V> {
    fn drop(&mut self) {
        self.settle();
        let Store { algorithm, periods, locks, .. } = self.store;
        if self.shown {
            algorithm.finish(periods);
        } else {
            algorithm.abandon(periods, |row| locks.hold(row));
        }
    }
}
