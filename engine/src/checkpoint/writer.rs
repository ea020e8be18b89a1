//! Writes a file of a checkpoint: records gather in blocks, which other threads checksum and write.
//!
//! ```text
//!   Blocks ──sealed block──> channel ──> writer 1: crc, write_at      buffers come back by another channel
//!                                   └──> writer 2
//! ```

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{Scope, ScopedJoinHandle};

use crossbeam_channel::{Receiver, Sender};

use super::format::FILE_HEADER_BYTES;
use super::format::{BLOCK_BYTES, BLOCK_HEADER_BYTES, BlockHead, CONTINUES, FileHeader, LAST, tag};
use super::pace::{Pace, TakeOptions};
use super::reader::Record;
use crate::io::os::give_way;
use crate::io::{DiskError, DiskFile, DiskResult};
use crate::table::Entry;
use crate::value::packed::Varint;
use crate::value::stored::Stored;

/// Blocks that may wait to be written.
const BLOCKS_QUEUED: usize = 4;
/// A writer syncs after so many bytes of its own, so that the last sync has little to do, and neither the
/// device nor the processor that works for it gets a flood to work off while others wait.
pub(super) const SYNC_BYTES: u64 = 2 << 20;

/// A block on its way to the file.
struct Sealed {
    bytes: Vec<u8>,
    offset: u64,
    head: BlockHead,
}

/// The totals of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) keys: u64,
    pub(super) bytes: u64,
}

/// The blocks of a file.
pub(super) struct Blocks<'f> {
    sealed: Sender<Sealed>,
    returned: Receiver<Vec<u8>>,
    failed: &'f AtomicBool,
    /// The block that is being filled; room for its head is at its front.
    bytes: Vec<u8>,
    /// The header so far.
    head: BlockHead,
    /// The database of what comes next.
    db: u8,
    /// Where the block goes.
    offset: u64,
    /// Large values, by pointer: they are written behind the part of the view that they are in.
    large: Vec<Entry>,
    totals: Totals,
}

impl Blocks<'_> {
    /// Says of which positions of which database the next entries are. `whole`: of these, what is not written
    /// is gone; else it is as it was.
    pub(super) fn range(&mut self, db: u8, whole: bool, from: u64, end: u64) {
        self.db = db;
        self.bytes.extend_from_slice(&[tag::RANGE, db, u8::from(whole)]);
        self.bytes.extend_from_slice(&from.to_le_bytes());
        self.bytes.extend_from_slice(&end.to_le_bytes());
        self.head.records += 1;
    }

    /// Adds an entry. Quick, and waits for nothing: to be called while a part of a view is read.
    pub(super) fn entry(&mut self, entry: &Entry) {
        self.totals.keys += 1;
        match entry.stored() {
            Stored::Whole(block) => self.piece(tag::ENTRY, block),
            Stored::Nodes(..) => self.large.push(entry.clone()),
        }
    }

    /// Adds a record of another file as it stands. REQUIRES: no part of a view is being read.
    pub(super) fn copy(&mut self, record: &Record<'_>) {
        match record {
            Record::Range { db, whole, from, end } => self.range(*db, *whole, *from, *end),
            Record::Entry(block) => {
                self.totals.keys += 1;
                self.piece(tag::ENTRY, block);
                self.seal_if_full(0);
            }
            Record::Nodes(block) => {
                self.totals.keys += 1;
                self.piece(tag::NODES, block);
            }
            Record::Leaf(leaf) => {
                self.piece(tag::LEAF, leaf);
                self.seal_if_full(CONTINUES);
            }
            Record::Times(leaf) => {
                self.piece(tag::TIMES, leaf);
                self.seal_if_full(CONTINUES);
            }
            Record::End => self.end(),
        }
    }

    /// Writes what was kept by pointer, and sends off the block if it is large enough. REQUIRES: no part of a
    /// view is being read.
    pub(super) fn settle(&mut self) {
        for entry in std::mem::take(&mut self.large) {
            if let Stored::Nodes(block, nodes) = entry.stored() {
                self.piece(tag::NODES, block);
                nodes.for_each_stored_leaf(&mut |leaf| {
                    self.piece(tag::LEAF, leaf);
                    self.seal_if_full(CONTINUES);
                });
                nodes.for_each_stored_time(&mut |leaf| {
                    self.piece(tag::TIMES, leaf);
                    self.seal_if_full(CONTINUES);
                });
                self.end();
            }
        }
        self.seal_if_full(0);
    }

    fn end(&mut self) {
        self.bytes.push(tag::END);
        self.head.records += 1;
    }

    /// Whether it is of no use to go on: the disk has refused.
    pub(super) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    fn piece(&mut self, tag: u8, piece: &[u8]) {
        self.bytes.push(tag);
        self.bytes.extend_from_slice(Varint::new(piece.len()).as_slice());
        self.bytes.extend_from_slice(piece);
        self.head.records += 1;
    }

    fn seal_if_full(&mut self, flags: u8) {
        if self.bytes.len() >= BLOCK_BYTES {
            self.seal(flags);
        }
    }

    fn seal(&mut self, flags: u8) {
        let mut next = self.returned.try_recv().unwrap_or_default();
        next.clear();
        next.resize(BLOCK_HEADER_BYTES, 0);
        let bytes = std::mem::replace(&mut self.bytes, next);
        let (offset, head) = (self.offset, BlockHead { flags, ..self.head });
        self.offset += bytes.len() as u64;
        self.head = BlockHead { sequence: head.sequence + 1, db: self.db, ..BlockHead::default() };
        // Writers that have given up take nothing any more; `failed` says so.
        let _ = self.sealed.send(Sealed { bytes, offset, head });
    }

    fn finish(mut self) -> Totals {
        self.settle();
        if self.head.records > 0 {
            self.seal(0);
        }
        self.bytes.extend_from_slice(&self.totals.keys.to_le_bytes());
        self.seal(LAST);
        self.totals.bytes = self.offset;
        self.totals
    }
}

/// Writes a file with what `fill` puts into it, as `options` say, and makes its bytes durable. `written`
/// counts them. `fill` says whether the file is complete.
pub(super) fn write<E>(
    file: &Arc<dyn DiskFile>,
    header: &FileHeader,
    options: TakeOptions,
    written: &AtomicU64,
    fill: impl FnOnce(&mut Blocks<'_>) -> Result<(), E>,
) -> Result<Totals, E>
where
    E: From<DiskError>,
{
    file.write_all_at(&header.encode(), 0)?;
    let failed = AtomicBool::new(false);
    let totals = std::thread::scope(|scope| {
        let (sealed, blocks) = crossbeam_channel::bounded(BLOCKS_QUEUED);
        let (give_back, returned) = crossbeam_channel::bounded(BLOCKS_QUEUED);
        let writer = Writer { file, pace: options.pace, blocks, give_back, failed: &failed, written };
        let mut writers = Vec::new();
        for _ in 0..options.writers.max(1) {
            match writer.clone().start(scope) {
                Ok(started) => writers.push(started),
                Err(error) if writers.is_empty() => {
                    return Err(DiskError::new("start a thread that writes", file.path(), error).into());
                }
                // Fewer will do.
                Err(_) => break,
            }
        }
        drop(writer);
        let mut blocks = Blocks {
            sealed,
            returned,
            failed: &failed,
            bytes: vec![0; BLOCK_HEADER_BYTES],
            head: BlockHead::default(),
            db: 0,
            offset: FILE_HEADER_BYTES as u64,
            large: Vec::new(),
            totals: Totals::default(),
        };
        let filled = fill(&mut blocks);
        let totals = filled.map(|()| blocks.finish());
        for writer in writers {
            writer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        }
        totals
    })?;
    file.sync_data()?;
    Ok(totals)
}

#[derive(Clone)]
struct Writer<'f> {
    file: &'f Arc<dyn DiskFile>,
    pace: Pace,
    blocks: Receiver<Sealed>,
    give_back: Sender<Vec<u8>>,
    failed: &'f AtomicBool,
    written: &'f AtomicU64,
}

impl<'f> Writer<'f> {
    fn start<'s>(self, scope: &'s Scope<'s, 'f>) -> io::Result<ScopedJoinHandle<'s, DiskResult<()>>> {
        let thread = std::thread::Builder::new().name("tarn-checkpoint".to_owned());
        let run = move || {
            if self.pace == Pace::Quiet {
                give_way();
            }
            let outcome = self.run();
            if outcome.is_err() {
                self.failed.store(true, Ordering::Relaxed);
                // A thread that fills must not wait for room.
                self.blocks.iter().for_each(drop);
            }
            outcome
        };
        thread.spawn_scoped(scope, run)
    }

    fn run(&self) -> DiskResult<()> {
        let mut unsynced = 0;
        for mut block in &self.blocks {
            block.head.seal(&mut block.bytes, &[]);
            self.file.write_all_at(&block.bytes, block.offset)?;
            let bytes = block.bytes.len() as u64;
            // Others that wait for this processor run first, and not at the end of the system's tick.
            std::thread::yield_now();
            self.written.fetch_add(bytes, Ordering::Relaxed);
            unsynced += bytes;
            if unsynced >= SYNC_BYTES {
                self.file.sync_data()?;
                unsynced = 0;
            }
            // A buffer that grew with one giant entry is not kept.
            if block.bytes.capacity() <= 4 * BLOCK_BYTES {
                let _ = self.give_back.try_send(block.bytes);
            }
        }
        Ok(())
    }
}
