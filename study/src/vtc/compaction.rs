//! Compaction of one file, step by step; the caller decides on the time of each step.
//!
//! ```text
//!   begin   close the open block; from now on nothing is appended to the file
//!   settle  wait until all blocks of the file are synced
//!   copy    a block a step: the valid records, and the delete records that are still needed; sync
//!   walk    a shard a step, if positions move
//!   settle  wait until the records that replaced the dropped ones are durable
//!   end     rename, sync the directory; records are appended to the file again
//! ```
//!
//! paper: vtc §3.3, algorithms 1 and 2. A block keeps its timestamp; one without records is left out.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::PathBuf;

use super::device::copy_of;
use super::error::{VtcError, io_error};
use super::format::{Block, FILE_HEADER_BYTES, file_header};
use super::positions::{Met, Position, Positions};
use super::store::Store;
use super::table::lock;

const BUFFER_BYTES: usize = 1 << 20;

/// The outcome of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A part of the work.
    Part,
    /// Nothing: it waits for blocks that are not durable yet.
    Waits,
    /// The last part. The compaction is complete.
    Done,
}

/// The work of a compaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compacted {
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Records dropped, delete records among them.
    pub dropped: u64,
    /// Records kept.
    pub kept: u64,
    /// Entries that the walk has met.
    pub walked: u64,
    /// Memory for the array of the walk, and for what waited for it, in bytes.
    pub job_bytes: usize,
}

/// A compaction under way. Dropped before it is done, it leaves the log failed: bits are gone that belong to
/// the old file.
#[derive(Debug)]
pub struct Compaction<'s, P: Positions> {
    store: &'s Store<P>,
    file: usize,
    path: PathBuf,
    /// The next block when it began: its compaction timestamp.
    began: u64,
    /// The least compaction timestamp of all files when it began.
    least: u64,
    /// Until the end.
    job: Option<P::Job>,
    phase: Phase,
    done: Compacted,
}

#[derive(Debug)]
enum Phase {
    Settle,
    Copy { from: BufReader<File>, to: BufWriter<File>, ordinal: u64 },
    Walk { copy: File, shard: usize },
    Durable { copy: File, until: u64 },
    Done,
}

impl<P: Positions> Store<P> {
    /// Begins to compact a file. Until the end nothing is written to it.
    pub fn compact(&self, file: usize) -> Result<Compaction<'_, P>, VtcError> {
        Compaction::begin(self, file)
    }
}

impl<'s, P: Positions> Compaction<'s, P> {
    fn begin(store: &'s Store<P>, file: usize) -> Result<Compaction<'s, P>, VtcError> {
        let path = lock(&store.devices[file]).path.clone();
        let mut log = store.lock_log();
        if log.compacting.is_some() {
            return Err(VtcError::Busy);
        }
        log.seal();
        log.compacting = Some(file);
        let records = log.files[file].records;
        let job = log.positions.begin(file, records);
        let least = log.files.iter().map(|file| file.timestamp).min().expect("there are files");
        let began = log.next_timestamp();
        drop(log);
        store.notify();
        let (phase, done) = (Phase::Settle, Compacted::default());
        Ok(Compaction { store, file, path, began, least, job: Some(job), phase, done })
    }

    /// Does a part of the work, or all that is left if that is little.
    pub fn step(&mut self) -> Result<Step, VtcError> {
        match std::mem::replace(&mut self.phase, Phase::Done) {
            Phase::Settle => self.settle(),
            Phase::Copy { from, to, ordinal } => self.copy_block(from, to, ordinal),
            Phase::Walk { copy, shard } => {
                self.walk(copy, shard);
                Ok(Step::Part)
            }
            Phase::Durable { copy, until } => self.take_place(copy, until),
            Phase::Done => Ok(Step::Done),
        }
    }

    /// Does all of it; others flush meanwhile.
    pub fn run(mut self) -> Result<Compacted, VtcError> {
        loop {
            match self.step()? {
                Step::Part => {}
                Step::Done => return Ok(self.done),
                Step::Waits => {
                    let mut log = self.store.lock_log();
                    while !self.is_ready(&log) {
                        if log.has_failed {
                            return Err(VtcError::Failed);
                        }
                        log = self.store.wait(log);
                    }
                }
            }
        }
    }

    /// Its work so far.
    pub fn done(&self) -> Compacted {
        self.done
    }

    /// True unless it waits.
    fn is_ready(&self, log: &super::log::Log<P>) -> bool {
        match self.phase {
            Phase::Settle => log.is_settled(self.file),
            Phase::Durable { until, .. } => log.durable() >= until,
            _ => true,
        }
    }

    fn settle(&mut self) -> Result<Step, VtcError> {
        if !self.store.lock_log().is_settled(self.file) {
            self.phase = Phase::Settle;
            return Ok(Step::Waits);
        }
        let file = File::open(&self.path).map_err(io_error("open", &self.path))?;
        let mut from = BufReader::with_capacity(BUFFER_BYTES, file);
        from.read_exact(&mut [0; FILE_HEADER_BYTES]).map_err(io_error("read", &self.path))?;
        let copy = copy_of(&self.path);
        let file = File::create(&copy).map_err(io_error("create", &copy))?;
        let mut to = BufWriter::with_capacity(BUFFER_BYTES, file);
        to.write_all(&file_header(self.began)).map_err(io_error("write", &copy))?;
        self.done.read_bytes = FILE_HEADER_BYTES as u64;
        self.done.written_bytes = FILE_HEADER_BYTES as u64;
        self.phase = Phase::Copy { from, to, ordinal: 0 };
        Ok(Step::Part)
    }

    fn copy_block(
        &mut self,
        mut from: BufReader<File>,
        mut to: BufWriter<File>,
        ordinal: u64,
    ) -> Result<Step, VtcError> {
        let Some(block) = Block::read(&mut from).map_err(io_error("read", &self.path))? else {
            if self.done.read_bytes != lock(&self.store.devices[self.file]).written {
                return Err(VtcError::Damaged { path: self.path.clone(), what: "a block is torn" });
            }
            return self.end_copy(to);
        };
        self.done.read_bytes += block.encoded_bytes() as u64;
        let next = ordinal + u64::from(block.records);
        let kept = self.valid(block, ordinal);
        if kept.records > 0 {
            let mut bytes = Vec::with_capacity(kept.encoded_bytes());
            kept.encode(&mut bytes);
            to.write_all(&bytes).map_err(io_error("write", &self.path))?;
            self.done.written_bytes += bytes.len() as u64;
        }
        self.phase = Phase::Copy { from, to, ordinal: next };
        Ok(Step::Part)
    }

    /// The block with those of its records that are kept.
    fn valid(&mut self, block: Block, first_ordinal: u64) -> Block {
        let mut kept = Vec::with_capacity(block.records as usize);
        let job = self.job.as_mut().expect("it is not done");
        let mut log = self.store.lock_log();
        for (ordinal, record) in (first_ordinal..).zip(block.records(P::NUMBERED)) {
            let met = Met { file: self.file, ordinal, lsn: record.lsn };
            let is_superseded = record.value.is_some() && log.positions.is_superseded(met);
            let is_kept = match record.value {
                Some(_) => !is_superseded,
                None => !P::may_drop_delete(block.timestamp, self.least, self.began),
            };
            log.positions.note(job, met, is_kept);
            if !is_kept {
                let file = &mut log.files[self.file];
                file.records -= 1;
                file.superseded -= u64::from(is_superseded);
            }
            kept.push(is_kept);
        }
        drop(log);
        let mut body = Vec::with_capacity(block.body.len());
        let records = block.records(P::NUMBERED).zip(&kept).filter(|(_, is_kept)| **is_kept);
        records.for_each(|(record, _)| body.extend_from_slice(record.bytes));
        let records = kept.iter().filter(|is_kept| **is_kept).count() as u32;
        self.done.kept += u64::from(records);
        self.done.dropped += u64::from(block.records - records);
        Block { records, body, ..block }
    }

    fn end_copy(&mut self, to: BufWriter<File>) -> Result<Step, VtcError> {
        let copy = to.into_inner().map_err(|error| error.into_error());
        let copy = copy.and_then(|copy| copy.sync_data().map(|()| copy));
        let copy = copy.map_err(io_error("write the copy of", &self.path))?;
        let mut log = self.store.lock_log();
        log.positions.copied(self.job.as_mut().expect("it is not done"));
        drop(log);
        if P::WALKS {
            self.phase = Phase::Walk { copy, shard: 0 };
        } else {
            self.await_durable(copy);
        }
        Ok(Step::Part)
    }

    /// Corrects the entries of a shard.
    fn walk(&mut self, copy: File, shard: usize) {
        let job = self.job.as_mut().expect("it is not done");
        let Some(mut latched) = self.store.table.latch_shard(shard) else {
            return self.await_durable(copy);
        };
        let latched = &mut *latched;
        self.done.walked += latched.entries.len() as u64;
        let positions = latched.entries.values_mut().map(|entry| &mut entry.position);
        let marks: Vec<Position> = P::remap(job, &mut latched.own, positions);
        if !marks.is_empty() {
            let mut log = self.store.lock_log();
            marks.into_iter().for_each(|position| log.mark(position));
        }
        self.phase = Phase::Walk { copy, shard: shard + 1 };
    }

    fn await_durable(&mut self, copy: File) {
        let mut log = self.store.lock_log();
        log.seal();
        let until = P::needs_durable(self.began, log.next_timestamp());
        drop(log);
        self.store.notify();
        self.phase = Phase::Durable { copy, until };
    }

    /// The copy takes the place of the file.
    fn take_place(&mut self, copy: File, until: u64) -> Result<Step, VtcError> {
        if self.store.durable() < until {
            self.phase = Phase::Durable { copy, until };
            return Ok(Step::Waits);
        }
        let job = self.job.take().expect("it is not done");
        self.done.job_bytes = P::job_bytes(&job);
        let mut device = lock(&self.store.devices[self.file]);
        device.replace(&copy_of(&self.path), copy, self.done.written_bytes)?;
        let mut log = self.store.lock_log();
        log.files[self.file].timestamp = self.began;
        log.positions.finish(job);
        log.compacting = None;
        drop((log, device));
        self.store.notify();
        Ok(Step::Done)
    }
}

impl<P: Positions> Drop for Compaction<'_, P> {
    fn drop(&mut self) {
        if self.store.lock_log().compacting == Some(self.file) {
            self.store.fail();
        }
    }
}
