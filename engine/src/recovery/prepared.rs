//! The parts of values that no key holds yet.

use std::collections::HashMap;

use crate::record::{Change, Lsn, Made};

/// The parts that a replayer has met, by the first part of their value.
#[derive(Default)]
pub(super) struct Prepared {
    values: HashMap<Lsn, Parts>,
}

#[derive(Default)]
struct Parts {
    /// How many there are, the first included.
    count: u64,
    bytes: Vec<u8>,
}

impl Prepared {
    /// Notes the part `lsn` of the value that began at `begun`.
    pub(super) fn note_part(&mut self, lsn: Lsn, begun: Lsn, bytes: &[u8]) {
        if begun == Lsn::ZERO {
            self.values.insert(lsn, Parts { count: 1, bytes: bytes.to_vec() });
        } else if bytes.is_empty() {
            self.values.remove(&begun);
        } else if let Some(parts) = self.values.get_mut(&begun) {
            parts.count += 1;
            parts.bytes.extend_from_slice(bytes);
        }
    }

    /// The change that says that a key holds a value, with the value, if all of its parts are there.
    pub(super) fn complete(&mut self, change: &Change<'_>) -> Change<'static> {
        let Change::Prepared { kind, begun, parts, expiry, sticky, .. } = *change else {
            unreachable!("it is asked of such a change alone")
        };
        let there = self.values.remove(&begun).filter(|there| there.count == parts);
        let value = there.map(|there| Made::of(there.bytes)).unwrap_or_default();
        Change::Prepared { kind, begun, parts, expiry, sticky, value }
    }

    /// Forgets all, where databases are flushed or swapped.
    pub(super) fn forget_all(&mut self) {
        self.values.clear();
    }
}
