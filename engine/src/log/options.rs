//! The options of the log.

use std::path::PathBuf;
use std::sync::Arc;

use super::sizes::Sizes;
use crate::io::{Clock, SystemClock};
use crate::record::Lsn;

/// When records become durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum SyncMode {
    /// Each block is synced when it is written; the durable watermark follows the records closely.
    Always = 0,
    /// Blocks are written within milliseconds and synced every half second.
    EverySec = 1,
    /// Blocks are written within milliseconds; the operating system decides when they are durable.
    No = 2,
}

impl SyncMode {
    /// The mode that this number stands for.
    pub(super) fn from_u8(number: u8) -> SyncMode {
        match number {
            0 => SyncMode::Always,
            1 => SyncMode::EverySec,
            _ => SyncMode::No,
        }
    }
}

/// How the blocks of the log are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Compression {
    /// As they are.
    #[default]
    No = 0,
    /// Compressed by LZ4 where that makes them shorter.
    Lz4 = 1,
}

impl Compression {
    /// The kind that this number stands for.
    pub(super) fn from_u8(number: u8) -> Compression {
        if number == Compression::Lz4 as u8 { Compression::Lz4 } else { Compression::No }
    }
}

/// The options for opening a log.
#[derive(Clone, Debug)]
pub struct LogOptions {
    /// Where the files are; each directory stands for a device. At least one.
    pub directories: Vec<PathBuf>,
    /// When records become durable; can be changed later.
    pub mode: SyncMode,
    /// How blocks are written; can be changed later.
    pub compression: Compression,
    /// Length at which a file is left for the next one.
    pub file_bytes: u64,
    /// How many blocks of one directory may be on their way to the disk at a time.
    pub flushes_in_flight: usize,
    /// Bytes accepted but not yet written above which callers should wait before they append more. When twice
    /// as many wait, more are refused.
    pub backlog_bytes_limit: usize,
    /// Where a log begins that is made now: behind this record, which a checkpoint has.
    pub base: Lsn,
    /// The clock, for the status.
    pub clock: Arc<dyn Clock>,
    /// How much is kept, read and written at a time.
    pub sizes: Sizes,
}

impl LogOptions {
    /// The defaults, with these directories.
    pub fn new(directories: Vec<PathBuf>) -> LogOptions {
        LogOptions {
            directories,
            mode: SyncMode::EverySec,
            compression: Compression::No,
            file_bytes: 64 << 20,
            flushes_in_flight: 4,
            backlog_bytes_limit: 64 << 20,
            base: Lsn::ZERO,
            clock: Arc::new(SystemClock::new()),
            sizes: Sizes::default(),
        }
    }
}
