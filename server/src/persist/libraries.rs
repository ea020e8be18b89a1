//! `FUNCTION LOAD` and the like: a thread reads libraries and writes them to a file, as a worker waits
//! neither for a library's code nor for the disk.
//!
//! ```text
//!   FUNCTION LOAD ──Job──> [ jobs ] ──> tarn-functions: run code, write the file, publish, note the outcome
//!   the client's request looks again until the job has an outcome
//! ```
//!
//! The file, `functions.dump` in the data directory, holds what `FUNCTION DUMP` replies. It is read at the
//! start, before the data, and backups take it along.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tarn_engine::io::DiskError;
use tarn_engine::lock::Mutex;
use tarn_rdb::functions;
use tokio::sync::Notify;

use crate::error::CommandError;
use crate::persist::rdb_file::NewFile;
use crate::scripts::{Functions, Libraries, Library};

/// The name of the file in the data directory.
pub const FUNCTIONS_FILE: &str = "functions.dump";

/// Changes that may wait.
const JOBS_MAX: usize = 100;
/// The time that the libraries of a payload may take together.
const RESTORING_MAX: Duration = Duration::from_secs(10);

const NOT_A_DUMP: CommandError = CommandError::text("ERR DUMP payload version or checksum are wrong");

/// A change of the libraries.
#[derive(Debug, Hash)]
pub(crate) enum Change {
    /// Loads the library of this source, in place of one of its name if `replaces`.
    Load {
        /// Its source.
        source: Vec<u8>,
        /// Whether one of its name may be there.
        replaces: bool,
    },
    /// Deletes the library of this name.
    Delete(Vec<u8>),
    /// Deletes all libraries.
    Flush,
    /// Adds the libraries of a payload.
    Restore {
        /// The payload.
        payload: Vec<u8>,
        /// The fate of those that are there.
        policy: Policy,
    },
}

/// The fate of libraries that are there when others are restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Policy {
    /// Two of the same name are an error.
    Append,
    /// They stay, unless one of the same name comes.
    Replace,
    /// They go.
    Flush,
}

/// The name of the library that was loaded, if one was.
type Outcome = Result<Option<String>, CommandError>;

/// A change that was asked for.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    /// A hash of the change.
    change: u64,
    outcome: Arc<Mutex<Option<Outcome>>>,
}

impl Job {
    fn of(change: &Change) -> Job {
        Job { change: hash_of(change), outcome: Arc::default() }
    }

    /// Whether it is this change.
    pub(crate) fn is_of(&self, change: &Change) -> bool {
        self.change == hash_of(change)
    }

    /// The outcome, once there is one.
    pub(crate) fn outcome(&self) -> Option<Outcome> {
        self.outcome.lock().clone()
    }

    /// Whether nobody waits for it any more.
    fn is_given_up(&self) -> bool {
        Arc::strong_count(&self.outcome) == 1
    }
}

fn hash_of(change: &Change) -> u64 {
    let mut hasher = DefaultHasher::new();
    change.hash(&mut hasher);
    hasher.finish()
}

#[derive(Debug, Default)]
struct State {
    jobs: VecDeque<(Change, Job)>,
    is_running: bool,
}

/// Changes the libraries of a server, and keeps them in a file.
#[derive(Debug, Default)]
pub(crate) struct LibraryKeeper {
    state: Mutex<State>,
    /// The file; unset: there is none.
    path: OnceLock<PathBuf>,
}

/// The file of functions cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FunctionsError {
    /// It cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    NotRead {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// Its contents are not the libraries of a server.
    #[error("{} is damaged: {why}; restore it from a backup, or move it away to start without functions",
        path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The error.
        why: String,
    },
    /// It cannot be written.
    #[error(transparent)]
    Disk(#[from] DiskError),
}

impl LibraryKeeper {
    /// Reads the libraries of the file in `directory`, and keeps later changes there. REQUIRES: it is called
    /// once.
    pub(crate) fn open(&self, functions: &Functions, directory: &Path) -> Result<(), FunctionsError> {
        let path = directory.join(FUNCTIONS_FILE);
        if let Some(libraries) = read_file(&path)? {
            functions.publish(&functions.turn(), libraries);
        }
        let is_first = self.path.set(path).is_ok();
        debug_assert!(is_first, "a server opens its data once");
        Ok(())
    }

    /// Adds the libraries of an RDB file, whose sources these are, unless there is a file of them: that is
    /// newer.
    pub(crate) fn adopt(&self, functions: &Functions, sources: &[Vec<u8>]) -> Result<(), FunctionsError> {
        let turn = functions.turn();
        let path = self.path.get().cloned().unwrap_or_default();
        if sources.is_empty() || path.exists() {
            return Ok(());
        }
        let libraries = read_all(sources).map_err(|error| damaged(&path, &error))?;
        self.write(&libraries)?;
        functions.publish(&turn, libraries);
        Ok(())
    }

    /// Has the libraries changed. Waits for nothing. The wakers are notified when it is done.
    pub(crate) fn ask(
        self: &Arc<Self>,
        functions: &Arc<Functions>,
        wakers: &[Arc<Notify>],
        change: Change,
    ) -> io::Result<Job> {
        let mut state = self.state.lock();
        state.jobs.retain(|(_, job)| !job.is_given_up());
        if state.jobs.len() >= JOBS_MAX {
            return Err(io::Error::other("too many changes of functions wait; try again"));
        }
        if !state.is_running {
            let (keeper, functions, wakers) = (self.clone(), functions.clone(), wakers.to_vec());
            let work = move || keeper.work(&functions, &wakers);
            std::thread::Builder::new().name("tarn-functions".to_owned()).spawn(work)?;
            state.is_running = true;
        }
        let job = Job::of(&change);
        state.jobs.push_back((change, job.clone()));
        Ok(job)
    }

    /// Changes until nobody asks any more.
    fn work(&self, functions: &Functions, wakers: &[Arc<Notify>]) {
        loop {
            let mut state = self.state.lock();
            let Some((change, job)) = state.jobs.pop_front() else {
                state.is_running = false;
                return;
            };
            drop(state);
            let outcome = self.change(functions, change);
            *job.outcome.lock() = Some(outcome);
            wakers.iter().for_each(|waker| waker.notify_one());
        }
    }

    fn change(&self, functions: &Functions, change: Change) -> Outcome {
        let turn = functions.turn();
        let mut libraries = Libraries::clone(&functions.now());
        let mut loaded = None;
        match change {
            Change::Load { source, replaces } => {
                let library = Arc::new(Library::read(&source)?);
                loaded = Some(library.name.clone());
                libraries.add(library, replaces)?;
            }
            Change::Delete(name) => {
                let name = String::from_utf8(name).unwrap_or_default();
                if !libraries.remove(&name) {
                    return Err(CommandError::text("ERR Library not found"));
                }
            }
            Change::Flush => libraries = Libraries::default(),
            Change::Restore { payload, policy } => {
                let sources = functions::read(&payload).map_err(|_| NOT_A_DUMP)?;
                let began = Instant::now();
                let mut brought = Vec::new();
                for source in &sources {
                    if began.elapsed() > RESTORING_MAX {
                        return Err(CommandError::text("ERR FUNCTION RESTORE timeout"));
                    }
                    brought.push(Arc::new(Library::read(source)?));
                }
                if policy == Policy::Flush {
                    libraries = Libraries::default();
                }
                libraries.restore(&brought, policy == Policy::Replace)?;
            }
        }
        self.write(&libraries).map_err(|error| {
            tracing::warn!("The functions were not changed: {error}");
            CommandError::owned(format!("ERR the functions were not changed: {error}"))
        })?;
        functions.publish(&turn, libraries);
        Ok(loaded)
    }

    /// Writes all libraries, in place of what the file held.
    fn write(&self, libraries: &Libraries) -> Result<(), DiskError> {
        let Some(path) = self.path.get() else { return Ok(()) };
        write_file(path, libraries.iter().map(|library| library.source()))
    }
}

fn damaged(path: &Path, why: &dyn std::fmt::Display) -> FunctionsError {
    FunctionsError::Damaged { path: path.to_path_buf(), why: why.to_string() }
}

/// The libraries of a file; `None` if there is no file.
fn read_file(path: &Path) -> Result<Option<Libraries>, FunctionsError> {
    let Some(sources) = sources_in(path)? else { return Ok(None) };
    read_all(&sources).map(Some).map_err(|error| damaged(path, &error))
}

/// The sources of the libraries of a file; `None` if there is no file.
pub(crate) fn sources_in(path: &Path) -> Result<Option<Vec<Vec<u8>>>, FunctionsError> {
    let payload = match std::fs::read(path) {
        Ok(payload) => payload,
        Err(error) if [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory].contains(&error.kind()) => {
            return Ok(None);
        }
        Err(source) => return Err(FunctionsError::NotRead { path: path.to_path_buf(), source }),
    };
    functions::read(&payload).map(Some).map_err(|error| damaged(path, &error))
}

/// Gives a file the libraries with these sources, in place of what it held.
pub(crate) fn write_file<'s>(path: &Path, sources: impl Iterator<Item = &'s [u8]>) -> Result<(), DiskError> {
    let mut file = NewFile::create(path)?;
    file.append(&functions::write(sources))?;
    file.publish().map(drop)
}

/// The libraries with these sources.
pub(crate) fn read_all(sources: &[Vec<u8>]) -> Result<Libraries, CommandError> {
    let mut libraries = Libraries::default();
    for source in sources {
        libraries.add(Arc::new(Library::read(source)?), false)?;
    }
    Ok(libraries)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const LIBRARY: &[u8] = b"#!lua name=a\nredis.register_function('f', function() return 1 end)";

    fn keeper(directory: &Path) -> (LibraryKeeper, Functions) {
        let (keeper, functions) = (LibraryKeeper::default(), Functions::default());
        keeper.open(&functions, directory).unwrap();
        (keeper, functions)
    }

    fn load() -> Change {
        Change::Load { source: LIBRARY.to_vec(), replaces: false }
    }

    #[test]
    fn what_is_loaded_is_there_at_the_next_start() {
        let folder = tempfile::tempdir().unwrap();
        let (first, functions) = keeper(folder.path());
        assert_eq!(first.change(&functions, load()).unwrap(), Some("a".to_owned()));
        let (second, functions) = keeper(folder.path());
        assert!(functions.now().find(b"f").is_some());
        second.change(&functions, Change::Delete(b"a".to_vec())).unwrap();
        let (_, functions) = keeper(folder.path());
        assert_eq!(functions.now().count(), (0, 0));
    }

    #[test]
    fn what_is_not_written_is_not_shown() {
        let folder = tempfile::tempdir().unwrap();
        let (keeper, functions) = keeper(&folder.path().join("missing"));
        let refused = keeper.change(&functions, load()).unwrap_err();
        assert!(refused.to_string().starts_with("ERR the functions were not changed: "), "{refused}");
        assert_eq!((functions.now().count(), functions.generation()), ((0, 0), 0));
    }

    #[test]
    fn a_damaged_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (first, functions) = keeper(folder.path());
        first.change(&functions, load()).unwrap();
        let path = folder.path().join(FUNCTIONS_FILE);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[5] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        let refused = LibraryKeeper::default().open(&Functions::default(), folder.path()).unwrap_err();
        assert!(refused.to_string().contains("is damaged"), "{refused}");
    }
}
