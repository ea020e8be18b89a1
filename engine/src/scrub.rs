//! Scrubs the disk: reads old files slowly and repeatedly, to find damage while memory still has the data.
//!
//! ```text
//!   file of the log ─┐ past the cache,   damage, twice ──> the compactor: a checkpoint, and the file is
//!   checkpoint ──────┘ so fast, no faster                  compacted without it (`compactor/damaged.rs`)
//! ```
//!
//! - It reads files of the log that are written to no more, and the checkpoint that a start would load; not
//!   what is being written, which a start would read first, nor backups.
//! - It holds no lock while it reads and latches nothing. A file that a compaction replaces meanwhile is read
//!   on under no name, or is not found, and is not told of.
//! - A device may err once, so damage counts when a second reading finds it, too.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::lock::{Condvar, Mutex};

use crate::checkpoint::Checkpoints;
use crate::compactor::Compactor;
use crate::log::{Appender, ClosedFile};
use crate::record::UnixMs;
use crate::store::Store;

/// How long is waited between two passes, and while none is made.
const PAUSE: Duration = Duration::from_secs(1);

/// A shorter wait is added to the next one.
const SHORTEST_WAIT: Duration = Duration::from_millis(5);

/// How scrubbing is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScrubStatus {
    /// Whether a pass is under way.
    pub running: bool,
    /// Passes over all files that have ended.
    pub passes: u64,
    /// When the last one ended.
    pub last_pass: Option<UnixMs>,
    /// How long it took.
    pub last_took: Option<Duration>,
    /// Bytes read so far.
    pub bytes: u64,
    /// Damaged places that were found.
    pub damage: u64,
    /// When damage was found last, and what was wrong.
    pub last_damage: Option<(UnixMs, String)>,
    /// Damage that a second reading did not find.
    pub transient: u64,
}

/// The files to scrub: those of one store.
#[derive(Clone, Copy)]
pub struct Scrubbed<'s> {
    /// Has the log, and the clock.
    pub store: &'s Store,
    /// Is told of damage in files of the log.
    pub compactor: &'s Compactor,
    /// The checkpoints that a start would build on.
    pub checkpoints: &'s Checkpoints,
}

/// Scrubs the files of one store.
#[derive(Debug, Default)]
pub struct Scrubber {
    /// Bytes that are read in a second; 0: none.
    bytes_per_second: AtomicU64,
    /// Bytes that were read and not waited for.
    unpaid: AtomicU64,
    stop: AtomicBool,
    status: Mutex<ScrubStatus>,
    changed: Condvar,
}

impl Scrubber {
    /// Changes how fast is read, from now on; 0 for not at all.
    pub fn set_bytes_per_second(&self, bytes: u64) {
        self.bytes_per_second.store(bytes, Ordering::Relaxed);
        let _status = self.status.lock();
        self.changed.notify_all();
    }

    /// How it is doing.
    pub fn status(&self) -> ScrubStatus {
        self.status.lock().clone()
    }

    /// Lets [`Scrubber::run`] end soon.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        let _status = self.status.lock();
        self.changed.notify_all();
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Makes passes until it is stopped; `tell` is given what is wrong as it is found.
    pub fn run(&self, scrubbed: Scrubbed<'_>, tell: impl Fn(&str)) {
        while !self.is_stopped() {
            if self.bytes_per_second.load(Ordering::Relaxed) > 0 {
                self.pass(scrubbed, &tell);
            }
            self.wait(PAUSE);
        }
    }

    /// Makes one pass over all files; `false` if it was given up.
    pub fn pass(&self, scrubbed: Scrubbed<'_>, tell: &dyn Fn(&str)) -> bool {
        let store = scrubbed.store;
        let began = store.clock().monotonic();
        self.status.lock().running = true;
        let mut is_whole = true;
        if let Some(log) = store.log() {
            for file in log.closed_files() {
                is_whole = is_whole && self.goes_on();
                if is_whole {
                    self.scrub_file(scrubbed, &log, &file, tell);
                }
            }
        }
        is_whole = is_whole && self.goes_on();
        if is_whole {
            self.scrub_checkpoint(scrubbed, tell);
        }
        is_whole = is_whole && self.goes_on();
        let mut status = self.status.lock();
        status.running = false;
        if is_whole {
            status.passes += 1;
            status.last_pass = Some(store.now());
            status.last_took = Some(store.clock().monotonic().saturating_sub(began));
        }
        is_whole
    }

    fn goes_on(&self) -> bool {
        !self.is_stopped() && self.bytes_per_second.load(Ordering::Relaxed) > 0
    }

    fn scrub_file(&self, scrubbed: Scrubbed<'_>, log: &Appender, file: &ClosedFile, tell: &dyn Fn(&str)) {
        for again in [false, true] {
            let found = match log.verify(file, |bytes| self.keep_pace(bytes)) {
                Ok(Some(found)) => found,
                Ok(None) => return,
                Err(error) => {
                    // It cannot be opened: nothing is known of what it has.
                    if again {
                        self.note(scrubbed.store, 1, &error.to_string(), tell);
                    }
                    continue;
                }
            };
            let Some((first, _)) = found.first() else {
                self.status.lock().transient += u64::from(again);
                return;
            };
            if again {
                let up_to = found.iter().map(|(_, up_to)| *up_to).max().unwrap_or_default();
                if scrubbed.compactor.note_damage(log, file, first.clone(), up_to) {
                    self.note(scrubbed.store, found.len() as u64, &first.to_string(), tell);
                }
            }
        }
    }

    fn scrub_checkpoint(&self, scrubbed: Scrubbed<'_>, tell: &dyn Fn(&str)) {
        for again in [false, true] {
            let Some((cut, outcome)) = scrubbed.checkpoints.verify(|bytes| self.keep_pace(bytes)) else {
                return;
            };
            match outcome {
                Ok(()) => {
                    self.status.lock().transient += u64::from(again);
                    return;
                }
                Err(error) if again => {
                    scrubbed.checkpoints.distrust_current();
                    scrubbed.compactor.note_damaged_checkpoint(cut);
                    self.note(scrubbed.store, 1, &error.to_string(), tell);
                }
                Err(_) => {}
            }
        }
    }

    fn note(&self, store: &Store, places: u64, what: &str, tell: &dyn Fn(&str)) {
        let mut status = self.status.lock();
        if status.last_damage.as_ref().is_some_and(|(_, before)| before == what) {
            // Each pass finds it until it is made good.
            return;
        }
        status.damage += places;
        status.last_damage = Some((store.now(), what.to_owned()));
        drop(status);
        tell(what);
    }

    /// Waits for as long as so many bytes may take; `false` if it is to be given up.
    fn keep_pace(&self, bytes: u64) -> bool {
        self.status.lock().bytes += bytes;
        let unpaid = self.unpaid.load(Ordering::Relaxed) + bytes;
        let rate = self.bytes_per_second.load(Ordering::Relaxed).max(1);
        let due = Duration::from_secs_f64(unpaid as f64 / rate as f64);
        let is_due = due >= SHORTEST_WAIT;
        self.unpaid.store(if is_due { 0 } else { unpaid }, Ordering::Relaxed);
        if is_due && self.goes_on() {
            self.wait(due);
        }
        self.goes_on()
    }

    fn wait(&self, pause: Duration) {
        let mut status = self.status.lock();
        if !self.is_stopped() {
            self.changed.wait_for(&mut status, pause);
        }
    }
}
