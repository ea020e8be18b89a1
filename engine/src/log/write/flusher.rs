//! The log writer threads (*flights*): each takes the whole write buffer as a block, writes it to its
//! directory and, if the mode says so, syncs it.
//!
//! Several flights of a directory overlap, because many devices do two or four syncs in the time of one.
//! Whatever gathers while all are under way goes with the next that is free: group commit without a timer.
//! A worker calls a flight at the end of its turn, so that all that its clients asked for at once goes
//! together. When nobody waits for the disk a flight lets records gather for a few milliseconds first, so
//! that a busy log costs few calls.

use std::time::Duration;

use super::durable::Progress;
use super::pipeline::{Active, BATCH_BYTES, Pipeline, State, Taken};
use crate::lock::{MutexGuard, rank};
use crate::log::block::{BlockHeader, seal};
use crate::log::file::LogFile;
use crate::record::Lsn;

/// How long records may gather before they are written, when nobody waits for the disk.
const COLLECT: Duration = Duration::from_millis(4);

/// One thread's way of writing blocks to one directory.
#[derive(Clone, Copy, Debug)]
pub(in crate::log) struct Flight {
    pub(in crate::log) lane: usize,
    /// Which of a file's handles it uses.
    pub(in crate::log) handle: usize,
}

impl Flight {
    /// The flight of a thread that writes beside the flights.
    pub(in crate::log) fn of_keeper(file: &LogFile) -> Flight {
        Flight { lane: file.lane(), handle: file.handles.len() - 1 }
    }

    /// Works until the log is closed.
    pub(in crate::log) fn run(self, pipeline: &Pipeline) {
        let mut carried = 0;
        while let Some(taken) = pipeline.wait_for_work(self.lane, carried) {
            let (file, first) = (taken.file.clone(), taken.first);
            carried = taken.count;
            if self.write(pipeline, taken) && pipeline.syncs_at_once(first) {
                self.sync(pipeline, &file);
            }
        }
    }

    /// Compresses a block if it can be, and writes it; says whether the operating system has it now.
    pub(in crate::log) fn write(self, pipeline: &Pipeline, mut taken: Taken) -> bool {
        pipeline.compress(&mut taken);
        self.put(pipeline, taken)
    }

    /// Writes a block as it is; says whether the operating system has it now.
    pub(in crate::log) fn put(self, pipeline: &Pipeline, taken: Taken) -> bool {
        let Taken {
            mut bytes,
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
            ..
        } = taken;
        let file_id = file.header.file_id;
        let header = BlockHeader { file_id, sequence, durable, first, count, flags, length, body_crc: 0 };
        bytes.change(|bytes| seal(bytes, header));
        let outcome = file.handles[self.handle].write_all_at(&bytes, offset);
        pipeline.written(body_bytes);
        match outcome {
            Ok(()) => {
                pipeline.keep_until_settled(sequence, first, bytes);
                pipeline.counters[self.lane].note_block(length);
                if saved > 0 {
                    pipeline.packing.note(length + saved, length);
                }
                true
            }
            Err(error) => {
                pipeline.durable.note(sequence, Progress::Failed, bytes, usize::MAX);
                pipeline.note_error(self.lane, &error);
                pipeline.fail(error);
                false
            }
        }
    }

    /// Makes what was written to a file durable.
    pub(in crate::log) fn sync(self, pipeline: &Pipeline, file: &LogFile) {
        // Listed before the call: only what was written before it is durable after it.
        let sequences = pipeline.durable.written_in(file);
        self.sync_listed(pipeline, file, &sequences);
    }

    /// Syncs a file and notes that the blocks listed before are durable.
    pub(in crate::log) fn sync_listed(self, pipeline: &Pipeline, file: &LogFile, sequences: &[u64]) {
        match pipeline.sync_file(file, self.handle) {
            Ok(()) => pipeline.settle(sequences),
            Err(error) => pipeline.fail(error),
        }
    }
}

impl Pipeline {
    /// Waits until there is a block to write in a directory, for a flight that has `carried` so many records
    /// until now; `None` when the log is closed and nothing is left.
    fn wait_for_work(&self, lane: usize, carried: u32) -> Option<Taken> {
        let mut active = self.active.lock();
        active.in_air -= u64::from(carried);
        loop {
            if active.is_over() {
                // The others may have gone back to wait while this one let the last records gather.
                self.work.notify_all();
                return None;
            }
            if self.may_leave(&active) && !active.collecting {
                self.collect(&mut active);
                if let Some(taken) = self.take(&mut active, lane, 0) {
                    active.in_air += u64::from(taken.count);
                    return Some(taken);
                }
                if active.is_over() {
                    // The log was closed while records gathered, and they went with somebody else's block:
                    // nobody is left who would end a wait.
                    continue;
                }
                // This directory waits for its next file. Another may have room; if none has, the preparer
                // must know.
                if active.count > 0 {
                    active.kept_back_since.get_or_insert_with(|| self.clock.monotonic());
                    let waiting = if self.can_take(&active, true) { &self.work } else { &self.chores };
                    waiting.notify_all();
                }
            }
            active.called = false;
            active.idle += 1;
            active.lanes[lane].idle += 1;
            self.work.wait(&mut active);
            active.idle -= 1;
            active.lanes[lane].idle -= 1;
        }
    }

    /// Lets records gather, if nobody waits for them.
    fn collect(&self, active: &mut MutexGuard<'_, Active, rank::Appender>) {
        let first = Lsn(active.next.0 - u64::from(active.count));
        let gathers = !self.syncs_at_once(first)
            && matches!(active.state, State::Running)
            && active.buffer.len() < BATCH_BYTES;
        if gathers {
            active.collecting = true;
            self.full.wait_for(active, COLLECT);
            active.collecting = false;
        }
    }
}
