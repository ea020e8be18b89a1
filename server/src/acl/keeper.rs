//! `ACL SAVE` and `ACL LOAD`: the file of users is written and read on a thread of its own, as a worker waits
//! for no disk.
//!
//! ```text
//!   ACL SAVE, LOAD ──> [ waiting ] ──> tarn-acl: one after the other ──> the job's outcome
//!   the client's request looks again until its job is done
//! ```
//!
//! **Invariant:** of two saves that wait, the later one has users that are as new or newer: they are taken
//! and put into the queue at once.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use tarn_engine::lock::Mutex;

use crate::acl::catalog::Catalog;
use crate::acl::file;
use crate::acl::registry::{Acl, Users};
use crate::acl::user::User;

/// The users that were read, none where they were written; or the reason why not.
pub type Outcome = Result<Vec<User>, String>;

/// The file, written or read at somebody's request.
#[derive(Clone, Debug, Default)]
pub struct FileJob(Arc<Mutex<Option<Outcome>>>);

impl FileJob {
    /// The outcome, once; `None` while it is not done.
    pub fn take(&self) -> Option<Outcome> {
        self.0.lock().take()
    }
}

#[derive(Debug)]
enum Work {
    Save { path: PathBuf, users: Arc<Users>, catalog: Arc<Catalog> },
    Load { path: PathBuf, catalog: Arc<Catalog>, all_channels: bool },
}

impl Work {
    fn run(self) -> Outcome {
        match self {
            Work::Save { path, users, catalog } => {
                file::write(&path, &users, &catalog).map(|()| Vec::new()).map_err(|error| {
                    tracing::warn!("ACL SAVE cannot write {}: {error}", path.display());
                    error.to_string()
                })
            }
            Work::Load { path, catalog, all_channels } => file::read(&path, &catalog, all_channels),
        }
    }
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<(Work, FileJob)>,
    is_running: bool,
}

/// Writes and reads the file of users.
#[derive(Debug, Default)]
pub struct UserFile {
    state: Mutex<State>,
}

impl UserFile {
    /// Has all users written as they are now. Waits for nothing. An error: there is no thread.
    pub fn save(self: &Arc<Self>, acl: &Acl, path: PathBuf) -> io::Result<FileJob> {
        self.ask(|| Work::Save { path, users: acl.all(), catalog: acl.shared_catalog() })
    }

    /// Has the file read. `all_channels`: as `acl-pubsub-default` says. Waits for nothing. An error: there is
    /// no thread.
    pub fn load(self: &Arc<Self>, acl: &Acl, path: PathBuf, all_channels: bool) -> io::Result<FileJob> {
        self.ask(|| Work::Load { path, catalog: acl.shared_catalog(), all_channels })
    }

    fn ask(self: &Arc<Self>, work: impl FnOnce() -> Work) -> io::Result<FileJob> {
        let mut state = self.state.lock();
        if !state.is_running {
            let keeper = self.clone();
            std::thread::Builder::new().name("tarn-acl".to_owned()).spawn(move || keeper.run())?;
            state.is_running = true;
        }
        let job = FileJob::default();
        state.waiting.push_back((work(), job.clone()));
        Ok(job)
    }

    /// Works until nobody asks any more.
    fn run(&self) {
        loop {
            let mut state = self.state.lock();
            let Some((work, job)) = state.waiting.pop_front() else {
                state.is_running = false;
                return;
            };
            drop(state);
            let outcome = work.run();
            *job.0.lock() = Some(outcome);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acl::catalog::sample;
    use std::time::{Duration, Instant};

    fn finish(job: &FileJob) -> Outcome {
        let began = Instant::now();
        loop {
            if let Some(outcome) = job.take() {
                return outcome;
            }
            assert!(began.elapsed() < Duration::from_secs(30), "it is not done");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_user_that_was_deleted_before_a_save_is_not_in_the_file_behind_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("users.acl");
        let (acl, keeper) = (Acl::new(sample()), Arc::new(UserFile::default()));
        std::thread::scope(|scope| {
            for number in 0..4 {
                let (acl, keeper, path) = (&acl, &keeper, &path);
                scope.spawn(move || {
                    let name = format!("user-{number}-");
                    let save = || finish(&keeper.save(acl, path.clone()).expect("a thread"));
                    for _ in 0..20 {
                        acl.change(name.as_bytes(), &["on"], false).expect("rules");
                        assert_eq!(save(), Ok(Vec::new()));
                        acl.delete([name.as_bytes()].into_iter());
                        assert_eq!(save(), Ok(Vec::new()));
                        let text = std::fs::read_to_string(path).expect("a file");
                        assert!(!text.contains(&name) && text.contains("user default on"), "{text}");
                    }
                });
            }
        });
        let users = finish(&keeper.load(&acl, path, false).expect("a thread")).expect("its own text");
        assert_eq!(users.len(), 1);
        assert_eq!(
            std::fs::read_dir(folder.path()).expect("the folder").count(),
            1,
            "a temporary file stays"
        );
    }
}
