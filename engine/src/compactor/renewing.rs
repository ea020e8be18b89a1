//! Chooses entries to be rewritten in the log, so that their old changes can be dropped.
//!
//! A list that lives long, a string that is changed in part again and again, and a set of which an image was
//! the first record would never be shorter in the log than all its changes. Where a compaction keeps more
//! bytes of such changes than their entry has, the entry is written again, and the files are compacted once
//! more: as one record, under the latch of its segment, or in pieces if it is large (`renewal`).

use std::time::Duration;

use crate::log::Group;
use crate::record::{Batch, Lsn, Write};
use crate::renewal;
use crate::session::{Access, Latched};
use crate::store::Store;
use crate::table::KeyRef;

/// The longest wait for a latch inside the gate: a script may have it for long.
const LATCH_WAIT: Duration = Duration::from_millis(10);

/// Writes an entry again by a chance of what its changes have of `bytes` against what it has, so that what is
/// written is as much as what can go, be the changes in ever so many files; says whether it did.
pub(super) fn renew(
    store: &Store,
    key: KeyRef<'_>,
    bytes: usize,
    timestamp: Lsn,
    part_bytes: usize,
    pace: impl FnMut(u64) -> bool,
) -> bool {
    let databases = store.background();
    let keys = [key];
    let (now, limit) = (store.now(), Some(LATCH_WAIT));
    let Some(mut latched) = Latched::within(store, &databases, &keys, Access::Write, now, limit) else {
        // Somebody has it for long: what its changes have goes with a later compaction.
        return false;
    };
    let Some(entry) = latched.find(key) else { return false };
    let chance = (key.hash.0 ^ timestamp.0).wrapping_mul(0x9E37_79B9_7F4A_7C15) as f64 / u64::MAX as f64;
    let entry_bytes = entry.bytes_about();
    if chance * entry_bytes as f64 > bytes as f64 {
        return false;
    }
    if entry_bytes > part_bytes {
        drop(latched);
        drop(databases);
        return renewal::renew(store, key, part_bytes, pace);
    }
    let KeyRef { db, key, .. } = key;
    let write = |change| Write::Key { db, key: key.to_vec().into(), change };
    let batch: Batch<'_> = renewal::whole(entry).into_iter().map(write).collect();
    latched.commit_again((db, key), &batch, &mut Group::new()).is_ok()
}
