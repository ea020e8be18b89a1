//! A secondary index: pointers to records, ordered by a field of theirs, with masks of their own.
//!
//! ```text
//!   value, key       status                       removed
//!   (100, 2)         1 for scans that run         no        inserted while they run: they skip it
//!   (367, 2)         0 for scans that run         yes       to be removed when the last of them ends
//!   (367, 5)         0                            no        stable for all
//! ```
//!
//! In a pointer's status the bit of a scan that runs is 0 if and only if the pointer was there when the scan
//! began; the bit of any other is 0 if and only if the pointer is there now. A pointer whose bits are all 1
//! is of no use to anyone and goes.
//!
//! One latch covers the whole index. Writers take it only if a record is inserted or removed, or changes the
//! indexed field. Then they hold it from before they read the masks until they have finished (see
//! `store.rs`). Scans hold it for some pointers at a time.

use std::collections::BTreeMap;
use std::sync::PoisonError;

use super::mask::Mask;
use super::view::View;
use crate::sync::{Mutex, MutexGuard};

/// The number of pointers that a scan reads under one latch.
pub(crate) const POINTERS_PER_LATCH: usize = 64;

pub(crate) struct Pointer<M> {
    /// The paper's *index status mask*.
    pub(crate) status: M,
    /// The paper's *index status bit*: its removal is postponed.
    pub(crate) removed: bool,
}

/// The value of the indexed field, and the record's key.
pub(crate) type Place = (u64, u64);

pub(crate) struct Pointers<M> {
    pub(crate) tree: BTreeMap<Place, Pointer<M>>,
    /// The number of pointers that are still to be removed.
    pub(crate) postponed: usize,
}

pub(crate) struct Index<M> {
    /// The field that it is over.
    pub(crate) field: usize,
    pointers: Mutex<Pointers<M>>,
}

impl<M: Mask> Index<M> {
    pub(crate) fn new(field: usize) -> Index<M> {
        Index { field, pointers: Mutex::new(Pointers { tree: BTreeMap::new(), postponed: 0 }) }
    }

    pub(crate) fn latch(&self) -> MutexGuard<'_, Pointers<M>> {
        // Nothing panics while it is held.
        self.pointers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// After index scans have left: sets their bits for the scans to come, and removes the pointers that were
    /// kept for them.
    pub(crate) fn reclaim(&self, bits: M) {
        let mut from = Some((0, 0));
        while let Some(start) = from {
            let mut pointers = self.latch();
            let mut gone = Vec::new();
            let mut last = None;
            for (place, pointer) in pointers.tree.range_mut(start..).take(POINTERS_PER_LATCH) {
                last = Some(*place);
                if !pointer.removed {
                    // paper: SCAN_IDX_MASK_I_UPD
                    pointer.status = pointer.status & !bits;
                    continue;
                }
                // paper: SCAN_IDX_MASK_U_UPD
                pointer.status = pointer.status | bits;
                if pointer.status == M::ONES {
                    gone.push(*place);
                }
            }
            for place in &gone {
                pointers.tree.remove(place);
            }
            pointers.postponed -= gone.len();
            from = last.and_then(after);
        }
    }
}

impl<M: Mask> Pointers<M> {
    pub(crate) fn insert(&mut self, place: Place, view: &View<M>) {
        let new = Pointer { status: view.idx_status_mask_ins(), removed: false };
        let pointer = self.tree.entry(place).or_insert(new);
        if pointer.removed {
            // It comes back before its removal was done: older scans had it and must keep it.
            pointer.removed = false;
            pointer.status = view.idx_status_mask_again(pointer.status);
            self.postponed -= 1;
        }
    }

    /// REQUIRES: it is there and not removed.
    pub(crate) fn remove(&mut self, place: Place, view: &View<M>) {
        let Some(pointer) = self.tree.get_mut(&place) else { return };
        pointer.status = view.idx_status_mask_upd(pointer.status);
        if pointer.status == M::ONES {
            self.tree.remove(&place);
        } else {
            pointer.removed = true;
            self.postponed += 1;
        }
    }
}

/// The place that follows.
pub(crate) fn after((value, key): Place) -> Option<Place> {
    match key.checked_add(1) {
        Some(key) => Some((value, key)),
        None => value.checked_add(1).map(|value| (value, 0)),
    }
}
