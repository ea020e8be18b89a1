//! Entries that are written anew, so that their changes can go.
//!
//! A list that lives long, a string that is changed in part again and again, and a set of which an image was
//! the first record would never be shorter in the log than all its changes. Where a compaction keeps more
//! bytes of such changes than their entry has, the entry is written anew, as one record, and the files are
//! compacted once more. (Entries up to some size: it happens under the latch of their segment.)

use smallvec::SmallVec;

use crate::engine::Engine;
use crate::log::Group;
use crate::record::{Batch, Change, Lsn, Write};
use crate::session::Access;
use crate::table::KeyHash;
use crate::value::{ValueRef, elements_of};

/// The most bytes of an entry that is written anew.
const RENEWED_BYTES_MAX: usize = 1 << 20;

impl Engine {
    /// Writes an entry anew by a chance of what its changes have of `bytes` against what it has, so that what
    /// is written is as much as what can go, be the changes in ever so many files; says whether it did.
    pub(super) fn renew(&self, db: u8, key: &[u8], bytes: usize, timestamp: Lsn) -> bool {
        let world = self.background();
        let hash = KeyHash::of(key);
        let mut latched = world.latch(self, &[(db, hash)], Access::Write, self.now());
        let Some(entry) = latched.get(db, key) else { return false };
        let chance = (hash.0 ^ timestamp.0).wrapping_mul(0x9E37_79B9_7F4A_7C15) as f64 / u64::MAX as f64;
        if entry.bytes() > RENEWED_BYTES_MAX || chance * entry.bytes() as f64 > bytes as f64 {
            return false;
        }
        let expiry = entry.expiry();
        let mut changes: SmallVec<[Change<'_>; 2]> = SmallVec::new();
        match entry.value() {
            ValueRef::String(value) => {
                changes.push(Change::Put { value: value.to_vec().into(), expiry });
                changes.extend(entry.sticky().then_some(Change::MAKES_RAW));
            }
            collection => {
                let (kind, sticky) = (entry.kind(), entry.sticky());
                let elements = elements_of(collection).into();
                changes.push(Change::Image { kind, elements, expiry, sticky });
            }
        }
        let write = |change| Write::Key { db, key: key.to_vec().into(), change };
        let batch: Batch<'_> = changes.into_iter().map(write).collect();
        latched.commit(&batch, &mut Group::new()).is_ok()
    }
}
