//! Redis's files into a data directory and out of it, while no server runs there.
//!
//! ```text
//!   dump.rdb ──import──> store in memory ──checkpoint──> DIR/checkpoints ──> the next tarn serve
//!   DIR: checkpoint, log ──read──> store in memory ──export──> dump.rdb.tmp ──rename──> dump.rdb
//! ```
//!
//! Either is done wholly or not at all: an import reads the file to its checksum before it writes the first
//! byte; an export gives the file its name when all of it is on disk.

mod export;
mod import;

pub use export::{Exported, export};
pub use import::{FromRdb, Imported, import, load};

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::persist::libraries::{self, FUNCTIONS_FILE, FunctionsError};
use tarn_engine::CommitError;
use tarn_engine::backup;
use tarn_engine::checkpoint::{CheckpointError, Checkpoints};
use tarn_engine::io::{Disk, DiskError, OsDisk};
use tarn_engine::view::{Cancelled, ViewError};
use tarn_engine::{Log, OpenError};
use tarn_rdb::ReadError;
use thiserror::Error;

/// Where a server keeps its data.
#[derive(Clone, Debug)]
pub struct Place {
    /// The data directory.
    pub dir: PathBuf,
    /// The directories of the log, relative ones below `dir`; empty: `log`.
    pub log_dirs: Vec<PathBuf>,
    /// Number of logical databases.
    pub databases: usize,
    /// Threads that read checkpoint and log.
    pub threads: usize,
}

/// How far it has come.
#[derive(Clone, Copy, Debug)]
pub enum Stage {
    /// Reads the existing data.
    Reading {
        /// Keys so far; 0 where only bytes are known.
        keys: u64,
        /// Bytes so far.
        bytes: u64,
        /// Bytes in all.
        bytes_total: u64,
    },
    /// All has been read, and is written.
    Writing {
        /// Keys so far.
        keys: u64,
        /// Keys in all.
        keys_total: u64,
    },
}

/// Why nothing was imported or exported. What was there before is there still.
#[derive(Debug, Error)]
pub enum TransferError {
    /// The data directory is missing or cannot be used.
    #[error("cannot use data directory {}: {source}; create it, or name another with --dir", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// There is data where data was to be brought.
    #[error(
        "{} holds {what}: an import needs a data directory without; name another with --dir", path.display()
    )]
    NotEmpty {
        /// The directory.
        path: PathBuf,
        /// Its contents.
        what: &'static str,
    },
    /// There is no data.
    #[error("{} holds neither a checkpoint nor a log; name the data directory with --dir", path.display())]
    Empty {
        /// The data directory.
        path: PathBuf,
    },
    /// Redis's file is not read.
    #[error("{}: {error}{}", path.display(), Hint(error))]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Where, and why.
        error: ReadError,
    },
    /// Redis's file has a key twice.
    #[error("{}: is damaged before byte {offset}: the key \"{key}\" is there twice", path.display())]
    Duplicate {
        /// The file.
        path: PathBuf,
        /// Behind the second one.
        offset: u64,
        /// The key, escaped.
        key: String,
    },
    /// Redis's file has a document that is none.
    #[error("{}: is damaged before byte {offset}: the document at \"{key}\" is no JSON", path.display())]
    NotJson {
        /// The file.
        path: PathBuf,
        /// Behind the document.
        offset: u64,
        /// The key, escaped.
        key: String,
    },
    /// A library of functions in Redis's file cannot be loaded.
    #[error("{}: a library of functions cannot be loaded: {why}", path.display())]
    Functions {
        /// The file.
        path: PathBuf,
        /// The error.
        why: String,
    },
    /// The file of functions in the data directory cannot be used.
    #[error(transparent)]
    FunctionsFile(#[from] FunctionsError),
    /// Redis's file has more databases.
    #[error(
        "{}: tells of database {database} before byte {offset}, and there are only {databases}: import with \
         --databases {}, and start the server with as many", path.display(), database.saturating_add(1)
    )]
    TooFewDatabases {
        /// The file.
        path: PathBuf,
        /// Behind the first key of the database.
        offset: u64,
        /// The database, from 0.
        database: u64,
        /// How many there are.
        databases: usize,
    },
    /// Redis's file cannot be opened or written.
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// The attempted action.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The checkpoint is not read or not written.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// Checkpoint and log are not read.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The disk refused.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The store refused.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// There was no view to be had.
    #[error(transparent)]
    NoView(#[from] ViewError),
    /// The view was cancelled.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}

impl TransferError {
    /// Whether what was found is the reason, not a disk or a system that failed: the same again would end
    /// the same.
    pub fn is_refusal(&self) -> bool {
        match self {
            TransferError::File { .. }
            | TransferError::Disk(_)
            | TransferError::Commit(_)
            | TransferError::NoView(_)
            | TransferError::Cancelled(_) => false,
            TransferError::Unreadable { error, .. } => !matches!(error, ReadError::Io { .. }),
            TransferError::Checkpoint(error) => !matches!(error, CheckpointError::Disk(_)),
            TransferError::Open(error) => !matches!(error, OpenError::Disk(_) | OpenError::Log(_)),
            TransferError::FunctionsFile(error) => matches!(error, FunctionsError::Damaged { .. }),
            TransferError::Functions { .. }
            | TransferError::Directory { .. }
            | TransferError::NotEmpty { .. }
            | TransferError::Empty { .. }
            | TransferError::Duplicate { .. }
            | TransferError::NotJson { .. }
            | TransferError::TooFewDatabases { .. } => true,
        }
    }
}

/// A hint how to have a file read.
struct Hint<'e>(&'e ReadError);

/// Values of modules, which can be passed over. Those of Redis before 4.0 have another number.
const MODULE: u8 = 7;

impl fmt::Display for Hint<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            ReadError::Unsupported { number: MODULE, .. } => f.write_str(" (--skip-unsupported)"),
            _ => Ok(()),
        }
    }
}

impl Place {
    fn checkpoint_dir(&self) -> PathBuf {
        self.dir.join("checkpoints")
    }

    fn functions_file(&self) -> PathBuf {
        self.dir.join(FUNCTIONS_FILE)
    }

    /// The sources of the libraries of functions; `None` if there is no file of them.
    fn functions(&self) -> Result<Option<Vec<Vec<u8>>>, FunctionsError> {
        libraries::sources_in(&self.functions_file())
    }

    fn log_dirs(&self) -> Vec<PathBuf> {
        if self.log_dirs.is_empty() {
            return vec![self.dir.join("log")];
        }
        self.log_dirs.iter().map(|path| self.dir.join(path)).collect()
    }

    /// Refuses a data directory that is not there.
    fn check(&self) -> Result<(), TransferError> {
        let failed = |source| TransferError::Directory { path: self.dir.clone(), source };
        let metadata = std::fs::metadata(&self.dir).map_err(failed)?;
        if !metadata.is_dir() {
            return Err(failed(io::ErrorKind::NotADirectory.into()));
        }
        Ok(backup::refuse_copies(&OsDisk, &self.dir)?)
    }

    fn holds_log(&self, disk: &Arc<dyn Disk>) -> Result<bool, TransferError> {
        Ok(Log::is_in(&**disk, &self.log_dirs())?)
    }

    /// Locks the checkpoints, so that no server starts meanwhile.
    fn open_checkpoints(&self, disk: &Arc<dyn Disk>) -> Result<Checkpoints, TransferError> {
        Ok(Checkpoints::open(disk.clone(), &self.checkpoint_dir())?)
    }
}

fn disk() -> Arc<dyn Disk> {
    Arc::new(OsDisk)
}

fn file_failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> TransferError + use<> {
    let path = path.to_path_buf();
    move |source| TransferError::File { action, path, source }
}
