//! Fork: the kernel keeps the store as of one instant, in the pages of a child process that writes it.
//!
//! ```text
//!   gate closed ── fork ── gate open: clients go on; the first write to a page copies it
//!                   └ child: segment after segment ──> one buffer ──> blocks in the file ──> exit
//! ```
//!
//! It is what Redis does, and what the other algorithms are compared with. The file is as theirs. The child
//! works as fast as it can, in one thread.
//!
//! With the gate closed no command runs, nothing expires, no table grows or shrinks: all of it is inside.
//! Outside, views are read and given up, which changes nothing of a segment but what it keeps for views; and
//! the reaper frees what no table has any more. The child looks at neither.

#![expect(unsafe_code, reason = "the segments are read in a child process, without their latches")]

use std::ffi::c_int;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::io::Errno;

use super::error::CheckpointError;
use super::format::{BLOCK_BYTES, BLOCK_HEADER_BYTES, BlockHead, CONTINUES, FILE_HEADER_BYTES, LAST, tag};
use super::pace::Progress;
use super::source::Source;
use super::writer::{SYNC_BYTES, Totals};
use crate::io::child::{Child, Ended, Numbers};
use crate::io::{DiskError, DiskFile};
use crate::record::Lsn;
use crate::table::{END, Entry, Table};
use crate::value::packed::Varint;
use crate::value::stored::Stored;

/// The buffer has room for this beyond a full block: what is longer goes to the file from where it is.
const PIECE_BYTES: usize = 64 << 10;
/// How often the parent looks after the child.
const LOOK: Duration = Duration::from_millis(5);

// What the child counts, and what it found if it fails: places among the shared numbers.
const KEYS: usize = 0;
const BYTES: usize = 1;
const PRIVATE_BYTES: usize = 2;
const ERROR: usize = 3;

// With which code the child ends.
const DONE: c_int = 0;
const NOT_WRITTEN: c_int = 1;
const NOT_SYNCED: c_int = 2;

/// A child process that is writing the store as it was at the cut.
pub(super) struct Forked {
    child: Child,
    pub(super) cut: Lsn,
    pub(super) tables: Vec<Arc<Table>>,
    /// Keys that the child has to write.
    pub(super) keys: u64,
    /// How long the fork took.
    pub(super) took: Duration,
}

/// Forks a process that writes the blocks of all of `source` to `file`.
pub(super) fn fork(source: &dyn Source, file: &dyn DiskFile) -> Result<Forked, CheckpointError> {
    let descriptor = file.descriptor().ok_or(CheckpointError::NoDescriptor)?;
    let mut buffer = vec![0; BLOCK_BYTES + PIECE_BYTES];
    let mut numbers = Some(Numbers::new().map_err(CheckpointError::Fork)?);
    // What this looks up, such as what the processor can do, it has looked up before the fork.
    crc32c::crc32c(&buffer);
    let mut forked = None;
    source.standing(&mut |cut, tables| {
        let numbers = numbers.take().expect("the source stands still once");
        let keys = tables.iter().map(|table| table.len() as u64).sum();
        // The first segments of a table that nobody has used yet are made by this look.
        tables.iter().for_each(|table| _ = table.standing(0));
        let began = source.clock().monotonic();
        let work = |numbers: &[AtomicU64; 8]| write(tables, &mut buffer, descriptor, numbers);
        // SAFETY: what `write` does is below: it computes in `buffer`, and calls the system through `rustix`,
        // which does so without the C library. Why nobody changes what it reads is at the head of this file.
        let child = unsafe { Child::fork(descriptor, numbers, work) };
        let took = source.clock().monotonic().saturating_sub(began);
        forked = Some(child.map(|child| Forked { child, cut, tables: tables.to_vec(), keys, took }));
    });
    forked.expect("the source has stood still").map_err(CheckpointError::Fork)
}

impl Forked {
    /// Waits for the child and tells `progress` how far it is. Returns what it has written, and the bytes of
    /// memory that it had for itself at the end: those that the parent has changed since the fork.
    pub(super) fn finish(
        mut self,
        file: &dyn DiskFile,
        progress: &Progress,
    ) -> Result<(Totals, u64), CheckpointError> {
        let failed = |action, error: u64| {
            let error = io::Error::from_raw_os_error(error as i32);
            Err(DiskError::new(action, file.path(), error).into())
        };
        loop {
            // Before the numbers are read, so that they are the last if it has ended.
            let ended = self.child.ended().map_err(CheckpointError::Fork)?;
            let told = [KEYS, BYTES, PRIVATE_BYTES, ERROR]
                .map(|place| self.child.numbers()[place].load(Ordering::Acquire));
            let [keys, bytes, private_bytes, error] = told;
            progress.keys.store(keys, Ordering::Relaxed);
            progress.bytes.store(bytes, Ordering::Relaxed);
            match ended {
                None if progress.is_stopped() => return Err(CheckpointError::Stopped),
                None => progress.rest(LOOK),
                Some(Ended::Exit(DONE)) if keys == self.keys && file.len()? == bytes => {
                    return Ok((Totals { keys, bytes }, private_bytes));
                }
                Some(Ended::Exit(DONE)) => {
                    let what = format!("wrote {keys} keys of {}, {bytes} bytes", self.keys);
                    return Err(CheckpointError::Child(what));
                }
                Some(Ended::Exit(NOT_WRITTEN)) => return failed("write", error),
                Some(Ended::Exit(NOT_SYNCED)) => return failed("sync", error),
                Some(Ended::Exit(code)) => {
                    return Err(CheckpointError::Child(format!("ended with code {code}")));
                }
                Some(Ended::Signal(signal)) => {
                    return Err(CheckpointError::Child(format!("was ended by signal {signal}")));
                }
            }
        }
    }
}

/// The work of the child process.
fn write(tables: &[Arc<Table>], buffer: &mut [u8], file: BorrowedFd<'_>, numbers: &[AtomicU64; 8]) -> c_int {
    let offset = FILE_HEADER_BYTES as u64;
    let mut blocks = Blocks {
        file,
        numbers,
        buffer,
        len: BLOCK_HEADER_BYTES,
        head: BlockHead::default(),
        db: 0,
        offset,
        unsynced: 0,
        keys: 0,
    };
    match blocks.write_all(tables) {
        Ok(()) => {
            numbers[PRIVATE_BYTES].store(private_bytes(), Ordering::Release);
            DONE
        }
        Err(Failure { code, error }) => {
            numbers[ERROR].store(error.raw_os_error() as u64, Ordering::Release);
            code
        }
    }
}

/// Why the child gave up.
struct Failure {
    code: c_int,
    error: Errno,
}

/// The blocks of a file, made in one buffer: as `writer::Blocks`, but nothing is allocated.
struct Blocks<'c> {
    file: BorrowedFd<'c>,
    numbers: &'c [AtomicU64; 8],
    /// The block that is being filled; room for its head is at its front.
    buffer: &'c mut [u8],
    len: usize,
    /// The header so far.
    head: BlockHead,
    /// The database of what comes next.
    db: u8,
    /// Where the block goes.
    offset: u64,
    /// Bytes written since the last sync.
    unsynced: u64,
    keys: u64,
}

impl Blocks<'_> {
    fn write_all(&mut self, tables: &[Arc<Table>]) -> Result<(), Failure> {
        for (db, table) in tables.iter().enumerate() {
            let mut from = 0;
            while from < END {
                let (segment, end) = table.standing(from);
                // SAFETY: this process has one thread. Why nobody was changing the entries when it began, is
                // at the head of this file.
                let segment = unsafe { &*segment };
                self.range(db as u8, from, end)?;
                for entry in segment.iter_fetched() {
                    self.entry(entry)?;
                }
                self.numbers[KEYS].store(self.keys, Ordering::Release);
                from = end;
            }
        }
        if self.head.records > 0 {
            self.seal(0, &[])?;
        }
        let keys = self.keys.to_le_bytes();
        self.put(&keys);
        self.seal(LAST, &[])
    }

    fn range(&mut self, db: u8, from: u64, end: u64) -> Result<(), Failure> {
        self.db = db;
        self.put(&[tag::RANGE, db, 1]);
        self.put(&from.to_le_bytes());
        self.put(&end.to_le_bytes());
        self.head.records += 1;
        self.seal_if_full(0)
    }

    fn entry(&mut self, entry: &Entry) -> Result<(), Failure> {
        self.keys += 1;
        let (block, nodes) = match entry.stored() {
            Stored::Whole(block) => return self.piece(tag::ENTRY, block, 0),
            Stored::Nodes(block, nodes) => (block, nodes),
        };
        self.piece(tag::NODES, block, CONTINUES)?;
        let mut outcome = Ok(());
        nodes.for_each_stored_leaf(&mut |leaf| {
            if outcome.is_ok() {
                outcome = self.piece(tag::LEAF, leaf, CONTINUES);
            }
        });
        outcome?;
        let mut outcome = Ok(());
        nodes.for_each_stored_time(&mut |leaf| {
            if outcome.is_ok() {
                outcome = self.piece(tag::TIMES, leaf, CONTINUES);
            }
        });
        outcome?;
        self.put(&[tag::END]);
        self.head.records += 1;
        self.seal_if_full(0)
    }

    /// Adds a record; `flags` are those of the block if it ends here.
    fn piece(&mut self, tag: u8, piece: &[u8], flags: u8) -> Result<(), Failure> {
        self.put(&[tag]);
        self.put(Varint::new(piece.len()).as_slice());
        self.head.records += 1;
        if piece.len() > PIECE_BYTES / 2 {
            return self.seal(flags, piece);
        }
        self.put(piece);
        self.seal_if_full(flags)
    }

    /// REQUIRES: there is room, as there always is behind `seal_if_full` for what is small.
    fn put(&mut self, bytes: &[u8]) {
        self.buffer[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    fn seal_if_full(&mut self, flags: u8) -> Result<(), Failure> {
        if self.len >= BLOCK_BYTES { self.seal(flags, &[]) } else { Ok(()) }
    }

    /// Writes the block, of which `tail` is the end.
    fn seal(&mut self, flags: u8, tail: &[u8]) -> Result<(), Failure> {
        let (block, _) = self.buffer.split_at_mut(self.len);
        BlockHead { flags, ..self.head }.seal(block, tail);
        for bytes in [&*block, tail] {
            write_all_at(self.file, bytes, self.offset)
                .map_err(|error| Failure { code: NOT_WRITTEN, error })?;
            self.offset += bytes.len() as u64;
            self.unsynced += bytes.len() as u64;
        }
        if self.unsynced >= SYNC_BYTES || flags & LAST != 0 {
            rustix::fs::fdatasync(self.file).map_err(|error| Failure { code: NOT_SYNCED, error })?;
            self.unsynced = 0;
        }
        self.numbers[BYTES].store(self.offset, Ordering::Release);
        self.len = BLOCK_HEADER_BYTES;
        self.head = BlockHead { sequence: self.head.sequence + 1, db: self.db, ..BlockHead::default() };
        Ok(())
    }
}

fn write_all_at(file: BorrowedFd<'_>, mut bytes: &[u8], mut offset: u64) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match rustix::io::pwrite(file, bytes, offset) {
            Ok(0) => return Err(Errno::IO),
            Ok(count) => {
                bytes = &bytes[count..];
                offset += count as u64;
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Bytes of memory that this process has changed or has alone, as the system counts them; 0 if it does not.
fn private_bytes() -> u64 {
    use rustix::fs::{Mode, OFlags, open};
    let mut text = [0; 4096];
    let Ok(file) = open(c"/proc/self/smaps_rollup", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) else {
        return 0;
    };
    let mut len = 0;
    while let Ok(count) = rustix::io::read(&file, &mut text[len..])
        && count > 0
    {
        len += count;
    }
    let is_name = |line: &&[u8]| line.starts_with(b"Private_Dirty:");
    let line = text[..len].split(|byte| *byte == b'\n').find(is_name).unwrap_or_default();
    let digits = line.iter().filter(|byte| byte.is_ascii_digit());
    digits.fold(0, |number, digit| number * 10 + u64::from(digit - b'0')) * 1024
}
