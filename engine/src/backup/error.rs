//! The errors of taking and of restoring a backup.

use std::path::PathBuf;

use crate::checkpoint::CheckpointError;
use crate::io::DiskError;
use crate::log::{CompactionError, LogError, OpenError};
use crate::record::Lsn;

/// The failure of a backup. The log is unchanged, and the partial backup is removed as far as the disk
/// allows.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// Nothing is logged.
    #[error("there is no log to back up: the server runs with 'appendonly no'")]
    NoLog,
    /// It was told to stop.
    #[error("the backup was given up")]
    Stopped,
    /// There is something in the directory already.
    #[error("{} is not empty{reason}: name another directory", path.display())]
    Occupied {
        /// The directory.
        path: PathBuf,
        /// A description of the contents, if they are known.
        reason: &'static str,
    },
    /// The log has not come as far.
    #[error(
        "the log ends with record {last}, before {since}: SINCE takes the end of an earlier backup of it"
    )]
    Ahead {
        /// Where the increment was to begin.
        since: Lsn,
        /// Where the log ends.
        last: Lsn,
    },
    /// The log takes no records, or could not make durable what it has.
    #[error("{0}")]
    Log(#[from] LogError),
    /// The disk refused.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// A file of the log is damaged, or could not be read.
    #[error("a file is not as it was written: {0}")]
    Source(#[from] CompactionError),
    /// A directory holds no backup.
    #[error("{} holds no {what}", path.display())]
    NoBackup {
        /// The directory.
        path: PathBuf,
        /// A noun for the missing contents.
        what: &'static str,
    },
    /// Another version of this program wrote the manifest.
    #[error("{}: its first line is not known here: another version of this program wrote it", .0.display())]
    TooNew(PathBuf),
    /// A file of a backup is missing, or is not what was backed up.
    #[error("the backup is damaged: {}: {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// A description of the fault.
        what: String,
    },
    /// These backups do not make one log.
    #[error("{}: {reason}", path.display())]
    Mixed {
        /// The backup that does not fit.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The restored files are not a valid log.
    #[error("what was restored is not as it was backed up: {0}")]
    Restored(#[from] OpenError),
    /// The checkpoint could not be put in place.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
}
