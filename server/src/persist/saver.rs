//! Checkpoints: one thread takes them; commands, rules and the end of the server ask it.
//!
//! ```text
//!   SAVE, BGSAVE, the rules of `save` ──request──> [ state ] <──waits── tarn-loader: take, note the outcome
//!   SAVE asks now and then whether its request has been answered; no worker waits
//! ```

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tarn_engine::Engine;
use tarn_engine::checkpoint::{CheckpointError, CheckpointMode, Checkpoints, Pace, TakeOptions, Taken};
use tarn_engine::compactor::Scope;
use tarn_engine::lock::{Condvar, Mutex, rank};

use crate::config::{self, CheckpointFormat, CheckpointPace, Config};
use crate::persist::log_switch::{self, SwitchError};
use crate::persist::rdb_file::{self, Form};
use crate::shared::Shared;

/// After a failure the rules wait so long before they try again.
const RETRY: Duration = Duration::from_secs(5);
/// The log is not switched on again, when that failed, before so many times as long as it took.
const SWITCH_REST: u32 = 10;
/// How often the operator is told how far a checkpoint has come.
const TOLD_EVERY: Duration = Duration::from_secs(5);
/// Threads that write a checkpoint, beside the one that reads the store.
const WRITERS: usize = 2;

/// A checkpoint that was asked for. They are answered in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(u64);

/// Whether anything else is to be considered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Urgency {
    /// Clients are being served: `checkpoint-pace` says how hard it may work.
    #[default]
    Background,
    /// Somebody waits for it.
    Awaited,
}

/// How checkpoints stand.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// Since when one is being taken.
    pub running_since: Option<Instant>,
    /// When the data was last saved, or loaded.
    pub last_save_unix_s: u64,
    /// Writes that the last checkpoint has, of all since the start.
    pub changes_saved: u64,
    /// The outcome of the last attempt; `None` before the first.
    pub last: Option<Result<Taken, String>>,
    /// Checkpoints taken.
    pub saves: u64,
    /// How long the last attempt took.
    pub last_took: Duration,
    /// Whether the log is to be shortened when the checkpoint is there that is wanted for it.
    pub rewrites: bool,
    /// How many such checkpoints have failed since one was taken.
    pub rewrite_failures: u64,
    /// Keys that were there when the data was loaded, and those of an RDB file that had expired.
    pub loaded_keys: [u64; 2],
    /// Why the log could not be switched on or off, if so.
    pub switch_error: Option<String>,
}

#[derive(Debug, Default)]
struct State {
    status: Status,
    /// Requests so far, and how many of them have been answered.
    asked: u64,
    answered: u64,
    /// That of the last request.
    urgency: Urgency,
    /// Somebody asked for the log to be rewritten, so that the files that are written to go, too.
    rewrites_all: bool,
    /// One is wanted that has what was in damaged files of the log.
    makes_good: bool,
    /// Another is wanted as soon as this one is done.
    scheduled: bool,
    stopping: bool,
    /// The server wants to end, after a last checkpoint if there is to be one.
    ending: bool,
    /// The log is to be switched on or off.
    switches: bool,
    /// It is being switched.
    is_switching: bool,
    /// When that failed, it is not tried again before then.
    switch_rests_until: Option<Instant>,
    last_attempt: Option<Instant>,
    last_told: Option<Instant>,
}

impl State {
    /// Whether the caller is to switch the log now.
    fn begins_switch(&mut self) -> bool {
        self.is_switching = std::mem::take(&mut self.switches);
        self.is_switching
    }

    /// Notes what came of it.
    fn note_switch(&mut self, began: Instant, now: Instant, outcome: Result<(), SwitchError>) {
        self.is_switching = false;
        // A long log that is read in vain is not read all the time.
        self.switch_rests_until = Some(now + RETRY.max(SWITCH_REST * now.duration_since(began)));
        let error = outcome.err().map(|error| error.to_string());
        if let Some(error) = error.as_ref().filter(|_| self.status.switch_error != error) {
            tracing::error!("{error}");
        }
        self.status.switch_error = error;
    }

    /// Whether the log may be switched, unasked, because it is not as the configuration says.
    fn may_switch(&self, now: Instant) -> bool {
        let rests =
            self.status.switch_error.is_some() && self.switch_rests_until.is_some_and(|until| now < until);
        !rests && !self.is_switching
    }
}

/// Who takes checkpoints.
#[derive(Debug)]
pub struct Saver {
    state: Mutex<State, rank::Checkpoints>,
    changed: Condvar,
    /// Whether the last one that was taken in the background failed.
    failing: AtomicBool,
}

/// One is being taken already.
#[derive(Debug)]
pub struct Busy;

impl Saver {
    /// A saver whose data is as of now.
    pub fn new(unix_ms: u64) -> Saver {
        let status = Status { last_save_unix_s: unix_ms / 1000, ..Status::default() };
        Saver {
            state: Mutex::new(State { status, ..State::default() }),
            changed: Condvar::new(),
            failing: AtomicBool::new(false),
        }
    }

    /// Whether the last one that was taken in the background failed, and none was taken since.
    #[inline]
    pub fn is_failing(&self) -> bool {
        self.failing.load(Ordering::Relaxed)
    }

    /// Makes [`run`](Self::run) call its `end` as soon as possible; a checkpoint that is being taken is given
    /// up.
    pub fn end(&self, server: &Shared) {
        let mut state = self.state.lock();
        state.ending = true;
        if let Some(store) = server.store().filter(|_| state.asked > state.answered) {
            // Under the lock, so that it does not meet the last one.
            store.checkpoints.progress().stop();
        }
        self.changed.notify_all();
    }

    /// Asks for a checkpoint.
    pub fn start(&self, urgency: Urgency) -> Result<Ticket, Busy> {
        let mut state = self.state.lock();
        if state.asked > state.answered || state.stopping {
            return Err(Busy);
        }
        Ok(self.ask(&mut state, urgency))
    }

    /// Has the log switched on or off, as the configuration says.
    pub fn switch_log(&self) {
        self.state.lock().switches = true;
        self.changed.notify_all();
    }

    /// Asks for a checkpoint behind the one that is being taken. `true` if there is one.
    pub fn schedule(&self) -> bool {
        let mut state = self.state.lock();
        let busy = state.asked > state.answered;
        if busy {
            state.scheduled = true;
        } else {
            self.ask(&mut state, Urgency::Background);
        }
        busy
    }

    /// Has a checkpoint taken, and what it has dropped from the log.
    pub fn rewrite_log(&self) {
        let mut state = self.state.lock();
        state.rewrites_all = true;
        if std::mem::replace(&mut state.status.rewrites, true) {
            return;
        }
        if state.asked > state.answered {
            state.scheduled = true;
        } else {
            self.ask(&mut state, Urgency::Background);
        }
    }

    fn ask(&self, state: &mut State, urgency: Urgency) -> Ticket {
        state.asked += 1;
        state.urgency = urgency;
        state.status.running_since = Some(Instant::now());
        state.last_attempt = Some(Instant::now());
        self.changed.notify_all();
        Ticket(state.asked)
    }

    /// The outcome of a ticket's checkpoint; `None` while it is being taken.
    pub fn outcome(&self, ticket: Ticket) -> Option<Result<(), String>> {
        let state = self.state.lock();
        let last = state.status.last.as_ref().filter(|_| state.answered >= ticket.0)?;
        Some(last.as_ref().map(drop).map_err(Clone::clone))
    }

    /// How checkpoints stand.
    pub fn status(&self) -> Status {
        self.state.lock().status.clone()
    }

    /// Notes when what was loaded was saved.
    pub fn note_loaded(&self, unix_ms: u64) {
        self.state.lock().status.last_save_unix_s = unix_ms / 1000;
    }

    /// Notes how many keys were loaded, and how many of an RDB file had expired.
    pub fn note_keys_loaded(&self, keys: u64, expired: u64) {
        self.state.lock().status.loaded_keys = [keys, expired];
    }

    /// Takes checkpoints until the server stops. Calls `end` after each call of [`end`](Self::end): it takes
    /// the last checkpoint and ends the server, or lets it go on.
    pub fn run(&self, server: &Shared, engine: &Engine, checkpoints: &Checkpoints, end: impl Fn()) {
        let mut state = self.state.lock();
        loop {
            if state.stopping {
                return;
            }
            if std::mem::take(&mut state.ending) {
                drop(state);
                end();
                state = self.state.lock();
                continue;
            }
            if state.begins_switch() {
                drop(state);
                let began = Instant::now();
                let outcome = server.store().map_or(Ok(()), |store| log_switch::follow_config(server, store));
                state = self.state.lock();
                state.note_switch(began, Instant::now(), outcome);
                continue;
            }
            if state.asked == state.answered {
                self.changed.wait(&mut state);
                continue;
            }
            // One that was wanted while another is taken waits for the next.
            let rewrites = state.status.rewrites && !state.scheduled;
            let makes_good = std::mem::take(&mut state.makes_good);
            let urgency = state.urgency;
            // One that was given up before has nothing to do with this.
            checkpoints.progress().resume();
            drop(state);
            let (changes, began) = (changes(server), Instant::now());
            let outcome = take(server, engine, checkpoints, urgency, rewrites || makes_good);
            if outcome.is_ok() {
                // After a failure nobody knows which one a start would find.
                engine.compactor().checkpoint_ended(checkpoints.current().map(|checkpoint| checkpoint.cut));
            }
            let has_log = server.store().is_some_and(|store| store.log.load().is_some());
            state = self.state.lock();
            if rewrites {
                let scope = if std::mem::take(&mut state.rewrites_all) { Scope::All } else { Scope::Full };
                if outcome.is_ok() && has_log {
                    engine.compactor().ask(scope);
                }
            }
            state.status.rewrites &= !rewrites;
            if rewrites {
                let failures = state.status.rewrite_failures;
                state.status.rewrite_failures = if outcome.is_err() { failures + 1 } else { 0 };
            }
            self.answer(&mut state, server, changes, began, outcome);
        }
    }

    fn answer(
        &self,
        state: &mut State,
        server: &Shared,
        changes: u64,
        began: Instant,
        outcome: Result<Taken, CheckpointError>,
    ) {
        let status = &mut state.status;
        status.last_took = began.elapsed();
        status.running_since = None;
        match &outcome {
            Ok(Taken { keys, bytes, .. }) => {
                tracing::info!(
                    "Checkpoint: {keys} keys, {:.1} MB in {:.2} s",
                    *bytes as f64 / 1e6,
                    status.last_took.as_secs_f64()
                );
                status.saves += 1;
                self.failing.store(false, Ordering::Relaxed);
                status.changes_saved = changes;
                status.last_save_unix_s = server.clock.unix_ms() / 1000;
            }
            Err(CheckpointError::Stopped) => tracing::info!("Checkpoint: given up, the server is stopping"),
            Err(error) => {
                tracing::error!("Checkpoint failed: {error}; the last one is as it was");
                // As in Redis, a SAVE that failed has been told to who asked for it.
                if state.urgency == Urgency::Background {
                    self.failing.store(true, Ordering::Relaxed);
                }
            }
        }
        status.last = Some(outcome.map_err(|error| error.to_string()));
        state.answered = state.asked;
        state.last_told = None;
        if std::mem::take(&mut state.scheduled) {
            self.ask(state, Urgency::Background);
        }
    }

    /// Asks for a checkpoint if a rule of `save` says so, and tells how far the one has come that is being
    /// taken. Called some times a second.
    pub fn look(&self, server: &Shared, config: &Config) {
        let Some(store) = server.store() else { return };
        let checkpoints = &store.checkpoints;
        let mut state = self.state.lock();
        if let Some(since) = state.status.running_since {
            let told = state.last_told.unwrap_or(since);
            if told.elapsed() >= TOLD_EVERY {
                state.last_told = Some(Instant::now());
                let (percent, bytes) = progress(checkpoints);
                tracing::info!("Checkpoint: {percent:.0} % read, {:.1} MB written", bytes as f64 / 1e6);
            }
            return;
        }
        if store.log.load().is_some() != config.appendonly {
            state.switches |= state.may_switch(Instant::now());
            self.changed.notify_all();
        }
        let changes = changes(server) - state.status.changes_saved;
        let age_s = (server.clock.unix_ms() / 1000).saturating_sub(state.status.last_save_unix_s);
        let due =
            config.save.rules.iter().find(|rule| age_s >= rule.after_s && changes >= rule.changes.max(1));
        let failed = matches!(state.status.last, Some(Err(_)));
        let compactions = store.engine.compactor().status();
        let waits = failed && state.last_attempt.is_some_and(|at| at.elapsed() < RETRY);
        if waits || state.stopping {
        } else if compactions.damage_wants_checkpoint {
            tracing::warn!("Taking a checkpoint, as what is damaged on the disk is in memory");
            state.makes_good = true;
            self.ask(&mut state, Urgency::Background);
        } else if compactions.wants_checkpoint {
            tracing::info!("The log has become long: taking a checkpoint to drop what it has");
            state.status.rewrites = true;
            self.ask(&mut state, Urgency::Background);
        } else if log_switch::is_pending(store) {
            self.ask(&mut state, Urgency::Background);
        } else if let Some(rule) = due {
            tracing::info!("{changes} changes in {} seconds: taking a checkpoint", rule.after_s);
            self.ask(&mut state, Urgency::Background);
        }
    }

    /// Lets the thread end that takes checkpoints; what it is taking is given up.
    pub fn stop(&self, server: &Shared) {
        self.state.lock().stopping = true;
        self.changed.notify_all();
        if let Some(store) = server.store() {
            store.checkpoints.progress().stop();
        }
    }
}

/// Writes since the start.
pub(crate) fn changes(server: &Shared) -> u64 {
    server.stats.sum(|worker| &worker.changes) + server.stats.changes_behind.load(Ordering::Relaxed)
}

/// How far the checkpoint has come that is being taken: per cent of the keys, and bytes.
pub(crate) fn progress(checkpoints: &Checkpoints) -> (f64, u64) {
    let progress = checkpoints.progress();
    let (keys, total) = (progress.keys.load(Ordering::Relaxed), progress.keys_total.load(Ordering::Relaxed));
    let percent = if total == 0 { 100.0 } else { 100.0 * keys as f64 / total as f64 };
    (percent.min(100.0), progress.bytes.load(Ordering::Relaxed))
}

/// Takes a checkpoint as the configuration says; with `for_log` one that the log can go on from.
pub(crate) fn take(
    server: &Shared,
    engine: &Engine,
    checkpoints: &Checkpoints,
    urgency: Urgency,
    for_log: bool,
) -> Result<Taken, CheckpointError> {
    let config = server.config.snapshot();
    let mode = match config.checkpoint_mode {
        config::CheckpointMode::Incremental => CheckpointMode::Incremental,
        config::CheckpointMode::Full => CheckpointMode::Full,
        config::CheckpointMode::Fork => CheckpointMode::Fork,
    };
    let pace = match (urgency, config.checkpoint_pace) {
        (Urgency::Background, CheckpointPace::Quiet) => Pace::Quiet,
        _ => Pace::Fast,
    };
    let is_pending = server.store().is_some_and(log_switch::is_pending);
    if config.checkpoint_format == CheckpointFormat::Rdb && !is_pending && !for_log {
        let (path, unix_ms) = (config.rdb_path(), server.clock.unix_ms());
        let libraries = server.scripts.functions.now();
        let sources: Vec<&[u8]> = libraries.iter().map(|library| library.source()).collect();
        let (compresses, version) = (config.rdbcompression, config.rdb_version.number());
        let form = Form { functions: &sources, compresses, version, unix_ms };
        let saved = rdb_file::save(engine, form, &path, pace, checkpoints.progress())?;
        retire_log(server, &config);
        return Ok(saved);
    }
    let options = TakeOptions { pace, writers: WRITERS };
    let taken = checkpoints.take(engine, mode, options, server.clock.unix_ms())?;
    if let Some(store) = server.store().filter(|_| is_pending) {
        log_switch::confirm(store)?;
    }
    retire_log(server, &config);
    Ok(taken)
}

/// Puts the log of before aside if nothing is logged now: what was just saved has all that it has.
fn retire_log(server: &Shared, config: &Config) {
    if server.store().is_some_and(|store| store.log.load().is_none()) {
        log_switch::retire(config);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tarn_engine::LogError;

    #[test]
    fn a_log_that_cannot_be_switched_rests_the_longer_the_longer_it_took() {
        let failed = || Err(SwitchError::Close(LogError::Closed));
        let (mut state, began) = (State::default(), Instant::now());
        for (took_ms, rests_ms) in [(0, 5_000), (400, 5_000), (3_000, 30_000), (60_000, 600_000)] {
            assert!(!state.begins_switch(), "nobody has asked");
            state.switches = true;
            assert!(state.begins_switch());
            let ended = began + Duration::from_millis(took_ms);
            assert!(!state.may_switch(ended), "it is being switched");
            state.note_switch(began, ended, failed());
            assert!(!state.may_switch(ended + Duration::from_millis(rests_ms - 1)), "{took_ms} ms");
            assert!(state.may_switch(ended + Duration::from_millis(rests_ms)), "{took_ms} ms");
        }
        state.note_switch(began, began + Duration::from_secs(60), Ok(()));
        assert!(state.may_switch(began), "what went well may be undone at once");
    }
}
