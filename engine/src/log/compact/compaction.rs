//! Compaction in place: copies the needed records of one file, or of several adjacent ones; the copy
//! replaces them.
//!
//! ```text
//!  0000000007.tarnlog ─┐ read, whole blocks only
//!  0000000008.tarnlog ─┴──> condense ──> 0000000008.tarnlog.unfinished
//!                             log durable up to its newest record
//!                             header, sync, rename over 0000000008, sync of the directory
//!  0000000007.tarnlog is removed; its successor says that it stands for 7 too
//! ```
//!
//! - A record may be dropped because a newer one took its place, and that one may still be in a buffer. So
//!   the log is made durable up to its newest record before the copy gets its name, whatever the mode; the
//!   header says which block that was, and a start that misses one up to there refuses.
//! - The space of what was replaced comes back a moment later, when another thread has closed it
//!   (`crate::io::Closer`): where there is little, the next compaction waits for that.
//! - Damage is passed over where a checkpoint has all records that were there, which the header says then
//!   (`needed`): see `covered`. Else the file is left as it is, and the error says up to where a checkpoint
//!   must have all. What the disk does not give is damage when a second attempt meets it, too.
//! - A copy that is not compressed may be longer than the files that it takes the place of, if those were.
//!   Where there is no room for that it is compressed, whatever the setting: those who append would find the
//!   disk full, be it because of the copy or of what is obsolete and stays.
//! - Blocks of which nothing is left in any directory are told of by one file: see `voids`.
//! - Killed at any call, either the old files count or the new one: a start removes what is unfinished, and
//!   what a compacted file stands for.
//!
//! paper: vtc §3.3; `docs/design/0015`.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::blocks::{Blocks, not_understood};
use crate::io::{Disk, DiskResult, OnOneLine, Outgoing};
use crate::log::closed::{ClosedFile, Contents, places_of};
use crate::log::condensed::{Condenser, Part, Sealed, Table};
use crate::log::error::{CompactionError, Damage, LogError};
use crate::log::file::{Compaction, FileHeader, create_over, publish, unfinished_path};
use crate::log::format::FILE_HEADER_BYTES;
use crate::log::open::identity::remove_if_there;
use crate::log::options::Compression;
use crate::log::packed::raw_length;
use crate::log::voids::Void;
use crate::log::write::appender::Appender;
use crate::log::write::pipeline::Pipeline;
use crate::record::{Lsn, Write};

/// How a compaction went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compacted {
    /// Bytes of the files before.
    pub bytes_before: u64,
    /// Bytes of the file that took their place.
    pub bytes_after: u64,
    /// The same, were no block of it compressed.
    pub raw_bytes_after: u64,
    /// Records before.
    pub records_before: u64,
    /// Records that are left.
    pub records_after: u64,
    /// Damage that was passed over, as a checkpoint has what was there.
    pub damage: Vec<Damage>,
    /// Why the file is compressed although the log is not to be: there was no room for more.
    pub lack: Option<String>,
}

/// The questions that a compaction asks while it works.
pub trait Keeper {
    /// Makes the log durable up to a record.
    fn settle(&mut self, log: &Appender, lsn: Lsn) -> Result<(), LogError> {
        log.sync_up_to(lsn)
    }

    /// Records up to this `Lsn` are all dropped, because they are in the checkpoint that a start builds on.
    fn dropped_up_to(&self) -> Lsn {
        Lsn::ZERO
    }

    /// The checkpoint that a start would build on has all up to here, durably; damage up to there does not
    /// matter.
    fn covered(&self) -> Lsn {
        Lsn::ZERO
    }

    /// Told which records the next block has: those from `first` to `last`, or some of them.
    fn begin(&mut self, _first: Lsn, _last: Lsn) {}
    /// Whether a record is still needed.
    fn needs(&mut self, lsn: Lsn, write: &Write<'_>) -> bool;
    /// Told how many bytes were read or written, those of compressed blocks before that; waits if that was
    /// fast enough. `false` to stop.
    fn moved(&mut self, bytes: u64) -> bool;
}

impl Appender {
    /// Where it is.
    pub(crate) fn disk(&self) -> &Arc<dyn Disk> {
        &self.pipeline.disk
    }

    /// Puts what `keeper` needs of `files` in their place. `timestamp`: whatever makes records obsolete up to
    /// there is known to the keeper. `checkpoint`: the one that a start would build on has all up to there.
    ///
    /// REQUIRES: the files are closed, each is followed by the next, and nobody else compacts.
    pub fn compact(
        &self,
        files: &[ClosedFile],
        timestamp: Lsn,
        checkpoint: Lsn,
        keeper: &mut dyn Keeper,
    ) -> Result<Compacted, CompactionError> {
        let last = files.last().expect("there is a file to compact");
        let path = last.path.clone();
        let unfinished = unfinished_path(&path);
        let (disk, closer) = (&**self.disk(), &self.pipeline.closer);
        let directory = path.parent().expect("a file is in a directory");
        self.remove_obsolete();
        let (compression, lack) = self.fitting_compression(files, directory);
        let outcome = self.condense(files, timestamp, checkpoint, compression, keeper);
        let (mut file, mut compacted, told) = match outcome {
            Ok(copied) => copied,
            Err(error) => {
                // It may not even exist; the next opening of the log removes what is left.
                let _ = disk.remove(&unfinished);
                return Err(error);
            }
        };
        let published = closer.outlive(disk, &path, || publish(disk, &unfinished, &path));
        let named = || FileHeader::read(&path, &*disk.open(&path)?);
        let damaged = !compacted.damage.is_empty();
        let passed_to = file.header.compaction.filter(|_| damaged).map_or(Lsn::ZERO, |its| its.needed);
        if published.is_err()
            && let Some(compaction) = &mut file.header.compaction
        {
            // The old files may be back after a loss of power.
            let timestamps = files.iter().map(ClosedFile::timestamp);
            compaction.timestamp = timestamps.min().unwrap_or(Lsn::ZERO);
            if let Some(first) = files.iter().filter_map(|file| Some(file.lsns()?.0)).min() {
                file.contents.first = file.contents.first.min(first);
            }
        }
        if published.is_ok() || named().is_ok_and(|header| header.file_id == file.header.file_id) {
            let mut closed = self.pipeline.closed.lock();
            let places = places_of(&closed, files);
            closed.splice(places, [file]);
        }
        // If that failed the new name may not last, so the other files stay: a start removes them.
        published?;
        // From now on others may rely on what it tells.
        let mut known = self.pipeline.voids.lock();
        known.note_passed(passed_to);
        told.iter().for_each(|void| known.note(void, last.teller()));
        drop(known);
        let is_replaced = |id: u64| files.iter().any(|file| file.header.file_id == id);
        self.pipeline.unread.lock().retain(|(id, _)| !is_replaced(*id));
        let (_, others) = files.split_last().expect("there is a file to compact");
        let others = others.iter().map(|file| (file.directory(), file.path.clone()));
        self.pipeline.obsolete.lock().extend(others);
        self.remove_obsolete();
        compacted.lack = lack;
        Ok(compacted)
    }

    /// The compression of the copy of some files: as the log is to have, unless the copy may then need more
    /// than they have, and there is no room for that, and for one more file of those who append; and a
    /// message that says so. Has the space of files that are gone come back if there is little.
    fn fitting_compression(&self, files: &[ClosedFile], directory: &Path) -> (Compression, Option<String>) {
        let compression = self.pipeline.compression();
        let (disk, closer) = (&**self.disk(), &self.pipeline.closer);
        let free = || disk.bytes_free(directory).unwrap_or(u64::MAX);
        let bytes: u64 = files.iter().map(ClosedFile::bytes).sum();
        let raw: u64 = files.iter().map(ClosedFile::raw_bytes).sum();
        let grows = compression == Compression::No && raw > bytes;
        let wanted = if grows { raw + self.pipeline.template.file_bytes } else { bytes };
        if free() < wanted {
            closer.settle();
        }
        let free = free();
        if !grows || free >= wanted {
            return (compression, None);
        }
        let lack = format!(
            "a file in {} stays compressed, as it and the next one would need {wanted} bytes and {free} are \
             free: make room, or set log-compression to lz4",
            OnOneLine(directory)
        );
        (Compression::Lz4, Some(lack))
    }

    /// Removes the files that compacted ones stand for. Those that the disk does not remove are tried again
    /// at the next compaction; the next start ignores and removes them.
    fn remove_obsolete(&self) {
        let Pipeline { disk, closer, obsolete, .. } = &*self.pipeline;
        let mut directories = BTreeMap::new();
        let mut tried = std::mem::take(&mut *obsolete.lock());
        tried.retain(|(lane, path)| {
            let removed = closer.outlive(&**disk, path, || remove_if_there(&**disk, path));
            directories.extend(path.parent().map(|directory| (*lane, directory.to_path_buf())));
            removed.inspect_err(|error| self.pipeline.note_error(*lane, error)).is_err()
        });
        obsolete.lock().append(&mut tried);
        for (lane, directory) in directories {
            let _ = disk.sync_dir(&directory).inspect_err(|error| self.pipeline.note_error(lane, error));
        }
    }

    /// Gives an error back that is to be passed over. What the disk did not give may be there a moment later,
    /// so that fails the compaction unless an earlier one met it at the same place.
    fn met_again(
        &self,
        file: &ClosedFile,
        offset: u64,
        error: CompactionError,
    ) -> Result<CompactionError, CompactionError> {
        let place = (file.header.file_id, offset);
        let is_new = matches!(error, CompactionError::Disk(_)) && self.pipeline.unread.lock().insert(place);
        if is_new { Err(error) } else { Ok(error) }
    }

    /// Writes the file that is to take the place of others, completely and durably.
    fn condense(
        &self,
        files: &[ClosedFile],
        timestamp: Lsn,
        checkpoint: Lsn,
        compression: Compression,
        keeper: &mut dyn Keeper,
    ) -> Result<(ClosedFile, Compacted, Vec<Void>), CompactionError> {
        let (first, last) = (&files[0], files.last().expect("there is a file to compact"));
        // Only what can be lost no more is looked at.
        let ends = files.iter().map(|file| file.contents.last).max().unwrap_or(Lsn::ZERO);
        keeper.settle(self, ends)?;
        // If the disk failed since the files were chosen, blocks of them may count no more. From now on they
        // do.
        let closed = self.pipeline.closed.lock();
        if closed[places_of(&closed, files)] != *files {
            return Err(CompactionError::Stopped);
        }
        let before = closed[..places_of(&closed, files).start].iter();
        let before = before.filter(|file| file.header.stream == first.header.stream);
        let floor =
            before.map(|file| file.contents.last_sequence.min(file.sequence_limit)).max().unwrap_or(0);
        drop(closed);
        let mut header = FileHeader { file_id: self.disk().random(), ..last.header };
        let newest_epoch = files.iter().max_by_key(|file| file.header.epoch).unwrap_or(last);
        header.epoch = newest_epoch.header.epoch;
        (header.opened_after, header.first) = (newest_epoch.header.opened_after, newest_epoch.header.first);
        let base = self.pipeline.base;
        let before = || files.iter().filter_map(|file| file.header.compaction);
        let mut needed = before().map(|compaction| compaction.needed).fold(keeper.dropped_up_to(), Lsn::max);
        let unfit = before().map(|compaction| compaction.unfit).fold(Lsn::ZERO, Lsn::max);
        let file = create_over(&**self.disk(), &unfinished_path(&last.path))?;
        let sizes = &self.pipeline.sizes;
        let outgoing = Outgoing::new(self.disk(), file, sizes.copied_bytes);
        let mut copy = Copy::new(outgoing, header.file_id, compression)?;
        let mut compacted = Compacted::default();
        // Nobody else compacts, so that nobody waits for it.
        let known = self.pipeline.voids.lock();
        needed = needed.max(known.passed_to());
        let first_number = *first.header.numbers().start();
        let numbers = first_number..=last.header.number;
        let mut condenser = Condenser::new(&known, last.header.stream, numbers, floor, sizes);
        for file in files {
            let source = self.disk().open(&file.path)?;
            compacted.bytes_before += file.bytes;
            let mut blocks = Blocks::new(&*source, file).sized(sizes);
            loop {
                let (header, mut records) = match blocks.next() {
                    Ok(Some(block)) => block,
                    Ok(None) => {
                        let Err(error) = blocks.assert_complete() else { break };
                        let (damage, up_to) = blocks.pass(error, keeper.covered(), self.end_of(file))?;
                        compacted.damage.push(damage);
                        needed = needed.max(up_to);
                        break;
                    }
                    Err(error) => {
                        let error = self.met_again(file, blocks.offset, error)?;
                        let (damage, up_to) = blocks.pass(error, keeper.covered(), self.end_of(file))?;
                        compacted.damage.push(damage);
                        needed = needed.max(up_to);
                        continue;
                    }
                };
                let raw = raw_length(records.len());
                let table = Table::of(&header, &mut records).map_err(|error| not_understood(file, &error))?;
                let part = Part { table, first: header.first, count: header.count, records };
                compacted.records_before += u64::from(header.count);
                keeper.begin(part.first, Lsn(part.first.0 + part.table.own.lsns));
                let needs = |lsn, write: &Write<'_>| keeper.needs(lsn, write);
                condenser.push(&part, needs).map_err(|error| not_understood(file, &error))?;
                if !keeper.moved(raw) {
                    return Err(CompactionError::Stopped);
                }
                copy.write_all(&mut condenser, &self.pipeline, keeper)?;
            }
        }
        condenser.finish();
        copy.write_all(&mut condenser, &self.pipeline, keeper)?;
        // What took the place of a record that was dropped has to be as safe as that was.
        keeper.settle(self, self.last())?;
        let durable = self.pipeline.durable.sequence();
        if let Some(damage) = compacted.damage.last()
            && copy.contents.last_sequence < last.contents.last_sequence
            && durable <= last.contents.last_sequence
        {
            // A start must find something behind what is missing, to know that it has the end.
            return Err(damage.clone().into());
        }
        let compaction = Compaction { timestamp, durable, first_number, base, checkpoint, needed, unfit };
        header.compaction = Some(compaction);
        let file = copy.outgoing.finish()?;
        file.write_all_at(&header.encode(), 0)?;
        file.sync_data()?;
        (compacted.bytes_after, compacted.raw_bytes_after) = (copy.offset, copy.offset + copy.contents.saved);
        compacted.records_after = copy.contents.records;
        let file = ClosedFile::new(&last.path, &header, copy.offset, copy.contents);
        let file = file.of_log_opened_in(self.pipeline.opened_in);
        Ok((file, compacted, condenser.told))
    }
}

/// The file that takes the place of others, as far as it is written.
struct Copy {
    outgoing: Outgoing,
    file_id: u64,
    compression: Compression,
    offset: u64,
    contents: Contents,
    buffer: Vec<u8>,
}

impl Copy {
    /// A file with room for its header.
    fn new(mut outgoing: Outgoing, file_id: u64, compression: Compression) -> DiskResult<Copy> {
        outgoing.push(&[0; FILE_HEADER_BYTES])?;
        let offset = FILE_HEADER_BYTES as u64;
        let (contents, buffer) = (Contents::default(), Vec::new());
        Ok(Copy { outgoing, file_id, compression, offset, contents, buffer })
    }

    /// Writes the blocks that are full.
    fn write_all(
        &mut self,
        condenser: &mut Condenser<'_>,
        pipeline: &Pipeline,
        keeper: &mut dyn Keeper,
    ) -> Result<(), CompactionError> {
        for block in condenser.full.drain(..) {
            let Sealed { raw, length, is_tried } =
                block.seal(self.file_id, self.offset, self.compression, &mut self.buffer);
            self.outgoing.push(&self.buffer)?;
            if length < raw {
                pipeline.packing.note(raw, length);
                self.contents.saved += raw - length;
            } else if is_tried {
                pipeline.packing.note_miss();
            }
            self.offset += length;
            self.contents.add(block.sequence, block.first, Lsn(block.first.0 + block.lsns - 1));
            self.contents.records -= block.lsns - u64::from(block.count);
            if !keeper.moved(raw) {
                return Err(CompactionError::Stopped);
            }
        }
        Ok(())
    }
}
