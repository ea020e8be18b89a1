//! CPR, concurrent prefix recovery: copy-on-update between transactions, where a transaction belongs to the
//! version in which it began.
//!
//! ```text
//!   phase     rest | in progress          | complete | rest
//!                  ^ take     traverse    ^ finish
//!   version      4 | 5                    | 5        | 5
//!   O        |-- a ------ b --c|                           in place: the snapshot has it
//!   N                  |-- d' --c|                         copies d aside first
//!   P           |--------- d?                              restarted in version 5: N has written d
//! ```
//!
//! - The snapshot has the transactions of the earlier version: for each client, those up to the last that it
//!   began before it saw the trigger. No log and no common moment is needed, as a client learns of the new
//!   version when it begins its next transaction.
//! - None of them may follow a transaction of the later version; it is restarted by the same rule as in vHG.
//! - Only transactions of the later version copy rows aside, while a snapshot is in progress. The first write
//!   to a row in that version does; the traversal copies the others.
//! - Those of the phase complete copy nothing, and so no copy is made when the copies are given up.
//!
//! The rows, the copies and the bits of settled rows are those of Copy-on-Update, as in CALC. Two copies of
//! the data and two bits a row; the taken phase is O(1). A snapshot has all rows.
//!
//! The paper (Prasaad, Chandramouli and Kossmann, SIGMOD 2019) has a phase prepare besides, in which the
//! threads learn one by one that a version ends. Here each transaction reads the phase when it begins.

use std::ops::ControlFlow;

use crate::algorithm::{Algorithm, Visit};
use crate::copy_on_update::CopyOnUpdate;
use crate::error::SnapshotError;
use crate::shape::Shape;
use crate::transaction::algorithm::VirtualAlgorithm;
use crate::transaction::locks::{Locks, Newest, Version};
use crate::transaction::periods::{Period, Periods};

/// Phases of a snapshot: rest, in progress, complete.
const PHASES: u64 = 3;
const IN_PROGRESS: u64 = 1;

/// Keeps an old row when a transaction of the later version first writes over it.
pub struct Cpr {
    /// No row is settled in the phase rest.
    rows: CopyOnUpdate,
}

impl VirtualAlgorithm for Cpr {
    const NAME: &'static str = "CPR";
    const FULL: bool = true;
    const COPIES: usize = 2;

    fn new(shape: Shape) -> Result<Cpr, SnapshotError> {
        let rows = CopyOnUpdate::new(shape)?;
        rows.unsettle();
        Ok(Cpr { rows })
    }

    fn version(began: Period, _: Period) -> Version {
        (began.number() + PHASES - IN_PROGRESS) / PHASES
    }

    #[inline]
    fn fetch(&self, row: usize) {
        self.rows.fetch(row);
    }

    #[inline]
    fn read(&self, row: usize, _: Newest, fields: &mut [u64]) {
        self.rows.read(row, fields);
    }

    #[inline]
    fn install(&self, began: Period, _: Period, row: usize, _: Newest, fields: &[u64]) -> usize {
        if began.number() % PHASES == IN_PROGRESS {
            self.rows.write(row, fields);
        } else {
            self.rows.write_through(row, fields);
        }
        0
    }

    fn take(&self, periods: &Periods) {
        periods.advance();
    }

    fn settle(&self, periods: &Periods) {
        periods.drain();
    }

    fn traverse(&self, _: &Periods, _: &Locks, visit: Visit<'_>) -> ControlFlow<()> {
        self.rows.show_all(visit)
    }

    fn finish(&self, periods: &Periods, _: &Locks) {
        periods.advance();
        periods.drain();
        self.rows.unsettle();
        periods.advance();
    }
}
