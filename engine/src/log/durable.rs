//! Who waits for which record: the blocks on their way to the disk, and the watermark below which all are
//! durable.
//!
//! ```text
//!      durable                     pending, in order of sequence                   not sealed yet
//!  … 41 42 43 | 44 written | 45 durable | 46 writing | 47 written | 48 writing |  active buffer
//!             ^ the watermark: 45 waits for 44
//! ```
//!
//! Invariants: the sequences of `pending` rise by one; the first is `durable + 1` and is not durable itself;
//! the watermark only rises.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, RwLock};

use super::error::LogError;
use super::file::LogFile;
use crate::record::Lsn;

/// How long somebody in a hurry waits before pushing again.
const A_WHILE: Duration = Duration::from_millis(10);

/// Something to call when the watermark has moved, or the log has failed, recovered or closed. Called on a
/// thread of the log: it must be quick and must not call the log.
pub type Waker = Box<dyn Fn() + Send + Sync>;

/// The durable watermark of a log. Cheap to clone.
#[derive(Clone)]
pub struct Durable {
    shared: Arc<DurableShared>,
}

struct DurableShared {
    /// Written under the lock of `ledger` alone; a mirror for those who only look.
    lsn: AtomicU64,
    ledger: Mutex<Ledger>,
    moved: Condvar,
    wakers: RwLock<Vec<Waker>>,
}

/// How far a block has come.
#[derive(Clone, Debug)]
pub(super) enum Progress {
    /// A flight has it.
    Writing,
    /// The operating system has it.
    Written,
    /// The device has it, but not all before it.
    Durable,
    /// It could not be written; these are its bytes.
    Failed(Arc<Vec<u8>>),
}

/// A block that is not below the watermark yet.
#[derive(Clone, Debug)]
pub(super) struct Pending {
    pub(super) sequence: u64,
    pub(super) first: Lsn,
    pub(super) last: Lsn,
    pub(super) file: Arc<LogFile>,
    pub(super) offset: u64,
    pub(super) length: u64,
    pub(super) progress: Progress,
    /// When its records were taken from the buffer, on the log's clock.
    pub(super) taken_at: Duration,
}

#[derive(Debug, Default)]
struct Ledger {
    durable: u64,
    pending: VecDeque<Pending>,
    stop: Option<LogError>,
}

impl Durable {
    /// A watermark at the block `sequence`, whose last record is `lsn`.
    pub(super) fn new(sequence: u64, lsn: Lsn) -> Durable {
        let ledger = Mutex::new(Ledger { durable: sequence, ..Ledger::default() });
        let shared = DurableShared {
            lsn: AtomicU64::new(lsn.0),
            ledger,
            moved: Condvar::new(),
            wakers: RwLock::default(),
        };
        Durable { shared: Arc::new(shared) }
    }

    /// All records up to this one are durable.
    pub fn lsn(&self) -> Lsn {
        // Pairs with the release in `advance`.
        Lsn(self.shared.lsn.load(Ordering::Acquire))
    }

    /// Adds a waker; it stays for the life of the log.
    pub fn subscribe(&self, waker: Waker) {
        self.shared.wakers.write().push(waker);
    }

    /// Blocks until the record is durable, or the log fails or closes. For tests and the end of a process,
    /// not for workers: unless the mode is `Always` or `EverySec` this may wait for ever.
    pub fn wait_for(&self, lsn: Lsn) -> Result<(), LogError> {
        let mut ledger = self.shared.ledger.lock();
        loop {
            if self.lsn() >= lsn {
                return Ok(());
            }
            if let Some(error) = &ledger.stop {
                return Err(error.clone());
            }
            self.shared.moved.wait(&mut ledger);
        }
    }

    /// Like [`Durable::wait_for`], but gives up after a moment without saying so.
    pub(super) fn wait_a_while_for(&self, lsn: Lsn) -> Result<(), LogError> {
        let mut ledger = self.shared.ledger.lock();
        if self.lsn() < lsn {
            if let Some(error) = &ledger.stop {
                return Err(error.clone());
            }
            self.shared.moved.wait_for(&mut ledger, A_WHILE);
        }
        Ok(())
    }

    /// The highest block such that it and all before it are durable.
    pub(super) fn sequence(&self) -> u64 {
        self.shared.ledger.lock().durable
    }

    /// Enters a block that a flight is about to write; says what is durable.
    pub(super) fn enter(&self, pending: Pending) -> u64 {
        let mut ledger = self.shared.ledger.lock();
        debug_assert_eq!(pending.sequence, ledger.durable + ledger.pending.len() as u64 + 1);
        ledger.pending.push_back(pending);
        ledger.durable
    }

    /// Notes how far a block has come.
    pub(super) fn note(&self, sequence: u64, progress: Progress) {
        let mut ledger = self.shared.ledger.lock();
        if let Some(pending) = ledger.get(sequence) {
            pending.progress = progress;
        }
    }

    /// The blocks of a file that the operating system has and the device may not have.
    pub(super) fn written_in(&self, file: &LogFile) -> Vec<u64> {
        let ledger = self.shared.ledger.lock();
        let written = |pending: &&Pending| {
            pending.file.header.file_id == file.header.file_id
                && matches!(pending.progress, Progress::Written)
        };
        ledger.pending.iter().filter(written).map(|pending| pending.sequence).collect()
    }

    /// The files that [`Durable::written_in`] would find blocks in.
    pub(super) fn files_written(&self) -> Vec<Arc<LogFile>> {
        let ledger = self.shared.ledger.lock();
        let mut files: Vec<Arc<LogFile>> = Vec::new();
        for pending in ledger.pending.iter().filter(|pending| matches!(pending.progress, Progress::Written)) {
            if !files.iter().any(|file| Arc::ptr_eq(file, &pending.file)) {
                files.push(pending.file.clone());
            }
        }
        files
    }

    /// Whether a flight is still writing to the file, or failed to.
    pub(super) fn writes_in(&self, file: &LogFile) -> bool {
        let ledger = self.shared.ledger.lock();
        ledger.pending.iter().any(|pending| {
            pending.file.header.file_id == file.header.file_id
                && matches!(pending.progress, Progress::Writing | Progress::Failed(_))
        })
    }

    /// Notes that these blocks are durable, moves the watermark as far as it goes, and wakes.
    pub(super) fn settle(&self, sequences: &[u64]) {
        let mut ledger = self.shared.ledger.lock();
        for sequence in sequences {
            if let Some(pending) = ledger.get(*sequence) {
                pending.progress = Progress::Durable;
            }
        }
        let mut last = None;
        while let Some(Pending { progress: Progress::Durable, .. }) = ledger.pending.front() {
            last = ledger.pending.pop_front();
            ledger.durable += 1;
        }
        let Some(last) = last else { return };
        // Pairs with the acquire in `lsn`.
        self.shared.lsn.store(last.last.0, Ordering::Release);
        drop(ledger);
        self.wake();
    }

    /// Says that the log has failed or closed, or works again. Who waits is to be woken after that.
    ///
    /// Whoever changes the state of the log says so here before he unlocks it: who comes between would have
    /// the last word about a state that is not the last.
    pub(super) fn set_stop(&self, stop: Option<LogError>) {
        self.shared.ledger.lock().stop = stop;
    }

    /// What [`Durable::set_stop`] said last.
    pub(super) fn stopped(&self) -> Option<LogError> {
        self.shared.ledger.lock().stop.clone()
    }

    /// The highest block such that it and all before it are durable, its last record, and what is pending.
    pub(super) fn standing(&self) -> (u64, Lsn, Vec<Pending>) {
        let ledger = self.shared.ledger.lock();
        (ledger.durable, self.lsn(), ledger.pending.iter().cloned().collect())
    }

    /// What is pending, in order.
    pub(super) fn pending(&self) -> Vec<Pending> {
        self.shared.ledger.lock().pending.iter().cloned().collect()
    }

    /// When the oldest block that is not durable was taken from the buffer.
    pub(super) fn oldest_taken_at(&self) -> Option<Duration> {
        let ledger = self.shared.ledger.lock();
        ledger.pending.front().map(|pending| pending.taken_at)
    }

    /// How many blocks flights have now.
    pub(super) fn writing(&self) -> usize {
        let ledger = self.shared.ledger.lock();
        ledger.pending.iter().filter(|pending| matches!(pending.progress, Progress::Writing)).count()
    }

    /// Wakes all who wait. REQUIRES: the log is not locked.
    pub(super) fn wake(&self) {
        self.shared.moved.notify_all();
        for waker in self.shared.wakers.read().iter() {
            waker();
        }
    }
}

impl Ledger {
    fn get(&mut self, sequence: u64) -> Option<&mut Pending> {
        let index = sequence.checked_sub(self.durable + 1)?;
        self.pending.get_mut(usize::try_from(index).ok()?)
    }
}

impl fmt::Debug for Durable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Durable").field("lsn", &self.lsn()).finish_non_exhaustive()
    }
}
