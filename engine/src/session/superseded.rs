//! Records that a session has superseded: marked together, which is faster than one by one.

use crate::log::Validity;
use crate::record::Lsn;
use smallvec::SmallVec;
use std::cell::RefCell;

/// Records kept in a session before they are marked.
const KEPT: usize = 16;

/// Superseded records that are not marked yet.
#[derive(Default)]
pub(super) struct Superseded(RefCell<SmallVec<[Lsn; KEPT]>>);

impl Superseded {
    /// Adds records, and marks all once there are enough.
    pub(super) fn extend(&self, lsns: &[Lsn], validity: &Validity) {
        let mut kept = self.0.borrow_mut();
        kept.extend_from_slice(lsns);
        if kept.len() >= KEPT {
            validity.invalidate(&kept);
            kept.clear();
        }
    }

    /// Marks what is left, at the end of the session.
    pub(super) fn mark(&self, validity: &Validity) {
        validity.invalidate(&self.0.borrow());
    }
}
