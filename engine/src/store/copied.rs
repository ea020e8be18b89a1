//! A copy of an entry, for who reads longer than a latch may be held.

use std::ops::Deref;

use super::reaper::Reaper;
use crate::table::Entry;

/// An entry as it was when it was copied, whatever becomes of its key. A large value shares its nodes with
/// the original until one of the two is changed, so the copy costs nothing. The nodes that only the copy has
/// by its end are freed by the reaper.
pub struct Copied {
    /// `None`: on its way to the reaper.
    entry: Option<Entry>,
    reaper: Reaper,
}

impl Copied {
    pub(super) fn new(entry: &Entry, reaper: &Reaper) -> Copied {
        Copied { entry: Some(entry.clone()), reaper: reaper.clone() }
    }
}

impl Deref for Copied {
    type Target = Entry;

    fn deref(&self) -> &Entry {
        self.entry.as_ref().expect("it is there until it is dropped")
    }
}

impl Drop for Copied {
    fn drop(&mut self) {
        if let Some(entry) = self.entry.take().filter(Entry::is_large) {
            self.reaper.discard_copy(entry);
        }
    }
}
