//! Takes snapshots of a store, one after the other.

use std::ops::ControlFlow;

use crate::checkpoint::{CheckpointDir, CheckpointError, State};
use crate::sync::Arc;
use crate::transaction::algorithm::VirtualAlgorithm;
use crate::transaction::parts::Parts;

/// Takes snapshots of a store. There is one for each.
pub struct Snapshotter<V> {
    parts: Arc<Parts<V>>,
    /// The state that the last complete snapshot has shown.
    shown: State,
}

/// A snapshot that has been taken. It may be traversed again if that failed. If it is abandoned, which is to
/// drop it without a complete traversal, the next one gets its changes. Dropping it may wait for transactions
/// in progress.
///
/// One that is given to `std::mem::forget` never ends, so that the next one breaks the rule of one snapshot
/// at a time: what it shows is not specified.
pub struct Snapshot<'s, V: VirtualAlgorithm> {
    // Until this is dropped, it takes no other.
    snapshotter: &'s mut Snapshotter<V>,
    settled: bool,
    /// The state of the snapshotter after this snapshot has been shown completely.
    shown: Option<State>,
}

impl<V: VirtualAlgorithm> Snapshotter<V> {
    pub(crate) fn new(parts: Arc<Parts<V>>) -> Snapshotter<V> {
        Snapshotter { parts, shown: State::default() }
    }

    /// Takes a snapshot and stops no transaction. It has all transactions that committed before this is
    /// called and none that begin when it has returned. vHG, vPB and CPR return at once; CALC waits for the
    /// transactions in progress, for its point of consistency.
    ///
    /// There is one snapshot at a time: it borrows the snapshotter until it is dropped. To take another one
    /// meanwhile does not compile:
    ///
    /// ```compile_fail,E0499
    /// # use tarn_study::{Shape, transaction::{Store, VirtualHourglass}};
    /// let (_store, mut snapshotter) = Store::<VirtualHourglass>::new(Shape::new(100, 8)?)?;
    /// let one = snapshotter.take();
    /// let other = snapshotter.take();
    /// drop(one);
    /// # Ok::<(), tarn_study::SnapshotError>(())
    /// ```
    pub fn take(&mut self) -> Snapshot<'_, V> {
        self.parts.algorithm.take(&self.parts.periods);
        Snapshot { snapshotter: self, settled: false, shown: None }
    }
}

impl<V: VirtualAlgorithm> Snapshot<'_, V> {
    /// Waits for the transactions that began before the cut, then shows each row of the snapshot: all, or
    /// those that changed since the snapshot before ([`VirtualAlgorithm::FULL`]). The first error of `visit`
    /// ends it.
    pub fn traverse<E>(&mut self, mut visit: impl FnMut(usize, &[u64]) -> Result<(), E>) -> Result<(), E> {
        self.settle();
        let mut failed = None;
        let Parts { algorithm, periods, locks, .. } = &*self.snapshotter.parts;
        let outcome = algorithm.traverse(periods, locks, &mut |row, fields| match visit(row, fields) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        });
        if outcome.is_continue() {
            self.shown = Some(State::default());
        }
        failed.map_or(Ok(()), Err)
    }

    /// Writes the snapshot as a checkpoint into `dir`. It is complete and durable, or the one before stays
    /// and this snapshot is abandoned, even if it was traversed before. Transactions continue meanwhile; this
    /// waits for those that began before the cut.
    pub fn checkpoint(mut self, dir: &mut CheckpointDir) -> Result<(), CheckpointError> {
        self.shown = None;
        let since = (!V::FULL).then(|| self.snapshotter.shown.clone());
        let mut writer = dir.begin(self.snapshotter.parts.shape, since.as_ref())?;
        self.traverse(|row, fields| writer.put(row, fields))?;
        // Not before the file is whole.
        let state = self.shown.take().expect("a traversal without an error has shown all");
        writer.finish(&state)?;
        self.shown = Some(state);
        Ok(())
    }

    fn settle(&mut self) {
        if !self.settled {
            let parts = &self.snapshotter.parts;
            parts.algorithm.settle(&parts.periods);
            self.settled = true;
        }
    }
}

impl<V: VirtualAlgorithm> Drop for Snapshot<'_, V> {
    fn drop(&mut self) {
        self.settle();
        let Snapshotter { parts, shown } = &mut *self.snapshotter;
        let Parts { algorithm, periods, locks, .. } = &**parts;
        if let Some(state) = self.shown.take() {
            algorithm.finish(periods, locks);
            *shown = state;
        } else {
            algorithm.abandon(periods, locks);
        }
    }
}
