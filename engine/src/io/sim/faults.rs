//! Faults of the simulated disk: how the machine dies, and which calls fail before.

use std::ops::Range;
use std::path::PathBuf;

/// How the machine dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// The process ends; the operating system goes on and has everything that was written.
    Kill,
    /// The operating system ends too; what was not synced is at the mercy of chance.
    PowerLoss,
}

/// A kind of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A write takes only a part.
    ShortWrite,
    /// A write fails and may have written a part.
    WriteError,
    /// A sync fails; what it should have made durable is forgotten by the cache's bookkeeping and may never
    /// arrive.
    SyncError,
    /// Making, renaming or removing a name fails.
    NameError,
    /// The names of a directory are not synced, and stay unsynced.
    SyncDirError,
    /// A sync fails as [`Fault::SyncError`] does, because there is no space where it was promised late.
    FullAtSync,
    /// A file is not opened, be it the one that was just made: the process has too many open.
    OpenError,
    /// A directory is not listed or not made.
    DirectoryError,
    /// A read gives a part.
    ShortRead,
    /// A read fails.
    ReadError,
    /// A sync succeeds, and one of the writes that it covers is not on the device, nor ever will be.
    LostWrite,
    /// A sync succeeds, and one of the writes that it covers is elsewhere on the device, in place of what was
    /// there.
    MisdirectedWrite,
}

impl Fault {
    /// All that a device and a system tell of.
    pub const ALL: [Fault; 10] = [
        Fault::ShortWrite,
        Fault::WriteError,
        Fault::SyncError,
        Fault::NameError,
        Fault::SyncDirError,
        Fault::FullAtSync,
        Fault::OpenError,
        Fault::DirectoryError,
        Fault::ShortRead,
        Fault::ReadError,
    ];
    /// The faults of a device that loses or misplaces data and reports no error.
    pub const SILENT: [Fault; 2] = [Fault::LostWrite, Fault::MisdirectedWrite];
}

/// The faults to inject.
#[derive(Clone, Debug, Default)]
pub struct SimOptions {
    /// Of a thousand calls that a fault fits, so many have it.
    pub faults_per_mille: Vec<(Fault, u32)>,
    /// The machine dies at this call, counted from 1 over all calls that change something.
    pub crash_at: Option<u64>,
    /// Bytes that all files together may have.
    pub capacity_bytes: Option<u64>,
    /// No file gets a second name.
    pub no_links: bool,
    /// After a failed sync programs see what the device has, not what was written: the operating system has
    /// dropped the pages that it counts as clean.
    pub drops_unsynced: bool,
    /// A sector of 4 KB that is being written when power fails, or when a sync fails, may be lost as a whole,
    /// with what was durable in it. No device should: `docs/design/0031`.
    pub tears_sectors: bool,
    /// Calls of several threads overlap: a write is there piece by piece, and a sync makes durable what was
    /// written before it and perhaps a part of what is written meanwhile.
    pub overlaps: bool,
    /// This file cannot be read, as of a device that fails there.
    pub unreadable: Option<PathBuf>,
    /// These bytes of files cannot be read.
    pub bad_bytes: Vec<(PathBuf, Range<u64>)>,
}
