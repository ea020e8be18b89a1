//! The contract of positions: how an entry names its newest record.

use std::fmt::Debug;

/// The name of a record: its file in the upper 16 bits, and a number that [`Positions`] give.
///
/// paper: vtc §3.3, `log_pos`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position(u64);

const NUMBER_BITS: u32 = 48;

impl Position {
    /// The record of this number in a file.
    pub(super) fn new(file: usize, number: u64) -> Position {
        debug_assert!(number < 1 << NUMBER_BITS);
        Position((file as u64) << NUMBER_BITS | number)
    }

    /// The file.
    pub fn file(self) -> usize {
        (self.0 >> NUMBER_BITS) as usize
    }

    /// The number.
    pub fn number(self) -> u64 {
        self.0 & ((1 << NUMBER_BITS) - 1)
    }
}

/// A record that is met while its file is read.
#[derive(Clone, Copy, Debug)]
pub struct Met {
    /// The file.
    pub file: usize,
    /// Its place in the file, from 0.
    pub ordinal: u64,
    /// Its LSN, if records have some.
    pub lsn: u64,
}

/// How positions are given, and which records are superseded. Except for [`Positions::remap`] and
/// [`Positions::sweep`], all is called under the lock of the log.
pub trait Positions: Debug + Sized + Send + 'static {
    /// The name in messages and figures.
    const NAME: &'static str;
    /// Records have their LSN in the file.
    const NUMBERED: bool;
    /// A compaction walks over all entries.
    const WALKS: bool;
    /// Their part of a shard of the table.
    type InShard: Debug + Default + Send;
    /// Their part of a compaction.
    type Job: Debug + Send;

    /// Those of an empty log of so many files.
    fn new(files: usize) -> Self;

    /// The number of a new record of a file.
    fn next(&mut self, file: usize) -> u64;

    /// The number of a record that a start finds. They come file by file in order.
    fn found(&mut self, file: usize, lsn: u64) -> u64;

    /// Notes that a record was replaced or deleted. Returns true if it got its bit just now. The caller has
    /// the latch of its shard.
    fn supersede(&mut self, old: Position, shard: &mut Self::InShard) -> bool;

    /// Sets the bit of a record; true if it was not set.
    fn mark(&mut self, position: Position) -> bool;

    /// Begins to compact a file of so many records, to which nothing is appended until the end.
    fn begin(&mut self, file: usize, records: u64) -> Self::Job;

    /// True if the record has its bit.
    fn is_superseded(&self, met: Met) -> bool;

    /// Notes what became of a record of the file, in order.
    fn note(&mut self, job: &mut Self::Job, met: Met, is_kept: bool);

    /// Notes that all were read.
    fn copied(&mut self, job: &mut Self::Job);

    /// Corrects the positions of a shard, which is latched. Returns those that get their bits now.
    fn remap<'e>(
        job: &mut Self::Job,
        shard: &mut Self::InShard,
        positions: impl Iterator<Item = &'e mut Position>,
    ) -> Vec<Position>;

    /// Ends the compaction: from now on records are appended to the file.
    fn finish(&mut self, job: Self::Job);

    /// Gives back what a shard kept and does not need any more. The caller has its latch.
    fn sweep(shard: &mut Self::InShard);

    /// The last block that must be durable before a compacted file takes its place. The compaction began when
    /// `began` was the next block, and has read the file when `now` is.
    fn needs_durable(began: u64, now: u64) -> u64;

    /// True if a delete record of a block may go. `least` is the least compaction timestamp of all files, and
    /// this compaction began at `began`.
    fn may_drop_delete(timestamp: u64, least: u64, began: u64) -> bool;

    /// Memory of the bitmaps, in bytes.
    fn bitmap_bytes(&self) -> usize;

    /// Memory that a compaction takes for them beside its buffers, in bytes.
    fn job_bytes(job: &Self::Job) -> usize;
}
