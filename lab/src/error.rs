//! What can go wrong in the laboratory, by what its caller does next.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use tarn_resp::client::ClientError;
use tarn_snapshot::SnapshotError;
use tarn_snapshot::checkpoint::CheckpointError;
use tarn_snapshot::transaction::TransactionError;

const KILL: i32 = rustix::process::Signal::KILL.as_raw();

/// What a hard kill by nobody means.
fn why_killed(status: ExitStatus) -> &'static str {
    let is_killed = status.signal() == Some(KILL);
    if is_killed { "; the kernel does that to it where memory runs out" } else { "" }
}

/// Why an experiment stopped. The run is abandoned in every case; the variants differ in who must act.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// A server could not be started, stopped unexpectedly, or never became ready. Look at its own words.
    #[error("{server}: {what}{log}")]
    Server {
        /// Which server: `tarn` or `redis-server`.
        server: String,
        /// What was expected of it and did not happen.
        what: String,
        /// The last lines of what it printed, each on a line of its own, or nothing.
        log: String,
    },
    /// A server ended by itself while it was measured; the cell is left out.
    #[error("the server ended by itself ({status}{})", why_killed(*status))]
    Ended {
        /// How.
        status: ExitStatus,
    },
    /// A server answered, but with an error or with something else than the protocol allows here.
    #[error("unexpected reply: {0}")]
    Reply(String),
    /// The operating system refused something.
    #[error("{what}: {source}")]
    Io {
        /// What was being done, with the path or address.
        what: String,
        /// The operating system's reason.
        source: io::Error,
    },
    /// A request by the small client failed, or its reply is not the one that was expected.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// A cell of the study ended without figures.
    #[error("{what}: {status}{}{words}", if words.is_empty() { "" } else { ", " })]
    Cell {
        /// Its parameters.
        what: String,
        /// How its process ended.
        status: ExitStatus,
        /// What it said.
        words: String,
    },
    /// An array refused, or a checkpoint cannot be written.
    #[error(transparent)]
    Snapshot(#[from] CheckpointError),
    /// A transaction cannot be run.
    #[error(transparent)]
    Transaction(#[from] TransactionError),
    /// The command line asks for something that cannot be.
    #[error("{0}")]
    Arguments(String),
    /// Somebody pressed Ctrl-C.
    #[error("interrupted")]
    Interrupted,
}

impl From<SnapshotError> for LabError {
    fn from(error: SnapshotError) -> LabError {
        CheckpointError::from(error).into()
    }
}

/// The result of anything in the laboratory.
pub type Result<T> = std::result::Result<T, LabError>;

/// Says what was being done when an operating system call failed.
pub trait IoContext<T> {
    /// Turns the error into a [`LabError::Io`] that names what was being done.
    fn doing(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: Into<io::Error>> IoContext<T> for std::result::Result<T, E> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|source| LabError::Io { what: what(), source: source.into() })
    }
}
