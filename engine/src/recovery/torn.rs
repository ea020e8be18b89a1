//! Keys left incomplete by a repair: compaction had dropped some of their records in favour of later ones,
//! and the repair then cut those off.
//!
//! A replay makes something of such a key, always the same of the same records. It would be something else
//! once a compaction drops some of these, or behind them comes what only fits what there was. So the
//! start logs the key again, as it is or as absent, and no record before that matters any more. It logs
//! large values in parts (`renewal`). If it is killed before all is durable, the next start logs the key
//! again: no later record is there either.

use std::sync::Arc;

use super::loose::Place;
use crate::log::{Appender, Group, LogError, Validity};
use crate::record::{Change, Lsn, Stamped, Write};
use crate::renewal::{PART_BYTES, Parts, whole};
use crate::rewrite_cursor::RewriteCursor;
use crate::table::{KeyRef, Retired, Segment, Table, Waiting};

/// How much may wait for the disk before the next key or part is said.
const WAITING_BYTES_MAX: u64 = 8 << 20;

/// Logs keys again that are torn.
pub(super) fn log_again(
    torn: &[Place],
    tables: &[Arc<Table>],
    log: &Appender,
    validity: &Validity,
) -> Result<(), LogError> {
    for (db, key) in torn {
        let (key, group) = (KeyRef::of(*db, key), Group::new());
        let mut speaker = Speaker { key, log, validity, group };
        let (_, mut segment) = tables[*db as usize].write_of(key.hash);
        speaker.say_key(&mut segment)?;
    }
    Ok(())
}

/// Who says a key.
struct Speaker<'s> {
    key: KeyRef<'s>,
    log: &'s Appender,
    validity: &'s Validity,
    group: Group,
}

impl Speaker<'_> {
    fn say_key(&mut self, segment: &mut Segment) -> Result<(), LogError> {
        let Some(entry) = segment.find(self.key.hash, self.key.key) else {
            return self.say(segment, &[Change::Delete]).map(|_| ());
        };
        if entry.bytes_about() <= PART_BYTES || entry.length() > entry.kind().renewed_length_max() {
            let changes = whole(entry);
            return self.say(segment, &changes).map(|_| ());
        }
        let (kind, length, expiry) = (entry.kind(), entry.length(), entry.expiry());
        let begins = [Change::RenewalBegins { kind, length }, Change::Expire(expiry)];
        let begun = self.say(segment, &begins)?;
        let mut parts = Parts::new((kind, length), begun, self.key.key, PART_BYTES);
        let cursor = RewriteCursor::default();
        cursor.begin(self.key.hash, begun, length);
        while !parts.are_said() {
            let entry = segment.find(self.key.hash, self.key.key).expect("nobody else changes it");
            let changes = parts.next(entry, &cursor);
            self.say(segment, &changes)?;
        }
        self.say(segment, &[Change::RenewalEnds { kind, begun }]).map(|_| ())
    }

    /// Logs and applies changes that belong together; says which record is the first.
    fn say(&mut self, segment: &mut Segment, changes: &[Change<'_>]) -> Result<Lsn, LogError> {
        self.group.clear();
        for change in changes {
            let KeyRef { db, key, .. } = self.key;
            self.group.push(&Write::Key { db, key: key.into(), change: change.clone() });
        }
        let first = self.log.append(&self.group)?;
        let mut retired = Retired::default();
        let mut lsn = first;
        for change in changes {
            segment.apply(self.key, Stamped { lsn, change }, Waiting::NONE, &mut retired);
            lsn = lsn.after(1);
        }
        retired.take_garbage();
        self.validity.invalidate(&retired.lsns);
        if self.log.backlog_bytes() > WAITING_BYTES_MAX {
            self.log.sync_up_to(self.log.last())?;
        }
        Ok(first)
    }
}
