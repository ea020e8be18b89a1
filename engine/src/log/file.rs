//! A log file: its header, its name, and its creation.
//!
//! ```text
//!  0       8         12       16     32       36     40       48        56      64         72
//!  | magic | version | length | log  | stream | zero | file   | file id | epoch | opened   | first |
//!  |       | u32     | u32    | id   | u32    | u32  | number |         |       | after    | lsn   |
//!  80          88        96             104    112          120          128         136      144
//!  | timestamp | durable | first number | base | checkpoint | era behind | era after | needed | unfit |
//!  152     508      512
//!  | zeros | crc32c |
//! ```
//!
//! - From `timestamp` to `checkpoint`, `needed` and `unfit` are zeros if it was not compacted: see
//!   [`Compaction`]. The two of the era are zeros unless the log was switched on while the store had data:
//!   see [`Era`].
//! - A file gets its name only when its header is durable, so a named file without a whole header is damage.
//! - An *epoch* is a time in which sequences rise without a break: it begins when the log is opened and when
//!   it has recovered from a failed disk. All files of an epoch say the same `opened after`: the last
//!   sequence of the epochs before that counts. What older files hold above it is void, so numbers can be
//!   given again without old blocks ever coming back to life.
//! - `opened after` was durable before the header was written.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::{Damage, OpenError};
use super::format::{FILE_HEADER_BYTES, FILE_MAGIC, FORMAT_VERSION};
use super::options::SyncMode;
use super::threads::{AtomicBool, Ordering};
use crate::io::{Disk, DiskError, DiskFile, DiskResult};
use crate::record::Lsn;

/// Numbers of files, epochs and blocks stay below this. A log is gone on with only below the half of it, so
/// that counting on never comes to the end.
pub(super) const NUMBERS_END: u64 = 1 << 62;
/// The same for numbers of records. Those that are appended end earlier: see [`Lsn::LIMIT`].
pub(super) const LSN_END: u64 = Lsn::END.0;

/// Where a header says since when the log has gone on.
const ERA_AT: usize = 120;

/// The header of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileHeader {
    /// The log that the file belongs to.
    pub(super) log_id: u128,
    /// Which of its directories.
    pub(super) stream: u32,
    /// Which file of the directory; rises.
    pub(super) number: u64,
    /// Drawn by lot for this file; repeated in each of its blocks.
    pub(super) file_id: u64,
    /// The epoch in which it was made.
    pub(super) epoch: u64,
    /// The last block before the epoch.
    pub(super) opened_after: u64,
    /// The first `Lsn` of the epoch.
    pub(super) first: Lsn,
    /// Since when the log has gone on without a gap.
    pub(super) era: Era,
    /// The additional fields of a compacted file.
    pub(super) compaction: Option<Compaction>,
}

/// Since when the log has gone on without a gap. A log that is switched on while the store has data begins
/// an era, which goes on from a checkpoint; what files of earlier eras hold is no part of it. All zeros:
/// since the log was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Era {
    /// The era begins behind this record, which a checkpoint has, and all before it.
    pub(super) behind: Lsn,
    /// The era begins behind this block.
    pub(super) after: u64,
}

/// The fields about the compaction in the header of a compacted file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Compaction {
    /// Whatever made records of the file obsolete up to here was known when it was copied.
    pub(super) timestamp: Lsn,
    /// This block and all before it were durable when the file got its name.
    pub(super) durable: u64,
    /// The file stands for those of its directory from this number to its own.
    pub(super) first_number: u64,
    /// The log begins behind this record.
    pub(super) base: Lsn,
    /// The checkpoint that a start would have built on has all up to here; 0 for none. With an older one,
    /// what was removed up to here may be there again.
    pub(super) checkpoint: Lsn,
    /// Records up to here may not fit: a repair has cut off what was said of their keys later.
    pub(super) unfit: Lsn,
    /// Records up to here were dropped whatever they were, as a checkpoint has them: there must be one that
    /// has all up to here.
    pub(super) needed: Lsn,
}

impl FileHeader {
    /// The numbers of the files that this one stands for.
    pub(super) fn numbers(&self) -> RangeInclusive<u64> {
        self.compaction.map_or(self.number, |compaction| compaction.first_number)..=self.number
    }

    /// Whether the log goes on from a checkpoint because of what was dropped from the file.
    pub(super) fn needs_checkpoint(&self) -> bool {
        self.compaction.is_some_and(|compaction| compaction.needed > Lsn::ZERO)
    }

    pub(super) fn encode(&self) -> [u8; FILE_HEADER_BYTES] {
        let mut bytes = Vec::with_capacity(FILE_HEADER_BYTES);
        bytes.extend_from_slice(&FILE_MAGIC);
        bytes.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes.extend_from_slice(&(FILE_HEADER_BYTES as u32).to_le_bytes());
        bytes.extend_from_slice(&self.log_id.to_le_bytes());
        bytes.extend_from_slice(&u64::from(self.stream).to_le_bytes());
        for number in [self.number, self.file_id, self.epoch, self.opened_after, self.first.0] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        let (needed, unfit) =
            self.compaction.map_or_else(Default::default, |compaction| (compaction.needed, compaction.unfit));
        if let Some(Compaction { timestamp, durable, first_number, base, checkpoint, .. }) = self.compaction {
            for number in [timestamp.0, durable, first_number, base.0, checkpoint.0] {
                bytes.extend_from_slice(&number.to_le_bytes());
            }
        }
        bytes.resize(ERA_AT, 0);
        for number in [self.era.behind.0, self.era.after, needed.0, unfit.0] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.resize(FILE_HEADER_BYTES - 4, 0);
        bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
        bytes.try_into().expect("the header has its length")
    }

    /// Reads the header of the file at `path`.
    pub(super) fn read(path: &Path, file: &dyn DiskFile) -> Result<FileHeader, OpenError> {
        let mut bytes = [0; FILE_HEADER_BYTES];
        let count = file.read_full_at(&mut bytes, 0)?;
        let damaged = |what: &str| OpenError::from(Damage::new(path.to_path_buf(), 0, what.to_string()));
        let u64_at =
            |at: usize| u64::from_le_bytes(*bytes[at..].first_chunk().expect("8 bytes in the header"));
        let u32_at =
            |at: usize| u32::from_le_bytes(*bytes[at..].first_chunk().expect("4 bytes in the header"));
        if count < FILE_HEADER_BYTES {
            return Err(damaged("the file ends within its header"));
        }
        if bytes[..8] != FILE_MAGIC || u32_at(508) != crc32c::crc32c(&bytes[..508]) {
            return Err(damaged("the file's header is spoilt"));
        }
        if u32_at(8) != FORMAT_VERSION {
            let reason = format!("its format has version {}, known is {FORMAT_VERSION}", u32_at(8));
            return Err(OpenError::TooNew { path: path.to_path_buf(), reason });
        }
        let header = FileHeader {
            log_id: u128::from_le_bytes(*bytes[16..].first_chunk().expect("16 bytes in the header")),
            stream: u32_at(32),
            number: u64_at(40),
            file_id: u64_at(48),
            epoch: u64_at(56),
            opened_after: u64_at(64),
            first: Lsn(u64_at(72)),
            era: Era { behind: Lsn(u64_at(ERA_AT)), after: u64_at(ERA_AT + 8) },
            // Something is always durable before a file is compacted.
            compaction: (u64_at(88) > 0).then(|| Compaction {
                timestamp: Lsn(u64_at(80)),
                durable: u64_at(88),
                first_number: u64_at(96),
                base: Lsn(u64_at(104)),
                checkpoint: Lsn(u64_at(112)),
                needed: Lsn(u64_at(ERA_AT + 16)),
                unfit: Lsn(u64_at(ERA_AT + 24)),
            }),
        };
        let numbers = [header.number, header.epoch, header.opened_after, header.era.after];
        if numbers.iter().any(|number| *number >= NUMBERS_END)
            || header.first.max(header.era.behind).0 >= LSN_END
            || header.compaction.is_some_and(|compaction| !compaction.is_possible(header.number))
        {
            return Err(damaged("the file's header has numbers that no log reaches"));
        }
        Ok(header)
    }
}

impl Compaction {
    fn is_possible(&self, number: u64) -> bool {
        let lsns = [self.timestamp, self.base, self.checkpoint, self.needed, self.unfit];
        let lsns = lsns.iter().all(|lsn| lsn.0 < LSN_END);
        lsns && self.durable < NUMBERS_END && self.first_number <= number
    }
}

/// The name of a directory's file.
pub(crate) fn file_name(number: u64) -> String {
    format!("{number:010}.tarnlog")
}

/// The number in a file's name, if it is the name of a log file.
pub(super) fn file_number(name: &str) -> Option<u64> {
    let number: u64 = name.strip_suffix(".tarnlog")?.parse().ok()?;
    (file_name(number) == name).then_some(number)
}

/// Ending of files that are not complete; the next opening of the log removes them.
pub(super) const UNFINISHED: &str = ".unfinished";

/// Writes a small file so that it is there whole and durable, or not at all.
pub(super) fn write_atomically(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> DiskResult<()> {
    let unfinished = unfinished_path(path);
    let file = create_over(disk, &unfinished)?;
    file.write_all_at(bytes, 0)?;
    file.sync_data()?;
    publish(disk, &unfinished, path)
}

/// The name that a file has until it is complete.
pub(super) fn unfinished_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(UNFINISHED);
    PathBuf::from(name)
}

/// Makes a file in place of a leftover of the same name.
pub(crate) fn create_over(disk: &dyn Disk, path: &Path) -> DiskResult<Arc<dyn DiskFile>> {
    match disk.create(path) {
        Err(error) if error.source.kind() == std::io::ErrorKind::AlreadyExists => {
            disk.remove(path)?;
            disk.create(path)
        }
        answer => answer,
    }
}

/// Gives a complete, durable file its name, durably.
pub(super) fn publish(disk: &dyn Disk, unfinished: &Path, path: &Path) -> DiskResult<()> {
    disk.rename(unfinished, path)?;
    disk.sync_dir(path.parent().expect("a file is in a directory"))
}

/// A file that blocks are written to.
#[derive(Debug)]
pub(super) struct LogFile {
    pub(super) header: FileHeader,
    /// Opened once for each flight of the directory and, last, once for the keeper, when the file was made.
    /// An operating system reports a failure of the device once for each open file; so nobody takes another's
    /// failure for its own success.
    pub(super) handles: Vec<Arc<dyn DiskFile>>,
    /// Blocks end below this, unless one alone is larger.
    pub(super) capacity: u64,
    /// A sync of it has failed: no later one is believed.
    pub(super) distrusted: AtomicBool,
}

/// The header fields that are the same for all files.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FileTemplate {
    pub(super) log_id: u128,
    /// Length that is reserved.
    pub(super) file_bytes: u64,
    /// How often each is opened.
    pub(super) handles: usize,
}

/// How a new file is made ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Preparation {
    /// The space is reserved, if the file system can.
    Reserve,
    /// The space is written over with zeros, so that no later write changes anything but bytes.
    Zero,
}

impl Preparation {
    /// How a file is made ready for a mode.
    pub(super) fn of(mode: SyncMode) -> Preparation {
        if mode == SyncMode::Always { Preparation::Zero } else { Preparation::Reserve }
    }
}

/// Bytes that are written over and synced in one go. A device that is given a whole file at once keeps the
/// syncs of those who wait for records waiting behind it.
const ZEROS_BYTES: usize = 1 << 20;

impl LogFile {
    /// Makes a file: header, space and first blocks durable first, then the name.
    ///
    /// A file that is not completed is removed, so that a full disk is not filled further by trying.
    pub(super) fn create(
        disk: &dyn Disk,
        directory: &Path,
        header: FileHeader,
        template: FileTemplate,
        preparation: Preparation,
        fill: impl FnOnce(&dyn DiskFile) -> DiskResult<()>,
    ) -> DiskResult<LogFile> {
        let path = directory.join(file_name(header.number));
        let unfinished = unfinished_path(&path);
        let complete = || {
            let file = create_over(disk, &unfinished)?;
            file.reserve(template.file_bytes)?;
            if preparation == Preparation::Zero {
                write_zeros(&*file, template.file_bytes)?;
            }
            file.write_all_at(&header.encode(), 0)?;
            fill(&*file)?;
            file.sync_data()
        };
        if let Err(error) = complete() {
            // It may not even exist; the next opening of the log removes what is left.
            let _ = disk.remove(&unfinished);
            return Err(error);
        }
        let open = |()| (0..template.handles).map(|_| disk.open(&path)).collect::<DiskResult<_>>();
        let handles = publish(disk, &unfinished, &path).and_then(open).inspect_err(|_| {
            // Whichever name it has. It may come back after a loss of power, but does not fill the disk now.
            let _ = disk.remove(&path);
            let _ = disk.remove(&unfinished);
        })?;
        let distrusted = AtomicBool::new(false);
        Ok(LogFile { header, handles, capacity: template.file_bytes, distrusted })
    }

    /// Syncs the file through one of its handles.
    pub(super) fn sync(&self, handle: usize) -> DiskResult<()> {
        let outcome = self.handles[handle].sync_data();
        if outcome.is_err() {
            self.distrusted.store(true, Ordering::SeqCst);
        } else if self.distrusted.load(Ordering::SeqCst) {
            let error = std::io::Error::other("an earlier sync failed");
            return Err(DiskError::new("sync", self.handles[handle].path(), error));
        }
        outcome
    }

    /// Which of the log's directories it is in.
    pub(super) fn lane(&self) -> usize {
        self.header.stream as usize
    }

    /// The handle of those who are no flight.
    pub(super) fn keeper_handle(&self) -> &dyn DiskFile {
        &**self.handles.last().expect("a file has a handle for the keeper")
    }
}

fn write_zeros(file: &dyn DiskFile, bytes: u64) -> DiskResult<()> {
    let zeros = vec![0; ZEROS_BYTES];
    let mut offset = 0;
    while offset < bytes {
        let length = (bytes - offset).min(ZEROS_BYTES as u64);
        file.write_all_at(&zeros[..length as usize], offset)?;
        file.sync_data()?;
        offset += length;
    }
    Ok(())
}
