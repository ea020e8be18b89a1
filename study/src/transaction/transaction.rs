//! A transaction: reads and writes under strict two-phase locking.
//!
//! ```text
//!   begin ─ read ─ write ─ … ─ commit: all that was written is installed ─ all locks are given back
//!           each locks its row                 └ or, aborted, none of it ┘
//! ```
//!
//! - A lock is taken at the first access and kept to the end.
//! - Writes stay in the transaction until it commits: to abort is only to give the locks back.

use thiserror::Error;

use crate::error::SnapshotError;
use crate::sync::atomic::{Ordering, fence};
use crate::transaction::algorithm::VirtualAlgorithm;
use crate::transaction::locks::{Access, Newest, Refusal};
use crate::transaction::parts::Parts;
use crate::transaction::periods::Period;

/// Reads and writes that happen all at once or not at all. Dropped without a commit it has changed nothing.
pub struct Transaction<'s, V: VirtualAlgorithm> {
    parts: &'s Parts<V>,
    period: Period,
    /// In the order of the rows.
    held: Vec<Held>,
    /// The new content of the rows written, one after the other.
    written: Vec<u64>,
    interrupted: Option<TransactionError>,
    /// The period in which it has committed.
    committed: Option<Period>,
}

/// A row that the transaction has locked.
struct Held {
    row: usize,
    /// Where the new content is; of a row that is only read, none.
    written_at: Option<usize>,
    /// The copy in which the new content was installed.
    copy: usize,
}

/// The reasons why a transaction cannot continue.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TransactionError {
    /// The transaction must be run again. [`Store::run`](crate::transaction::Store::run) does so.
    #[error("row {row} is held by another transaction; run this one again")]
    Held {
        /// The row that was to be locked.
        row: usize,
    },
    /// The transaction must be run again. [`Store::run`](crate::transaction::Store::run) does so.
    #[error("row {row} belongs to a later version than the transaction; run it again")]
    Newer {
        /// The row that was to be accessed.
        row: usize,
    },
    /// The access is not possible. The transaction may continue.
    #[error(transparent)]
    Access(#[from] SnapshotError),
}

impl<'s, V: VirtualAlgorithm> Transaction<'s, V> {
    pub(crate) fn new(parts: &'s Parts<V>, period: Period) -> Transaction<'s, V> {
        Transaction {
            parts,
            period,
            held: Vec::new(),
            written: Vec::new(),
            interrupted: None,
            committed: None,
        }
    }

    /// The period in which it began.
    pub fn period(&self) -> Period {
        self.period
    }

    /// Reads a row into `fields`: the transaction's own write, or the newest content.
    pub fn read(&mut self, row: usize, fields: &mut [u64]) -> Result<(), TransactionError> {
        self.check(row, fields.len())?;
        let held = match self.find(row) {
            Ok(index) => &self.held[index],
            Err(index) => {
                self.lock(row, Access::Read)?;
                self.held.insert(index, Held { row, written_at: None, copy: 0 });
                &self.held[index]
            }
        };
        match held.written_at {
            Some(at) => fields.copy_from_slice(&self.written[at..][..fields.len()]),
            None => self.parts.algorithm.read(row, self.parts.locks.newest(row), fields),
        }
        Ok(())
    }

    /// Writes a row.
    pub fn write(&mut self, row: usize, fields: &[u64]) -> Result<(), TransactionError> {
        self.check(row, fields.len())?;
        let index = match self.find(row) {
            Ok(index) => {
                if let Some(at) = self.held[index].written_at {
                    self.written[at..][..fields.len()].copy_from_slice(fields);
                    return Ok(());
                }
                self.lock(row, Access::WriteAfterRead)?;
                index
            }
            Err(index) => {
                self.lock(row, Access::Write)?;
                self.held.insert(index, Held { row, written_at: None, copy: 0 });
                index
            }
        };
        self.held[index].written_at = Some(self.written.len());
        self.written.extend_from_slice(fields);
        self.parts.algorithm.before_write(self.period, row);
        Ok(())
    }

    /// Installs the writes and gives the locks back. Fails if a read or a write has failed so that the
    /// transaction must be run again.
    pub fn commit(mut self) -> Result<(), TransactionError> {
        if let Some(error) = self.interrupted.take() {
            return Err(error);
        }
        // The commit: all locks are held, and none has been given back.
        let Parts { algorithm, locks, periods, shape, .. } = self.parts;
        let period = periods.now();
        for held in &mut self.held {
            if let Some(at) = held.written_at {
                let fields = &self.written[at..][..shape.fields];
                let newest = locks.newest(held.row);
                held.copy = algorithm.install(self.period, period, held.row, newest, fields);
            }
        }
        self.committed = Some(period);
        Ok(())
    }

    /// Why it must be run again, if it must.
    pub(crate) fn interrupted(&self) -> Option<&TransactionError> {
        self.interrupted.as_ref()
    }

    fn find(&self, row: usize) -> Result<usize, usize> {
        self.held.binary_search_by_key(&row, |held| held.row)
    }

    fn check(&self, row: usize, fields: usize) -> Result<(), TransactionError> {
        if let Some(error) = &self.interrupted {
            return Err(error.clone());
        }
        let shape = self.parts.shape;
        if row >= shape.rows {
            return Err(SnapshotError::NoSuchRow { row, rows: shape.rows }.into());
        }
        if fields != shape.fields {
            return Err(SnapshotError::Fields { fields: shape.fields, given: fields }.into());
        }
        Ok(())
    }

    /// Says whether a version after that of this transaction has begun.
    fn later_began(&self) -> impl Fn() -> bool + use<'s, V> {
        let (periods, version) = (&self.parts.periods, V::version(self.period, self.period));
        move || {
            let now = periods.now();
            V::version(now, now) > version
        }
    }

    fn lock(&mut self, row: usize, access: Access) -> Result<(), TransactionError> {
        let version = V::version(self.period, self.period);
        self.parts.algorithm.fetch(row);
        let later_began = self.later_began();
        let must_restart = |meeting| {
            // Pairs with the Release of who gave the lock back: if that was one of the later version, its
            // period is seen here. Until a later version has begun, the bits of a read are those of one long
            // ago.
            fence(Ordering::Acquire);
            V::must_restart(meeting) && later_began()
        };
        let error = match self.parts.locks.lock(row, access, version, must_restart) {
            Ok(()) => return Ok(()),
            Err(Refusal::Held) => {
                self.parts.count_conflict();
                TransactionError::Held { row }
            }
            Err(Refusal::Newer) => {
                self.parts.count_restart();
                TransactionError::Newer { row }
            }
        };
        self.interrupted = Some(error.clone());
        Err(error)
    }
}

impl<V: VirtualAlgorithm> Drop for Transaction<'_, V> {
    fn drop(&mut self) {
        let version = V::version(self.period, self.period);
        let written_in = self.committed.map(|committed| V::version(self.period, committed));
        let later_began = self.later_began();
        for held in &self.held {
            let written = written_in.map(|version| Newest { version, copy: held.copy });
            match held.written_at {
                Some(_) => self.parts.locks.unlock_write(held.row, version, written, &later_began),
                None => self.parts.locks.unlock_read(held.row, version, &later_began),
            }
        }
        self.parts.periods.end(self.period);
    }
}
