//! The write path between appenders and log writer threads: the write buffer, and the places of the next
//! blocks.
//!
//! ```text
//!  workers --append--> [ active buffer ] --take--> flight 1 --write, sync--> directory 0, current file
//!                                            +---> flight 2 ---------------> directory 0
//!                                            +---> flight 3 ---------------> directory 1 …
//! ```
//!
//! One lock covers the buffer, the next numbers and the places. A flight that takes the buffer gets, in one
//! step, the block's sequence and its place; so in each directory sequences rise with the place. Lock order:
//! `voids`, which only a compaction locks, before `active`; `active` before the ledger of [`Durable`] and
//! before `closed`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::buffer::{Buffer, Buffers};
use super::counters::{Counters, Packing};
use super::durable::{Durable, Pending, Progress, Released, Standing, Waker};
use crate::io::{Clock, Closer, Disk, DiskError};
use crate::lock::{Condvar, Mutex, RwLock, rank};
use crate::log::block::padded_length;
use crate::log::closed::{ClosedFile, Contents};
use crate::log::error::LogError;
use crate::log::file::{Era, FileTemplate, LogFile};
use crate::log::format::{BLOCK_ALIGN_BYTES, BLOCK_CLAIM, BLOCK_HEADER_BYTES, FILE_HEADER_BYTES};
use crate::log::options::{Compression, LogOptions, SyncMode};
use crate::log::sizes::Sizes;
use crate::log::threads::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use crate::log::voids::Voids;
use crate::record::{Lsn, UnixMs};

/// Bytes in the active buffer that are written without waiting for more, when nobody waits for the disk.
pub(in crate::log) const BATCH_BYTES: usize = 256 << 10;
/// Blocks of `Always` begin at sectors, so that no write touches a sector that holds durable bytes.
pub(in crate::log) const SECTOR_BYTES: usize = 512;
/// Buffers that are kept for use again, how large all of them may be, and the capacity above which one is not
/// kept.
const SPARES_MAX: usize = 256;
const SPARES_BYTES_MAX: usize = 32 << 20;
const SPARE_BYTES_MAX: usize = 4 << 20;

/// The state that appenders, flights and the keeper share.
pub(in crate::log) struct Pipeline {
    pub(in crate::log) disk: Arc<dyn Disk>,
    pub(in crate::log) clock: Arc<dyn Clock>,
    pub(in crate::log) durable: Durable,
    pub(in crate::log) active: Mutex<Active, rank::Appender>,
    /// A flight may have something to do.
    pub(in crate::log) work: Condvar,
    /// The collecting flight need not wait for more.
    pub(in crate::log) full: Condvar,
    /// The keeper may have something to do; used with `active`.
    pub(in crate::log) chores: Condvar,
    mode: AtomicU8,
    compression: AtomicU8,
    pub(in crate::log) packing: Packing,
    /// The memory of blocks.
    pub(in crate::log) buffers: Buffers,
    /// Somebody waits, whatever the mode, until all up to this `Lsn` is durable.
    demanded: AtomicU64,
    /// Somebody wants what is there to be synced within a second, whatever the mode.
    pub(in crate::log) wants_sync: AtomicBool,
    pub(in crate::log) template: FileTemplate,
    pub(in crate::log) sizes: Sizes,
    backlog_bytes_limit: usize,
    bytes_accepted: AtomicU64,
    bytes_written: AtomicU64,
    /// The backlog has passed its limit and not come down to half of it since.
    congested: AtomicBool,
    room: RwLock<Vec<Waker>>,
    /// The work done, by directory.
    pub(in crate::log) counters: Box<[Counters]>,
    /// How often the log has failed.
    pub(in crate::log) failures: AtomicU64,
    /// The last error of a disk, and when it happened.
    pub(in crate::log) last_error: Mutex<Option<(UnixMs, String)>>,
    /// The files that are written to no more, by directory and number.
    pub(in crate::log) closed: Mutex<Vec<ClosedFile>>,
    /// Files whose records are in a compacted one, and which the disk has not removed yet; and their
    /// directory.
    pub(in crate::log) obsolete: Mutex<Vec<(usize, Arc<Path>)>>,
    /// Where compactions met bytes that the disk did not give: the ids of files that are written to no more,
    /// and offsets in them.
    pub(in crate::log) unread: Mutex<BTreeSet<(u64, u64)>>,
    /// The dropped ranges of blocks that the files record. Locked for as long as a compaction takes.
    pub(in crate::log) voids: Mutex<Voids, rank::GoneBlocks>,
    /// The log begins behind this record.
    pub(in crate::log) base: Lsn,
    /// Closes the files that compacted ones have replaced.
    pub(in crate::log) closer: Closer,
    /// The epoch in which the log was opened.
    pub(in crate::log) opened_in: u64,
}

/// The state that the lock of the appenders covers.
pub(in crate::log) struct Active {
    /// Room for a block's header, and the records that no flight has taken yet.
    pub(in crate::log) buffer: Buffer,
    pub(in crate::log) count: u32,
    pub(in crate::log) next: Lsn,
    pub(in crate::log) next_sequence: u64,
    pub(in crate::log) lanes: Vec<Lane>,
    pub(in crate::log) state: State,
    /// A flight waits for more records to come.
    pub(in crate::log) collecting: bool,
    /// Records that flights carry.
    pub(in crate::log) in_air: u64,
    /// A flight has been woken for what is in the buffer, and has not taken it yet.
    pub(in crate::log) called: bool,
    /// Somebody wants everything written and synced now; counts such wishes.
    pub(in crate::log) hurry: u64,
    /// Flights that wait for work.
    pub(in crate::log) idle: usize,
    /// Files that are full and not yet cut and synced.
    pub(in crate::log) leaving: Vec<Leaving>,
    /// The last block is empty and says that all before it are durable, or will be.
    pub(in crate::log) claimed: bool,
    /// Since when no directory could take what is in the buffer.
    pub(in crate::log) kept_back_since: Option<Duration>,
    pub(in crate::log) epoch: u64,
    /// The highest epoch that any file may have.
    pub(in crate::log) epoch_tried: u64,
    pub(in crate::log) opened_after: u64,
    pub(in crate::log) epoch_first: Lsn,
    pub(in crate::log) era: Era,
    buffers: Buffers,
    spares: Vec<Buffer>,
    /// Their capacity.
    spares_bytes: usize,
    /// Where a rescue began whose file may have got its name, although the attempt failed: all that follow
    /// begin there too.
    pub(in crate::log) rescued_from: Option<Standing>,
}

/// A directory and where in it the next block goes.
pub(in crate::log) struct Lane {
    pub(in crate::log) directory: PathBuf,
    /// `None` from the start of an epoch until the first file of it is ready.
    pub(in crate::log) current: Option<Arc<LogFile>>,
    pub(in crate::log) offset: u64,
    /// The contents of the current file, written or on their way there.
    pub(in crate::log) contents: Contents,
    pub(in crate::log) next: Option<Arc<LogFile>>,
    pub(in crate::log) next_number: u64,
    /// Why the next file could not be made ready when it was tried last.
    pub(in crate::log) trouble: Option<Arc<DiskError>>,
    /// It is being made ready.
    pub(in crate::log) preparing: bool,
    /// Flights of this directory that wait for work.
    pub(in crate::log) idle: usize,
}

/// A file that is written to no more.
#[derive(Clone, Debug)]
pub(in crate::log) struct Leaving {
    pub(in crate::log) file: Arc<LogFile>,
    pub(in crate::log) length: u64,
    pub(in crate::log) contents: Contents,
}

/// Whether the log takes records.
#[derive(Clone, Debug)]
pub(in crate::log) enum State {
    /// There is no disk: records get their numbers and nothing else.
    Unlogged,
    Running,
    /// Since when, and why.
    Failed(UnixMs, LogError),
    /// Appended records are still written; no more are taken.
    Closing,
    Closed,
}

/// A block to write: taken from the active buffer, with its number and its place.
#[derive(Debug)]
pub(in crate::log) struct Taken {
    pub(in crate::log) bytes: Buffer,
    /// Bytes of its records, as they were taken.
    pub(in crate::log) body_bytes: u64,
    pub(in crate::log) file: Arc<LogFile>,
    pub(in crate::log) offset: u64,
    pub(in crate::log) sequence: u64,
    pub(in crate::log) first: Lsn,
    pub(in crate::log) count: u32,
    pub(in crate::log) durable: u64,
    pub(in crate::log) length: u64,
    /// By so much compression has made it shorter.
    pub(in crate::log) saved: u64,
    pub(in crate::log) flags: u32,
    /// The next block begins at a multiple of it.
    pub(in crate::log) align: usize,
}

impl Pipeline {
    pub(in crate::log) fn new(
        disk: Arc<dyn Disk>,
        durable: Durable,
        active: Active,
        template: FileTemplate,
        options: &LogOptions,
    ) -> Pipeline {
        let opened_in = active.epoch;
        let counters = active.lanes.iter().map(|_| Counters::default()).collect();
        let buffers = active.buffers.clone();
        Pipeline {
            disk,
            clock: options.clock.clone(),
            durable,
            active: Mutex::new(active),
            work: Condvar::new(),
            full: Condvar::new(),
            chores: Condvar::new(),
            mode: AtomicU8::new(options.mode as u8),
            compression: AtomicU8::new(options.compression as u8),
            packing: Packing::default(),
            buffers,
            demanded: AtomicU64::new(0),
            wants_sync: AtomicBool::new(false),
            template,
            sizes: options.sizes,
            backlog_bytes_limit: options.backlog_bytes_limit,
            bytes_accepted: AtomicU64::new(0),
            bytes_written: AtomicU64::new(0),
            congested: AtomicBool::new(false),
            room: RwLock::default(),
            counters,
            failures: AtomicU64::new(0),
            last_error: Mutex::default(),
            closed: Mutex::default(),
            obsolete: Mutex::default(),
            unread: Mutex::default(),
            voids: Mutex::default(),
            base: options.base,
            closer: Closer::default(),
            opened_in,
        }
    }

    pub(in crate::log) fn mode(&self) -> SyncMode {
        SyncMode::from_u8(self.mode.load(Ordering::SeqCst))
    }

    pub(in crate::log) fn set_mode(&self, mode: SyncMode) {
        self.mode.store(mode as u8, Ordering::SeqCst);
        // What was written under the old mode is synced by the keeper; a flight that finishes now looks at
        // the mode again.
        self.hurry();
    }

    /// How blocks are written from now on.
    pub(in crate::log) fn compression(&self) -> Compression {
        Compression::from_u8(self.compression.load(Ordering::Relaxed))
    }

    pub(in crate::log) fn set_compression(&self, compression: Compression) {
        self.compression.store(compression as u8, Ordering::Relaxed);
    }

    /// Has everything up to `lsn` made durable as under `Always`.
    pub(in crate::log) fn demand(&self, lsn: Lsn) {
        // Before the look of a flight that has just written the record, or the sync that is called for here
        // finds it written.
        if self.demanded.fetch_max(lsn.0, Ordering::SeqCst) < lsn.0 && self.durable.lsn() < lsn {
            self.hurry();
        }
    }

    /// Whether a flight syncs a block that begins with this record itself.
    pub(in crate::log) fn syncs_at_once(&self, first: Lsn) -> bool {
        self.mode() == SyncMode::Always || self.demanded.load(Ordering::SeqCst) >= first.0
    }

    /// Has everything written and synced soon, whatever the mode.
    pub(in crate::log) fn hurry(&self) {
        let mut active = self.active.lock();
        active.hurry += 1;
        self.full.notify_all();
        self.work.notify_all();
        self.chores.notify_all();
    }

    pub(in crate::log) fn backlog_bytes(&self) -> u64 {
        // Written is read first: it never passes accepted.
        let written = self.bytes_written.load(Ordering::SeqCst);
        self.bytes_accepted.load(Ordering::Acquire).saturating_sub(written)
    }

    /// Whether the backlog is not beyond its limit, or has come down to half of it since it was.
    pub(in crate::log) fn has_room(&self) -> bool {
        !self.congested.load(Ordering::Relaxed)
    }

    pub(in crate::log) fn subscribe_room(&self, waker: Waker) {
        self.room.write().push(waker);
    }

    /// Whether a group of `bytes` is taken: unless twice the limit waits already. REQUIRES: `active` is
    /// locked, and the log has not failed.
    pub(in crate::log) fn admits(&self, bytes: usize) -> bool {
        let (backlog, limit) = (self.backlog_bytes(), self.backlog_bytes_limit as u64);
        if backlog + bytes as u64 <= limit {
            return true;
        }
        self.congested.store(true, Ordering::SeqCst);
        // The flights may have written everything before they could see this.
        self.note_room();
        backlog == 0 || backlog < 2 * limit
    }

    /// Whether a flight should take what is in the active buffer. When replies wait for the disk, what has
    /// gathered leaves beside other flights only if it is half as much as they carry: else it is faster to
    /// let more gather, as each flight costs processor time and a turn of the device.
    pub(in crate::log) fn may_leave(&self, active: &Active) -> bool {
        let gathered = u64::from(active.count);
        let crowded = self.mode() == SyncMode::Always && matches!(active.state, State::Running);
        gathered > 0 && !(crowded && gathered * 2 < active.in_air)
    }

    /// Wakes a flight that has nothing to do for what is in the active buffer.
    pub(in crate::log) fn call_flight(&self, active: &mut Active) {
        if active.idle > 0 && !active.called && !active.collecting && self.may_leave(active) {
            active.called = true;
            self.work.notify_one();
        }
    }

    /// Counts bytes that came into the active buffer. REQUIRES: `active` is locked, so nobody else adds.
    pub(in crate::log) fn accepted(&self, bytes: usize) {
        let accepted = self.bytes_accepted.load(Ordering::Relaxed);
        self.bytes_accepted.store(accepted + bytes as u64, Ordering::Release);
    }

    /// Counts records that have left memory, and tells those who wait for room.
    pub(in crate::log) fn written(&self, bytes: u64) {
        self.bytes_written.fetch_add(bytes, Ordering::SeqCst);
        self.note_room();
    }

    /// Bytes of records taken since the log was opened.
    pub(in crate::log) fn bytes_accepted(&self) -> u64 {
        self.bytes_accepted.load(Ordering::Acquire)
    }

    fn note_room(&self) {
        if self.backlog_bytes() <= self.backlog_bytes_limit as u64 / 2 {
            self.end_congestion();
        }
    }

    fn end_congestion(&self) {
        if self.congested.swap(false, Ordering::SeqCst) {
            for waker in self.room.read().iter() {
                waker();
            }
        }
    }

    /// Takes the whole active buffer as the next block of a directory. `None` if there is nothing to take,
    /// the log has failed, or the directory has no file to go on in yet.
    pub(in crate::log) fn take(&self, active: &mut Active, lane: usize, flags: u32) -> Option<Taken> {
        if active.count == 0 && flags == 0 || !active.is_written() {
            return None;
        }
        let align = self.align();
        let body_bytes = (active.buffer.len() - BLOCK_HEADER_BYTES) as u64;
        let (file, offset, length) = active.place(lane, align)?;
        let spare = active.spares.pop().unwrap_or_else(|| self.buffers.with(vec![0; BLOCK_HEADER_BYTES]));
        active.spares_bytes = active.spares_bytes.saturating_sub(spare.capacity());
        let bytes = std::mem::replace(&mut active.buffer, spare);
        // The last block of a log that is being closed lets the other threads end.
        if !active.leaving.is_empty() || matches!(active.state, State::Closing) {
            self.chores.notify_all();
        }
        let count = std::mem::take(&mut active.count);
        active.called = false;
        let sequence = active.next_sequence;
        active.next_sequence += 1;
        active.claimed = flags & BLOCK_CLAIM != 0;
        let first = Lsn(active.next.0 - u64::from(count));
        let last = Lsn(active.next.0 - 1);
        active.lanes[lane].contents.add(sequence, first, last);
        active.kept_back_since = None;
        let (progress, taken_at, saved) = (Progress::Writing, self.clock.monotonic(), 0);
        let durable = self.durable.enter(Pending {
            sequence,
            first,
            last,
            file: file.clone(),
            offset,
            length,
            saved,
            progress,
            bytes: None,
            taken_at,
        });
        Some(Taken {
            bytes,
            body_bytes,
            file,
            offset,
            sequence,
            first,
            count,
            durable,
            length,
            saved,
            flags,
            align,
        })
    }

    /// Whether a directory could take the active buffer, of those with an idle flight or of all. None could
    /// while the log has failed.
    pub(in crate::log) fn can_take(&self, active: &Active, with_idle_flight: bool) -> bool {
        let (bytes, align) = (active.buffer.len(), self.align());
        active.is_written()
            && active.lanes.iter().any(|lane| {
                (lane.idle > 0 || !with_idle_flight)
                    && (lane.next.is_some() || !lane.is_full_for(bytes, align))
            })
    }

    fn align(&self) -> usize {
        if self.mode() == SyncMode::Always { SECTOR_BYTES } else { BLOCK_ALIGN_BYTES }
    }

    /// Refuses records from now on. Only the first cause is kept.
    pub(in crate::log) fn fail(&self, error: impl Into<Arc<DiskError>>) {
        let mut active = self.active.lock();
        let error = LogError::Failed(error.into());
        active.state = match active.state {
            State::Running => State::Failed(self.clock.unix_ms(), error.clone()),
            // There is no time left to recover.
            State::Closing => State::Closed,
            _ => return,
        };
        self.durable.set_stop(Some(error));
        self.failures.fetch_add(1, Ordering::Relaxed);
        self.work.notify_all();
        self.chores.notify_all();
        drop(active);
        // Who waits for room shall hear the error instead.
        self.end_congestion();
        self.durable.wake();
    }

    /// Notes that the operating system has a block, and keeps its bytes until the device has it.
    pub(in crate::log) fn keep_until_settled(&self, sequence: u64, first: Lsn, bytes: Buffer) {
        if self.syncs_at_once(first) {
            // They are few: a flight stays with its block until it is durable.
            let (released, _) = self.durable.note(sequence, Progress::Written, bytes, usize::MAX);
            return self.give_back(released);
        }
        let length = bytes.len();
        // Many small blocks may wait for long, each in a buffer that was large once.
        let (kept, spare) = if bytes.capacity() > 2 * length {
            (self.buffers.with(bytes.to_vec()), Some(Arc::new(bytes)))
        } else {
            (bytes, None)
        };
        let (mut released, _) = self.durable.note(sequence, Progress::Written, kept, self.sizes.kept_bytes);
        released.extend(spare);
        self.give_back(released);
    }

    /// Notes that these blocks are durable.
    pub(in crate::log) fn settle(&self, sequences: &[u64]) {
        let released = self.durable.settle(sequences, self.sizes.kept_bytes);
        self.give_back(released);
    }

    /// Gives buffers back.
    pub(in crate::log) fn give_back(&self, released: Released) {
        // A thread that rescues a block still has it.
        let buffers = released.into_iter().filter_map(|bytes| Arc::try_unwrap(bytes).ok());
        let mut buffers: Vec<_> = buffers.filter(|bytes| bytes.capacity() <= SPARE_BYTES_MAX).collect();
        if buffers.is_empty() {
            return;
        }
        // What there is no room for is freed when it is unlocked.
        let mut active = self.active.lock();
        while active.spares.len() < SPARES_MAX
            && let Some(mut bytes) =
                buffers.pop_if(|bytes| active.spares_bytes + bytes.capacity() <= SPARES_BYTES_MAX)
        {
            bytes.change(|bytes| bytes.resize(BLOCK_HEADER_BYTES, 0));
            active.spares_bytes += bytes.capacity();
            active.spares.push(bytes);
        }
    }
}

impl Active {
    pub(in crate::log) fn new(next: Lsn, next_sequence: u64, lanes: Vec<Lane>, state: State) -> Active {
        let buffers = Buffers::default();
        Active {
            buffer: buffers.with(vec![0; BLOCK_HEADER_BYTES]),
            buffers,
            count: 0,
            next,
            next_sequence,
            lanes,
            state,
            collecting: false,
            called: false,
            in_air: 0,
            hurry: 0,
            idle: 0,
            leaving: Vec::new(),
            claimed: false,
            kept_back_since: None,
            epoch: 0,
            epoch_tried: 0,
            opened_after: 0,
            epoch_first: next,
            era: Era::default(),
            spares: Vec::new(),
            spares_bytes: 0,
            rescued_from: None,
        }
    }

    /// Whether what was appended is written now.
    fn is_written(&self) -> bool {
        matches!(self.state, State::Running | State::Closing)
    }

    /// Whether nothing will be written any more by flights.
    pub(in crate::log) fn is_over(&self) -> bool {
        match self.state {
            State::Closing => self.count == 0,
            State::Closed | State::Unlogged => true,
            State::Running | State::Failed(..) => false,
        }
    }

    /// Leaves the file of a directory for the next one; `false` if that is not ready.
    fn go_on(&mut self, lane: usize) -> bool {
        let lane = &mut self.lanes[lane];
        let Some(next) = lane.next.take() else { return false };
        let contents = std::mem::take(&mut lane.contents);
        if let Some(file) = lane.current.replace(next) {
            self.leaving.push(Leaving { file, length: lane.offset, contents });
        }
        lane.offset = FILE_HEADER_BYTES as u64;
        true
    }

    /// Leaves the files that hold records up to `lsn` for the next ones. Says whether there is nothing to
    /// wait for: all of them are cut and synced. A directory that gets no next file keeps its own.
    pub(in crate::log) fn leave_records(&mut self, lsn: Lsn) -> bool {
        let has_some = |contents: &Contents| contents.lsns().is_some_and(|(first, _)| first <= lsn);
        let mut waits = false;
        for lane in 0..self.lanes.len() {
            let stays = has_some(&self.lanes[lane].contents) && !self.go_on(lane);
            waits |= stays && self.lanes[lane].trouble.is_none();
        }
        !waits && !self.leaving.iter().any(|leaving| has_some(&leaving.contents))
    }

    /// Finds the place of the next block in a directory, in the next file if it has to be.
    fn place(&mut self, lane: usize, align: usize) -> Option<(Arc<LogFile>, u64, u64)> {
        let bytes = self.buffer.len();
        if self.lanes[lane].is_full_for(bytes, align) && !self.go_on(lane) {
            return None;
        }
        let lane = &mut self.lanes[lane];
        let file = lane.current.clone()?;
        let offset = lane.offset;
        let length = padded_length(bytes, offset, align);
        lane.offset += length;
        Some((file, offset, length))
    }
}

impl Lane {
    /// Whether a block that begins with `bytes` bytes has to go to the next file.
    fn is_full_for(&self, bytes: usize, align: usize) -> bool {
        let Some(current) = &self.current else { return true };
        // A block that is larger than a file has one for itself. One without records is a mark, which goes
        // behind a full file: at the end of a log nobody makes the next one ready.
        let empty = self.offset == FILE_HEADER_BYTES as u64 || bytes == BLOCK_HEADER_BYTES;
        !empty && self.offset + padded_length(bytes, self.offset, align) > current.capacity
    }
}
