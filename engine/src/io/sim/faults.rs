//! What can go wrong: how the machine dies, and which calls fail before.

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
}

impl Fault {
    /// All of them.
    pub const ALL: [Fault; 5] =
        [Fault::ShortWrite, Fault::WriteError, Fault::SyncError, Fault::NameError, Fault::SyncDirError];
}

/// What goes wrong.
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
    /// This file cannot be read, as of a device that fails there.
    pub unreadable: Option<PathBuf>,
}
