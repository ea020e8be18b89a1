//! The thread that reads files of certificates. No other does: it may wait for a disk, or for a network that
//! has gone, and opening a key by its passphrase takes as long as the file of the key wants.
//!
//! ```text
//!   main thread, once a second, SIGHUP ── look ──┐
//!   CONFIG SET ── read ── looks again later ─────┴─> tarn-certs: one after the other
//! ```

use std::io;
use std::sync::mpsc::{SendError, Sender, channel};

use tarn_engine::lock::Mutex;

/// A task of the thread.
type Job = Box<dyn FnOnce() + Send>;

/// The way to the thread, which is there from the first task on, and ends with this.
#[derive(Debug, Default)]
pub(super) struct Reader(Mutex<Option<Sender<Job>>>);

impl Reader {
    /// Has a task done, after those of before. Waits for nothing.
    pub(super) fn ask(&self, job: Job) -> io::Result<()> {
        let mut jobs = self.0.lock();
        let job = match jobs.as_ref() {
            None => job,
            Some(known) => match known.send(job) {
                Ok(()) => return Ok(()),
                // The thread has failed.
                Err(SendError(job)) => job,
            },
        };
        let (sender, receiver) = channel::<Job>();
        let work = move || {
            for job in receiver {
                job();
            }
        };
        std::thread::Builder::new().name("tarn-certs".to_owned()).spawn(work)?;
        // It has just begun.
        let _ = sender.send(job);
        *jobs = Some(sender);
        Ok(())
    }
}
