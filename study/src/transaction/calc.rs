//! CALC: copy-on-update between transactions. A snapshot has the transactions that committed before its point
//! of consistency; rows that later ones write are copied aside first.
//!
//! ```text
//!   phase    rest | prepare |  resolve  | capture  | complete | rest
//!                 ^ take    ^ point of  ^ traverse ^ finish
//!                             consistency
//!   waits for       those of  those of              those of
//!   transactions    rest      prepare               resolve, capture
//!
//!   a write         copied    copied      copied     in place
//!   in place        aside,    aside       aside
//!                   kept or dropped at commit
//! ```
//!
//! - The phase in which a transaction commits is read while it holds all its locks. A transaction that
//!   follows it gets a lock from it, and so reads the same phase or a later one: those that committed before
//!   the point of consistency are a prefix of the order.
//! - A transaction of the phase prepare may commit on either side, and so copies a row aside when it locks it
//!   for writing. The copy is kept if it commits after the point of consistency; else it is dropped, which
//!   is nothing to do: only a settled row has a copy that counts.
//! - A transaction of the phase rest copies nothing, and so must have ended before the point of consistency.
//!
//! The version of a row is the number of points of consistency before the commit that wrote it. With it
//! pCALC, the partial form, shows only the rows that have changed since the point of consistency before. The
//! paper notes these in a bit vector for each checkpoint, which a write sets and a snapshot clears.
//!
//! The rows, the copies and the bits of settled rows are those of Copy-on-Update. Two copies of the data and
//! two bits a row. The trigger waits for the transactions in progress, and stops none.

use std::ops::ControlFlow;

use crate::algorithm::{Algorithm, Visit};
use crate::copy_on_update::CopyOnUpdate;
use crate::error::SnapshotError;
use crate::shape::Shape;
use crate::transaction::algorithm::VirtualAlgorithm;
use crate::transaction::locks::{Locks, Meeting, Newest, Version};
use crate::transaction::periods::{Period, Periods};

/// Keeps an old row when a transaction after the cut first writes over it. A snapshot shows all rows or, if
/// `PARTIAL`, those that have changed.
pub struct Calc<const PARTIAL: bool = false> {
    /// No row is settled in the phases rest and prepare.
    rows: CopyOnUpdate,
}

/// CALC with partial checkpoints: a snapshot shows what has changed.
pub type PartialCalc = Calc<true>;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Rest,
    Prepare,
    Resolve,
    Capture,
    Complete,
}

const PHASES: u64 = 5;

impl Phase {
    fn of(period: Period) -> Phase {
        [Phase::Rest, Phase::Prepare, Phase::Resolve, Phase::Capture, Phase::Complete]
            [(period.number() % PHASES) as usize]
    }

    /// Enters the next phase, which is `to`.
    fn enter(to: Phase, periods: &Periods) {
        periods.advance();
        debug_assert_eq!(Phase::of(periods.now()), to, "one phase follows the other");
    }
}

impl<const PARTIAL: bool> Calc<PARTIAL> {
    /// The version of the snapshot in progress.
    fn shown(periods: &Periods) -> Version {
        Self::version(periods.now(), periods.now()) - 1
    }
}

impl<const PARTIAL: bool> VirtualAlgorithm for Calc<PARTIAL> {
    const NAME: &'static str = if PARTIAL { "pCALC" } else { "CALC" };
    const FULL: bool = !PARTIAL;
    const COPIES: usize = 2;

    fn new(shape: Shape) -> Result<Self, SnapshotError> {
        let rows = CopyOnUpdate::new(shape)?;
        rows.unsettle();
        Ok(Calc { rows })
    }

    fn version(_: Period, committed: Period) -> Version {
        (committed.number() + PHASES - Phase::Resolve as u64) / PHASES
    }

    /// The side of a transaction is where it commits, so it may follow any other.
    fn must_restart(_: Meeting) -> bool {
        false
    }

    #[inline]
    fn fetch(&self, row: usize) {
        self.rows.fetch(row);
    }

    #[inline]
    fn read(&self, row: usize, _: Newest, fields: &mut [u64]) {
        self.rows.read(row, fields);
    }

    fn before_write(&self, began: Period, row: usize) {
        if Phase::of(began) == Phase::Prepare {
            self.rows.copy_aside(row);
        }
    }

    fn install(&self, began: Period, committed: Period, row: usize, _: Newest, fields: &[u64]) -> usize {
        match (Phase::of(began), Phase::of(committed)) {
            (Phase::Prepare, Phase::Resolve) => {
                self.rows.keep(row);
                self.rows.write_through(row, fields);
            }
            (_, Phase::Resolve | Phase::Capture) => self.rows.write(row, fields),
            (_, Phase::Rest | Phase::Prepare | Phase::Complete) => self.rows.write_through(row, fields),
        }
        0
    }

    fn take(&self, periods: &Periods) {
        Phase::enter(Phase::Prepare, periods);
        periods.drain();
        Phase::enter(Phase::Resolve, periods);
    }

    fn settle(&self, periods: &Periods) {
        periods.drain();
        Phase::enter(Phase::Capture, periods);
    }

    fn traverse(&self, periods: &Periods, locks: &Locks, visit: Visit<'_>) -> ControlFlow<()> {
        if PARTIAL {
            self.rows.show(locks.changed_in(Self::shown(periods)), visit)
        } else {
            self.rows.show_all(visit)
        }
    }

    fn abandon(&self, periods: &Periods, locks: &Locks) {
        if PARTIAL {
            locks.pass_on(Self::shown(periods));
        }
        self.finish(periods, locks);
    }

    fn finish(&self, periods: &Periods, _: &Locks) {
        Phase::enter(Phase::Complete, periods);
        periods.drain();
        self.rows.unsettle();
        Phase::enter(Phase::Rest, periods);
    }
}
