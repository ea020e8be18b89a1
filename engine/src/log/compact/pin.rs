//! Pins a running log as of one instant: its files, and the length of each that belongs to it.
//!
//! ```text
//!                              all durable up to block 45
//!   closed     0000000007   … 39 40 |                     whole: a second name will do
//!   left       0000000008   41 43 45 |                    whole, but may still be cut: copied
//!   written to 0000000009   44 | 47 49 …                  copied up to the first block that is not durable
//! ```
//!
//! What is pinned is what a loss of power could leave at this instant: all files that have a name, with every
//! block up to the last one that is durable with all before it, and none behind. So whatever a start makes of
//! a log is right for it. A file that is made ready for later holds nothing and is left out.
//!
//! REQUIRES, while the files are being taken: nobody compacts. Then no name of them goes away, and none comes
//! to stand for something else.

use std::path::Path;

use super::blocks::{Blocks, not_understood};
use crate::io::Disk;
use crate::log::closed::{ClosedFile, Contents};
use crate::log::condensed::Table;
use crate::log::error::CompactionError;
use crate::log::error::{Damage, LogError, OpenError};
use crate::log::file::FileHeader;
use crate::log::format::{BLOCK_END, FILE_HEADER_BYTES};
use crate::log::write::appender::Appender;
use crate::log::write::durable::Pending;
use crate::log::write::durable::Standing;
use crate::log::write::pipeline::State;
use crate::record::Lsn;

/// A log as it was at one instant.
#[derive(Clone, Debug)]
pub(crate) struct Pinned {
    pub(crate) log_id: u128,
    /// How many directories it has.
    pub(crate) directories: u32,
    /// It begins behind this record.
    pub(crate) base: Lsn,
    /// Its last block.
    pub(crate) sequence: u64,
    /// Its newest record.
    pub(crate) last: Lsn,
    /// Its files, by directory and number.
    pub(crate) files: Vec<PinnedFile>,
}

/// A file, as far as it belongs to a pinned log.
#[derive(Clone, Debug)]
pub(crate) struct PinnedFile {
    file: ClosedFile,
    /// Whether nobody writes to it or cuts it any more, and all that is in it belongs to the log.
    is_settled: bool,
}

impl Appender {
    /// The log as it is now, up to the last block that is durable.
    pub(crate) fn pin(&self) -> Result<Pinned, LogError> {
        let pipeline = &self.pipeline;
        let active = pipeline.active.lock();
        match &active.state {
            State::Running => {}
            State::Failed(_, error) => return Err(error.clone()),
            State::Unlogged | State::Closing | State::Closed => return Err(LogError::Closed),
        }
        let closed = pipeline.closed.lock().clone();
        let Standing { sequence, lsn: last, pending } = pipeline.durable.standing();
        let end = |header: &FileHeader, bytes: u64| first_pending(&pending, header).unwrap_or(bytes);
        let mut files = Vec::new();
        for file in closed {
            let bytes = end(&file.header, file.bytes);
            let is_settled = bytes == file.bytes && file.sequence_limit == u64::MAX;
            files.push(PinnedFile { file: ClosedFile { bytes, ..file }, is_settled });
        }
        let leaving =
            active.leaving.iter().map(|leaving| (Some(&leaving.file), leaving.length, leaving.contents));
        let current = active.lanes.iter().map(|lane| (lane.current.as_ref(), lane.offset, lane.contents));
        for (file, length, contents) in leaving.chain(current) {
            let Some(file) = file else { continue };
            let path = file.keeper_handle().path();
            // One that is just being left may be among the closed ones already.
            if files.iter().all(|other| other.path() != path) {
                let bytes = end(&file.header, length);
                let file = ClosedFile::new(path, &file.header, bytes, contents);
                files.push(PinnedFile { file, is_settled: false });
            }
        }
        files.sort_by_key(|pinned| (pinned.stream(), pinned.number()));
        Ok(Pinned {
            log_id: pipeline.template.log_id,
            directories: active.lanes.len() as u32,
            base: pipeline.base,
            sequence,
            last,
            files,
        })
    }
}

/// Where the first block of a file stands that does not count as durable.
fn first_pending(pending: &[Pending], header: &FileHeader) -> Option<u64> {
    let its = |pending: &&Pending| pending.file.header.file_id == header.file_id;
    pending.iter().filter(its).map(|pending| pending.offset).min()
}

impl PinnedFile {
    /// Its directory.
    pub(crate) fn stream(&self) -> u32 {
        self.file.header.stream
    }

    /// Its number there.
    pub(crate) fn number(&self) -> u64 {
        self.file.header.number
    }

    /// The lot that was drawn for it.
    pub(crate) fn file_id(&self) -> u64 {
        self.file.header.file_id
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.file.path
    }

    /// How much of it belongs to the log.
    pub(crate) fn bytes(&self) -> u64 {
        self.file.bytes
    }

    /// As [`ClosedFile::timestamp`].
    pub(crate) fn timestamp(&self) -> Lsn {
        self.file.timestamp()
    }

    /// The first and the last block, 0 for none, and the records that it has or had.
    pub(crate) fn contents(&self) -> ((u64, u64), Option<(Lsn, Lsn)>) {
        let contents = &self.file.contents;
        ((contents.first_sequence, contents.last_sequence), contents.lsns())
    }

    /// Whether it will be what it is for as long as it has a name, and what its header says of it.
    ///
    /// A file may be longer than its last block: a start would cut it, under whatever name.
    pub(crate) fn look(&mut self, disk: &dyn Disk) -> Result<bool, OpenError> {
        let file = disk.open(&self.file.path)?;
        let header = FileHeader::read(&self.file.path, &*file)?;
        if header.file_id != self.file.header.file_id {
            let what = "it is not the file that the log has there".to_owned();
            return Err(Damage::new(self.file.path.to_path_buf(), 0, what).into());
        }
        self.file.header = header;
        let length = file.len()?;
        if self.is_settled {
            if length < self.file.bytes {
                let what = format!("it has {length} bytes of {}", self.file.bytes);
                return Err(Damage::new(self.file.path.to_path_buf(), length, what).into());
            }
            let mut mark = BLOCK_END;
            let ends = self.file.bytes.saturating_sub(mark.len() as u64);
            let is_read = file.read_full_at(&mut mark, ends)? == mark.len();
            self.is_settled = is_read && mark == BLOCK_END && length == self.file.bytes;
        }
        // Behind a rescue the next block has its place, and nothing is there up to it.
        self.file.bytes = self.file.bytes.min(length);
        Ok(self.is_settled)
    }

    /// Whether nobody writes to it or cuts it any more.
    pub(crate) fn is_settled(&self) -> bool {
        self.is_settled
    }

    /// Finds out what belongs to the log, where that is not known: reads the blocks of `copy`, which is the
    /// file or a copy of it.
    pub(crate) fn measure(&mut self, disk: &dyn Disk, copy: &Path) -> Result<(), CompactionError> {
        let file = disk.open(copy)?;
        let looked_at = ClosedFile { path: copy.into(), ..self.file.clone() };
        let mut blocks = Blocks::new(&*file, &looked_at);
        let mut contents = Contents::default();
        let mut end = FILE_HEADER_BYTES as u64;
        while let Some((header, mut body)) = blocks.next()? {
            let table = Table::of(&header, &mut body).map_err(|error| not_understood(&looked_at, &error))?;
            let last = Lsn((header.first.0 + table.own.lsns).saturating_sub(1));
            contents.add(table.own.from, header.first, last);
            contents.records -= table.own.lsns - u64::from(header.count);
            contents.last_sequence = header.sequence;
            end = blocks.offset;
        }
        (self.file.bytes, self.file.contents) = (end, contents);
        Ok(())
    }
}
