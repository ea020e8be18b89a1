//! Gathers the records of a block on their way to the table, so that looking up several keys does not wait
//! for memory one key after the other.

use super::collected::Collected;
use super::loose::Loose;
use super::misfit::Misfit;
use super::prepared::Prepared;
use crate::log::Block;
use crate::record::{Bytes, Change, Kind, Lsn, Stamped};
use crate::renewal::removals_of_older;
use crate::table::{Effect, KeyHash, KeyRef, Retired, Segment, Table, Waiting};
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

impl Run<'_> {
    fn key_ref(&self) -> KeyRef<'_> {
        KeyRef { db: self.db, hash: self.hash, key: &self.key }
    }
}

/// The changes that a replayer has gathered.
#[derive(Default)]
pub(super) struct Gathered<'b> {
    runs: SmallVec<[Run<'b>; KEYS_GATHERED]>,
    /// The records of the first run, of the second, and so on.
    changes: Vec<(Lsn, Change<'b>)>,
}

impl<'b> Gathered<'b> {
    /// Whether what is gathered must be applied before a record of this key is added, which `begins` an
    /// atomic group or is within one: who reads meanwhile sees what one command did to a key, or nothing of
    /// it.
    pub(super) fn is_full_for(&self, db: u8, key: &[u8], begins: bool) -> bool {
        let keys_full = self.runs.len() == KEYS_GATHERED && !self.ends_with(db, key);
        keys_full || begins && self.changes.len() >= RECORDS_GATHERED
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

/// The state of a replayer beside the tables.
pub(super) struct Aside {
    pub(super) prepared: Prepared,
    pub(super) loose: Loose,
    pub(super) collected: Collected,
    pub(super) retired: Retired,
}

/// Applies the gathered records in their order. Keys are counted once for all: between two atomic operations
/// all that was written must have reached the cache, so that a count for each would have the next key wait
/// for the memory of the one before it.
pub(super) fn apply(tables: &[Arc<Table>], block: &Block, gathered: &mut Gathered<'_>, aside: &mut Aside) {
    let mut changes = gathered.changes.drain(..);
    let runs: SmallVec<[Run<'_>; KEYS_GATHERED]> = gathered.runs.drain(..).filter(|run| run.ours).collect();
    let mut rest = &runs[..];
    while let Some(Run { db, .. }) = rest.first() {
        let table = &tables[*db as usize];
        let of_table = rest.iter().take_while(|run| run.db == *db).count();
        let (runs, later) = rest.split_at(of_table);
        rest = later;
        table.fetch(runs.iter().map(|run| run.hash));
        let (mut counted, mut longest, mut index) = (Effect::default(), 0, 0);
        for run in runs {
            let own = &changes.as_slice()[..run.records];
            let is_put = |change: &(Lsn, Change<'_>)| matches!(change.1, Change::ZSetPut { .. });
            if aside.collected.has(run.key_ref()) && !own.iter().all(is_put) {
                aside.collected.put_in_apart(run.key_ref(), table, &mut aside.retired);
            }
            let mut segment;
            (index, segment) = table.write_of(run.hash);
            let mut puts = false;
            for (lsn, change) in changes.by_ref().take(run.records) {
                puts |= matches!(change, Change::ZSetPut { .. });
                if let Change::RenewalEnds { kind, begun } = change {
                    counted.add(end_renewal(&mut segment, run, (kind, begun), lsn, aside));
                }
                let effect = apply_one(&mut segment, run, Stamped { lsn, change: &change }, block, aside);
                table.note_due(index, effect.due);
                counted.add(effect);
            }
            let is_due = puts && aside.collected.note_puts(run.key_ref(), &segment);
            longest = longest.max(segment.len());
            drop(segment);
            if is_due {
                aside.collected.put_in_apart(run.key_ref(), table, &mut aside.retired);
            }
        }
        table.count(index, counted);
        if counted.keys > 0 && table.is_crowded(longest) {
            table.grow(4);
        }
        aside.retired.take_garbage();
        if aside.collected.is_full() {
            aside.collected.put_all_in(tables, &mut aside.retired);
        }
    }
}

/// Takes away what is older than the renewal that ends here; says how many keys that made.
fn end_renewal(
    segment: &mut Segment,
    run: &Run<'_>,
    (kind, begun): (Kind, Lsn),
    lsn: Lsn,
    Aside { loose, collected, retired, .. }: &mut Aside,
) -> Effect {
    let Run { db, ref key, hash, .. } = *run;
    collected.put_in(run.key_ref(), segment, retired);
    let mut gone = Effect::default();
    for removal in removals_of_older(segment.find(hash, key), kind, begun) {
        let removal = Stamped { lsn, change: &removal };
        let (effect, _) = segment.apply(run.key_ref(), removal, Waiting::NONE, retired);
        gone.add(effect);
        if effect.keys < 0 {
            loose.keep_remains(db, key, retired);
        }
    }
    loose.end_renewal(db, key, begun, retired);
    gone
}

/// Applies a record of a run and notes what it tells of a key that is not all there.
fn apply_one(
    segment: &mut Segment,
    run: &Run<'_>,
    write: Stamped<'_, '_>,
    block: &Block,
    Aside { prepared, loose, collected, retired }: &mut Aside,
) -> Effect {
    let Run { db, ref key, hash, .. } = *run;
    let lsn = write.lsn;
    let made;
    let change = match write.change {
        Change::PreparedPart { begun, bytes, .. } => {
            prepared.note_part(lsn, *begun, bytes);
            return Effect::default();
        }
        Change::Prepared { .. } => {
            made = prepared.complete(write.change);
            &made
        }
        change => change,
    };
    let write = Stamped { lsn, change };
    if collected.takes(run.key_ref(), write, segment, retired) {
        return Effect::default();
    }
    let is_as = match *change {
        Change::RenewalBegins { kind, length } => {
            let is_as = segment.find(hash, key).is_some_and(|entry| entry.is_as(kind, length));
            // Elements with names may all be gone that were there, and the end of the renewal.
            let counts = kind.is_bytes() || kind == Kind::List;
            let is_misfit = !is_as && counts && !loose.is_excused(lsn);
            loose.begin_renewal(db, key, lsn, is_misfit.then(|| Misfit::of(lsn, block)));
            is_as
        }
        _ => true,
    };
    if change.is_of_renewal() && loose.is_excused(lsn) {
        loose.note_torn(db, key);
    }
    let (mut effect, fits) = segment.apply(run.key_ref(), write, Waiting::NONE, retired);
    if !fits && matches!(change, Change::Prepared { .. }) {
        // Parts are not there, as what took the place of the value is behind it, or the start is refused. It
        // has ended what was there before.
        let gone = Stamped { lsn, change: &Change::Delete };
        (effect, _) = segment.apply(run.key_ref(), gone, Waiting::NONE, retired);
        retired.lsns.extend(loose.take_remains(db, key).iter().flat_map(|remains| remains.lsns()));
    }
    let is_named = matches!(
        change,
        Change::HashPut { .. }
            | Change::HashExpire { at: Some(_), .. }
            | Change::SetAdd { .. }
            | Change::ZSetPut { .. }
            | Change::StreamPut { .. }
    );
    if !fits && is_named {
        // What ended it is behind it, or the start is refused; and no entry has it, to tell that it ended.
        retired.lsns.push(lsn);
    }
    match *change {
        Change::Put { .. } | Change::Image { .. } | Change::Prepared { .. } | Change::Delete if fits => {
            loose.forget(db, key, retired);
        }
        Change::Expire(expiry) if !fits => {
            let is_excused = loose.is_excused(lsn);
            let key = loose.of(db, key);
            let remains = key.remains.get_or_insert_default();
            retired.lsns.extend(remains.expiry_lsn.replace(lsn));
            remains.expiry = expiry;
            if !is_excused {
                key.unseen.get_or_insert_with(|| Misfit::of(lsn, block));
            }
        }
        _ if !fits && loose.is_excused(lsn) => loose.note_torn(db, key),
        _ if !fits && !is_as => {}
        _ if !fits => loose.of(db, key).note_misfit(Misfit::of(lsn, block)),
        _ if effect.keys > 0 => {
            if let Some(remains) = loose.take_remains(db, key) {
                effect.expiring += segment.take_over(hash, key, remains);
                effect.due = [effect.due, remains.expiry].into_iter().flatten().min();
            }
        }
        _ if effect.keys < 0 => {
            if loose.is_excused(lsn) {
                // Unless its delete is behind it.
                loose.note_torn(db, key);
            }
            loose.keep_remains(db, key, retired);
        }
        _ => {}
    }
    effect
}
