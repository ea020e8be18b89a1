//! The errors of taking and of reading a checkpoint.

use std::path::{Path, PathBuf};

use crate::io::DiskError;
use crate::log::LogError;
use crate::view::{Cancelled, ViewError};

/// The failure of a checkpoint. The last checkpoint is unchanged.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// One is being taken already.
    #[error("a checkpoint is being taken already")]
    Busy,
    /// The server is stopping, or somebody does not want it any more.
    #[error("the checkpoint was given up")]
    Stopped,
    /// The disk refused.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The log does not take what a checkpoint would build on.
    #[error("a checkpoint must not be ahead of the log: {0}")]
    Log(#[from] LogError),
    /// There was no view to be had.
    #[error(transparent)]
    NoView(#[from] ViewError),
    /// The view was cancelled.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
    /// There is nothing that a child process could write to.
    #[error("a child process cannot write a checkpoint here: the disk has no descriptors")]
    NoDescriptor,
    /// No child process could be made, or looked after.
    #[error("cannot fork a process that writes the checkpoint: {0}; checkpoint-mode full needs none")]
    Fork(std::io::Error),
    /// The child process did not do what it was made for.
    #[error("the process that wrote the checkpoint {0}")]
    Child(String),
    /// Another server uses the directory.
    #[error("{} is in use by another server", .0.display())]
    InUse(PathBuf),
    /// The bytes are not those of a checkpoint.
    #[error(
        "the checkpoint is damaged in {} at byte {offset}: {what}; restore the file, or move its directory \
         away to start without it, if there is a log that does not need it", path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where in it.
        offset: u64,
        /// A description of the fault.
        what: String,
    },
    /// Another version of this program wrote it.
    #[error("{}: {reason}; another version of this program wrote it: start that one", path.display())]
    TooNew {
        /// The file.
        path: PathBuf,
        /// The feature that this version does not know.
        reason: String,
    },
    /// It tells of more databases than there are.
    #[error("{} tells of database {db}, and there are only {databases}: start with --databases {} or more",
        path.display(), u32::from(*db) + 1)]
    TooFewDatabases {
        /// The file.
        path: PathBuf,
        /// The database, from 0.
        db: u8,
        /// How many there are.
        databases: usize,
    },
}

/// The error of a file that is damaged at a byte.
pub(super) fn damaged(path: &Path, offset: u64, what: impl Into<String>) -> CheckpointError {
    CheckpointError::Damaged { path: path.to_path_buf(), offset, what: what.into() }
}
