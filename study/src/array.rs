//! An array, its clients and its snapshotter. The types enforce the order of their calls.

use std::ops::{ControlFlow, Range};

use crate::algorithm::Algorithm;
use crate::bits::ROWS_PER_WORD;
use crate::checkpoint::{CheckpointDir, CheckpointError, State};
use crate::error::SnapshotError;
use crate::gate::Gate;
use crate::memory;
use crate::shape::Shape;
use crate::sync::Arc;

/// Rows that clients write, and the snapshots of them by algorithm `A`.
pub struct Array<A> {
    shape: Shape,
    algorithm: A,
    gate: Gate,
}

/// Reads and writes the rows of its range. There is one for each range, so no row has two writers.
pub struct Client<A> {
    array: Arc<Array<A>>,
    index: usize,
    range: Range<usize>,
}

/// A client's reads and writes between which no snapshot is taken. Keep it short: the snapshotter waits for
/// it, and the other clients may wait with it.
pub struct Turn<'c, A: Algorithm> {
    client: &'c mut Client<A>,
}

/// Takes snapshots, one after the other.
pub struct Snapshotter<A> {
    array: Arc<Array<A>>,
    /// The state that the last complete snapshot has shown.
    shown: State,
}

/// A snapshot that has been taken. It may be traversed again if that failed. If it is abandoned, which is to
/// drop it without a complete traversal, the next one gets its changes.
///
/// One that is given to `std::mem::forget` never ends, so that the next one breaks the rule of one snapshot
/// at a time: what it shows is not specified.
pub struct Snapshot<'s, A: Algorithm> {
    // Until this is dropped, it takes no other.
    snapshotter: &'s mut Snapshotter<A>,
    /// The state of the snapshotter after this snapshot has been shown completely.
    shown: Option<State>,
}

impl<A: Algorithm> Array<A> {
    /// An array of zeros with `clients` clients, each of which gets about the same number of rows, and its
    /// snapshotter.
    #[expect(clippy::new_ret_no_self, reason = "an array is used through its clients and its snapshotter")]
    pub fn new(shape: Shape, clients: usize) -> Result<(Vec<Client<A>>, Snapshotter<A>), SnapshotError> {
        let words = shape.rows.div_ceil(ROWS_PER_WORD);
        if clients == 0 || clients > words {
            return Err(SnapshotError::Clients { clients, rows: shape.rows });
        }
        memory::check(shape, A::COPIES)?;
        let array = Arc::new(Array { shape, algorithm: A::new(shape)?, gate: Gate::new(clients) });
        let first = |client: usize| (words * client / clients * ROWS_PER_WORD).min(shape.rows);
        let clients = (0..clients).map(|index| {
            let range = first(index)..first(index + 1);
            Client { array: array.clone(), index, range }
        });
        Ok((clients.collect(), Snapshotter { array: array.clone(), shown: State::default() }))
    }
}

impl<A: Algorithm> Client<A> {
    /// The rows that are its own.
    pub fn rows(&self) -> Range<usize> {
        self.range.clone()
    }

    /// Begins a turn; waits while a snapshot is being taken.
    #[inline]
    pub fn turn(&mut self) -> Turn<'_, A> {
        self.array.gate.enter(self.index);
        Turn { client: self }
    }
}

impl<A: Algorithm> Turn<'_, A> {
    /// Reads a row into `fields`.
    #[inline]
    pub fn read(&self, row: usize, fields: &mut [u64]) -> Result<(), SnapshotError> {
        self.check_row(row)?;
        self.check_fields(fields.len() == self.client.array.shape.fields, fields.len())?;
        self.client.array.algorithm.read(row, fields);
        Ok(())
    }

    /// Reads a field.
    #[inline]
    pub fn read_field(&self, row: usize, field: usize) -> Result<u64, SnapshotError> {
        self.check_row(row)?;
        self.check_fields(field < self.client.array.shape.fields, field)?;
        Ok(self.client.array.algorithm.read_field(row, field))
    }

    /// Writes a row.
    #[inline]
    pub fn write(&mut self, row: usize, fields: &[u64]) -> Result<(), SnapshotError> {
        self.check_row(row)?;
        self.check_fields(fields.len() == self.client.array.shape.fields, fields.len())?;
        self.client.array.algorithm.write(row, fields);
        Ok(())
    }

    /// Writes a field.
    #[inline]
    pub fn write_field(&mut self, row: usize, field: usize, value: u64) -> Result<(), SnapshotError> {
        self.check_row(row)?;
        self.check_fields(field < self.client.array.shape.fields, field)?;
        self.client.array.algorithm.write_field(row, field, value);
        Ok(())
    }

    /// Writes an item, which is half a field: 4 bytes, `item * 4` bytes behind the beginning of the row. The
    /// other half stays, and is read for that.
    #[inline]
    pub fn write_item(&mut self, row: usize, item: usize, value: u32) -> Result<(), SnapshotError> {
        let (field, shift) = (item / 2, item % 2 * 32);
        let rest = self.read_field(row, field)? & !(u64::from(u32::MAX) << shift);
        self.client.array.algorithm.write_field(row, field, rest | u64::from(value) << shift);
        Ok(())
    }

    fn check_row(&self, row: usize) -> Result<(), SnapshotError> {
        if self.client.range.contains(&row) {
            return Ok(());
        }
        Err(SnapshotError::ForeignRow { row, range: self.client.range.clone() })
    }

    fn check_fields(&self, fit: bool, given: usize) -> Result<(), SnapshotError> {
        if fit {
            Ok(())
        } else {
            Err(SnapshotError::Fields { fields: self.client.array.shape.fields, given })
        }
    }
}

impl<A: Algorithm> Drop for Turn<'_, A> {
    fn drop(&mut self) {
        self.client.array.gate.leave(self.client.index);
    }
}

impl<A: Algorithm> Snapshotter<A> {
    /// Takes a snapshot: waits for the turns in progress. Then it returns at once, or after copying,
    /// depending on the algorithm.
    ///
    /// There is one snapshot at a time: it borrows the snapshotter until it is dropped. To take another one
    /// meanwhile does not compile:
    ///
    /// ```compile_fail,E0499
    /// # use tarn_study::{Array, Hourglass, Shape};
    /// let (_clients, mut snapshotter) = Array::<Hourglass>::new(Shape::new(100, 8)?, 1)?;
    /// let one = snapshotter.take()?;
    /// let other = snapshotter.take()?;
    /// drop(one);
    /// # Ok::<(), tarn_study::SnapshotError>(())
    /// ```
    pub fn take(&mut self) -> Result<Snapshot<'_, A>, SnapshotError> {
        self.take_and(|| ())
    }

    /// Takes a snapshot and calls `at_cut` while no client is in a turn.
    pub fn take_and(&mut self, at_cut: impl FnOnce()) -> Result<Snapshot<'_, A>, SnapshotError> {
        let closed = self.array.gate.close();
        // First, for it may panic: then no snapshot has been taken.
        at_cut();
        self.array.algorithm.take()?;
        drop(closed);
        Ok(Snapshot { snapshotter: self, shown: None })
    }
}

impl<A: Algorithm> Snapshot<'_, A> {
    /// Shows each row of the snapshot: all, or those that changed since the snapshot before
    /// ([`Algorithm::FULL`]). The first error, of `visit` or of the algorithm, ends it.
    pub fn traverse<E: From<SnapshotError>>(
        &mut self,
        mut visit: impl FnMut(usize, &[u64]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut failed = None;
        let outcome =
            self.snapshotter.array.algorithm.traverse(&mut |row, fields| match visit(row, fields) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    failed = Some(error);
                    ControlFlow::Break(())
                }
            })?;
        if outcome.is_continue() {
            self.shown = Some(State::default());
        }
        failed.map_or(Ok(()), Err)
    }

    /// Writes the snapshot as a checkpoint into `dir`. It is complete and durable, or the one before stays
    /// and this snapshot is abandoned, even if it was traversed before.
    pub fn checkpoint(mut self, dir: &mut CheckpointDir) -> Result<(), CheckpointError> {
        self.shown = None;
        let Snapshotter { array, shown } = &*self.snapshotter;
        let mut writer = dir.begin(array.shape, (!A::FULL).then_some(shown))?;
        array.algorithm.dump(&mut writer)?;
        let state = State::default();
        writer.finish(&state)?;
        self.shown = Some(state);
        Ok(())
    }
}

impl<A: Algorithm> Drop for Snapshot<'_, A> {
    fn drop(&mut self) {
        let Snapshotter { array, shown } = &mut *self.snapshotter;
        if let Some(state) = self.shown.take() {
            array.algorithm.finish();
            *shown = state;
        } else {
            let _closed = array.gate.close();
            array.algorithm.abandon();
        }
    }
}
