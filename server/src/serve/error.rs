//! Why a server did not start, or had to stop.

use std::io;
use std::path::PathBuf;

use tarn_engine::checkpoint::CheckpointError;
use tarn_engine::{LogError, OpenError};
use thiserror::Error;

use crate::commands::RenamesError;
use crate::net::certificates::TlsError;
use crate::net::listen::ListenError;
use crate::persist::FunctionsError;
use crate::persist::transfer::TransferError;

/// Why the server did not start, or had to stop. One line, with a remedy.
#[derive(Debug, Error)]
pub enum ServeError {
    /// The data directory is missing or cannot be used.
    #[error("cannot use data directory {}: {source}; create it, or name another with --dir", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A directory of the log cannot be made or used; most often a file of that name is in its place.
    #[error(
        "cannot use log directory {}: {source}; {}name others with --log-dir",
        path.display(), first_try(source)
    )]
    LogDirectory {
        /// The directory.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The file for messages cannot be written.
    #[error("cannot write messages to {}: {source}; name another file with --logfile", path.display())]
    LogFile {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The users of the configuration, or of `aclfile`, cannot be read.
    #[error("cannot load the users: {0}")]
    Users(String),
    /// Commands cannot have other names.
    #[error(transparent)]
    Renames(#[from] RenamesError),
    /// Nobody could connect.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// Connections could not be encrypted.
    #[error("connections cannot be encrypted, see tls-cert-file and tls-key-file: {0}")]
    Tls(#[from] TlsError),
    /// The log could not be opened.
    #[error(transparent)]
    Log(#[from] OpenError),
    /// The checkpoint could not be opened.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The functions could not be read.
    #[error(transparent)]
    Functions(#[from] FunctionsError),
    /// The last checkpoint was not taken.
    #[error("the last checkpoint was not taken: {0}; what changed since the one before is lost")]
    LastCheckpoint(CheckpointError),
    /// A list of cores has none that this process may use.
    #[error("none of the cores of '{directive}' is one that this process may run on; name others, or none")]
    Cores {
        /// The directive that lists them.
        directive: &'static str,
    },
    /// The RDB file could not be loaded.
    #[error("{0}; or move the file away to start without it")]
    Rdb(#[from] TransferError),
    /// The append-only file of a Redis is there, and nothing of Tarn.
    #[error(
        "{} is the append-only file of a Redis, which Tarn does not read: have redis-server load it and \
         SAVE, then move it away, and the RDB file is loaded; or move it away to start without its data",
        path.display()
    )]
    Aof {
        /// The directory, or the file.
        path: PathBuf,
    },
    /// A checkpoint is there, and an RDB file that was written later.
    #[error(
        "the checkpoint in {} is older than {}: move away the one that is not wanted",
        checkpoints.display(), rdb.display()
    )]
    NewerRdb {
        /// Where the checkpoint is.
        checkpoints: PathBuf,
        /// The file.
        rdb: PathBuf,
    },
    /// The log could not be closed: what was written last may be lost.
    #[error(
        "the log was not closed in order: {source}; its newest {lost} records are not on disk: what was \
         acknowledged of them is lost"
    )]
    Close {
        /// Records that did not become durable.
        lost: u64,
        /// Why they did not.
        source: LogError,
    },
    /// The system refused something that a server cannot do without.
    #[error("{what}: {source}")]
    System {
        /// The attempted action.
        what: &'static str,
        /// The error of the operating system.
        source: io::Error,
    },
}

/// The remedy for a directory that comes before taking another.
fn first_try(refusal: &io::Error) -> &'static str {
    match refusal.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "make room for it, or ",
        io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => "move away what is in its place, or ",
        io::ErrorKind::PermissionDenied => "let this user write there, or ",
        _ => "",
    }
}
