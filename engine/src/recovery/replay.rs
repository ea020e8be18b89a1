//! Replays the log into the tables on every core; the hash of a key decides which core replays it.
//!
//! ```text
//!   reader (one thread a directory, CRCs checked) ──block──┬──> replayer 0: hash mod n = 0
//!                                                          └──> replayer 1: hash mod n = 1
//! ```
//!
//! Blocks come in the order of their sequence numbers, so the records of one key are replayed in the order of
//! their `Lsn`s by one thread, and deltas meet the base they were made for. Handing every block to every
//! replayer costs each of them the decoding of the others' records, some 30 ns apiece, and saves a router
//! that would cost as much; with very many cores a router would win. Records that concern whole databases are
//! a meeting point: all replayers stop there and one of them does the work.

use super::collected::Collected;
use super::gathered::{Aside, Gathered, apply};
use super::loose::{Loose, Place};
use super::meeting::{Meeting, Member};
use super::misfit::Misfit;
use super::prepared::Prepared;
use super::room::Room;
use crate::early::Early;
use crate::lock::{Mutex, rank};
use crate::log::{Block, OpenError, Sizes};
use crate::record::{Lsn, Write};
use crate::table::{KeyHash, Retired, Table};
use crate::upheaval::Upheavals;
use crossbeam_channel::{Receiver, Sender};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Blocks that may wait for a replayer.
const BLOCKS_QUEUED: usize = 32;
/// Replaced records that are gathered before they are marked.
const INVALIDATED_AT_ONCE: usize = 256;

/// The result of a replay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Records.
    pub records: u64,
    /// The first record that did not fit what the records before it had made.
    pub misfit: Option<Misfit>,
    /// The flushes and swaps of whole databases.
    pub upheavals: Upheavals,
    /// Keys of which a repair has cut off what made their records fit, and that were not logged again since.
    pub torn: Vec<Place>,
}

/// Who replays.
#[derive(Clone, Copy, Debug)]
pub struct Replayers {
    /// How many; each takes its share of the keys.
    pub threads: usize,
    /// How much each collects.
    pub sizes: Sizes,
}

impl From<usize> for Replayers {
    fn from(threads: usize) -> Replayers {
        Replayers { threads, sizes: Sizes::default() }
    }
}

struct Replay<'r> {
    tables: Mutex<Vec<Arc<Table>>, rank::ReplayedTables>,
    /// Records up to this `Lsn` are in the tables already.
    base: Lsn,
    /// Records up to this `Lsn` need not fit the state.
    unfit: Lsn,
    meeting: Meeting,
    misfit: Mutex<Option<Misfit>>,
    upheavals: Mutex<Upheavals>,
    torn: Mutex<Vec<Place>>,
    /// Who reads meanwhile.
    early: &'r Early,
    /// Compacted files rely on all up to this block.
    relied_on: u64,
    sizes: Sizes,
    /// Replayers that have not come to a later one.
    behind: AtomicUsize,
}

/// Replays what is newer than `base` in `blocks` into `tables`, which are as of then, with so many
/// `replayers`. Records up to `unfit` need not fit what those before them made. Those who read `early` are
/// shown what becomes of the tables, and when all is replayed that compacted files rely on. `invalidate` is
/// told the `Lsn`s whose records have been replaced.
pub fn replay(
    mut blocks: impl FnMut() -> Result<Option<Arc<Block>>, OpenError>,
    tables: Vec<Arc<Table>>,
    (base, unfit): (Lsn, Lsn),
    replayers: impl Into<Replayers>,
    (early, relied_on): (&Early, u64),
    invalidate: impl Fn(&[Lsn]) + Sync,
) -> Result<(Vec<Arc<Table>>, Replayed), OpenError> {
    let Replayers { threads, sizes } = replayers.into();
    let threads = threads.max(1);
    let replay = Replay {
        tables: Mutex::new(tables),
        base,
        unfit,
        meeting: Meeting::of(threads),
        misfit: Mutex::default(),
        upheavals: Mutex::default(),
        torn: Mutex::default(),
        early,
        relied_on,
        sizes,
        behind: AtomicUsize::new(threads),
    };
    let mut records = 0;
    std::thread::scope(|scope| {
        let mut senders: Vec<Sender<Arc<Block>>> = Vec::with_capacity(threads);
        let mut replayers = Vec::with_capacity(threads);
        for share in 0..threads {
            let (sender, receiver) = crossbeam_channel::bounded(BLOCKS_QUEUED);
            senders.push(sender);
            let (replay, invalidate) = (&replay, &invalidate);
            replayers.push(scope.spawn(move || replay.run(&receiver, share, threads, invalidate)));
        }
        'reading: while let Some(block) = blocks()? {
            records += u64::from(block.count());
            for sender in &senders {
                if sender.send(block.clone()).is_err() {
                    // A replayer has given up; it says why below.
                    break 'reading;
                }
            }
        }
        drop(senders);
        for replayer in replayers {
            replayer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        }
        Ok::<(), OpenError>(())
    })?;
    let (misfit, upheavals) = (replay.misfit.into_inner(), replay.upheavals.into_inner());
    let replayed = Replayed { records, misfit, upheavals, torn: replay.torn.into_inner() };
    Ok((replay.tables.into_inner(), replayed))
}

impl Replay<'_> {
    /// Replays a share. All replayers decode all records, so that they give up at the same one and nobody is
    /// left waiting at the meeting point.
    fn run(
        &self,
        blocks: &Receiver<Arc<Block>>,
        share: usize,
        shares: usize,
        invalidate: &impl Fn(&[Lsn]),
    ) -> Result<(), OpenError> {
        let _member = Member(&self.meeting);
        let mut tables = self.tables.lock().clone();
        let (loose, retired) = (Loose::new(self.unfit), Retired::default());
        let mut aside =
            Aside { prepared: Prepared::default(), loose, collected: Collected::new(&self.sizes), retired };
        let mut room = (share == 0).then(Room::default);
        let mut is_behind = true;
        for block in blocks {
            if is_behind && block.sequence() > self.relied_on {
                is_behind = false;
                aside.collected.put_all_in(&tables, &mut aside.retired);
                self.note_one_ahead();
            }
            let mut gathered = Gathered::default();
            for record in block.records() {
                // The block's checksum is right, so these are the bytes that were written: skipping them
                // would lose what somebody was told is safe.
                let record = record.map_err(|error| block.not_understood(error))?;
                let highest = match record.write {
                    Write::Key { db, .. } => db,
                    Write::Flush { db } => db.unwrap_or(0),
                    Write::Swap { a, b } => a.max(b),
                };
                if record.lsn <= self.base {
                    if share == 0 {
                        self.upheavals.lock().note(record.lsn, &record.write);
                    }
                    continue;
                }
                if highest as usize >= tables.len() {
                    return Err(block.too_few_databases(highest, tables.len()));
                }
                match record.write {
                    Write::Key { db, key, change } => {
                        if gathered.is_full_for(db, &key, record.group > 0) {
                            apply(&tables, &block, &mut gathered, &mut aside);
                        }
                        let ours = |hash: KeyHash| (hash.0 & 0xFF) as usize % shares == share;
                        gathered.push(db, key, ours, record.lsn, change);
                    }
                    Write::Flush { .. } | Write::Swap { .. } => {
                        apply(&tables, &block, &mut gathered, &mut aside);
                        aside.collected.put_all_in(&tables, &mut aside.retired);
                        aside.prepared.forget_all();
                        aside.loose.change_databases(&record.write, &mut aside.retired);
                        self.alone(|tables| {
                            change_databases(tables, &record.write);
                            self.early.follow(tables, record.lsn, &record.write);
                            self.upheavals.lock().note(record.lsn, &record.write);
                        });
                        tables = self.tables.lock().clone();
                    }
                }
                if aside.retired.lsns.len() >= INVALIDATED_AT_ONCE {
                    invalidate(&aside.retired.lsns);
                    aside.retired.lsns.clear();
                }
            }
            apply(&tables, &block, &mut gathered, &mut aside);
            if let Some(room) = &mut room {
                room.note(&block, &tables);
            }
        }
        if let Some(room) = room {
            room.end(&tables);
        }
        aside.collected.put_all_in(&tables, &mut aside.retired);
        let (misfit, torn) = aside.loose.end(&mut aside.retired);
        self.torn.lock().extend(torn);
        if let Some(misfit) = misfit {
            // The earliest of all: those behind it may only follow from it.
            let mut first = self.misfit.lock();
            if first.as_ref().is_none_or(|first| misfit.lsn < first.lsn) {
                *first = Some(misfit);
            }
        }
        invalidate(&aside.retired.lsns);
        Ok(())
    }

    /// One more replayer has done all that compacted files rely on.
    fn note_one_ahead(&self) {
        // All of them together: each has done its changes before.
        if self.behind.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.early.note_exact();
        }
    }

    /// Lets one of the replayers, who all come here, work on the tables while the others wait.
    fn alone(&self, work: impl FnOnce(&mut Vec<Arc<Table>>)) {
        if self.meeting.wait() {
            work(&mut self.tables.lock());
        }
        self.meeting.wait();
    }
}

/// Does what a record says that concerns whole databases.
fn change_databases(tables: &mut [Arc<Table>], write: &Write<'_>) {
    match *write {
        Write::Flush { db: Some(db) } => tables[db as usize] = Arc::default(),
        Write::Flush { db: None } => tables.fill_with(Arc::default),
        Write::Swap { a, b } => tables.swap(a as usize, b as usize),
        Write::Key { .. } => {}
    }
}
