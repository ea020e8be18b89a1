//! The records of a block on their way to the table: those of some keys at once, so that looking the keys up
//! does not wait for memory one key after the other.

use super::loose::Loose;
use super::replay::Misfit;
use crate::log::{Block, Damage};
use crate::record::{Bytes, Change, Lsn};
use crate::table::{KeyHash, Readers, Retired, Table};
use smallvec::SmallVec;
use std::sync::Arc;

/// Keys that are looked up together, so that the looks do not wait for each other.
const KEYS_GATHERED: usize = 16;
/// Records that are gathered for them, at most.
const RECORDS_GATHERED: usize = 256;

/// Records of one key that follow each other, on their way to the table.
struct Run<'b> {
    db: u8,
    key: Bytes<'b>,
    hash: KeyHash,
    /// Whether the key is among this replayer's.
    ours: bool,
    records: usize,
}

/// What a replayer has gathered.
#[derive(Default)]
pub(super) struct Gathered<'b> {
    runs: SmallVec<[Run<'b>; KEYS_GATHERED]>,
    /// The records of the first run, of the second, and so on.
    changes: Vec<(Lsn, Change<'b>)>,
}

impl<'b> Gathered<'b> {
    /// Whether what is gathered must be applied before a record of this key is added.
    pub(super) fn is_full_for(&self, db: u8, key: &[u8]) -> bool {
        let keys_full = self.runs.len() == KEYS_GATHERED && !self.ends_with(db, key);
        keys_full || self.changes.len() == RECORDS_GATHERED
    }

    fn ends_with(&self, db: u8, key: &[u8]) -> bool {
        self.runs.last().is_some_and(|run| run.db == db && *run.key == *key)
    }

    /// Adds a record, if it is one of a key that is `ours`.
    pub(super) fn push(
        &mut self,
        db: u8,
        key: Bytes<'b>,
        ours: impl Fn(KeyHash) -> bool,
        lsn: Lsn,
        change: Change<'b>,
    ) {
        if !self.ends_with(db, &key) {
            // Of others' keys only the last is of use, to know it again.
            if self.runs.last().is_some_and(|run| !run.ours) {
                self.runs.pop();
            }
            let hash = KeyHash::of(&key);
            self.runs.push(Run { db, key, hash, ours: ours(hash), records: 0 });
        }
        let run = self.runs.last_mut().expect("it was pushed if there was none");
        if run.ours {
            run.records += 1;
            self.changes.push((lsn, change));
        }
    }
}

/// Applies the gathered records in their order.
pub(super) fn apply(
    tables: &[Arc<Table>],
    block: &Block,
    gathered: &mut Gathered<'_>,
    loose: &mut Loose,
    retired: &mut Retired,
) {
    let nobody = Readers::default();
    let ours = || gathered.runs.iter().filter(|run| run.ours);
    if let Some(db) = ours().map(|run| run.db).next() {
        tables[db as usize].fetch(ours().filter(|run| run.db == db).map(|run| run.hash));
    }
    let mut changes = gathered.changes.drain(..);
    for Run { db, key, hash, records, .. } in gathered.runs.drain(..).filter(|run| run.ours) {
        let table = &tables[db as usize];
        let (index, mut segment) = table.write_of(hash);
        let mut crowded = false;
        for (lsn, change) in changes.by_ref().take(records) {
            let (mut effect, fits) = segment.apply(hash, &key, &change, lsn, &nobody, retired);
            match change {
                Change::Put { .. } | Change::Image { .. } | Change::Delete if fits => {
                    loose.forget(db, &key, retired);
                }
                Change::Expire(expiry) if !fits => {
                    let is_unfit = lsn <= loose.unfit;
                    let key = loose.of(db, &key);
                    let remains = key.remains.get_or_insert_default();
                    retired.lsns.extend(remains.expiry_lsn.replace(lsn));
                    remains.expiry = expiry;
                    if !is_unfit {
                        key.unseen.get_or_insert_with(|| misfit(lsn, block));
                    }
                }
                _ if !fits && lsn <= loose.unfit => {}
                _ if !fits => {
                    loose.of(db, &key).misfit.get_or_insert_with(|| misfit(lsn, block));
                }
                _ if effect.keys > 0 => {
                    if let Some(remains) = loose.take_remains(db, &key) {
                        segment.take_over(hash, &key, remains);
                        effect.expiry = remains.expiry;
                    }
                }
                _ if effect.keys < 0 => {
                    let remains = retired.remains.take().unwrap_or_default();
                    if remains.lsns().next().is_some() {
                        // They are needed still.
                        retired.lsns.retain(|lsn| remains.lsns().all(|other| other != *lsn));
                        loose.of(db, &key).remains = Some(remains);
                    }
                }
                _ => {}
            }
            table.note(index, effect.keys, effect.expiry);
            crowded |= effect.keys > 0 && table.is_crowded(segment.len());
        }
        drop(segment);
        if crowded {
            table.grow(4);
        }
        for garbage in retired.garbage.drain(..) {
            garbage.for_each_lsn(&mut |lsn| retired.lsns.push(lsn));
        }
    }
}

fn misfit(lsn: Lsn, block: &Block) -> Misfit {
    let what = format!("record {lsn} in this block does not fit what the records before it made");
    let damage = Damage::new(block.path().to_path_buf(), block.offset(), what);
    Misfit { lsn, sequence: block.sequence(), damage }
}
