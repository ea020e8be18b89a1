//! The compaction thread, its status, and the requests to it.
//!
//! Latches, in their order: `alone`, for as long as a compaction takes; `estimates`, for a look over all
//! files; `state`, for some words: a request for the status waits for no other.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::lock::{Condvar, Mutex, MutexGuard, rank};

use crate::log::{Appender, ClosedFile, Compacted, CompactionError, Damage, Extent, Look};
use crate::record::Lsn;
use crate::store::Store;
use crate::table::KeyRef;
use crate::throttle::Throttle;

use super::choosing::Plan;
use super::damaged::DamagedFiles;
use super::estimates::{Estimates, Place, extents};
use super::lsns::Lsns;
use super::needs::Needs;
use super::options::CompactionOptions;
use super::renewing::renew;
use super::status::{CompactionStatus, FileStatus};
use super::stock::Stock;

/// How often it is looked whether there is something to do.
const LOOK_PAUSE: Duration = Duration::from_millis(200);
/// How long is waited for the turn before it is asked again whether to go on.
const A_WHILE: Duration = Duration::from_millis(50);
/// How long is waited until it is asked again whether files are left.
const A_MOMENT: Duration = Duration::from_millis(5);

/// The compactions of one store: their state, and what others ask of them.
#[derive(Debug, Default)]
pub struct Compactor {
    /// Held while a compaction is made.
    alone: Mutex<Plan, rank::CompactorTurn>,
    estimates: Mutex<Estimates, rank::Estimates>,
    state: Mutex<State, rank::Compactions>,
    changed: Condvar,
    stop: AtomicBool,
    /// Somebody wants the turn.
    yields: AtomicBool,
}

/// The files that a requested round covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// The files that are written to no more.
    Full,
    /// Those that are written to as well: they are left for the next ones before.
    All,
}

#[derive(Debug)]
struct State {
    options: CompactionOptions,
    status: CompactionStatus,
    /// A round was asked for.
    asked: Option<Scope>,
    /// A checkpoint, on which a start may build, has all up to here.
    checkpoint: Option<Lsn>,
    /// A checkpoint is being taken that will have all up to here at least.
    checkpoint_begun: Option<Lsn>,
    /// The file of the checkpoint is known to be damaged.
    is_checkpoint_damaged: bool,
    /// Files of the log that are known to be.
    damaged: DamagedFiles,
    /// There is another checkpoint since those were tried last.
    tries_damaged: bool,
    /// Threads that wait until nothing is compacted.
    waiting: usize,
    /// Of the compaction under way.
    throttle: Throttle,
}

impl Default for State {
    /// Makes no compactions until it is told when.
    fn default() -> State {
        State {
            options: CompactionOptions { enabled: false, ..CompactionOptions::default() },
            status: CompactionStatus::default(),
            asked: None,
            checkpoint: None,
            checkpoint_begun: None,
            is_checkpoint_damaged: false,
            damaged: DamagedFiles::default(),
            tries_damaged: false,
            waiting: 0,
            throttle: Throttle::new(Duration::ZERO),
        }
    }
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
    pub fn ask(&self, scope: Scope) {
        let mut state = self.state.lock();
        state.asked = state.asked.max(Some(scope));
        (state.status.round, state.status.wants_checkpoint) = (true, false);
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
        (state.is_checkpoint_damaged, state.tries_damaged) = (false, true);
        (state.checkpoint, state.checkpoint_begun) = (cut, None);
        state.look_at_damage();
        self.changed.notify_all();
    }

    /// Notes damage in a file of the log that is written to no more, unless that has been compacted
    /// meanwhile. A checkpoint that has all up to `up_to` has what was there. Says whether it is news.
    pub fn note_damage(&self, log: &Appender, file: &ClosedFile, damage: Damage, up_to: Lsn) -> bool {
        let mut state = self.state.lock();
        let is_there = log.closed_files().iter().any(|other| other.is_same_file(file));
        let is_news = is_there && state.damaged.note(file, damage, up_to);
        state.look_at_damage();
        self.changed.notify_all();
        is_news
    }

    /// Notes damage that a start has passed over, so that the files are compacted soon.
    pub fn note_covered(&self, log: &Appender, damages: &[Damage]) {
        let files = log.closed_files();
        let mut state = self.state.lock();
        state.status.damage_passed += damages.len() as u64;
        for damage in damages {
            if let Some(file) = files.iter().find(|file| *file.path() == *damage.path) {
                state.damaged.note(file, damage.clone(), Lsn::ZERO);
            }
        }
        state.tries_damaged = true;
        state.look_at_damage();
    }

    /// Notes that the file of the checkpoint with this cut is damaged: another one is wanted.
    pub fn note_damaged_checkpoint(&self, cut: Lsn) {
        let mut state = self.state.lock();
        state.is_checkpoint_damaged |= state.checkpoint == Some(cut);
        state.look_at_damage();
    }

    /// Gives up the compaction that is under way, forgets what it knows of the log's files, and makes no
    /// other until the guard is dropped.
    pub(crate) fn pause(&self) -> MutexGuard<'_, Plan, rank::CompactorTurn> {
        self.yields.store(true, Ordering::Relaxed);
        // A thread that has asked whether to give up, and not waited yet, holds it.
        drop(self.state.lock());
        self.changed.notify_all();
        let mut alone = self.ahead_of_thread(|| self.alone.lock());
        self.yields.store(false, Ordering::Relaxed);
        *alone = Plan::default();
        *self.estimates.lock() = Estimates::default();
        let mut state = self.state.lock();
        state.asked = None;
        let status = &mut state.status;
        (status.running, status.round, status.wants_checkpoint) = (false, false, false);
        status.error = None;
        state.damaged = DamagedFiles::default();
        state.look_at_damage();
        alone
    }

    /// Whether what is under way is to be given up.
    pub(super) fn gives_up(&self) -> bool {
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

    /// Waits until it is time to look for something to do; `false` if it is time to end.
    pub(crate) fn wait(&self) -> bool {
        let mut state = self.state.lock();
        if !self.is_stopped() && state.asked.is_none() {
            self.changed.wait_for(&mut state, LOOK_PAUSE);
        }
        drop(state);
        !self.is_stopped()
    }

    /// Makes all compactions that are due.
    pub(crate) fn catch_up(&self, store: &Store) {
        while !self.is_stopped() && self.step(store) {}
    }

    /// Waits if so many bytes were moved faster than `options` say, and, if they say so, while clients wait;
    /// `false` if what is under way is to be given up.
    pub(super) fn keep_pace(
        &self,
        store: &Store,
        began: Duration,
        moved: u64,
        options: &CompactionOptions,
    ) -> bool {
        let mut state = self.state.lock();
        let (clients, asked) = (store.clients(), store.clock().monotonic());
        let mut due = asked;
        if options.bytes_per_second > 0 {
            due = began + Duration::from_secs_f64(moved as f64 / options.bytes_per_second as f64);
        }
        // Others that wait for its end are clients, too.
        let rest = if options.rests && state.waiting == 0 {
            state.throttle.rest(clients, asked)
        } else {
            Duration::ZERO
        };
        let due_by_rate = due.max(asked);
        due = due.max(asked + rest);
        let mut has_rested = false;
        while !self.gives_up() {
            let now = store.clock().monotonic();
            if now >= due {
                if has_rested {
                    let rested = now.saturating_sub(due_by_rate).min(rest);
                    state.throttle.go_on(clients, rested, now);
                }
                break;
            }
            self.changed.wait_for(&mut state, due - now);
            has_rested = true;
        }
        drop(state);
        !self.gives_up()
    }

    /// Runs `wait`, which waits for `alone`; the compactor's thread lets it go first. Else that thread could
    /// take the mutex again and again before another one that waits for it gets its turn.
    fn ahead_of_thread<T>(&self, wait: impl FnOnce() -> T) -> T {
        self.state.lock().waiting += 1;
        let outcome = wait();
        self.state.lock().waiting -= 1;
        self.changed.notify_all();
        outcome
    }

    /// Makes the compaction that is most needed; `false` if none is, or it was given up.
    pub fn step(&self, store: &Store) -> bool {
        {
            let mut state = self.state.lock();
            while state.waiting > 0 && !self.is_stopped() {
                self.changed.wait(&mut state);
            }
        }
        let mut plan = self.alone.lock();
        let Some(log) = store.log() else {
            let mut state = self.state.lock();
            (state.asked, state.status.round) = (None, false);
            return false;
        };
        let Some((files, options)) = self.choose(&mut plan, store, &log) else { return false };
        let outcome = self.compact(&mut plan, store, &log, &files, options);
        let mut state = self.state.lock();
        let status = &mut state.status;
        status.running = false;
        match outcome {
            Ok(compacted) => {
                status.damage_left_out += compacted.damage.len() as u64;
                status.compactions += 1;
                status.bytes_read += compacted.bytes_before;
                status.bytes_written += compacted.bytes_after;
                status.error = None;
                if let Some(lack) = compacted.lack {
                    status.last_error = Some((store.now(), lack));
                }
                plan.note_done(&files);
                state.damaged.forget(&files);
                state.look_at_damage();
                true
            }
            Err(CompactionError::Stopped) => false,
            Err(error) => {
                if let CompactionError::Uncovered { damage, up_to } = &error
                    && let Some(file) = files.iter().find(|file| *file.path() == *damage.path)
                {
                    state.damaged.note(file, damage.clone(), *up_to);
                    state.look_at_damage();
                }
                let status = &mut state.status;
                status.failures += 1;
                status.last_error = Some((store.now(), error.to_string()));
                status.error = Some(error.to_string());
                plan.note_failed(&files, store.clock().monotonic());
                false
            }
        }
    }

    /// The status of at most `limit` files that are no longer written to: those with the most obsolete
    /// bytes, by directory and number. And how many there are.
    pub fn files(&self, store: &Store, log: &Appender, limit: usize) -> (Vec<FileStatus>, usize) {
        let stock = self.take_stock(store, log);
        (stock.worst(limit), stock.files.len())
    }

    /// Compacts these files now, whatever they would give back.
    ///
    /// REQUIRES: the log of the store says that they are closed, and each is followed by the next.
    pub fn compact_files(&self, store: &Store, files: &[ClosedFile]) -> Result<Compacted, CompactionError> {
        let mut plan = self.alone.lock();
        let log = store.log().ok_or(CompactionError::Stopped)?;
        self.compact(&mut plan, store, &log, files, self.options())
    }

    /// Lets nothing be compacted as long as the turn is held. Waits for a compaction that is being made,
    /// while `goes_on`.
    pub(crate) fn turn(
        &self,
        goes_on: impl Fn() -> bool,
    ) -> Option<MutexGuard<'_, Plan, rank::CompactorTurn>> {
        self.ahead_of_thread(|| {
            while goes_on() {
                if let Some(turn) = self.alone.try_lock_for(A_WHILE) {
                    return Some(turn);
                }
            }
            None
        })
    }

    fn take_stock(&self, store: &Store, log: &Appender) -> Stock {
        let (open, files) = (log.open_extents(), log.closed_files());
        let all = extents(open, &files);
        let mut estimates = self.estimates.lock();
        estimates.look(&all, store.validity());
        Stock::new(files, &estimates)
    }

    /// Waits until files are left that hold what was written up to now; `false` if it is to be given up.
    fn have_files_left(&self, log: &Appender) -> bool {
        let last = log.last();
        while !log.leave_files(last) {
            let mut state = self.state.lock();
            if self.gives_up() {
                return false;
            }
            self.changed.wait_for(&mut state, A_MOMENT);
        }
        !self.gives_up()
    }

    /// The files to compact next, if any.
    fn choose(
        &self,
        plan: &mut Plan,
        store: &Store,
        log: &Appender,
    ) -> Option<(Vec<ClosedFile>, CompactionOptions)> {
        let asked = std::mem::take(&mut self.state.lock().asked);
        if asked == Some(Scope::All) && !self.have_files_left(log) {
            return None;
        }
        let asked = asked.is_some();
        let stock = self.take_stock(store, log);
        let (bytes, live_bytes, directories) = (stock.bytes(), stock.live_bytes(), stock.by_directory());
        let (now, validity_bytes) = (store.clock().monotonic(), store.validity().bytes());
        let (options, covered) = {
            let mut state = self.state.lock();
            state.damaged.retain(&stock.files);
            let covered = state.covered();
            let covered: Vec<Place> =
                covered.map_or_else(Vec::new, |cut| state.damaged.covered_by(cut).collect());
            if std::mem::take(&mut state.tries_damaged) {
                plan.forgive(&covered);
            }
            let status = &mut state.status;
            (status.files, status.bytes, status.live_bytes) = (stock.files.len(), bytes, live_bytes);
            status.raw_bytes = stock.raw_bytes();
            (status.directories, status.validity_bytes) = (directories, validity_bytes);
            (state.options, covered)
        };
        if plan.rests(now) && !asked {
            return None;
        }
        let due = plan.is_round_due(&stock, &options, now);
        if asked || due && options.enabled {
            plan.begin_round(now, log.last());
        }
        let damaged = plan.first_of(&stock, &covered, now);
        let chosen = damaged.or_else(|| plan.choose(&stock, &options, now));
        let mut state = self.state.lock();
        let asked_anew = state.asked.is_some();
        let status = &mut state.status;
        if let Some((took, failures)) = plan.ended.take() {
            (status.rounds, status.round_took) = (status.rounds + 1, Some(took));
            status.round_failures = failures;
        }
        status.round = plan.has_round() || asked_anew;
        status.wants_checkpoint = due && options.rewrites && !asked && !asked_anew;
        status.running = chosen.is_some();
        let bytes_per_second = options.bytes_per_second_for(stock.raw_bytes(), stock.raw_live_bytes());
        // A log that is longer than it may be, or that a round is due for, would grow without end under those
        // who write faster than a thread works that rests.
        let rests = bytes_per_second == options.bytes_per_second && !due && !plan.has_round();
        Some((stock.files[chosen?].to_vec(), CompactionOptions { bytes_per_second, rests, ..options }))
    }

    fn compact(
        &self,
        plan: &mut Plan,
        store: &Store,
        log: &Appender,
        files: &[ClosedFile],
        options: CompactionOptions,
    ) -> Result<Compacted, CompactionError> {
        let timestamp = store.settle_discarded(|| !self.gives_up()).ok_or(CompactionError::Stopped)?;
        // After the timestamp: a checkpoint that begins later has all that was removed up to there.
        // One that is known to be damaged has nothing.
        let (covered, checkpoint) = {
            let state = self.state.lock();
            (state.covered(), state.covered().or(state.checkpoint_begun))
        };
        let began = store.clock().monotonic();
        self.state.lock().throttle = Throttle::new(began);
        let keep_pace = |moved| self.keep_pace(store, began, moved, &options);
        let mut needs = Needs {
            store,
            keep_pace: &keep_pace,
            removals_end: removals_end(log, files, timestamp, checkpoint),
            // One that is being taken may come to nothing.
            dropped_up_to: covered.filter(|_| options.rewrites).unwrap_or(Lsn::ZERO),
            covered: covered.unwrap_or(Lsn::ZERO),
            moved: 0,
            look: Look::default(),
            dropped: Lsns::default(),
            kept: Lsns::default(),
            changes: HashMap::new(),
        };
        let compacted = log.compact(files, timestamp, checkpoint.unwrap_or(Lsn::ZERO), &mut needs)?;
        self.note_compacted(store, log, files, &needs);
        let changes = needs.changes;
        if changes.values().sum::<usize>() as u64 * 4 > compacted.raw_bytes_after {
            let (began, mut moved) = (store.clock().monotonic(), 0);
            let mut pace = |bytes: u64| {
                moved += bytes;
                self.keep_pace(store, began, moved, &options)
            };
            let mut renews = |((db, key), bytes): &((u8, Box<[u8]>), usize)| {
                renew(store, KeyRef::of(*db, key), *bytes, timestamp, options.part_bytes, &mut pace)
            };
            let renewed = changes.into_iter().filter(|change| !self.gives_up() && renews(change)).count();
            self.state.lock().status.renewed += renewed as u64;
            if renewed > 0 {
                plan.extend_round(log.last());
            }
        }
        Ok(compacted)
    }

    /// Clears the bits of what was dropped, and counts those of what was kept.
    fn note_compacted(&self, store: &Store, log: &Appender, files: &[ClosedFile], needs: &Needs<'_>) {
        let (open, closed) = (log.open_extents(), log.closed_files());
        let Some(place) = files.last().map(ClosedFile::place) else { return };
        let mut all = extents(open, &closed);
        // If no record is left, and none was there behind the last that was, it has no extent.
        let file = all.binary_search_by_key(&place, Extent::place).map(|at| all[at]);
        let before = || files.iter().filter_map(ClosedFile::lsns);
        let (first, last) = (before().map(|(first, _)| first).min(), before().map(|(_, last)| last).max());
        all.retain(|other| Some(other.first) <= last && first <= Some(other.last));
        let validity = store.validity();
        needs.dropped.each(|lsns| self.estimates.lock().forget(lsns, &all, validity));
        let others: Vec<Place> = files.iter().map(ClosedFile::place).collect();
        self.estimates.lock().count(&others, file.ok().as_ref(), &needs.kept, validity);
    }
}

impl State {
    /// The checkpoint that a start builds on has all up to here.
    fn covered(&self) -> Option<Lsn> {
        self.checkpoint.filter(|_| !self.is_checkpoint_damaged)
    }

    /// Tells what is known of damage.
    fn look_at_damage(&mut self) {
        let is_short = self.damaged.want_more_than(self.covered().unwrap_or(Lsn::ZERO));
        self.status.damaged = self.damaged.all();
        self.status.damage_wants_checkpoint = is_short || self.is_checkpoint_damaged;
    }
}

/// Removals before this record are needed by no file but `files`, which are compacted, and by no checkpoint.
fn removals_end(log: &Appender, files: &[ClosedFile], timestamp: Lsn, checkpoint: Option<Lsn>) -> Lsn {
    // The open files first: one that is closed in between is seen there or here.
    let mut end = timestamp.after(1).min(log.first_open());
    end = checkpoint.map_or(end, |cut| end.min(cut.after(1)));
    let is_ours = |file: &ClosedFile| {
        let (first, last) = (files[0].place(), files[files.len() - 1].place());
        (first..=last).contains(&file.place())
    };
    for file in log.closed_files().iter().filter(|file| !is_ours(file)) {
        if let Some((first, _)) = file.lsns() {
            end = end.min(file.timestamp().after(1).max(first));
        }
    }
    end
}
