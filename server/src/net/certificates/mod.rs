//! The certificates of the server, and what the ports are encrypted with.
//!
//! ```text
//!   CONFIG SET, start ──┐ reader
//!   SIGHUP, each second ┴─> files: read, check ──all well──> identities ──> the next handshake of a port
//!                                      └─ what was there stays, with a message
//! ```
//!
//! Connections that are open keep what they began with. `names` finds the user in a client's certificate.

mod chains;
mod error;
mod files;
mod keys;
mod names;
mod reader;
mod sessions;
mod suites;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use tarn_engine::lock::{Mutex, rank};

use crate::config::Config;
use crate::net::address::Address;
use crate::net::listen::Service;
pub use error::TlsError;
pub use files::Identity;
use files::{Identities, Stamp};
pub use names::names_of;
use reader::Reader;

/// The log tells of failed handshakes once in that time, at most.
const TOLD_EVERY: Duration = Duration::from_secs(10);
/// Characters of a reason in the log: rustls lists what a stranger has sent.
const REASON_MAX: usize = 300;

/// The certificates in force, and figures of handshakes.
#[derive(Debug, Default)]
pub struct Tls {
    identities: [ArcSwapOption<Identity>; Service::ALL.len()],
    state: Mutex<State, rank::Certificates>,
    reader: Reader,
    /// A look was asked for that has not begun. So no more are while the reader waits for a file.
    looks: AtomicBool,
    /// Why the files as they are now are not in force.
    error: Mutex<Option<String>>,
    told: Mutex<Told>,
    done: [AtomicU64; Service::ALL.len()],
    failed: [AtomicU64; Service::ALL.len()],
    resumed: AtomicU64,
    open: AtomicUsize,
    given_up: AtomicU64,
    read: AtomicU64,
    refused: AtomicU64,
}

/// The files that were looked at last.
#[derive(Debug, Default)]
struct State {
    /// The configuration that they were named by.
    config: Option<Arc<Config>>,
    /// Their stamps then.
    stamps: Vec<Stamp>,
    /// Times that another configuration came into force.
    number: u64,
}

/// Certificates that were read and checked, and are not in force yet.
#[derive(Debug)]
pub struct Prepared {
    made: Identities,
    state: State,
}

impl Prepared {
    /// Reads what a configuration names.
    pub fn read(config: &Config) -> Result<Prepared, TlsError> {
        // Before the files are read: one that changes meanwhile is read again.
        let stamps = files::stamps(config);
        let made = files::identities(config)?;
        Ok(Prepared { made, state: State { config: Some(Arc::new(config.clone())), stamps, number: 0 } })
    }

    /// Whether a configuration names the same, and wants connections encrypted in the same way.
    pub fn is_for(&self, config: &Config) -> bool {
        self.state.config.as_ref().is_some_and(|read| read.tls.encrypts_as(&config.tls))
    }
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

/// The last message about failed handshakes.
#[derive(Debug, Default)]
struct Told {
    at: Option<Instant>,
    untold: u64,
}

/// A handshake that is under way, until it is dropped.
#[derive(Debug)]
pub struct UnderWay<'a>(&'a AtomicUsize);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Tls {
    /// Brings what was read into force.
    pub fn apply(&self, prepared: Prepared) {
        let mut state = self.state.lock();
        self.bring_into_force(prepared.made);
        *state = State { number: state.number + 1, ..prepared.state };
        *self.error.lock() = None;
    }

    /// Has files looked at that may have changed. Waits for nothing.
    pub fn look_soon(self: &Arc<Self>, in_any_case: bool) {
        let nothing = self.state.lock().config.as_ref().is_none_or(|config| config.tls.has_no_certificate());
        if nothing || self.looks.swap(true, Ordering::Relaxed) && !in_any_case {
            return;
        }
        let tls = Arc::downgrade(self);
        let look = move || {
            if let Some(tls) = tls.upgrade() {
                tls.looks.store(false, Ordering::Relaxed);
                tls.look(in_any_case);
            }
        };
        if let Err(error) = self.reader.ask(Box::new(look)) {
            self.looks.store(false, Ordering::Relaxed);
            tracing::warn!("cannot start the thread that reads certificates: {error}");
        }
    }

    /// Has the files read that a configuration names. Waits for nothing.
    pub fn read_soon(&self, config: &Config) -> io::Result<Reading> {
        let ((outcome, awaited), config) = (sync_channel(1), config.clone());
        let read = move || {
            // The client may have gone.
            let _ = outcome.send(Prepared::read(&config));
        };
        self.reader.ask(Box::new(read))?;
        Ok(Reading(Mutex::new(awaited)))
    }

    /// Reads the files again if they have changed since they were looked at last, or in any case. If they
    /// cannot be used, what was in force stays so.
    fn look(&self, in_any_case: bool) {
        let (config, seen, number) = {
            let state = self.state.lock();
            let Some(config) = state.config.clone() else { return };
            (config, state.stamps.clone(), state.number)
        };
        if config.tls.has_no_certificate() {
            return;
        }
        let stamps = files::stamps(&config);
        if seen == stamps && !in_any_case {
            return;
        }
        // Nothing is locked meanwhile: this may take long.
        let made = files::identities(&config);
        let mut state = self.state.lock();
        if state.number != number {
            // Others came into force.
            return;
        }
        state.stamps = stamps;
        match made {
            Ok(made) => {
                self.bring_into_force(made);
                *self.error.lock() = None;
                tracing::info!("The certificates for encryption were read again");
            }
            Err(failure) => {
                self.refused.fetch_add(1, Ordering::Relaxed);
                let failure = failure.to_string();
                tracing::error!(
                    "Certificates were changed and cannot be used, those of before stay: {failure}"
                );
                *self.error.lock() = Some(failure);
            }
        }
    }

    fn bring_into_force(&self, made: Identities) {
        if made.iter().any(|(_, identity)| identity.as_ref().is_some_and(|identity| identity.has_ended())) {
            tracing::warn!("The certificate of tls-cert-file has ended: clients refuse it");
        }
        for (service, identity) in made {
            if let Some(old) = self.identities[service as usize].swap(identity) {
                old.retire();
            }
        }
        self.read.fetch_add(1, Ordering::Relaxed);
    }

    /// The identity that the next connection of a service is encrypted by; `None`: it is not.
    pub fn identity(&self, service: Service) -> Option<Arc<Identity>> {
        self.identities[service as usize].load_full()
    }

    /// Any identity, for what all have in common.
    pub fn any_identity(&self) -> Option<Arc<Identity>> {
        Service::ALL.into_iter().find_map(|service| self.identity(service))
    }

    /// Notes that a handshake has begun.
    pub fn begin_handshake(&self) -> UnderWay<'_> {
        self.open.fetch_add(1, Ordering::Relaxed);
        UnderWay(&self.open)
    }

    /// Notes how a handshake ended: whether it resumed a session, or why it failed.
    pub fn note_handshake(&self, peer: &Address, service: Service, ended: Result<bool, &io::Error>) {
        match ended {
            Ok(has_resumed) => {
                self.done[service as usize].fetch_add(1, Ordering::Relaxed);
                self.resumed.fetch_add(u64::from(has_resumed), Ordering::Relaxed);
            }
            Err(error) => {
                self.failed[service as usize].fetch_add(1, Ordering::Relaxed);
                self.tell(peer, service, error);
            }
        }
    }

    /// Notes that a handshake was given up for newer ones.
    pub fn note_given_up(&self) {
        self.given_up.fetch_add(1, Ordering::Relaxed);
    }

    fn tell(&self, peer: &Address, service: Service, error: &io::Error) {
        if error.kind() == io::ErrorKind::UnexpectedEof {
            // Monitors connect, and go without a word.
            return;
        }
        let now = Instant::now();
        let mut told = self.told.lock();
        told.untold += 1;
        if told.at.is_some_and(|at| now.saturating_duration_since(at) < TOLD_EVERY) {
            return;
        }
        let count = std::mem::take(&mut told.untold);
        told.at = Some(now);
        drop(told);
        let others = if count > 1 { format!(", and {} others before", count - 1) } else { String::new() };
        let (name, reason) = (service.name(), reason_of(error));
        tracing::warn!("A handshake with {peer} at the port of {name} failed: {reason}{others}");
    }

    /// Handshakes so far at the port of a service: those that went well, and those that failed.
    pub fn handshakes(&self, service: Service) -> [u64; 2] {
        [&self.done, &self.failed].map(|counts| counts[service as usize].load(Ordering::Relaxed))
    }

    /// Handshakes that resumed a session.
    pub fn resumed(&self) -> u64 {
        self.resumed.load(Ordering::Relaxed)
    }

    /// Handshakes that were given up for newer ones.
    pub fn given_up(&self) -> u64 {
        self.given_up.load(Ordering::Relaxed)
    }

    /// Handshakes that are under way.
    pub fn under_way(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Counts of readings of certificates: those that came into force, and those that could not be used.
    pub fn reads(&self) -> [u64; 2] {
        [&self.read, &self.refused].map(|count| count.load(Ordering::Relaxed))
    }

    /// Why the files as they are now are not in force; `None`: they are.
    pub fn error(&self) -> Option<String> {
        self.error.lock().clone()
    }
}

/// Why a handshake failed, in few words.
fn reason_of(error: &io::Error) -> String {
    let whole = error.to_string();
    let end = whole.char_indices().nth(REASON_MAX).map(|(end, _)| end);
    match end {
        None => whole,
        Some(end) => format!("{} …", &whole[..end]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_waits_for_a_file_that_is_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let pipe = folder.path().join("pipe");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mkfifoat(rustix::fs::CWD, pipe.as_path(), mode).expect("a pipe");
        let mut config = Config::default();
        config.tls.cert_file = pipe.as_os_str().as_encoded_bytes().to_vec();
        config.tls.key_file = config.tls.cert_file.clone();
        let tls = Tls::default();
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

    #[test]
    fn strangers_do_not_fill_the_log() {
        assert_eq!(reason_of(&io::Error::other("é".repeat(REASON_MAX))), "é".repeat(REASON_MAX));
        let long = reason_of(&io::Error::other("é".repeat(100_000)));
        assert_eq!(long, format!("{} …", "é".repeat(REASON_MAX)));
    }
}
