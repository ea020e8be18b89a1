//! The thread that reads files of certificates. No other does: it may wait for a disk, or for a network that
//! has gone, and opening a key by its passphrase takes as long as whoever wrote it wanted.
//!
//! ```text
//!   main thread, once a second, SIGHUP ── look ──┐
//!   CONFIG SET ── read ── looks again later ─────┴─> tarn-certs: one after the other
//! ```

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, TryRecvError, channel, sync_channel};
use std::sync::{Arc, Weak};

use tarn_engine::lock::Mutex;

use super::{Prepared, Tls, TlsError};
use crate::config::Config;

/// The way to the thread.
#[derive(Debug, Default)]
pub(super) struct Reader {
    /// None, before it is needed.
    jobs: Mutex<Option<Sender<Job>>>,
    /// A look was asked for that has not begun. So no more are while the thread waits for a file.
    looks: AtomicBool,
}

/// A task of the thread.
enum Job {
    /// See whether files have changed; read them in any case, or only then.
    Look { in_any_case: bool },
    /// Read what a configuration names, for who waits for it.
    Read { config: Box<Config>, outcome: SyncSender<Result<Prepared, TlsError>> },
}

/// Certificates that are being read for somebody.
#[derive(Debug)]
pub struct Reading(Mutex<Receiver<Result<Prepared, TlsError>>>);

impl Reading {
    /// The outcome, once; `None`: it is not there yet.
    pub fn outcome(&self) -> Option<Result<Prepared, TlsError>> {
        match self.0.lock().try_recv() {
            Ok(outcome) => Some(outcome),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err(TlsError::NoReader)),
        }
    }
}

impl Tls {
    /// Has files looked at that may have changed. Waits for nothing.
    pub fn look_soon(self: &Arc<Self>, in_any_case: bool) {
        let nothing = self.state.lock().config.as_ref().is_none_or(|config| config.tls.has_no_certificate());
        if nothing || self.reader.looks.swap(true, Ordering::Relaxed) && !in_any_case {
            return;
        }
        if let Err(error) = self.ask(Job::Look { in_any_case }) {
            self.reader.looks.store(false, Ordering::Relaxed);
            tracing::warn!("cannot start the thread that reads certificates: {error}");
        }
    }

    /// Has the files read that a configuration names. Waits for nothing.
    pub fn read_soon(self: &Arc<Self>, config: &Config) -> io::Result<Reading> {
        let (outcome, awaited) = sync_channel(1);
        self.ask(Job::Read { config: Box::new(config.clone()), outcome })?;
        Ok(Reading(Mutex::new(awaited)))
    }

    fn ask(self: &Arc<Self>, job: Job) -> io::Result<()> {
        let mut jobs = self.reader.jobs.lock();
        let job = match jobs.as_ref() {
            None => job,
            Some(known) => match known.send(job) {
                Ok(()) => return Ok(()),
                // The thread has failed.
                Err(unsent) => unsent.0,
            },
        };
        let ((sender, receiver), tls) = (channel(), Arc::downgrade(self));
        std::thread::Builder::new().name("tarn-certs".to_owned()).spawn(move || work(&tls, receiver))?;
        // It has just begun.
        let _ = sender.send(job);
        *jobs = Some(sender);
        Ok(())
    }
}

/// Does what it is asked to, until the server has gone.
fn work(tls: &Weak<Tls>, jobs: Receiver<Job>) {
    for job in jobs {
        match job {
            Job::Look { in_any_case } => {
                let Some(tls) = tls.upgrade() else { return };
                tls.reader.looks.store(false, Ordering::Relaxed);
                tls.look(in_any_case);
            }
            Job::Read { config, outcome } => {
                // The client may have gone.
                let _ = outcome.send(Prepared::read(&config));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn nobody_waits_for_a_file_that_is_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let pipe = folder.path().join("pipe");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mkfifoat(rustix::fs::CWD, pipe.as_path(), mode).expect("a pipe");
        let mut config = Config::default();
        config.tls.cert_file = pipe.as_os_str().as_encoded_bytes().to_vec();
        config.tls.key_file = config.tls.cert_file.clone();
        let tls = Arc::new(Tls::default());
        let reading = tls.read_soon(&config).expect("a thread");
        let began = Instant::now();
        let outcome = loop {
            if let Some(outcome) = reading.outcome() {
                break outcome;
            }
            assert!(began.elapsed() < Duration::from_secs(30), "it waits for who writes into the pipe");
            std::thread::sleep(Duration::from_millis(1));
        };
        let error = outcome.expect_err("it holds nothing").to_string();
        assert!(error.contains("is no regular file"), "{error}");
    }
}
