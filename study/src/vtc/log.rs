//! The state of the log: the open block, the blocks on their way to files, and what is durable.
//!
//! - Blocks have rising timestamps over all files. A block goes to one file, the files take turns, and the
//!   file under compaction is left out.
//! - `durable`: all blocks up to this timestamp are synced. What was written is safe from then on, and not
//!   when its own block is, because a start keeps blocks only up to the first that is missing.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use super::error::VtcError;
use super::format::{BLOCK_RECORDS_LIMIT, Block, put_record};
use super::positions::{Position, Positions};

#[derive(Debug)]
pub(super) struct Log<P> {
    pub positions: P,
    pub files: Vec<LogFile>,
    /// The block that is being filled, and its file.
    open: Option<(usize, Block)>,
    next_timestamp: u64,
    durable: u64,
    /// Blocks above `durable` that are synced.
    synced: BTreeSet<u64>,
    /// The file under compaction.
    pub compacting: Option<usize>,
    /// The file after that of the newest block.
    next_file: usize,
    block_bytes: usize,
    /// Bytes of blocks that are not written yet.
    pub queued_bytes: usize,
    /// Bytes of records that were appended, as they are in files.
    pub appended_bytes: u64,
    /// For how long writes have waited for `queued_bytes`.
    pub stalled: Duration,
    /// A thread could not write.
    pub has_failed: bool,
    /// Nothing is appended any more.
    pub is_closed: bool,
}

#[derive(Debug, Default)]
pub(super) struct LogFile {
    /// Blocks to write.
    queue: VecDeque<Block>,
    /// Timestamps of blocks that were taken from there, and are not synced.
    pub unsynced: Vec<u64>,
    /// The next block when its last compaction began; 0 if it had none (paper: compaction timestamp).
    pub timestamp: u64,
    /// Records that it has, those on their way to it too.
    pub records: u64,
    /// Those of them whose bit is set.
    pub superseded: u64,
}

impl<P: Positions> Log<P> {
    pub(super) fn new(files: usize, block_bytes: usize) -> Log<P> {
        Log {
            positions: P::new(files),
            files: (0..files).map(|_| LogFile::default()).collect(),
            open: None,
            next_timestamp: 1,
            durable: 0,
            synced: BTreeSet::new(),
            compacting: None,
            next_file: 0,
            block_bytes,
            queued_bytes: 0,
            appended_bytes: 0,
            stalled: Duration::ZERO,
            has_failed: false,
            is_closed: false,
        }
    }

    /// Continues after the last block that a start found.
    pub(super) fn continue_after(&mut self, timestamp: u64) {
        (self.durable, self.next_timestamp) = (timestamp, timestamp + 1);
    }

    /// The timestamp of the next block that is opened.
    pub(super) fn next_timestamp(&self) -> u64 {
        self.next_timestamp
    }

    /// All blocks up to here are durable.
    pub(super) fn durable(&self) -> u64 {
        self.durable
    }

    /// Notes that a record was superseded, whose shard is latched.
    pub(super) fn supersede(&mut self, old: Position, shard: &mut P::InShard) {
        if self.positions.supersede(old, shard) {
            self.files[old.file()].superseded += 1;
        }
    }

    /// Sets the bit of a record.
    pub(super) fn mark(&mut self, position: Position) {
        if self.positions.mark(position) {
            self.files[position.file()].superseded += 1;
        }
    }

    /// Appends a record; without a value a delete. Returns its position, the timestamp of its block, and
    /// whether threads that write may have something to do.
    pub(super) fn append(
        &mut self,
        key: u64,
        value: Option<&[u8]>,
    ) -> Result<(Position, u64, bool), VtcError> {
        if self.has_failed || self.is_closed {
            return Err(VtcError::Failed);
        }
        let is_new = self.open.is_none();
        if is_new {
            let file = self.turn();
            let body = Vec::with_capacity(self.block_bytes);
            let block = Block { timestamp: self.next_timestamp, first: 0, records: 0, body };
            self.open = Some((file, block));
            self.next_timestamp += 1;
        }
        let (file, block) = self.open.as_mut().expect("it was opened just now");
        let (file, number) = (*file, self.positions.next(*file));
        if is_new {
            block.first = number;
        }
        let offset = P::NUMBERED.then(|| (number - block.first) as u16);
        let bytes = block.body.len();
        put_record(&mut block.body, offset, key, value);
        block.records += 1;
        self.appended_bytes += (block.body.len() - bytes) as u64;
        let timestamp = block.timestamp;
        let is_full = block.body.len() >= self.block_bytes || block.records == BLOCK_RECORDS_LIMIT;
        self.files[file].records += 1;
        if is_full {
            self.seal();
        }
        Ok((Position::new(file, number), timestamp, is_new || is_full))
    }

    /// Closes the open block: it waits to be written.
    pub(super) fn seal(&mut self) {
        if let Some((file, block)) = self.open.take() {
            self.queued_bytes += block.encoded_bytes();
            self.files[file].queue.push_back(block);
        }
    }

    /// True if there is something to write to a file.
    pub(super) fn has_blocks(&self, file: usize) -> bool {
        !self.files[file].queue.is_empty() || self.open.as_ref().is_some_and(|(of, _)| *of == file)
    }

    /// The next block to write to a file. An open block of the file does as well, if there is no other. The
    /// caller has the device, and so nobody takes it for synced before it is written.
    pub(super) fn take_block(&mut self, file: usize) -> Option<Block> {
        if self.files[file].queue.is_empty() && self.open.as_ref().is_some_and(|(of, _)| *of == file) {
            self.seal();
        }
        let block = self.files[file].queue.pop_front()?;
        self.queued_bytes -= block.encoded_bytes();
        self.files[file].unsynced.push(block.timestamp);
        Some(block)
    }

    /// All that was written to the file is synced.
    pub(super) fn synced(&mut self, file: usize) {
        self.synced.extend(self.files[file].unsynced.drain(..));
        while self.synced.remove(&(self.durable + 1)) {
            self.durable += 1;
        }
    }

    /// True if all that was ever appended to a file is synced.
    pub(super) fn is_settled(&self, file: usize) -> bool {
        self.files[file].queue.is_empty() && self.files[file].unsynced.is_empty()
    }

    /// The file of the next block.
    fn turn(&mut self) -> usize {
        loop {
            let file = self.next_file;
            self.next_file = (file + 1) % self.files.len();
            if self.compacting != Some(file) {
                return file;
            }
        }
    }
}
