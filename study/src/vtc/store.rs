//! The store: entries in memory, and threads that write their log.
//!
//! **Order of locks.** A shard of the table; a device; the log. The walk of a compaction holds one shard at a
//! time, and a write holds its shard until it is in the log.

use std::path::PathBuf;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use crate::sync::{Condvar, Mutex, MutexGuard};

use super::device::Device;
use super::error::VtcError;
use super::format::{Block, VALUE_BYTES_LIMIT};
use super::log::{Log, LogFile};
use super::positions::{Position, Positions};
use super::table::{Entry, Table, lock};

/// Writes wait while more than this is on its way to the files.
const QUEUED_BYTES_LIMIT: usize = 64 << 20;

/// Where the log is, and how large things are.
#[derive(Clone, Debug)]
pub struct Options {
    /// Directories, one for each device.
    pub dirs: Vec<PathBuf>,
    /// A block that has as many bytes is full.
    pub block_bytes: usize,
    /// Entries that are expected.
    pub entries: usize,
}

impl Options {
    /// A log in these directories.
    pub fn new(dirs: Vec<PathBuf>) -> Options {
        Options { dirs, block_bytes: 256 << 10, entries: 1000 }
    }

    /// Files of the log: one for each directory, as in the thesis, and at least two. With one, there would be
    /// no file for new records while it is compacted.
    pub fn files(&self) -> usize {
        self.dirs.len().max(2)
    }

    pub(super) fn file(&self, number: usize) -> PathBuf {
        self.dirs[number % self.dirs.len()].join(format!("log-{number}.vtc"))
    }
}

/// Memory that tracking takes, in bytes, beside what a compaction takes ([`super::Compacted`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// A position in each entry.
    pub positions: usize,
    /// The bitmaps.
    pub bitmaps: usize,
}

/// Keyed records with a log. Any number of threads may write; the thesis has one worker.
#[derive(Debug)]
pub struct Store<P: Positions> {
    pub(super) table: Table<P::InShard>,
    log: Mutex<Log<P>>,
    pub(super) devices: Vec<Mutex<Device>>,
    /// Something changed for threads that wait.
    changed: Condvar,
}

impl<P: Positions> Store<P> {
    pub(super) fn of(table: Table<P::InShard>, log: Log<P>, devices: Vec<Device>) -> Store<P> {
        let devices = devices.into_iter().map(Mutex::new).collect();
        Store { table, log: Mutex::new(log), devices, changed: Condvar::new() }
    }

    /// Reads the value of a key, under its latch.
    pub fn get<R>(&self, key: u64, read: impl FnOnce(&[u8]) -> R) -> Option<R> {
        self.table.latch(key).entries.get(&key).map(|entry| read(&entry.value))
    }

    /// Gives a key a value. It is durable when [`Store::durable`] has reached the returned timestamp.
    pub fn put(&self, key: u64, value: &[u8]) -> Result<u64, VtcError> {
        if value.len() > VALUE_BYTES_LIMIT {
            return Err(VtcError::TooLong { bytes: value.len(), most: VALUE_BYTES_LIMIT });
        }
        self.wait_for_room()?;
        let mut shard = self.table.latch(key);
        let shard = &mut *shard;
        P::sweep(&mut shard.own);
        let (position, timestamp) = self.append(key, Some(value), &mut shard.own, || {
            shard.entries.get(&key).map(|entry| entry.position)
        })?;
        let entry = Entry { value: value.into(), position };
        // The old value is freed here: its memory does not wait for the walk of a compaction.
        shard.entries.insert(key, entry);
        Ok(timestamp)
    }

    /// Deletes a key. Returns the timestamp as [`Store::put`] does, or `None` if there was no such key.
    pub fn delete(&self, key: u64) -> Result<Option<u64>, VtcError> {
        self.wait_for_room()?;
        let mut shard = self.table.latch(key);
        let shard = &mut *shard;
        P::sweep(&mut shard.own);
        let Some(old) = shard.entries.get(&key).map(|entry| entry.position) else { return Ok(None) };
        let (_, timestamp) = self.append(key, None, &mut shard.own, || Some(old))?;
        shard.entries.remove(&key);
        Ok(Some(timestamp))
    }

    /// All blocks up to this timestamp are durable.
    pub fn durable(&self) -> u64 {
        self.lock_log().durable()
    }

    /// Bytes of records appended so far.
    pub fn appended_bytes(&self) -> u64 {
        self.lock_log().appended_bytes
    }

    /// For how long writes have waited in all until blocks were written to files (paper: write stalls).
    pub fn stalled(&self) -> Duration {
        self.lock_log().stalled
    }

    /// Files of the log.
    pub fn files(&self) -> usize {
        self.devices.len()
    }

    /// Records of a file, and how many of them are known to be superseded.
    pub fn records_of(&self, file: usize) -> (u64, u64) {
        let log = self.lock_log();
        (log.files[file].records, log.files[file].superseded)
    }

    /// Memory that tracking takes now.
    pub fn memory_use(&self) -> MemoryUse {
        let mut entries = 0;
        self.for_each(|_, _| entries += 1);
        let bitmaps = self.lock_log().positions.bitmap_bytes();
        MemoryUse { positions: entries * size_of::<Position>(), bitmaps }
    }

    /// Visits all entries, shard by shard.
    pub fn for_each(&self, mut visit: impl FnMut(u64, &[u8])) {
        let shards = (0..).map_while(|number| self.table.latch_shard(number));
        shards.for_each(|shard| shard.entries.iter().for_each(|(key, entry)| visit(*key, &entry.value)));
    }

    /// Writes blocks that wait for a file, at most so many, without syncing it. Returns their number.
    pub fn write(&self, file: usize, blocks_at_most: usize) -> Result<usize, VtcError> {
        let mut device = lock(&self.devices[file]);
        let blocks: Vec<Block> = {
            let mut log = self.lock_log();
            // What could not be written or synced must not become durable by a later sync.
            if log.has_failed {
                return Err(VtcError::Failed);
            }
            std::iter::from_fn(|| log.take_block(file)).take(blocks_at_most).collect()
        };
        let mut bytes = Vec::with_capacity(blocks.iter().map(Block::encoded_bytes).sum());
        blocks.iter().for_each(|block| block.encode(&mut bytes));
        device.write(&bytes).inspect_err(|_| self.fail())?;
        self.changed.notify_all();
        Ok(blocks.len())
    }

    /// Syncs what was written to a file.
    pub fn sync(&self, file: usize) -> Result<(), VtcError> {
        let mut device = lock(&self.devices[file]);
        // Blocks are taken with the device locked, so all of these are written, and no more come.
        let log = self.lock_log();
        if log.has_failed {
            return Err(VtcError::Failed);
        }
        let has_unsynced = !log.files[file].unsynced.is_empty();
        drop(log);
        if has_unsynced {
            device.sync().inspect_err(|_| self.fail())?;
            self.lock_log().synced(file);
            self.changed.notify_all();
        }
        Ok(())
    }

    /// Waits for blocks of a file, writes and syncs them. The body of a thread, one for each file. Returns
    /// false when the log is closed and nothing is left.
    pub fn flush(&self, file: usize) -> Result<bool, VtcError> {
        let mut log = self.lock_log();
        while !log.has_blocks(file) {
            if log.is_closed || log.has_failed {
                return Ok(false);
            }
            log = self.wait(log);
        }
        drop(log);
        self.write(file, usize::MAX)?;
        self.sync(file)?;
        Ok(true)
    }

    /// Takes no more writes. Threads that flush end when all is durable.
    pub fn close(&self) {
        self.lock_log().is_closed = true;
        self.changed.notify_all();
    }

    /// The file with most superseded records, if both their number and their share of its records have
    /// reached a threshold.
    ///
    /// paper: vtc §3.7.
    pub fn due(&self, superseded: u64, share: f64) -> Option<usize> {
        let log = self.lock_log();
        let is_due = |file: &&LogFile| {
            file.superseded >= superseded && file.superseded as f64 >= file.records as f64 * share
        };
        let due = log.files.iter().enumerate().filter(|(_, file)| is_due(file));
        due.max_by_key(|(_, file)| file.superseded).map(|(number, _)| number)
    }

    pub(super) fn lock_log(&self) -> MutexGuard<'_, Log<P>> {
        lock(&self.log)
    }

    /// Waits until something has changed.
    pub(super) fn wait<'g>(&self, log: MutexGuard<'g, Log<P>>) -> MutexGuard<'g, Log<P>> {
        self.changed.wait(log).unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes threads that wait.
    pub(super) fn notify(&self) {
        self.changed.notify_all();
    }

    /// A thread could not write: the log takes no more.
    pub(super) fn fail(&self) {
        self.lock_log().has_failed = true;
        self.changed.notify_all();
    }

    /// Appends a record and notes which one it supersedes, both under one lock: a compaction begins before
    /// or after.
    fn append(
        &self,
        key: u64,
        value: Option<&[u8]>,
        shard: &mut P::InShard,
        old: impl FnOnce() -> Option<Position>,
    ) -> Result<(Position, u64), VtcError> {
        let old = old();
        let mut log = self.lock_log();
        let (position, timestamp, is_work) = log.append(key, value)?;
        if let Some(old) = old {
            log.supersede(old, shard);
        }
        drop(log);
        if is_work {
            self.changed.notify_all();
        }
        Ok((position, timestamp))
    }

    fn wait_for_room(&self) -> Result<(), VtcError> {
        let mut log = self.lock_log();
        if log.queued_bytes > QUEUED_BYTES_LIMIT {
            let began = Instant::now();
            while log.queued_bytes > QUEUED_BYTES_LIMIT && !log.has_failed {
                log = self.wait(log);
            }
            log.stalled += began.elapsed();
        }
        if log.has_failed { Err(VtcError::Failed) } else { Ok(()) }
    }
}
