//! Keeps the log short: chooses files of which much is needless, and has what is left of them take their
//! place.
//!
//! ```text
//!   newest Lsn behind the closed gate ──> reaper has marked what was discarded by then ──> the timestamp
//!   choose files ──> copy what is needed ──> in their place     (`log::compaction`)
//! ```
//!
//! What is needed of a file, by kind of record:
//! - a put, an element, an image, an expiry: unless its bit says that a newer one took its place, or its
//!   database was flushed;
//! - a change of a list or of a part of a string: while the entry is made of it, which the entry knows
//!   (`Entry::base`), so it is asked, where it is now;
//! - a removal (a key, an element, a database): as long as a file may hold an older record of what it took
//!   away. A file that was compacted after the removal has none. The checkpoint that a start begins with may
//!   have one too, if it is older than the removal. An image holds what was taken out of it since, as long as
//!   the key is there that began with it;
//! - two databases that changed places: always.
//!
//! With [`CompactionOptions::rewrites`] nothing is needed that the last checkpoint has: a log that is written
//! anew from a snapshot, as others do it, to compare with.
//!
//! A file is chosen where the share of needless records has passed a bound, or where the whole log is longer
//! than it may be against what is needed of it: then the one that gives back most. Removals and changes of
//! lists have no bits, so nobody knows what they would give back. Therefore a *round* over all files, the
//! oldest first, is made when the log is twice as long as after the last one; in that order, removals go too.
//!
//! A list that lives long, a string that is changed in part again and again, and a set of which an image was
//! the first record would never be shorter in the log than all its changes. Where a compaction keeps more
//! bytes of such changes than their entry has, the entry is written anew, and the files are compacted once
//! more: as one record, under the latch of its segment, or in pieces if it is large (`renewal`).
//!
//! paper: vtc §3.3, §3.4; `docs/design/0015`.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};
use smallvec::SmallVec;

use crate::engine::Engine;
use crate::log::{
    Appender, ClosedFile, Compacted, CompactionError, Group, Keeper, Look, Validity, put_varint, take_varint,
};
use crate::record::{Batch, Change, Kind, Lsn, UnixMs, Write};
use crate::renewal;
use crate::session::Access;
use crate::table::{Entry, KeyHash};
use crate::value::{ValueRef, elements_of};

/// How often it is looked whether there is something to do.
const LOOK_PAUSE: Duration = Duration::from_millis(200);
/// How long is waited after a compaction that failed.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// A file with a smaller share of needless records is not worth it.
const WASTE_MIN: f64 = 0.05;
/// How long a file is left alone that could not be compacted, unless a round wants it.
const FAILED_PAUSE: Duration = Duration::from_secs(30);
/// How long is waited for the turn before it is asked again whether to go on.
const A_WHILE: Duration = Duration::from_millis(50);
/// A round is made when the log is this many times as long as after the last one.
const ROUND_GROWTH: u64 = 2;

/// Records whose bits are cleared together.
const FORGOTTEN_AT_ONCE: usize = 4096;

/// The most bytes of an entry that is written anew as one record, and about those of a part of a larger one.
const PART_BYTES: usize = 64 << 10;
/// The most keys of which the bytes of changes are counted in one compaction.
const COUNTED_KEYS_MAX: usize = 1 << 16;

/// When compactions are made, and how fast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompactionOptions {
    /// Whether any is made unasked.
    pub enabled: bool,
    /// Whether what a checkpoint has is dropped, too, which a start needs from then on; and
    /// [`CompactionStatus::wants_checkpoint`] asks for one when the log has become long.
    pub rewrites: bool,
    /// Bytes read and written in a second at most; 0 for no limit.
    pub bytes_per_second: u64,
    /// The share of needless records from which a file is compacted, in percent.
    pub file_percent: u64,
    /// How long the log may be, in percent of what is needed of it.
    pub log_percent: u64,
    /// A log that is shorter is left alone.
    pub min_bytes: u64,
    /// The most bytes that files have which become one.
    pub file_bytes: u64,
    /// The most bytes of an entry that is written anew as one record, and about those of a part of a larger
    /// one: so much is done under one latch.
    pub part_bytes: usize,
}

impl Default for CompactionOptions {
    fn default() -> CompactionOptions {
        CompactionOptions {
            enabled: true,
            rewrites: false,
            bytes_per_second: 128 << 20,
            file_percent: 75,
            log_percent: 170,
            min_bytes: 64 << 20,
            file_bytes: 64 << 20,
            part_bytes: PART_BYTES,
        }
    }
}

impl CompactionOptions {
    /// How fast a log of so many bytes is compacted of which `live_bytes` are needed: faster than
    /// `bytes_per_second` where it is longer than it may be, four times as fast ten percent above that, as it
    /// would grow without end under those who write faster.
    fn bytes_per_second_for(&self, bytes: u64, live_bytes: u64) -> u64 {
        let percent = bytes.saturating_mul(100) / live_bytes.max(1);
        let above = percent.saturating_sub(self.log_percent).min(1_000);
        self.bytes_per_second.saturating_mul(10 + 3 * above) / 10
    }
}

/// How compactions are doing.
#[derive(Clone, Debug, Default)]
pub struct CompactionStatus {
    /// Whether one is being made.
    pub running: bool,
    /// Whether a round over all files is under way, or will begin.
    pub round: bool,
    /// A checkpoint is wanted, and a round behind it.
    pub wants_checkpoint: bool,
    /// Compactions so far, of one file or of several that became one.
    pub compactions: u64,
    /// Compactions that were given up.
    pub failures: u64,
    /// Entries that were written anew, so that their changes could go.
    pub renewed: u64,
    /// Bytes of files that were compacted.
    pub bytes_read: u64,
    /// Bytes of files that took their place.
    pub bytes_written: u64,
    /// Rounds over all files that have ended.
    pub rounds: u64,
    /// How long the last round took.
    pub round_took: Option<Duration>,
    /// Why the last one was given up, if it was.
    pub error: Option<String>,
    /// Files that are written to no more.
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes of them that are not known to be needless.
    pub live_bytes: u64,
    /// The same by directory of the log: files, bytes, live bytes.
    pub directories: Vec<(usize, u64, u64)>,
    /// Why the newest of those that were given up was, and when, be it that others went well since.
    pub last_error: Option<(UnixMs, String)>,
    /// Memory that knowing which records are needless takes.
    pub validity_bytes: usize,
}

/// What is known of a file that is written to no more.
#[derive(Clone, Debug)]
pub struct FileStatus {
    /// Where it is.
    pub path: PathBuf,
    /// How many records it has.
    pub records: u64,
    /// Its length.
    pub bytes: u64,
    /// Bytes of it that are not known to be needless.
    pub live_bytes: u64,
    /// Whether it was compacted.
    pub is_compacted: bool,
}

/// A round over all files: those that were there when it began, and are still to be done.
#[derive(Debug)]
struct Round {
    began: Duration,
    /// Whatever is newer is left for the next round.
    up_to: Lsn,
    /// Whether entries were written anew in it, and it began once more.
    is_extended: bool,
}

#[derive(Debug)]
struct State {
    options: CompactionOptions,
    status: CompactionStatus,
    /// Rounds that were asked for.
    asked: bool,
    round: Option<Round>,
    /// Length of the log when the last round ended.
    after_round: Option<u64>,
    retry_at: Duration,
    /// What is guessed of each file.
    needless: HashMap<PathBuf, Needless>,
    /// When files could not be compacted.
    failed: HashMap<PathBuf, Duration>,
    /// A checkpoint, on which a start may build, has all up to here.
    checkpoint: Option<Lsn>,
    /// A checkpoint is being taken that will have all up to here at least.
    checkpoint_begun: Option<Lsn>,
}

impl Default for State {
    /// Makes no compactions until it is told when.
    fn default() -> State {
        State {
            options: CompactionOptions { enabled: false, ..CompactionOptions::default() },
            status: CompactionStatus::default(),
            asked: false,
            round: None,
            after_round: None,
            retry_at: Duration::ZERO,
            needless: HashMap::new(),
            failed: HashMap::new(),
            checkpoint: None,
            checkpoint_begun: None,
        }
    }
}

/// What an engine knows of its compactions.
#[derive(Debug, Default)]
pub struct Compactor {
    state: Mutex<State>,
    changed: Condvar,
    /// Held while a compaction is made. Before `state`.
    alone: Mutex<()>,
    stop: AtomicBool,
    /// Somebody wants the turn.
    yields: AtomicBool,
}

impl Compactor {
    /// Changes when compactions are made.
    pub fn set_options(&self, options: CompactionOptions) {
        self.state.lock().options = options;
        self.changed.notify_all();
    }

    /// When compactions are made.
    pub fn options(&self) -> CompactionOptions {
        self.state.lock().options
    }

    /// Asks for a round over all files.
    pub fn ask(&self) {
        let mut state = self.state.lock();
        state.asked = true;
        (state.status.round, state.status.wants_checkpoint) = (true, false);
        state.retry_at = Duration::ZERO;
        self.changed.notify_all();
    }

    /// How compactions are doing.
    pub fn status(&self) -> CompactionStatus {
        self.state.lock().status.clone()
    }

    /// Notes that a checkpoint is about to be taken, of the store as it is at `newest` or later.
    pub(crate) fn checkpoint_begins(&self, newest: Lsn) {
        self.state.lock().checkpoint_begun.get_or_insert(newest);
    }

    /// Notes which checkpoint a start would build on, now that none is being taken.
    pub fn checkpoint_ended(&self, cut: Option<Lsn>) {
        let mut state = self.state.lock();
        (state.checkpoint, state.checkpoint_begun) = (cut, None);
    }

    /// Gives up the compaction that is under way, forgets what it knows of the log's files, and makes no
    /// other until the guard is dropped.
    pub(crate) fn pause(&self) -> MutexGuard<'_, ()> {
        self.yields.store(true, Ordering::Relaxed);
        self.changed.notify_all();
        let alone = self.alone.lock();
        self.yields.store(false, Ordering::Relaxed);
        let mut guard = self.state.lock();
        let state = &mut *guard;
        let (options, checkpoint) = (state.options, state.checkpoint);
        let (status, checkpoint_begun) = (std::mem::take(&mut state.status), state.checkpoint_begun);
        *state = State { options, checkpoint, checkpoint_begun, ..State::default() };
        let (running, round, wants_checkpoint) = (false, false, false);
        state.status = CompactionStatus { running, round, wants_checkpoint, error: None, ..status };
        alone
    }

    /// Waits if so many bytes were moved faster than so many a second, where 0 is no limit; `false` if what
    /// is under way is to be given up.
    fn keep_pace(&self, engine: &Engine, began: Duration, moved: u64, bytes_per_second: u64) -> bool {
        if bytes_per_second > 0 {
            let due = began + Duration::from_secs_f64(moved as f64 / bytes_per_second as f64);
            let mut state = self.state.lock();
            while !self.gives_up() {
                let now = engine.clock().monotonic();
                if now >= due {
                    break;
                }
                self.changed.wait_for(&mut state, due - now);
            }
        }
        !self.gives_up()
    }

    /// Whether what is under way is to be given up.
    fn gives_up(&self) -> bool {
        self.is_stopped() || self.yields.load(Ordering::Relaxed)
    }

    /// Ends the compaction that is under way, and makes no other.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        let _state = self.state.lock();
        self.changed.notify_all();
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Waits; `false` if it is time to stop.
    fn wait(&self, pause: Duration) -> bool {
        let mut state = self.state.lock();
        if !self.is_stopped() && !state.asked {
            self.changed.wait_for(&mut state, pause);
        }
        drop(state);
        !self.is_stopped()
    }

    /// Makes compactions until the engine is gone.
    pub(crate) fn run(self: &Arc<Self>, engine: &Weak<Engine>) {
        while self.wait(LOOK_PAUSE) {
            let Some(engine) = engine.upgrade() else { return };
            while !self.is_stopped() && self.step(&engine) {}
        }
    }

    /// Makes the compaction that is most needed; `false` if none is, or it was given up.
    pub fn step(&self, engine: &Engine) -> bool {
        let _alone = self.alone.lock();
        let Some(log) = engine.log() else {
            let mut state = self.state.lock();
            (state.asked, state.status.round) = (false, false);
            return false;
        };
        let Some((files, options)) = self.choose(engine, &log) else { return false };
        let outcome = self.compact(engine, &log, &files, options);
        let mut state = self.state.lock();
        state.status.running = false;
        match outcome {
            Ok(compacted) => {
                let status = &mut state.status;
                status.compactions += 1;
                status.bytes_read += compacted.bytes_before;
                status.bytes_written += compacted.bytes_after;
                status.error = None;
                files.iter().for_each(|file| _ = state.failed.remove(file.path()));
                true
            }
            Err(CompactionError::Stopped) => false,
            Err(error) => {
                state.status.failures += 1;
                state.status.last_error = Some((engine.now(), error.to_string()));
                state.status.error = Some(error.to_string());
                let now = engine.clock().monotonic();
                state.retry_at = now + RETRY_PAUSE;
                state.failed.extend(files.iter().map(|file| (file.path().to_path_buf(), now)));
                false
            }
        }
    }

    /// What is known of the files that are written to no more, at most `limit` of them: those with the most
    /// needless bytes, by directory and number. And how many there are.
    pub fn files(&self, engine: &Engine, log: &Appender, limit: usize) -> (Vec<FileStatus>, usize) {
        let files = log.closed_files();
        let wastes = wastes(&files, engine.validity(), &mut self.state.lock().needless);
        let status = |(file, waste): (&ClosedFile, f64)| FileStatus {
            path: file.path().to_path_buf(),
            records: file.records(),
            bytes: file.bytes(),
            live_bytes: live_of(file, waste),
            is_compacted: file.timestamp() > Lsn::ZERO,
        };
        let all: Vec<FileStatus> = files.iter().zip(wastes).map(status).collect();
        let mut order: Vec<usize> = (0..all.len()).collect();
        order.sort_by_key(|at| std::cmp::Reverse(all[*at].bytes - all[*at].live_bytes));
        order.truncate(limit);
        order.sort_unstable();
        (order.into_iter().map(|at| all[at].clone()).collect(), all.len())
    }

    /// Compacts these files now, whatever they would give back.
    ///
    /// REQUIRES: the log of the engine says that they are closed, and each is followed by the next.
    pub fn compact_files(&self, engine: &Engine, files: &[ClosedFile]) -> Result<Compacted, CompactionError> {
        let _alone = self.alone.lock();
        let log = engine.log().ok_or(CompactionError::Stopped)?;
        self.compact(engine, &log, files, self.options())
    }

    /// Lets nothing be compacted as long as the turn is held. Waits for a compaction that is being made,
    /// while `goes_on`.
    pub(crate) fn turn(&self, goes_on: impl Fn() -> bool) -> Option<MutexGuard<'_, ()>> {
        while goes_on() {
            if let Some(turn) = self.alone.try_lock_for(A_WHILE) {
                return Some(turn);
            }
        }
        None
    }

    /// The files to compact next, if any.
    fn choose(&self, engine: &Engine, log: &Appender) -> Option<(Vec<ClosedFile>, CompactionOptions)> {
        let files = log.closed_files();
        let wastes = wastes(&files, engine.validity(), &mut self.state.lock().needless);
        let bytes: u64 = files.iter().map(ClosedFile::bytes).sum();
        let live_bytes: u64 = files.iter().zip(&wastes).map(|(file, waste)| live_of(file, *waste)).sum();
        let now = engine.clock().monotonic();
        let mut state = self.state.lock();
        let state = &mut *state;
        let options = state.options;
        let status = &mut state.status;
        (status.files, status.bytes, status.live_bytes) = (files.len(), bytes, live_bytes);
        status.directories = by_directory(&files, &wastes);
        status.validity_bytes = engine.validity().bytes();
        let compacted =
            || files.iter().filter(|file| file.timestamp() > Lsn::ZERO).map(ClosedFile::bytes).sum();
        let after_round = *state.after_round.get_or_insert_with(compacted);
        if now < state.retry_at && !state.asked {
            return None;
        }
        let is_long = bytes >= (after_round * ROUND_GROWTH).max(options.min_bytes * ROUND_GROWTH);
        let due = is_long && state.round.is_none();
        status.wants_checkpoint = due && options.rewrites && !state.asked;
        if std::mem::take(&mut state.asked) || due && options.enabled {
            // What was written up to now, be it in the file that is written to.
            state.round = Some(Round { began: now, up_to: log.last(), is_extended: false });
        }
        let mut chosen = None;
        if let Some(round) = &state.round {
            let of_round = |file: &ClosedFile| {
                // Each is tried once.
                let is_new = state.failed.get(file.path()).is_none_or(|failed| *failed < round.began);
                let lies_in = file.lsns().is_some_and(|(first, _)| first <= round.up_to);
                is_new && lies_in && file.timestamp() < round.up_to
            };
            // One that cannot be compacted comes behind those that can.
            let turn = |at: &usize| (state.failed.get(files[*at].path()), files[*at].lsns());
            chosen = (0..files.len()).filter(|at| of_round(&files[*at])).min_by_key(turn);
            if chosen.is_none() {
                state.status.rounds += 1;
                state.status.round_took = Some(now.saturating_sub(round.began));
                state.after_round = Some(bytes);
                state.round = None;
            }
        }
        state.status.round = state.round.is_some();
        if chosen.is_none() && options.enabled && bytes >= options.min_bytes {
            let too_long = bytes * 100 > live_bytes * options.log_percent;
            let bound = if too_long { WASTE_MIN } else { options.file_percent as f64 / 100.0 };
            let is_there = |path: &PathBuf| files.iter().any(|file| file.path() == path);
            state.failed.retain(|path, _| is_there(path));
            let rests = |file: &ClosedFile| {
                state.failed.get(file.path()).is_some_and(|failed| now < *failed + FAILED_PAUSE)
            };
            let is_worth = |at: &usize| wastes[*at] >= bound && !rests(&files[*at]);
            chosen = (0..files.len()).filter(is_worth).max_by(|a, b| wastes[*a].total_cmp(&wastes[*b]));
        }
        let mut chosen = chosen?..chosen? + 1;
        // Neighbours of which little is left become one with it, unless that would copy much for little.
        let mut live: u64 = live_of(&files[chosen.start], wastes[chosen.start]);
        let mut length = files[chosen.start].bytes();
        let joins = |at: usize, live: u64, length: u64| {
            let its = live_of(&files[at], wastes[at]);
            let fits =
                live + its <= options.file_bytes && length + files[at].bytes() <= 4 * options.file_bytes;
            fits && its <= live.max(options.file_bytes / 16)
        };
        while chosen.end < files.len()
            && files[chosen.end - 1].is_followed_by(&files[chosen.end])
            && joins(chosen.end, live, length)
        {
            length += files[chosen.end].bytes();
            live += live_of(&files[chosen.end], wastes[chosen.end]);
            chosen.end += 1;
        }
        while chosen.start > 0
            && files[chosen.start - 1].is_followed_by(&files[chosen.start])
            && joins(chosen.start - 1, live, length)
        {
            chosen.start -= 1;
            length += files[chosen.start].bytes();
            live += live_of(&files[chosen.start], wastes[chosen.start]);
        }
        state.status.running = true;
        let bytes_per_second = options.bytes_per_second_for(bytes, live_bytes);
        Some((files[chosen].to_vec(), CompactionOptions { bytes_per_second, ..options }))
    }

    fn compact(
        &self,
        engine: &Engine,
        log: &Appender,
        files: &[ClosedFile],
        options: CompactionOptions,
    ) -> Result<Compacted, CompactionError> {
        let timestamp = engine.settle_discarded(|| !self.gives_up()).ok_or(CompactionError::Stopped)?;
        // After the timestamp: a checkpoint that begins later has all that was removed up to there.
        let (taken, checkpoint) = {
            let state = self.state.lock();
            (state.checkpoint, state.checkpoint.or(state.checkpoint_begun))
        };
        // The open files first: one that is closed in between is seen there or here.
        let mut removals_end = timestamp.after(1).min(log.first_open());
        removals_end = checkpoint.map_or(removals_end, |cut| removals_end.min(cut.after(1)));
        let ours: HashSet<_> = files.iter().map(ClosedFile::path).collect();
        for file in log.closed_files().iter().filter(|file| !ours.contains(file.path())) {
            if let Some((first, _)) = file.lsns() {
                removals_end = removals_end.min(file.timestamp().after(1).max(first));
            }
        }
        let began = engine.clock().monotonic();
        let mut needs = Needs {
            engine,
            compactor: self,
            removals_end,
            look: Look::default(),
            dropped: Dropped::default(),
            // One that is being taken may come to nothing.
            dropped_up_to: taken.filter(|_| options.rewrites).unwrap_or(Lsn::ZERO),
            moved: 0,
            began,
            bytes_per_second: options.bytes_per_second,
            changes: HashMap::new(),
        };
        let compacted = log.compact(files, timestamp, checkpoint.unwrap_or(Lsn::ZERO), &mut needs)?;
        let closed = log.closed_files();
        let guess = || wastes(&closed, engine.validity(), &mut self.state.lock().needless);
        guess();
        needs.dropped.each(|lsns| engine.validity().forget(lsns));
        guess();
        let compacted_file = files.last().expect("there was a file to compact").path();
        if let Some(needless) = self.state.lock().needless.get_mut(compacted_file) {
            needless.records = 0.0;
        }
        let changes = needs.changes;
        if changes.values().sum::<usize>() as u64 * 4 > compacted.bytes_after {
            let (began, mut moved) = (engine.clock().monotonic(), 0);
            let mut pace = |bytes: u64| {
                moved += bytes;
                self.keep_pace(engine, began, moved, options.bytes_per_second)
            };
            let renews = |((db, key), bytes): &((u8, Box<[u8]>), usize)| {
                engine.renew((*db, key), *bytes, timestamp, options.part_bytes, &mut pace)
            };
            let mut renews = renews;
            let renewed = changes.into_iter().filter(|change| !self.gives_up() && renews(change)).count();
            let mut state = self.state.lock();
            state.status.renewed += renewed as u64;
            if let Some(round) = state.round.as_mut().filter(|round| renewed > 0 && !round.is_extended) {
                // Once more over all files, now that the changes can go; not again and again.
                (round.up_to, round.is_extended) = (log.last(), true);
            }
        }
        Ok(compacted)
    }
}

/// How many bits are set in the range of a file.
fn bits_of(file: &ClosedFile, validity: &Validity) -> u64 {
    file.lsns().map_or(0, |(first, last)| validity.invalid_in(first..=last))
}

/// What is guessed of a file. Bits say of a range of `Lsn`s how many records are needless, and files of other
/// directories have records in it, too; so whenever there are more bits than at the last look, each file gets
/// its share.
#[derive(Clone, Copy, Debug, Default)]
struct Needless {
    /// Bits of its range at the last look.
    bits: u64,
    /// Its records that are needless.
    records: f64,
}

/// The share of needless records of each file, as far as is known.
fn wastes(files: &[ClosedFile], validity: &Validity, known: &mut HashMap<PathBuf, Needless>) -> Vec<f64> {
    let span = |(first, last): (Lsn, Lsn)| (last.0 + 1).saturating_sub(first.0) as f64;
    let waste = |file: &ClosedFile| {
        let (own, Some((first, last))) = (file.records() as f64, file.lsns()) else { return 0.0 };
        if own < 1.0 {
            return 0.0;
        }
        // Records of other directories lie between those of the file.
        let in_range = |other: &ClosedFile| {
            let (from, to) = other.lsns()?;
            let common = span((from.max(first), to.min(last)));
            (common > 0.0).then(|| other.records() as f64 * common / span((from, to)))
        };
        let records: f64 = files.iter().filter_map(in_range).sum();
        let bits = bits_of(file, validity);
        let needless = known.entry(file.path().to_path_buf()).or_default();
        needless.records += bits.saturating_sub(needless.bits) as f64 * own / records.max(own);
        (needless.bits, needless.records) = (bits, needless.records.min(own));
        needless.records / own
    };
    let wastes = files.iter().map(waste).collect();
    if known.len() > 2 * files.len() {
        known.retain(|path, _| files.iter().any(|file| file.path() == path));
    }
    wastes
}

/// Bytes of a file that are not known to be needless.
fn live_of(file: &ClosedFile, waste: f64) -> u64 {
    (file.bytes() as f64 * (1.0 - waste)) as u64
}

/// Files, bytes and live bytes of each directory.
fn by_directory(files: &[ClosedFile], wastes: &[f64]) -> Vec<(usize, u64, u64)> {
    let mut directories: Vec<(usize, u64, u64)> = Vec::new();
    for (file, waste) in files.iter().zip(wastes) {
        directories.resize(directories.len().max(file.directory() + 1), (0, 0, 0));
        let (count, bytes, live) = &mut directories[file.directory()];
        (*count, *bytes, *live) = (*count + 1, *bytes + file.bytes(), *live + live_of(file, *waste));
    }
    directories
}

/// Says what is needed of files that are being compacted.
struct Needs<'e> {
    engine: &'e Engine,
    compactor: &'e Compactor,
    /// Removals before this one are needed by no file, and by no checkpoint.
    removals_end: Lsn,
    /// The bits of the block that is being copied.
    look: Look,
    /// Records that were dropped and may have bits.
    dropped: Dropped,
    /// What is not newer is in the checkpoint.
    dropped_up_to: Lsn,
    moved: u64,
    began: Duration,
    bytes_per_second: u64,
    /// Bytes of the changes of each key that were kept because its entry is made of them.
    changes: HashMap<(u8, Box<[u8]>), usize>,
}

/// Records in the order of their `Lsn`s, about a byte each: a file may have millions.
#[derive(Default)]
struct Dropped {
    /// How far each is behind the one before.
    distances: Vec<u8>,
    last: Lsn,
}

impl Dropped {
    fn push(&mut self, lsn: Lsn) {
        debug_assert!(lsn > self.last, "records of a file come in order");
        put_varint(&mut self.distances, lsn.0 - self.last.0);
        self.last = lsn;
    }

    /// Gives `act` all of them, some at a time.
    fn each(&self, mut act: impl FnMut(&[Lsn])) {
        let (mut rest, mut lsn) = (&self.distances[..], Lsn::ZERO);
        let mut some = Vec::with_capacity(FORGOTTEN_AT_ONCE);
        while !rest.is_empty() {
            lsn = lsn.after(take_varint(&mut rest).expect("what was put can be taken"));
            some.push(lsn);
            if some.len() == FORGOTTEN_AT_ONCE || rest.is_empty() {
                act(&some);
                some.clear();
            }
        }
    }
}

impl Needs<'_> {
    fn is_needed(&mut self, lsn: Lsn, write: &Write<'_>) -> bool {
        let Write::Key { db, key, change } = write else {
            return matches!(write, Write::Swap { .. }) || self.needs_removal(lsn);
        };
        match change {
            Change::Delete => self.needs_removal(lsn),
            Change::HashRemove { .. } | Change::SetRemove { .. } | Change::ZSetRemove { .. } => {
                self.needs_removal(lsn) || {
                    let place = self.engine.place_if(*db, key, lsn, |entry| entry.is_taken_from_image(lsn));
                    self.count(place, key, change)
                }
            }
            // What is older than these may have been dropped, and is of use to no element that is there.
            Change::RenewalBegins { kind: Kind::Set | Kind::ZSet | Kind::Hash, .. }
            | Change::RenewalEnds { kind: Kind::Set | Kind::ZSet | Kind::Hash, .. } => {
                self.needs_removal(lsn)
            }
            Change::Patch { .. }
            | Change::ListPush { .. }
            | Change::ListPop { .. }
            | Change::ListPut { .. }
            | Change::ListInsert { .. }
            | Change::ListRemove { .. }
            | Change::RenewalBegins { .. }
            | Change::RenewalEnds { .. } => {
                let kind = change.kind();
                let place = self.engine.place_if(*db, key, lsn, |entry| entry.may_be_made_of(lsn, kind));
                self.count(place, key, change)
            }
            // What the value began with, so it is no change of it.
            Change::RenewalPart { .. } => {
                let kind = change.kind();
                self.engine.place_if(*db, key, lsn, |entry| entry.may_be_made_of(lsn, kind)).is_some()
            }
            _ => {
                let validity = self.engine.validity();
                if !self.look.is_valid(lsn).unwrap_or_else(|| validity.is_valid(lsn)) {
                    return false;
                }
                match lsn > validity.complete_after() {
                    true => !self.look.has_upheavals || validity.place_now(*db, lsn).is_some(),
                    false => {
                        let kind = change.kind();
                        let is_made_of = |entry: &Entry| entry.may_be_made_of(lsn, kind);
                        self.engine.place_if(*db, key, lsn, is_made_of).is_some()
                    }
                }
            }
        }
    }

    /// Whether a file, or a checkpoint, may have what a removal took away.
    fn needs_removal(&self, lsn: Lsn) -> bool {
        // Of elements up to there, old ones are kept too.
        lsn >= self.removals_end || lsn <= self.engine.validity().complete_after()
    }

    /// Counts a change that is kept because the entry in database `db` is made of it; says whether it is.
    fn count(&mut self, db: Option<u8>, key: &[u8], change: &Change<'_>) -> bool {
        let Some(db) = db else { return false };
        let bytes = 16
            + key.len()
            + match change {
                Change::Patch { bytes, .. } => bytes.len(),
                Change::ListPush { element, .. }
                | Change::ListPut { element, .. }
                | Change::ListInsert { element, .. } => element.len(),
                _ => 0,
            };
        if self.changes.len() < COUNTED_KEYS_MAX {
            *self.changes.entry((db, key.into())).or_default() += bytes;
        } else if let Some(sum) = self.changes.get_mut(&(db, key.into()) as &(u8, Box<[u8]>)) {
            *sum += bytes;
        }
        true
    }
}

impl Keeper for Needs<'_> {
    fn dropped_up_to(&self) -> Lsn {
        self.dropped_up_to
    }

    fn begin(&mut self, first: Lsn, last: Lsn) {
        self.engine.validity().look(first..=last, &mut self.look);
    }

    fn needs(&mut self, lsn: Lsn, write: &Write<'_>) -> bool {
        let needs = lsn > self.dropped_up_to && self.is_needed(lsn, write);
        if !needs {
            self.dropped.push(lsn);
        }
        needs
    }

    fn moved(&mut self, bytes: u64) -> bool {
        self.moved += bytes;
        self.compactor.keep_pace(self.engine, self.began, self.moved, self.bytes_per_second)
    }
}

impl Engine {
    /// Where the key of an old record is now, if it is there and its entry is one that `is_wanted`.
    fn place_if(&self, db: u8, key: &[u8], lsn: Lsn, is_wanted: impl Fn(&Entry) -> bool) -> Option<u8> {
        let world = self.background();
        let db = self.validity().place_now(db, lsn)?;
        let hash = KeyHash::of(key);
        let (_, segment) = world.tables[db as usize].read_of(hash);
        segment.find(hash, key).is_some_and(is_wanted).then_some(db)
    }

    /// Writes an entry anew by a chance of what its changes have of `bytes` against what it has, so that what
    /// is written is as much as what can go, be the changes in ever so many files; says whether it did.
    fn renew(
        &self,
        (db, key): (u8, &[u8]),
        bytes: usize,
        timestamp: Lsn,
        part_bytes: usize,
        pace: impl FnMut(u64) -> bool,
    ) -> bool {
        let world = self.background();
        let hash = KeyHash::of(key);
        let mut latched = world.latch(self, &[(db, hash)], Access::Write, self.now());
        let Some(entry) = latched.get(db, key) else { return false };
        let chance = (hash.0 ^ timestamp.0).wrapping_mul(0x9E37_79B9_7F4A_7C15) as f64 / u64::MAX as f64;
        let entry_bytes = entry.bytes_about();
        if chance * entry_bytes as f64 > bytes as f64 {
            return false;
        }
        if entry_bytes > part_bytes {
            drop(latched);
            drop(world);
            return renewal::renew(self, (db, key), part_bytes, pace);
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
