//! The masks of the running scans and of the meaning of their bits, read as one.
//!
//! ```text
//!   scans begin and end, one at a time        writers, latches held
//!   turn odd │ active stable index_active │ turn even
//!            └── a reader that met an odd turn, or another one after than before, reads again ──┘
//! ```
//!
//! A writer that read `active` from before the end of a scan and `stable` from after it would take records
//! that the scan has read for unread ones and the reverse, keep versions that nobody fetches, and leave
//! records that the next scan with that bit overlooks. `index_active` belongs to the same moment: otherwise
//! a record that moves in the index while a scan begins could be new to the scan in one place and old in the
//! other.
//!
//! The functions of [`View`] are the paper's table I, under its names.

use super::mask::Mask;
use crate::sync::atomic::{AtomicU64, Ordering, fence};
use crate::sync::yield_now;

/// The masks of one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<M> {
    /// 1: no scan with this bit wants versions from writers. The paper's *local active mask*.
    pub(crate) active: M,
    /// The value of the bit in a record's status that means: unchanged since the scan began, and not read by
    /// it.
    pub(crate) stable: M,
    /// 1: no index scan with this bit reads the index.
    pub(crate) index_active: M,
}

impl<M: Mask> View<M> {
    /// No scan runs, and 0 means stable.
    pub(crate) const IDLE: View<M> = View { active: M::ONES, stable: M::ZEROS, index_active: M::ONES };

    /// `REMSET_MASK_INS`: 0 for each scan that still needs the present version of the record.
    pub(crate) fn remset_mask_ins(&self, status: M) -> M {
        (self.stable ^ status) | self.active
    }

    /// `STATUS_MASK_UPD`: changed for the scans that run, stable for those to come.
    pub(crate) fn status_mask_upd(&self) -> M {
        !(self.stable ^ self.active)
    }

    /// `IDX_STATUS_MASK_INS`: 1, to be skipped, for the index scans that run.
    pub(crate) fn idx_status_mask_ins(&self) -> M {
        !self.index_active
    }

    /// `IDX_STATUS_MASK_UPD`, of a pointer that is removed: to be skipped by the index scans to come.
    pub(crate) fn idx_status_mask_upd(&self, status: M) -> M {
        status | self.index_active
    }

    /// Of a pointer that was to be removed and is inserted again: nothing new for the index scans that run.
    /// The paper has no such case.
    pub(crate) fn idx_status_mask_again(&self, status: M) -> M {
        status & !self.index_active
    }
}

/// A view that one thread at a time changes and all read.
pub(crate) struct Published<M: Mask> {
    /// Odd while it is being changed.
    turn: AtomicU64,
    active: M::Cell,
    stable: M::Cell,
    index_active: M::Cell,
}

impl<M: Mask> Published<M> {
    pub(crate) fn new() -> Published<M> {
        let View { active, stable, index_active } = View::<M>::IDLE;
        Published {
            turn: AtomicU64::new(0),
            active: active.share(),
            stable: stable.share(),
            index_active: index_active.share(),
        }
    }

    /// REQUIRES: no other thread writes.
    pub(crate) fn write(&self, view: View<M>) {
        let turn = self.turn.load(Ordering::Relaxed);
        self.turn.store(turn + 1, Ordering::Relaxed);
        // Pairs with the fence in `read`: a reader that sees one of the words below sees the odd turn as
        // well.
        fence(Ordering::Release);
        view.active.store(&self.active);
        view.stable.store(&self.stable);
        view.index_active.store(&self.index_active);
        // Release: pairs with the first load in `read`.
        self.turn.store(turn + 2, Ordering::Release);
    }

    #[inline]
    pub(crate) fn read(&self) -> View<M> {
        loop {
            // Acquire: pairs with the last store in `write`.
            let before = self.turn.load(Ordering::Acquire);
            let view = View {
                active: M::load(&self.active),
                stable: M::load(&self.stable),
                index_active: M::load(&self.index_active),
            };
            fence(Ordering::Acquire);
            if before.is_multiple_of(2) && self.turn.load(Ordering::Relaxed) == before {
                return view;
            }
            yield_now();
        }
    }
}
