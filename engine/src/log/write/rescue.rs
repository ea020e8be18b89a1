//! Recovers the log after a failed write or sync of the disk.
//!
//! A sync that failed says nothing about what was written before it, and the next one that succeeds says
//! nothing either. So the blocks that are not below the watermark are written once more, to a new file,
//! whichever files they were meant for:
//!
//! ```text
//!  old epoch  file 7: … 40 41 | 43?      file 8: … 42? 44?        the watermark is 41
//!  new epoch  file 9: header "opened after 41", 42 43 44        complete and durable before it gets its name
//! ```
//!
//! Its name is the moment of truth: before, 42-44 are where they were; after, the header voids them there and
//! has them here. They keep their sequences, so nothing else changes. A flight that is still syncing may make
//! 42 durable meanwhile; so one look says what is durable and what is moved. An attempt that fails when the
//! new name may be on the disk has decided where the new epoch begins: all that follow begin there too, with
//! the same blocks, whatever has become durable since. Their files may all be there after a crash; they
//! agree.
//!
//! The bytes of the blocks are in memory as a rule. Where they were too many to be kept, those that the
//! operating system had already are read back and checked; if they are not whole, the log stays failed,
//! because going on would leave a hole.

use std::sync::Arc;

use super::durable::{Pending, Progress, Standing};
use super::pipeline::{Leaving, Pipeline, SECTOR_BYTES, State};
use crate::io::{DiskError, DiskFile, DiskResult};
use crate::log::block::{BlockHeader, reseal};
use crate::log::closed::ClosedFile;
use crate::log::file::{FileHeader, LogFile, Preparation};
use crate::log::format::FILE_HEADER_BYTES;

/// How an attempt went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::log) enum Rescue {
    /// The log works again.
    Done,
    /// Flights are still under way.
    NotYet,
    /// The disk still refuses.
    Failed,
}

impl Pipeline {
    /// Tries to move everything that is not durable into a new epoch.
    pub(in crate::log) fn rescue(&self) -> Rescue {
        let lanes = {
            let active = self.active.lock();
            if !matches!(active.state, State::Failed(..)) {
                return Rescue::Done;
            }
            active.lanes.len()
        };
        // Nothing is taken while the log has failed, so what is under way only becomes less.
        if self.durable.writing() > 0 {
            return Rescue::NotYet;
        }
        let begun = self.active.lock().rescued_from.clone();
        let from = begun.unwrap_or_else(|| self.durable.standing());
        for lane in 0..lanes {
            match self.move_to(lane, &from) {
                Ok((file, offset)) => {
                    self.begin_epoch(lane, file, offset, &from);
                    return Rescue::Done;
                }
                Err(error) => {
                    self.note_error(lane, &error);
                    self.active.lock().lanes[lane].trouble = Some(Arc::new(error));
                }
            }
        }
        Rescue::Failed
    }

    /// Writes the pending blocks to a new file of a directory, completely and durably; returns it and its
    /// length.
    fn move_to(&self, lane: usize, from: &Standing) -> DiskResult<(LogFile, u64)> {
        let file_id = self.disk.random();
        let (header, directory) = {
            let mut active = self.active.lock();
            // Each attempt has an epoch of its own: the file of one that failed late may be there after all.
            active.epoch_tried += 1;
            let header = FileHeader {
                epoch: active.epoch_tried,
                opened_after: from.sequence,
                first: from.lsn.after(1),
                ..active.next_header(lane, self.template.log_id, file_id)
            };
            (header, active.lanes[lane].directory.clone())
        };
        let mut offset = FILE_HEADER_BYTES as u64;
        let preparation = Preparation::of(self.mode());
        let fill = |file: &dyn DiskFile| {
            for block in &from.pending {
                let mut bytes = block_bytes(block)?;
                reseal(&mut bytes, header.file_id, from.sequence);
                file.write_all_at(&bytes, offset)?;
                offset += bytes.len() as u64;
            }
            // From here on the file may get its name, whatever the call that gives it says.
            self.active.lock().rescued_from.get_or_insert_with(|| from.clone());
            Ok(())
        };
        let file = LogFile::create(&*self.disk, &directory, header, self.template, preparation, fill)?;
        Ok((file, offset.next_multiple_of(SECTOR_BYTES as u64)))
    }

    /// Goes on in the new file; the other directories get theirs from the preparer.
    fn begin_epoch(&self, lane: usize, file: LogFile, offset: u64, from: &Standing) {
        let (opened_after, pending) = (from.sequence, &from.pending);
        let (mut old, mut unused) = (Vec::new(), Vec::new());
        let mut active = self.active.lock();
        active.rescued_from = None;
        self.counters[lane].note_block(offset);
        active.epoch = file.header.epoch;
        active.opened_after = opened_after;
        active.epoch_first = file.header.first;
        active.claimed = false;
        old.append(&mut active.leaving);
        for lane in &mut active.lanes {
            let (length, contents) = (lane.offset, std::mem::take(&mut lane.contents));
            old.extend(lane.current.take().map(|file| Leaving { file, length, contents }));
            unused.extend(lane.next.take());
            lane.trouble = None;
        }
        active.lanes[lane].current = Some(Arc::new(file));
        active.lanes[lane].offset = offset;
        for block in pending {
            active.lanes[lane].contents.add(block.sequence, block.first, block.last);
            active.lanes[lane].contents.saved += block.saved;
            // Of the others the first write was counted.
            if matches!(block.progress, Progress::Failed) && block.saved > 0 {
                self.packing.note(block.length + block.saved, block.length);
            }
        }
        // What lies behind is void already; cutting it, below, only gives the space back.
        for Leaving { file, length, contents } in &mut old {
            for block in pending.iter().filter(|block| Arc::ptr_eq(&block.file, file)) {
                *length = block.offset.min(*length);
                contents.saved -= block.saved;
            }
        }
        self.void_closed(opened_after);
        for Leaving { file, length, contents } in &old {
            if (1..=opened_after).contains(&contents.first_sequence) {
                let closed = ClosedFile::new(file.keeper_handle().path(), &file.header, *length, *contents);
                self.note_closed(closed.voided(opened_after).of_log_opened_in(self.opened_in));
            }
        }
        drop(active);
        let sequences: Vec<u64> = pending.iter().map(|block| block.sequence).collect();
        self.settle(&sequences);
        let mut active = self.active.lock();
        if matches!(active.state, State::Failed(..)) {
            active.state = State::Running;
            self.durable.set_stop(None);
        }
        drop(active);
        self.durable.wake();
        self.work.notify_all();
        self.chores.notify_all();
        for Leaving { file, length, .. } in old {
            let _ = file.keeper_handle().set_len(length);
        }
        unused.iter().for_each(|file| self.discard(file));
    }
}

/// The bytes of a block that was written, or was meant to be.
fn block_bytes(block: &Pending) -> DiskResult<Vec<u8>> {
    if let Some(bytes) = &block.bytes {
        return Ok(bytes.to_vec());
    }
    let file = block.file.keeper_handle();
    let mut bytes = vec![0; usize::try_from(block.length).expect("a block comes from memory")];
    file.read_full_at(&mut bytes, block.offset)?;
    let header = BlockHeader::parse(&bytes, block.file.header.file_id);
    match header {
        Some(header)
            if header.sequence == block.sequence
                && header.length == block.length
                && header.check(&bytes).is_ok() =>
        {
            Ok(bytes)
        }
        _ => {
            let lost =
                std::io::Error::new(std::io::ErrorKind::InvalidData, "the disk has lost what was written");
            Err(DiskError::new("read back", file.path(), lost))
        }
    }
}
