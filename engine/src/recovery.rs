//! From the log to the tables: every core replays, each the keys whose hash is its share.
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

use crate::backup;
use crate::checkpoint::{Checkpoint, Checkpoints, Loaded};
use crate::io::Disk;
use crate::log::{Block, Damage, Log, LogOptions, OpenError, Reader, Recovered, Validity};
use crate::record::{Bytes, Change, Kind, Lsn, Write};
use crate::renewal::removals_of_older;
use crate::table::{KeyHash, Readers, Remains, Retired, Table};
use crate::upheaval::Upheavals;
use crossbeam_channel::{Receiver, Sender};
use parking_lot::{Condvar, Mutex};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Blocks that may wait for a replayer.
const BLOCKS_QUEUED: usize = 32;
/// Replaced records that are gathered before they are marked.
const INVALIDATED_AT_ONCE: usize = 256;

/// Keys that are looked up together, so that the looks do not wait for each other.
const KEYS_GATHERED: usize = 16;
/// Records that are gathered for them, at most.
const RECORDS_GATHERED: usize = 256;

/// What was replayed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Records.
    pub records: u64,
    /// The first record that did not fit what the records before it had made.
    pub misfit: Option<Misfit>,
    /// What happened to whole databases.
    pub upheavals: Upheavals,
}

/// A record that does not fit what it meets, and nothing behind it says the key anew. A command checks what
/// is there before it decides on a change, under the same latch, so no history has one: records before it are
/// not those that were written. Where the key is said anew, a compaction may have dropped what it was made
/// of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfit {
    /// Its number.
    pub lsn: Lsn,
    /// The block that it is in.
    pub sequence: u64,
    /// Where that is.
    pub damage: Damage,
}

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
struct Gathered<'b> {
    runs: SmallVec<[Run<'b>; KEYS_GATHERED]>,
    /// The records of the first run, of the second, and so on.
    changes: Vec<(Lsn, Change<'b>)>,
}

impl<'b> Gathered<'b> {
    /// Whether what is gathered must be applied before a record of this key is added.
    fn is_full_for(&self, db: u8, key: &[u8]) -> bool {
        let keys_full = self.runs.len() == KEYS_GATHERED && !self.ends_with(db, key);
        keys_full || self.changes.len() == RECORDS_GATHERED
    }

    fn ends_with(&self, db: u8, key: &[u8]) -> bool {
        self.runs.last().is_some_and(|run| run.db == db && *run.key == *key)
    }

    /// Adds a record, if it is one of a key that is `ours`.
    fn push(&mut self, db: u8, key: Bytes<'b>, ours: impl Fn(KeyHash) -> bool, lsn: Lsn, change: Change<'b>) {
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

/// What a replayer knows of keys whose records do not tell all: a compaction may have dropped some that
/// nothing needs in the end.
#[derive(Default)]
struct Loose {
    /// Records up to here need not fit.
    unfit: Lsn,
    keys: HashMap<(u8, Box<[u8]>), LooseKey>,
}

#[derive(Default)]
struct LooseKey {
    /// The first record that did not fit.
    misfit: Option<Misfit>,
    /// What was said of a key that is not there, or not any more, and that may come to be there by elements
    /// that are younger than those it had.
    remains: Option<Remains>,
    /// The record of an expiry, if the key was never seen.
    unseen: Option<Misfit>,
    /// Since when the key has been said anew in pieces, and the first record behind that did not fit.
    renewal: Option<(Lsn, Option<Misfit>)>,
}

impl LooseKey {
    fn note_misfit(&mut self, misfit: Misfit) {
        if let Some((_, first)) = &mut self.renewal {
            first.get_or_insert_with(|| misfit.clone());
        }
        self.misfit.get_or_insert(misfit);
    }
}

impl Loose {
    fn of(&mut self, db: u8, key: &[u8]) -> &mut LooseKey {
        self.keys.entry((db, key.into())).or_default()
    }

    /// Forgets a key that is said anew.
    fn forget(&mut self, db: u8, key: &[u8], retired: &mut Retired) {
        if !self.keys.is_empty()
            && let Some(loose) = self.keys.remove(&(db, key.into()))
        {
            retired.lsns.extend(loose.remains.iter().flat_map(Remains::lsns));
        }
    }

    /// Notes that a key begins to be said anew in pieces, and whether that did not fit.
    fn begin_renewal(&mut self, db: u8, key: &[u8], lsn: Lsn, misfit: Option<Misfit>) {
        if let Some(misfit) = misfit {
            self.of(db, key).misfit.get_or_insert(misfit);
        }
        if !self.keys.is_empty()
            && let Some(loose) = self.keys.get_mut(&(db, key.into()))
        {
            loose.renewal = Some((lsn, None));
        }
    }

    /// Forgets what did not fit up to where a key began to be said anew, as all of it has been said.
    fn end_renewal(&mut self, db: u8, key: &[u8], begun: Lsn, retired: &mut Retired) {
        if self.keys.is_empty() {
            return;
        }
        let Some(loose) = self.keys.get_mut(&(db, key.into())) else { return };
        let renewal = loose.renewal.take();
        if loose.misfit.as_ref().is_some_and(|misfit| misfit.lsn <= begun) {
            loose.misfit = renewal.filter(|(lsn, _)| *lsn == begun).and_then(|(_, since)| since);
        }
        if let Some(remains) = &mut loose.remains {
            retired.lsns.extend(remains.base.take_if(|base| *base < begun));
        }
    }

    /// What was said before of a key that elements have made.
    fn take_remains(&mut self, db: u8, key: &[u8]) -> Option<Remains> {
        if self.keys.is_empty() {
            return None;
        }
        let loose = self.keys.get_mut(&(db, key.into()))?;
        loose.unseen = None;
        loose.remains.take()
    }

    /// Keeps what was said of a key that has lost its last element.
    fn keep_remains(&mut self, db: u8, key: &[u8], retired: &mut Retired) {
        let remains = retired.remains.take().unwrap_or_default();
        if remains.lsns().next().is_some() {
            // They are needed still.
            retired.lsns.retain(|lsn| remains.lsns().all(|other| other != *lsn));
            self.of(db, key).remains = Some(remains);
        }
    }

    /// Follows a change of whole databases.
    fn change_databases(&mut self, write: &Write<'_>, retired: &mut Retired) {
        let mut changed = HashMap::new();
        for ((db, key), loose) in self.keys.drain() {
            let db = match *write {
                Write::Flush { db: flushed } if flushed.is_none_or(|flushed| flushed == db) => {
                    retired.lsns.extend(loose.remains.iter().flat_map(Remains::lsns));
                    continue;
                }
                Write::Swap { a, b } if db == a => b,
                Write::Swap { a, b } if db == b => a,
                _ => db,
            };
            changed.insert((db, key), loose);
        }
        self.keys = changed;
    }

    /// The earliest misfit; what remains is needed by nothing.
    fn end(self, retired: &mut Retired) -> Option<Misfit> {
        let mut first: Option<Misfit> = None;
        for loose in self.keys.into_values() {
            retired.lsns.extend(loose.remains.iter().flat_map(Remains::lsns));
            for misfit in loose.misfit.into_iter().chain(loose.unseen) {
                if first.as_ref().is_none_or(|first| misfit.lsn < first.lsn) {
                    first = Some(misfit);
                }
            }
        }
        first
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

struct Replay {
    tables: Mutex<Vec<Arc<Table>>>,
    /// What is not newer is in the tables already.
    base: Lsn,
    /// What is not newer need not fit.
    unfit: Lsn,
    meeting: Meeting,
    misfit: Mutex<Option<Misfit>>,
    upheavals: Mutex<Upheavals>,
}

/// How far opening has come; shared with those who wait for it.
#[derive(Debug, Default)]
pub struct Progress {
    /// Bytes of the log that have been read.
    pub bytes_read: AtomicU64,
    /// Bytes of the log in all.
    pub bytes: AtomicU64,
}

impl Progress {
    /// Notes that `read` of `bytes` have been read.
    pub fn note(&self, read: u64, bytes: u64) {
        self.bytes_read.store(read, Ordering::Relaxed);
        self.bytes.store(bytes, Ordering::Relaxed);
    }
}

/// What opening found.
pub struct Opened {
    /// The databases.
    pub tables: Vec<Arc<Table>>,
    /// The log, ready to go on.
    pub log: Log,
    /// Which of its records have been replaced.
    pub validity: Arc<Validity>,
    /// What the log said of itself.
    pub recovered: Recovered,
    /// What was replayed.
    pub replayed: Replayed,
}

/// Opens the log of `options`, or makes one, and replays it into `databases` tables with `threads` threads:
/// on top of the checkpoint, if there is one that it goes on from.
pub fn open(
    disk: Arc<dyn Disk>,
    mut options: LogOptions,
    checkpoints: Option<&Checkpoints>,
    databases: usize,
    threads: usize,
    progress: &Progress,
) -> Result<Opened, OpenError> {
    let directories = options.directories.clone();
    directories.iter().try_for_each(|directory| backup::refuse_copies(&*disk, directory))?;
    options.base = base_of(checkpoints);
    refuse_without_its_log(&*disk, &directories, checkpoints)?;
    let mut reader = Log::open(disk, options)?;
    let validity = Arc::new(Validity::new());
    let (loaded, replayed) = load(&mut reader, checkpoints, databases, threads, progress, &validity)
        .map_err(|error| error.with_remedy(&directories))?;
    if let Some(checkpoints) = checkpoints {
        checkpoints.continue_with(reader.log_id()).map_err(|error| OpenError::Checkpoint(Box::new(error)))?;
    }
    let (log, recovered) = reader.into_log()?;
    Ok(Opened { tables: loaded.tables, log, validity, recovered, replayed })
}

/// Reads what `open` would load and changes nothing: the checkpoint, and the log in `directories` if there is
/// one.
pub fn read(
    disk: Arc<dyn Disk>,
    directories: Vec<PathBuf>,
    checkpoints: &Checkpoints,
    databases: usize,
    threads: usize,
    progress: &Progress,
) -> Result<Loaded, OpenError> {
    if !Log::is_in(&*disk, &directories)? {
        let loaded = load_checkpoint(checkpoints, databases, threads, progress)?;
        return Ok(loaded.unwrap_or_else(|| nothing(databases)));
    }
    let mut options = LogOptions::new(directories.clone());
    options.base = base_of(Some(checkpoints));
    let mut reader = Log::read(disk, options)?;
    let validity = Validity::new();
    let (loaded, _) = load(&mut reader, Some(checkpoints), databases, threads, progress, &validity)
        .map_err(|error| error.with_remedy(&directories))?;
    Ok(loaded)
}

/// Where a log would begin that is made now.
fn base_of(checkpoints: Option<&Checkpoints>) -> Lsn {
    checkpoints.and_then(Checkpoints::current).map_or(Lsn::ZERO, |checkpoint| checkpoint.cut)
}

/// Reads a log to its end, on top of the checkpoint if there is one that it goes on from.
fn load(
    reader: &mut Reader,
    checkpoints: Option<&Checkpoints>,
    databases: usize,
    threads: usize,
    progress: &Progress,
    validity: &Validity,
) -> Result<(Loaded, Replayed), OpenError> {
    let checkpoint = checkpoints.and_then(Checkpoints::current);
    let loaded = match checkpoints {
        Some(checkpoints) if is_continued(reader, checkpoint.as_ref(), checkpoints)? => {
            load_checkpoint(checkpoints, databases, threads, progress)?
        }
        _ => None,
    };
    let Loaded { tables, cut, .. } = loaded.unwrap_or_else(|| nothing(databases));
    let unfit = reader.unfit();
    let next = || {
        let block = reader.next_block()?;
        let read = reader.progress();
        progress.note(read.bytes_read(), read.bytes_total);
        Ok(block.map(Arc::new))
    };
    let (tables, replayed) = replay(next, tables, (cut, unfit), threads, |lsns| validity.invalidate(lsns))?;
    if let Some(misfit) = replayed.misfit {
        return Err(misfit.damage.into());
    }
    validity.begin(replayed.upheavals.clone(), cut);
    let last = reader.last();
    if last < cut {
        return Err(OpenError::Unrelated(format!(
            "the log ends with record {last}, before the checkpoint, which has all up to {cut}: files of it \
             are missing; restore them, or start with --appendonly no to use the checkpoint alone"
        )));
    }
    let keys = tables.iter().map(|table| table.len() as u64).sum();
    Ok((Loaded { tables, cut: last, keys }, replayed))
}

fn load_checkpoint(
    checkpoints: &Checkpoints,
    databases: usize,
    threads: usize,
    progress: &Progress,
) -> Result<Option<Loaded>, OpenError> {
    let note = |read, bytes| progress.note(read, bytes);
    checkpoints.load(databases, threads, &note).map_err(|error| OpenError::Checkpoint(Box::new(error)))
}

/// So many databases, all of them empty, at the beginning of time.
fn nothing(databases: usize) -> Loaded {
    Loaded { tables: empty(databases), cut: Lsn::ZERO, keys: 0 }
}

/// So many databases without keys.
pub(crate) fn empty(databases: usize) -> Vec<Arc<Table>> {
    (0..databases).map(|_| Arc::default()).collect()
}

/// A checkpoint that was taken with a log is older than the store was, so no new log begins at it unasked.
fn refuse_without_its_log(
    disk: &dyn Disk,
    directories: &[PathBuf],
    checkpoints: Option<&Checkpoints>,
) -> Result<(), OpenError> {
    let Some(checkpoints) = checkpoints else { return Ok(()) };
    let had_log = checkpoints.current().is_some_and(|checkpoint| checkpoint.log.is_some());
    if !had_log || Log::is_in(disk, directories)? {
        return Ok(());
    }
    let directories: Vec<_> = directories.iter().map(|path| path.display().to_string()).collect();
    Err(OpenError::Unrelated(format!(
        "the checkpoint in {} was taken with a log, and there is none in {}: restore it (is the device \
         mounted?), or start with --appendonly no to use the checkpoint alone; after a SAVE there, a new log \
         can go on from it",
        checkpoints.directory().display(),
        directories.join(", ")
    )))
}

/// Whether a log goes on from the checkpoint; an error if they do not belong together.
fn is_continued(
    reader: &Reader,
    checkpoint: Option<&Checkpoint>,
    checkpoints: &Checkpoints,
) -> Result<bool, OpenError> {
    let directory = checkpoints.directory().display();
    match checkpoint {
        None if reader.base() == Lsn::ZERO => Ok(false),
        None => Err(OpenError::Unrelated(format!(
            "the log goes on from a checkpoint with all up to record {}, and there is none in {directory}: \
             restore it",
            reader.base()
        ))),
        Some(checkpoint) if checkpoint.cut < reader.base() => Err(OpenError::Unrelated(format!(
            "the checkpoint in {directory} has all up to record {}, and the log goes on from one with all up \
             to {}: restore that or a newer one",
            checkpoint.cut,
            reader.base()
        ))),
        Some(checkpoint) if checkpoint.cut < reader.checkpoint_wanted() => {
            Err(OpenError::Unrelated(format!(
                "the checkpoint in {directory} has all up to record {}, and the log was compacted with \
                 one with all up to {}: restore that or a newer one, or move it away to use the log alone",
                checkpoint.cut,
                reader.checkpoint_wanted()
            )))
        }
        Some(checkpoint) if checkpoint.log == Some(reader.log_id()) => Ok(true),
        // A new log, or one whose first start ended before it could say so in the manifest.
        Some(checkpoint) if checkpoint.log.is_none() && reader.base() == checkpoint.cut => Ok(true),
        Some(_) => Err(OpenError::Unrelated(format!(
            "the checkpoint in {directory} was not taken with this log, so one of the two is older: start \
             with --appendonly no to use the checkpoint alone, or move it away to use the log alone"
        ))),
    }
}

/// Replays what is newer than `base` in `blocks` into `tables`, which are as of then, with `threads` threads.
/// Records up to `unfit` need not fit what those before them made. `invalidate` is told the `Lsn`s whose
/// records have been replaced.
pub fn replay(
    mut blocks: impl FnMut() -> Result<Option<Arc<Block>>, OpenError>,
    tables: Vec<Arc<Table>>,
    (base, unfit): (Lsn, Lsn),
    threads: usize,
    invalidate: impl Fn(&[Lsn]) + Sync,
) -> Result<(Vec<Arc<Table>>, Replayed), OpenError> {
    let threads = threads.max(1);
    let replay = Replay {
        tables: Mutex::new(tables),
        base,
        unfit,
        meeting: Meeting::of(threads),
        misfit: Mutex::default(),
        upheavals: Mutex::default(),
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
    let replayed = Replayed { records, misfit, upheavals };
    Ok((replay.tables.into_inner(), replayed))
}

impl Replay {
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
        let mut retired = Retired::default();
        let mut loose = Loose { unfit: self.unfit, ..Loose::default() };
        for block in blocks {
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
                        if gathered.is_full_for(db, &key) {
                            apply(&tables, &block, &mut gathered, &mut loose, &mut retired);
                        }
                        let ours = |hash: KeyHash| (hash.0 & 0xFF) as usize % shares == share;
                        gathered.push(db, key, ours, record.lsn, change);
                    }
                    Write::Flush { .. } | Write::Swap { .. } => {
                        apply(&tables, &block, &mut gathered, &mut loose, &mut retired);
                        loose.change_databases(&record.write, &mut retired);
                        self.alone(|tables| {
                            change_databases(tables, &record.write);
                            self.upheavals.lock().note(record.lsn, &record.write);
                        });
                        tables = self.tables.lock().clone();
                    }
                }
                if retired.lsns.len() >= INVALIDATED_AT_ONCE {
                    invalidate(&retired.lsns);
                    retired.lsns.clear();
                }
            }
            apply(&tables, &block, &mut gathered, &mut loose, &mut retired);
        }
        if let Some(misfit) = loose.end(&mut retired) {
            // The earliest of all: those behind it may only follow from it.
            let mut first = self.misfit.lock();
            if first.as_ref().is_none_or(|first| misfit.lsn < first.lsn) {
                *first = Some(misfit);
            }
        }
        invalidate(&retired.lsns);
        Ok(())
    }

    /// Lets one of the replayers, who all come here, work on the tables while the others wait.
    fn alone(&self, work: impl FnOnce(&mut Vec<Arc<Table>>)) {
        if self.meeting.wait() {
            work(&mut self.tables.lock());
        }
        self.meeting.wait();
    }
}

/// Applies the gathered records in their order.
fn apply(
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
            let mut is_as = true;
            match change {
                Change::RenewalBegins { kind, length } => {
                    is_as = segment.find(hash, &key).is_some_and(|entry| entry.is_as(kind, length));
                    // Elements with names may all be gone that were there, and the end of the renewal.
                    let is_misfit = !is_as && matches!(kind, Kind::String | Kind::List) && lsn > loose.unfit;
                    let misfit = is_misfit.then(|| misfit(lsn, block));
                    loose.begin_renewal(db, &key, lsn, misfit);
                }
                Change::RenewalEnds { kind, begun } => {
                    for removal in removals_of_older(segment.find(hash, &key), kind, begun) {
                        let (effect, _) = segment.apply(hash, &key, &removal, lsn, &nobody, retired);
                        table.note(index, effect.keys, effect.expiry);
                        if effect.keys < 0 {
                            loose.keep_remains(db, &key, retired);
                        }
                    }
                    loose.end_renewal(db, &key, begun, retired);
                }
                _ => {}
            }
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
                _ if !fits && (lsn <= loose.unfit || !is_as) => {}
                _ if !fits => loose.of(db, &key).note_misfit(misfit(lsn, block)),
                _ if effect.keys > 0 => {
                    if let Some(remains) = loose.take_remains(db, &key) {
                        segment.take_over(hash, &key, remains);
                        effect.expiry = remains.expiry;
                    }
                }
                _ if effect.keys < 0 => loose.keep_remains(db, &key, retired),
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

/// Where all replayers wait for each other. As a barrier, but whoever leaves, be it by a panic, is waited for
/// no more.
struct Meeting {
    state: Mutex<Attendance>,
    changed: Condvar,
}

struct Attendance {
    members: usize,
    arrived: usize,
    /// Rises when all have arrived.
    round: u64,
}

/// Leaves the meeting when it is dropped.
struct Member<'m>(&'m Meeting);

impl Meeting {
    fn of(members: usize) -> Meeting {
        let state = Mutex::new(Attendance { members, arrived: 0, round: 0 });
        Meeting { state, changed: Condvar::new() }
    }

    /// Waits until all members are here; `true` for the one who came last.
    fn wait(&self) -> bool {
        let mut state = self.state.lock();
        state.arrived += 1;
        let round = state.round;
        if self.begin_if_complete(&mut state) {
            return true;
        }
        self.changed.wait_while(&mut state, |state| state.round == round);
        false
    }

    fn begin_if_complete(&self, state: &mut Attendance) -> bool {
        let complete = state.arrived == state.members;
        if complete {
            state.arrived = 0;
            state.round += 1;
            self.changed.notify_all();
        }
        complete
    }
}

impl Drop for Member<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.members -= 1;
        self.0.begin_if_complete(&mut state);
    }
}
