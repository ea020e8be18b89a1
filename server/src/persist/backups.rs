//! Backups of the log: one at a time, on a thread of its own, which no worker waits for.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Instant;

use tarn_engine::backup::{self, BackupError, Progress, Request, Taken};
use tarn_engine::lock::{Mutex, rank};
use tarn_engine::record::Lsn;
use thiserror::Error;

use crate::persist::backup_place::{Misplaced, Places};
use crate::persist::log_switch;
use crate::shared::Shared;
use crate::store::Store;

/// Why none was begun.
#[derive(Debug, Error)]
pub enum NotBegun {
    /// There is nothing to back up.
    #[error("There is no log: the server runs with 'appendonly no', or switched it on a moment ago")]
    NoLog,
    /// One is being taken already.
    #[error("Background backup already in progress")]
    Busy,
    /// The system has no thread for it.
    #[error("Background backup not started: {0}")]
    NoThread(#[from] io::Error),
}

/// Why one failed.
#[derive(Debug, Error)]
enum Failed {
    /// It must not be there.
    #[error(transparent)]
    Misplaced(#[from] Misplaced),
    /// It could not be made.
    #[error(transparent)]
    Backup(#[from] BackupError),
}

/// A backup that is being taken.
#[derive(Clone, Debug)]
pub struct Running {
    /// Where to.
    pub directory: PathBuf,
    /// Since when.
    pub began: Instant,
    /// How far it has come.
    pub progress: Arc<Progress>,
}

/// The last backup.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Where to.
    pub directory: PathBuf,
    /// When it ended.
    pub unix_s: u64,
    /// Its content, or the reason why there is none.
    pub outcome: Result<Taken, String>,
}

/// How backups stand.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// The one that is being taken.
    pub running: Option<Running>,
    /// The one before it.
    pub last: Option<Ended>,
}

#[derive(Debug, Default)]
struct State {
    status: Status,
    thread: Option<JoinHandle<()>>,
    is_stopping: bool,
}

/// Who takes backups.
#[derive(Debug, Default)]
pub struct Backups {
    state: Mutex<State, rank::Backups>,
    beside: OnceLock<Vec<PathBuf>>,
}

impl Backups {
    /// Has each backup take these files of the data directory along. REQUIRES: it is called once at most.
    pub fn take_along(&self, beside: Vec<PathBuf>) {
        self.beside.set(beside).expect("the caller calls it once");
    }

    /// Begins a backup. REQUIRES: the path is absolute.
    pub fn start(
        self: &Arc<Self>,
        server: &Shared,
        places: Places,
        directory: PathBuf,
        since: Lsn,
    ) -> Result<(), NotBegun> {
        let has_log = |store: &&Store| store.log.load().is_some() && !log_switch::is_pending(store);
        let store = server.store().filter(has_log).ok_or(NotBegun::NoLog)?;
        let mut state = self.state.lock();
        if state.status.running.is_some() || state.is_stopping {
            return Err(NotBegun::Busy);
        }
        let bytes_per_second = store.engine.compactor().options().bytes_per_second;
        let beside = self.beside.get().cloned().unwrap_or_default();
        let request = Request { directory: directory.clone(), since, beside, bytes_per_second };
        let progress = Arc::new(Progress::default());
        let running = Running { directory, began: Instant::now(), progress: progress.clone() };
        let (backups, clock) = (self.clone(), server.clock.clone());
        let Store { engine, checkpoints, .. } = store;
        let (engine, checkpoints) = (engine.clone(), checkpoints.clone());
        let run = move || {
            let outcome = places.check(&request.directory).map_err(Failed::from);
            let take = || backup::take(engine.store(), engine.compactor(), &checkpoints, &request, &progress);
            let outcome = outcome.and_then(|()| Ok(take()?));
            drop(engine);
            backups.end(request.directory, clock.unix_ms() / 1000, outcome);
        };
        state.thread = Some(std::thread::Builder::new().name("tarn-backup".to_owned()).spawn(run)?);
        state.status.running = Some(running);
        Ok(())
    }

    fn end(&self, directory: PathBuf, unix_s: u64, outcome: Result<Taken, Failed>) {
        let place = directory.display();
        match &outcome {
            Ok(Taken { end, files, files_here, bytes, took, .. }) => tracing::info!(
                "Backup in {place}: up to record {end}, {files_here} of {files} files, {:.1} MB in {:.2} s",
                *bytes as f64 / 1e6,
                took.as_secs_f64()
            ),
            Err(Failed::Backup(BackupError::Stopped)) => {
                tracing::info!("Backup in {place}: given up, the server is stopping")
            }
            Err(error) => tracing::error!("Backup in {place} failed: {error}"),
        }
        let outcome = outcome.map_err(|error| error.to_string());
        let mut state = self.state.lock();
        state.status.running = None;
        state.status.last = Some(Ended { directory, unix_s, outcome });
    }

    /// How backups stand.
    pub fn status(&self) -> Status {
        self.state.lock().status.clone()
    }

    /// Gives up the one that is being taken, and takes no other. Waits until it has ended.
    pub fn stop(&self) {
        let thread = {
            let mut state = self.state.lock();
            state.is_stopping = true;
            state.status.running.iter().for_each(|running| running.progress.stop());
            state.thread.take()
        };
        if let Some(thread) = thread {
            // One that panicked has said so itself.
            let _ = thread.join();
        }
    }
}
