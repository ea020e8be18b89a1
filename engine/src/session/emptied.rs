//! Logs the deletion of keys that lose their last element (`docs/design/0015`).

use std::borrow::Cow;
use std::collections::HashMap;

use super::Latched;
use crate::overlay::apply_to_copy;
use crate::record::{Batch, Change, Lsn, Write};
use crate::table::Entry;

/// Elements that a write takes away at most.
fn elements_taken(write: &Write<'_>) -> u64 {
    match write {
        Write::Key { change: Change::ListPop { count, .. }, .. } => *count,
        Write::Key {
            change:
                Change::HashRemove { .. }
                | Change::SetRemove { .. }
                | Change::ZSetRemove { .. }
                | Change::ListRemove { .. },
            ..
        } => 1,
        _ => 0,
    }
}

/// Whether a write deletes this key.
fn deletes(write: &Write<'_>, of_db: u8, of_key: &[u8]) -> bool {
    matches!(write, Write::Key { db, key, change: Change::Delete } if *db == of_db && **key == *of_key)
}

impl Latched<'_> {
    /// `batch`, with a delete behind each write that takes a key away with its last element, where there is
    /// none yet. REQUIRES: it neither flushes nor swaps databases, or has all these deletes.
    pub(super) fn with_deletes<'b, 'w>(&self, batch: &'b Batch<'w>) -> Cow<'b, Batch<'w>> {
        let taken = batch.iter().map(elements_taken).fold(0, u64::saturating_add);
        if taken == 0 || self.databases.log.is_none() {
            return Cow::Borrowed(batch);
        }
        // Copies of the keys that may become empty. They are small, or share their nodes.
        let mut copies: HashMap<(u8, &[u8]), Option<Entry>> = HashMap::new();
        for write in batch.iter().filter(|write| elements_taken(write) > 0) {
            let Write::Key { db, key, .. } = write else { continue };
            let hash = self.key_ref(*db, key).hash;
            let entry = self.with_segment(*db, hash, |segment| match segment.find(hash, key) {
                Some(entry) if entry.count() as u64 > taken => None,
                entry => Some(entry.cloned()),
            });
            if let Some(entry) = entry {
                copies.insert((*db, &**key), entry);
            }
        }
        if copies.is_empty() {
            return Cow::Borrowed(batch);
        }
        let mut told = Batch::new();
        for (index, write) in batch.iter().enumerate() {
            told.push(write.clone());
            let Write::Key { db, key, change } = write else { continue };
            let Some(copy) = copies.get_mut(&(*db, &**key)) else { continue };
            let is_told = batch.get(index + 1).is_some_and(|next| deletes(next, *db, key));
            if apply_to_copy(copy, key, change, Lsn(1)) && !is_told {
                told.push(Write::Key { db: *db, key: key.clone(), change: Change::Delete });
            }
        }
        Cow::Owned(told)
    }
}
