//! The errors of the laboratory, by the action that its caller takes next.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;

use tarn_resp::client::ClientError;
use tarn_study::SnapshotError;
use tarn_study::checkpoint::CheckpointError;
use tarn_study::transaction::TransactionError;

const KILL: i32 = rustix::process::Signal::KILL.as_raw();

/// An explanation of a hard kill that the laboratory did not send.
fn why_killed(status: ExitStatus) -> &'static str {
    let is_killed = status.signal() == Some(KILL);
    if is_killed { "; the kernel does that to it where memory runs out" } else { "" }
}

/// The reason why an experiment, or the measurement of a cell, stopped. The variants differ in who must act.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// A server could not be started, stopped unexpectedly, or never became ready. Look at its own words.
    #[error("{server}: {what}{log}")]
    Server {
        /// The server: `tarn` or `redis-server`.
        server: String,
        /// The expected event that did not happen.
        what: String,
        /// The last lines that it printed, each on a line of its own, or nothing.
        log: String,
    },
    /// A server ended by itself while it was measured; the cell is left out.
    #[error("the server ended by itself ({status}{})", why_killed(*status))]
    Ended {
        /// Its exit status.
        status: ExitStatus,
    },
    /// A server answered, but with an error or with something else than the protocol allows here.
    #[error("unexpected reply: {0}")]
    Reply(String),
    /// The operating system refused something.
    #[error("{what}: {source}")]
    Io {
        /// The action that failed, with the path or address.
        what: String,
        /// The operating system's reason.
        source: io::Error,
    },
    /// A request by the small client failed, or its reply is not the one that was expected.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// A program that was run ended without success: the process of a cell, or that of another store.
    #[error("{what}: {status}{}{words}", if words.is_empty() { "" } else { ", " })]
    Program {
        /// Its name, or the parameters of the cell.
        what: String,
        /// Its exit status.
        status: ExitStatus,
        /// The words that it printed.
        words: String,
    },
    /// An array refused, or a checkpoint cannot be written.
    #[error(transparent)]
    Snapshot(#[from] CheckpointError),
    /// A transaction cannot be run.
    #[error(transparent)]
    Transaction(#[from] TransactionError),
    /// A program is not there, or cannot run here: what it would have measured is left out.
    #[error("{0}")]
    Missing(String),
    /// A checkpoint of a server failed, or does not end.
    #[error("{what}: {why}")]
    Checkpoint {
        /// The server, and what did not happen.
        what: String,
        /// The reason that the server tells, or else the end of its log, which may have older ones.
        why: String,
        /// True if the server tells it.
        is_told: bool,
    },
    /// A cell that cannot be measured, or failed in a way that says nothing of the others: it is left out.
    #[error("{why}")]
    LeftOut {
        /// The reason.
        why: String,
        /// True if it was tried and failed; false if this machine cannot do it.
        failed: bool,
    },
    /// A cell failed in a way that ends the run.
    #[error("{cell}: {source}")]
    Cell {
        /// Its words.
        cell: String,
        /// The failure.
        source: Box<LabError>,
    },
    /// The command line asks for something that cannot be.
    #[error("{0}")]
    Arguments(String),
    /// The reader of the printed lines has gone, and has all that was wanted.
    #[error("nobody reads the lines any more")]
    NoReader,
    /// Somebody pressed Ctrl-C.
    #[error("interrupted")]
    Interrupted,
}

impl LabError {
    /// An error of something that was asked for and cannot be.
    pub fn refused(error: impl std::fmt::Display) -> LabError {
        LabError::Arguments(error.to_string())
    }

    /// The same with the words of the cell whose measurement it ended; of an end that somebody wants, itself.
    pub fn in_cell(self, cell: &impl std::fmt::Display) -> LabError {
        match self {
            LabError::Interrupted | LabError::NoReader => self,
            source => LabError::Cell { cell: cell.to_string(), source: Box::new(source) },
        }
    }

    /// The same as the reason why one cell is left out; that somebody wants an end is none.
    pub fn of_cell(self) -> LabError {
        match self {
            LabError::Interrupted | LabError::NoReader | LabError::LeftOut { .. } => self,
            other => LabError::LeftOut { why: other.to_string(), failed: true },
        }
    }
}

impl From<SnapshotError> for LabError {
    fn from(error: SnapshotError) -> LabError {
        CheckpointError::from(error).into()
    }
}

/// The result of anything in the laboratory.
pub type Result<T> = std::result::Result<T, LabError>;

/// Names the action during which an operating system call failed.
pub trait IoContext<T> {
    /// Turns the error into a [`LabError::Io`] that names the action.
    fn doing(self, what: impl FnOnce() -> String) -> Result<T>;

    /// The same where a path says all.
    fn at(self, path: impl AsRef<Path>) -> Result<T>;
}

impl<T, E: Into<io::Error>> IoContext<T> for std::result::Result<T, E> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|source| LabError::Io { what: what(), source: source.into() })
    }

    fn at(self, path: impl AsRef<Path>) -> Result<T> {
        self.doing(|| path.as_ref().display().to_string())
    }
}
