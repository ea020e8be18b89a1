//! Ends the server: saves the changes while clients are still served, and only then are they
//! closed.
//!
//! ```text
//!   SHUTDOWN, signal ── writes wait ── last checkpoint (tarn-loader) ─┬─ taken ── clients and log are closed
//!                                                                    └─ failed ── writes go on, as all does
//! ```
//!
//! A request for the end that comes while another is under way joins it: it may force the end, or do without
//! the checkpoint.

use std::sync::atomic::{AtomicBool, Ordering};

use tarn_engine::checkpoint::{CheckpointError, Progress, Source};
use tarn_engine::lock::{Mutex, rank};
use tarn_engine::record::Lsn;

use crate::config::CheckpointFormat;
use crate::persist::log_switch;
use crate::persist::saver::{self, Saver, Urgency};
use crate::shared::Shared;
use crate::store::Store;

/// How the server shall end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct How {
    /// After a checkpoint.
    pub saves: bool,
    /// Without one, even if one is being taken for an end that was asked for before.
    pub gives_up: bool,
    /// Even if that cannot be taken.
    pub forced: bool,
}

/// A request for the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt(u64);

#[derive(Debug, Default)]
struct State {
    /// Attempts so far.
    attempts: u64,
    /// How the one that is under way shall end; `None` between attempts.
    running: Option<How>,
    /// The last checkpoint has all up to here, if one was taken for the end.
    saved: Option<Lsn>,
}

/// The next step of an attempt after its checkpoint.
#[derive(Debug)]
enum Settled {
    /// It was aborted meanwhile; another may be under way.
    Superseded,
    /// The server ends.
    Ends,
    /// The server ends, though its checkpoint was not taken.
    EndsWithout,
    /// The server goes on, as its checkpoint was not taken.
    Refused,
}

impl State {
    /// Begins an attempt, or joins the one that is under way. `true`: it is a new one.
    fn ask(&mut self, how: How) -> (Attempt, bool) {
        let is_new = self.running.is_none();
        match &mut self.running {
            Some(running) => {
                running.forced |= how.forced;
                running.gives_up |= how.gives_up;
                running.saves = (running.saves || how.saves) && !running.gives_up;
            }
            None => {
                self.attempts += 1;
                self.running = Some(how);
            }
        }
        (Attempt(self.attempts), is_new)
    }

    /// The attempt that is under way.
    fn current(&self) -> Option<(Attempt, How)> {
        self.running.map(|how| (Attempt(self.attempts), how))
    }

    /// Ends the attempt that is under way. `false` if there is none.
    fn give_up(&mut self) -> bool {
        self.running.take().is_some()
    }

    /// The attempt that a checkpoint is to be taken for now. What stopped an earlier one does not stop this;
    /// what was given up stays so.
    fn begin_saving(&self, progress: &Progress) -> Option<(Attempt, How)> {
        let current = self.current();
        if current.is_some_and(|(_, how)| !how.gives_up) {
            progress.resume();
        }
        current
    }

    /// Notes what the checkpoint of an attempt came to.
    fn settle(&mut self, attempt: Attempt, saved: &Result<Lsn, CheckpointError>) -> Settled {
        let Some((_, how)) = self.current().filter(|(current, _)| *current == attempt) else {
            return Settled::Superseded;
        };
        match saved {
            Ok(newest) => {
                self.saved = Some(*newest);
                Settled::Ends
            }
            Err(CheckpointError::Stopped) if !how.saves => Settled::Ends,
            Err(_) if how.forced => Settled::EndsWithout,
            Err(_) => {
                self.running = None;
                Settled::Refused
            }
        }
    }
}

/// The end of the server.
#[derive(Debug, Default)]
pub struct Shutdown {
    state: Mutex<State, rank::Shutdown>,
    abandons_loading: AtomicBool,
}

impl Shutdown {
    /// Asks for the end. Returns at once; the server ends when the checkpoint has been taken.
    pub fn begin(&self, server: &Shared, saver: &Saver, how: How) -> Attempt {
        let mut state = self.state.lock();
        let (attempt, is_new) = state.ask(how);
        if !is_new {
            if let Some(store) = server.store().filter(|_| how.gives_up) {
                // Under the lock, so that it meets the checkpoint of this attempt, begun or not.
                store.checkpoints.progress().stop();
            }
            return attempt;
        }
        if server.store().is_none() {
            drop(state);
            // The data files are as a crash might leave them, which they are made for.
            self.abandons_loading.store(true, Ordering::Relaxed);
            server.shut_down();
            return attempt;
        }
        // Under the lock, so that an attempt that ends in this moment does not let writes go on.
        stop_writes(server, true);
        drop(state);
        saver.end(server);
        attempt
    }

    /// As [`begin`](Self::begin), for a signal: as `save` says.
    pub fn begin_by_signal(&self, server: &Shared, saver: &Saver) -> Attempt {
        self.begin(server, saver, How { saves: server.saves_by_rule(), ..How::default() })
    }

    /// The attempt that is under way.
    pub fn attempt(&self) -> Option<Attempt> {
        self.state.lock().current().map(|(attempt, _)| attempt)
    }

    /// Whether the server is about to end.
    pub fn is_running(&self) -> bool {
        self.state.lock().running.is_some()
    }

    /// Whether what has changed is saved before the server ends, if it is about to.
    pub fn saves(&self) -> bool {
        self.how().is_some_and(|how| how.saves)
    }

    /// Whether this attempt has come to nothing.
    pub fn has_failed(&self, attempt: Attempt) -> bool {
        let state = self.state.lock();
        state.running.is_none() || state.attempts != attempt.0
    }

    /// Gives the attempt up that is under way. `false` if there is none, or it is too late.
    pub fn abort(&self, server: &Shared) -> bool {
        let mut state = self.state.lock();
        if server.is_stopping() || !state.give_up() {
            return false;
        }
        if let Some(store) = server.store() {
            // Under the lock, so that it does not meet the checkpoint of the next attempt.
            store.checkpoints.progress().stop();
        }
        stop_writes(server, false);
        drop(state);
        tracing::warn!("The shutdown was aborted: the server goes on");
        true
    }

    /// Whether loading was not awaited: there is nothing to be saved.
    pub fn abandons_loading(&self) -> bool {
        self.abandons_loading.load(Ordering::Relaxed)
    }

    /// Takes the last checkpoint, if one is wanted, and ends the server or lets it go on. To be called by who
    /// takes checkpoints.
    pub fn save_and_end(&self, server: &Shared) {
        let Some(store) = server.store() else { return };
        let Some((attempt, how)) = self.state.lock().begin_saving(store.checkpoints.progress()) else {
            return;
        };
        let saved = save(server, store, how);
        // It may have been aborted, or forced, meanwhile.
        let mut state = self.state.lock();
        let settled = state.settle(attempt, &saved);
        if matches!(settled, Settled::Refused) {
            stop_writes(server, false);
        }
        drop(state);
        match (settled, saved) {
            (Settled::Superseded, _) => return,
            (Settled::EndsWithout, Err(error)) => tracing::error!(
                "The last checkpoint was not taken: {error}; the server ends, as it is forced"
            ),
            (Settled::Refused, Err(error)) => {
                tracing::error!(
                    "The last checkpoint was not taken: {error}; the server does not end, as changes would \
                     be lost: make room for it, or give them up with SHUTDOWN NOSAVE or FORCE"
                );
                return;
            }
            (Settled::Ends | Settled::EndsWithout | Settled::Refused, _) => {}
        }
        server.shut_down();
    }

    fn how(&self) -> Option<How> {
        self.state.lock().running
    }

    /// Ends the attempt that is under way, as a checkpoint that fails does.
    #[cfg(test)]
    pub(crate) fn forget_for_test(&self) {
        self.state.lock().give_up();
    }

    /// The work after the last client, when no thread takes checkpoints any more: a write that was
    /// under way when writes were stopped may have come behind the checkpoint.
    pub fn save_rest(&self, server: &Shared, store: &Store) -> Result<(), CheckpointError> {
        let (how, saved) = {
            let state = self.state.lock();
            (state.running.unwrap_or_default(), state.saved)
        };
        if saved == Some(store.engine.newest()) {
            return Ok(());
        }
        store.checkpoints.progress().resume();
        save(server, store, how).map(drop)
    }
}

/// Holds writes back, and keys that are due, or lets them go on.
fn stop_writes(server: &Shared, stop: bool) {
    server.pause.stop_writes(stop);
    server.hold_expiry();
}

/// Takes a checkpoint if `how` wants one and the last is not as of now. Returns up to where a start finds
/// all.
fn save(server: &Shared, store: &Store, how: How) -> Result<Lsn, CheckpointError> {
    let newest = store.engine.newest();
    // Of an RDB file nobody remembers which change was its last.
    let is_saved = server.config.snapshot().checkpoint_format == CheckpointFormat::Tarn
        && store.checkpoints.has_all_of(&*store.engine);
    // Without one, nothing would be found of what a log has that was switched on a moment ago.
    if how.saves && !is_saved || log_switch::is_pending(store) {
        tracing::info!("Taking a last checkpoint");
        let taken = saver::take(server, &store.engine, &store.checkpoints, Urgency::Awaited, false)?;
        tracing::info!("Checkpoint: {} keys, {:.1} MB", taken.keys, taken.bytes as f64 / 1e6);
    }
    Ok(newest)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAVES: How = How { saves: true, gives_up: false, forced: false };
    const NOSAVE: How = How { saves: false, gives_up: true, forced: false };
    const FORCE: How = How { saves: true, gives_up: false, forced: true };

    fn stopped() -> Result<Lsn, CheckpointError> {
        Err(CheckpointError::Stopped)
    }

    #[test]
    fn a_request_right_behind_an_aborted_one_is_not_answered_by_its_checkpoint() {
        let mut state = State::default();
        assert_eq!(state.ask(SAVES), (Attempt(1), true));
        let first = state.current().expect("it runs").0;
        assert!(state.give_up());
        assert_eq!(state.ask(SAVES), (Attempt(2), true));
        // What the first one's checkpoint came to arrives only now.
        assert!(matches!(state.settle(first, &stopped()), Settled::Superseded));
        assert_eq!(state.current(), Some((Attempt(2), SAVES)));
        assert!(matches!(state.settle(Attempt(2), &Ok(Lsn(7))), Settled::Ends));
        assert_eq!(state.saved, Some(Lsn(7)));
    }

    #[test]
    fn an_aborted_request_neither_ends_the_server_nor_is_it_told_as_a_failure() {
        let mut state = State::default();
        state.ask(SAVES);
        assert!(state.give_up() && !state.give_up());
        assert!(matches!(state.settle(Attempt(1), &stopped()), Settled::Superseded));
        assert!(matches!(state.settle(Attempt(1), &Ok(Lsn(7))), Settled::Superseded));
        assert_eq!(state.current(), None);
    }

    #[test]
    fn who_gives_changes_up_has_done_so_whatever_others_ask_for_behind_him() {
        let mut state = State::default();
        state.ask(SAVES);
        assert_eq!(state.ask(NOSAVE), (Attempt(1), false));
        assert_eq!(state.ask(SAVES), (Attempt(1), false));
        let how = state.current().expect("it runs").1;
        assert!(!how.saves && how.gives_up);
        assert!(matches!(state.settle(Attempt(1), &stopped()), Settled::Ends));
    }

    #[test]
    fn a_checkpoint_that_fails_ends_nothing_unless_that_is_forced() {
        let failed = || Err(CheckpointError::Busy);
        let mut state = State::default();
        state.ask(SAVES);
        assert!(matches!(state.settle(Attempt(1), &failed()), Settled::Refused));
        assert_eq!(state.current(), None);
        assert_eq!(state.ask(SAVES), (Attempt(2), true));
        assert_eq!(state.ask(FORCE), (Attempt(2), false));
        assert!(matches!(state.settle(Attempt(2), &failed()), Settled::EndsWithout));
    }

    /// A request to end without a checkpoint stops the one that is being taken, whether it has begun
    /// already or not: the flag that stops it is taken back under the lock, and only where one is wanted.
    #[test]
    fn a_checkpoint_that_was_given_up_before_it_began_is_not_taken() {
        let progress = Progress::default();
        let mut state = State::default();
        state.ask(SAVES);
        progress.stop();
        state.ask(NOSAVE);
        assert_eq!(state.begin_saving(&progress), Some((Attempt(1), state.current().expect("it runs").1)));
        assert!(progress.is_stopped(), "it is not let go again");
        let mut state = State::default();
        state.ask(SAVES);
        assert!(state.begin_saving(&progress).is_some() && !progress.is_stopped());
    }
}
