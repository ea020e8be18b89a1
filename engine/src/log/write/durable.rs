//! The blocks on their way to the disk, and the watermark: all records up to it are durable. Threads wait
//! here for their records.
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
use std::time::Duration;

use super::buffer::Buffer;
use crate::lock::{Condvar, Mutex, RwLock};
use crate::log::error::LogError;
use crate::log::file::LogFile;
use crate::log::threads::{AtomicU64, Ordering};
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
pub(in crate::log) enum Progress {
    /// A flight has it.
    Writing,
    /// The operating system has it.
    Written,
    /// The device has it, but not all before it.
    Durable,
    /// It could not be written.
    Failed,
}

/// A block that is not below the watermark yet.
#[derive(Clone, Debug)]
pub(in crate::log) struct Pending {
    pub(in crate::log) sequence: u64,
    pub(in crate::log) first: Lsn,
    pub(in crate::log) last: Lsn,
    pub(in crate::log) file: Arc<LogFile>,
    pub(in crate::log) offset: u64,
    pub(in crate::log) length: u64,
    /// By so much compression has made it shorter.
    pub(in crate::log) saved: u64,
    pub(in crate::log) progress: Progress,
    /// The bytes that were written, or were meant to be. A thread that writes them again need not read them
    /// back: a file system may drop what a failed sync was to make durable. `None` while a flight has them,
    /// and where too much would have to be kept.
    pub(in crate::log) bytes: Option<Arc<Buffer>>,
    /// When its records were taken from the buffer, on the log's clock.
    pub(in crate::log) taken_at: Duration,
}

#[derive(Debug, Default)]
struct Ledger {
    durable: u64,
    pending: VecDeque<Pending>,
    /// How many bytes of the pending blocks are kept.
    kept_bytes: usize,
    /// Of blocks before this one, which are written, no bytes are kept. One that a flight still had when this
    /// went past it takes it back.
    kept_from: u64,
    stop: Option<LogError>,
}

/// The state of the blocks at one instant.
#[derive(Clone, Debug)]
pub(in crate::log) struct Standing {
    /// The highest block such that it and all before it are durable.
    pub(in crate::log) sequence: u64,
    /// Its last record.
    pub(in crate::log) lsn: Lsn,
    /// The blocks behind it, in order.
    pub(in crate::log) pending: Vec<Pending>,
}

/// Buffers whose bytes nobody needs any more.
pub(in crate::log) type Released = Vec<Arc<Buffer>>;

impl Durable {
    /// A watermark at the block `sequence`, whose last record is `lsn`.
    pub(in crate::log) fn new(sequence: u64, lsn: Lsn) -> Durable {
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
    pub(in crate::log) fn wait_a_while_for(&self, lsn: Lsn) -> Result<(), LogError> {
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
    pub(in crate::log) fn sequence(&self) -> u64 {
        self.shared.ledger.lock().durable
    }

    /// Enters a block that a flight is about to write; says what is durable.
    pub(in crate::log) fn enter(&self, pending: Pending) -> u64 {
        let mut ledger = self.shared.ledger.lock();
        debug_assert_eq!(pending.sequence, ledger.durable + ledger.pending.len() as u64 + 1);
        ledger.pending.push_back(pending);
        ledger.durable
    }

    /// Notes that a block that a flight still has is shorter than its place was.
    pub(in crate::log) fn shorten(&self, sequence: u64, length: u64) {
        if let Some(pending) = self.shared.ledger.lock().get(sequence) {
            (pending.saved, pending.length) = (pending.length - length, length);
        }
    }

    /// Notes how far a block has come that a flight has let go, and keeps its bytes until it is settled. If
    /// with them more than `keep_max` are kept, the oldest are not. Returns what is not kept, and how many
    /// bytes are.
    pub(in crate::log) fn note(
        &self,
        sequence: u64,
        progress: Progress,
        bytes: Buffer,
        keep_max: usize,
    ) -> (Released, usize) {
        let bytes = Arc::new(bytes);
        let mut released = Vec::new();
        let mut ledger = self.shared.ledger.lock();
        match ledger.get(sequence) {
            Some(pending) => {
                pending.progress = progress;
                pending.bytes = Some(bytes.clone());
                ledger.kept_bytes += bytes.len();
                ledger.kept_from = ledger.kept_from.min(sequence);
            }
            None => released.push(bytes),
        }
        if ledger.kept_bytes > keep_max {
            ledger.release_down_to(keep_max, &mut released);
        }
        (released, ledger.kept_bytes)
    }

    /// The blocks of a file that the operating system has and the device may not have.
    pub(in crate::log) fn written_in(&self, file: &LogFile) -> Vec<u64> {
        let ledger = self.shared.ledger.lock();
        let written = |pending: &&Pending| {
            pending.file.header.file_id == file.header.file_id
                && matches!(pending.progress, Progress::Written)
        };
        ledger.pending.iter().filter(written).map(|pending| pending.sequence).collect()
    }

    /// The files that [`Durable::written_in`] would find blocks in.
    pub(in crate::log) fn files_written(&self) -> Vec<Arc<LogFile>> {
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
    pub(in crate::log) fn writes_in(&self, file: &LogFile) -> bool {
        let ledger = self.shared.ledger.lock();
        ledger.pending.iter().any(|pending| {
            pending.file.header.file_id == file.header.file_id
                && matches!(pending.progress, Progress::Writing | Progress::Failed)
        })
    }

    /// Notes that these blocks are durable, moves the watermark as far as it goes, and wakes. If more than
    /// `keep_max` bytes are kept, those of blocks above the watermark are not: they can be read back. Returns
    /// what is not kept.
    pub(in crate::log) fn settle(&self, sequences: &[u64], keep_max: usize) -> Released {
        let mut ledger = self.shared.ledger.lock();
        let (mut last, mut released) = (None, Vec::new());
        for sequence in sequences {
            let is_too_much = ledger.kept_bytes > keep_max;
            let Some(pending) = ledger.get(*sequence) else { continue };
            pending.progress = Progress::Durable;
            if let Some(bytes) = pending.bytes.take_if(|_| is_too_much) {
                ledger.kept_bytes -= bytes.len();
                released.push(bytes);
            }
        }
        while let Some(settled) =
            ledger.pending.pop_front_if(|pending| matches!(pending.progress, Progress::Durable))
        {
            ledger.durable += 1;
            ledger.kept_bytes -= settled.bytes.as_ref().map_or(0, |bytes| bytes.len());
            released.extend(settled.bytes);
            last = Some(settled.last);
        }
        let Some(last) = last else { return released };
        // Pairs with the acquire in `lsn`.
        self.shared.lsn.store(last.0, Ordering::Release);
        drop(ledger);
        self.wake();
        released
    }

    /// Says that the log has failed or closed, or works again. Waiting threads are to be woken after that.
    ///
    /// A thread that changes the state of the log says so here before it unlocks it. Otherwise another
    /// thread in between would have the last word about a state that is not the last.
    pub(in crate::log) fn set_stop(&self, stop: Option<LogError>) {
        self.shared.ledger.lock().stop = stop;
    }

    /// The last argument of [`Durable::set_stop`].
    pub(in crate::log) fn stopped(&self) -> Option<LogError> {
        self.shared.ledger.lock().stop.clone()
    }

    /// The durable and the pending blocks, in one look: a flight that syncs may move blocks from one to the
    /// other at any time.
    pub(in crate::log) fn standing(&self) -> Standing {
        let ledger = self.shared.ledger.lock();
        let pending = ledger.pending.iter().cloned().collect();
        Standing { sequence: ledger.durable, lsn: self.lsn(), pending }
    }

    /// When the oldest block that is not durable was taken from the buffer.
    pub(in crate::log) fn oldest_taken_at(&self) -> Option<Duration> {
        let ledger = self.shared.ledger.lock();
        ledger.pending.front().map(|pending| pending.taken_at)
    }

    /// How many blocks flights have now.
    pub(in crate::log) fn writing(&self) -> usize {
        let ledger = self.shared.ledger.lock();
        ledger.pending.iter().filter(|pending| matches!(pending.progress, Progress::Writing)).count()
    }

    /// Wakes all who wait. REQUIRES: the log is not locked.
    pub(in crate::log) fn wake(&self) {
        self.shared.moved.notify_all();
        for waker in self.shared.wakers.read().iter() {
            waker();
        }
    }
}

impl Ledger {
    /// Keeps no more than so many bytes: the newest, as the oldest are durable first. One that a flight still
    /// has may have it for long, and is passed over.
    fn release_down_to(&mut self, bytes_max: usize, released: &mut Released) {
        let start = self.kept_from.saturating_sub(self.durable + 1);
        for pending in self.pending.iter_mut().skip(usize::try_from(start).unwrap_or(usize::MAX)) {
            if self.kept_bytes <= bytes_max {
                return;
            }
            self.kept_from = pending.sequence + 1;
            // What could not be written is nowhere else.
            if let Some(bytes) = pending.bytes.take_if(|_| !matches!(pending.progress, Progress::Failed)) {
                self.kept_bytes -= bytes.len();
                released.push(bytes);
            }
        }
    }

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
