//! The errors of the log: one enum for opening it, one for appending to it, one for compacting a file of it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;

use crate::io::DiskError;
use crate::record::Lsn;

/// Why the log was not opened. Nothing on disk has been changed, but for what a failed disk did half.
#[derive(Debug, Error)]
pub enum OpenError {
    /// Another process holds the log.
    #[error("{} is in use by another server", .0.display())]
    InUse(PathBuf),
    /// The same directory is given twice.
    #[error("{} is named twice: name each directory of the log once", .0.display())]
    NamedTwice(PathBuf),
    /// The directories do not belong together, or not all that belong together are there.
    #[error("{}: {reason}", path.display())]
    WrongDirectories {
        /// The directory in question.
        path: PathBuf,
        /// A description of the fault, and of the correct state.
        reason: String,
    },
    /// Bytes that were durable are missing or spoilt.
    #[error(transparent)]
    Damaged(#[from] Damage),
    /// `tarn log repair` was ended before its end: what it has not saved yet must not be thrown away.
    #[error("{}: a repair of the log was interrupted; finish it with: {remedy}", path.display())]
    UnderRepair {
        /// The directory.
        path: PathBuf,
        /// The action that the operator can take.
        remedy: Remedy,
    },
    /// The bytes are as they were written, and this version does not understand them.
    #[error("{}: {reason}; another version of this program wrote it: start that one", path.display())]
    TooNew {
        /// The file.
        path: PathBuf,
        /// The feature that this version does not know.
        reason: String,
    },
    /// The log tells of a database that there shall not be.
    #[error(
        "{}: the block at byte {offset} tells of database {db}, and there are only {databases}: \
         start with --databases {} or more",
        path.display(), u32::from(*db) + 1
    )]
    TooFewDatabases {
        /// The file.
        path: PathBuf,
        /// Where in it the block begins.
        offset: u64,
        /// The database, from 0.
        db: u8,
        /// How many there are.
        databases: usize,
    },
    /// The checkpoint and the log tell different stories.
    #[error("{0}")]
    Unrelated(String),
    /// The checkpoint that the log builds on cannot be read.
    #[error(transparent)]
    Checkpoint(Box<dyn std::error::Error + Send + Sync>),
    /// The disk refused.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The log was opened, and what a start has to write into it was not taken.
    #[error(transparent)]
    Log(#[from] LogError),
}

/// Damage to records that were durable.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the log is damaged in {} at byte {offset}: {what}; restore the file{}", path.display(), Or(remedy))]
pub struct Damage {
    /// The file, or the directory if a file is missing.
    pub path: PathBuf,
    /// Where in the file.
    pub offset: u64,
    /// A description of the fault.
    pub what: String,
    /// The action that the operator can take when there is no copy to restore.
    pub remedy: Option<Remedy>,
}

/// The command that cuts a damaged log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remedy {
    /// The directories of the log.
    pub log: Vec<PathBuf>,
    /// The directory of the checkpoints, unless it is looked for beside those of the log.
    pub checkpoints: Option<PathBuf>,
}

impl Remedy {
    /// For a log in these directories, with checkpoints beside them.
    pub fn new(log: Vec<PathBuf>) -> Remedy {
        Remedy { log, checkpoints: None }
    }

    /// Names the directory of the checkpoints, if nobody would look there.
    pub fn with_checkpoints(mut self, directory: &Path) -> Remedy {
        let is_there =
            |log: &PathBuf| log.parent().is_some_and(|parent| parent.join("checkpoints") == directory);
        self.checkpoints = Some(directory.to_path_buf()).filter(|_| !self.log.iter().any(is_there));
        self
    }
}

struct Or<'a>(&'a Option<Remedy>);

impl Damage {
    pub(crate) fn new(path: PathBuf, offset: u64, what: String) -> Damage {
        Damage { path, offset, what, remedy: None }
    }
}

impl OpenError {
    /// Tells in a damage that a repair of these directories would help.
    pub(crate) fn with_remedy(mut self, directories: &[PathBuf]) -> OpenError {
        if let OpenError::Damaged(damage) = &mut self {
            damage.remedy = Some(Remedy::new(directories.to_vec()));
        }
        self
    }

    /// Tells, beside the repair that would help, where the checkpoints are.
    pub(crate) fn with_checkpoints(mut self, directory: &Path) -> OpenError {
        if let OpenError::Damaged(Damage { remedy: Some(remedy), .. })
        | OpenError::UnderRepair { remedy, .. } = &mut self
        {
            *remedy = remedy.clone().with_checkpoints(directory);
        }
        self
    }
}

impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("tarn log repair --truncate")?;
        if self.checkpoints.is_some() {
            f.write_str(" --checkpoints")?;
        }
        for directory in self.checkpoints.iter().chain(&self.log) {
            let name = directory.to_string_lossy();
            if name.chars().all(|letter| letter.is_alphanumeric() || "/._-+,:@%".contains(letter)) {
                write!(f, " {name}")?;
            } else {
                // As a shell takes it.
                write!(f, " '{}'", name.replace('\'', r"'\''"))?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Or<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(remedy) => write!(f, ", or give up everything from there on with: {remedy}"),
            None => Ok(()),
        }
    }
}

/// Why a group was not appended, or the log not closed. No record of the group is in the log.
#[derive(Clone, Debug, Error)]
pub enum LogError {
    /// The disk has failed; the log takes up its work again by itself when the disk does.
    #[error("the log cannot be written: {0}")]
    Failed(Arc<DiskError>),
    /// The disk is too slow: twice the backlog limit waits to be written.
    #[error("the log cannot be written fast enough")]
    Backlogged,
    /// The numbers of records have come to their end, after years of millions a second.
    #[error(
        "the numbers of records have come to their end: export the data (tarn export), and import them into \
         a new directory (tarn import)"
    )]
    Exhausted,
    /// The log has been closed.
    #[error("the log is closed")]
    Closed,
}

/// Why a compaction was given up. The log is as it was.
#[derive(Debug, Error)]
pub enum CompactionError {
    /// The disk refused.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The log takes no records now, or could not make durable what it has.
    #[error(transparent)]
    Log(#[from] LogError),
    /// A file is not as it was written.
    #[error(transparent)]
    Damaged(#[from] Damage),
    /// A file is not as it was written, and no checkpoint has all that was there.
    #[error("{damage}")]
    Uncovered {
        /// The damage.
        damage: Damage,
        /// A checkpoint that has all up to here has what was there.
        up_to: Lsn,
    },
    /// It was told to stop.
    #[error("the compaction was stopped")]
    Stopped,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remedy_names_the_checkpoints_where_nobody_would_look_for_them() {
        let remedy = Remedy::new(vec!["/disk/log".into(), "/other/log".into()]);
        let said = |directory: &str| remedy.clone().with_checkpoints(Path::new(directory)).to_string();
        assert_eq!(said("/disk/checkpoints"), "tarn log repair --truncate /disk/log /other/log");
        let named = "tarn log repair --truncate --checkpoints /data/checkpoints /disk/log /other/log";
        assert_eq!(said("/data/checkpoints"), named);
        assert!(said("/my data").contains("--checkpoints '/my data' /disk/log"));
    }
}
