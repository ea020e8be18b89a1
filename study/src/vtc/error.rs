//! The errors of the store.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Why something cannot be done with the store or its files.
#[derive(Debug, Error)]
pub enum VtcError {
    /// The operating system refused.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// The attempted action.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A file that is no log, or has lost what was synced.
    #[error("{} is damaged: {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The fault.
        what: &'static str,
    },
    /// A thread could not write to its file, and the log takes no more.
    #[error("the log has failed; open the store again")]
    Failed,
    /// A value is longer than a record may be.
    #[error("the value has {bytes} bytes: a record has {most} at most")]
    TooLong {
        /// Bytes of the value.
        bytes: usize,
        /// Bytes of a value at most.
        most: usize,
    },
    /// One file is compacted at a time.
    #[error("another file is being compacted")]
    Busy,
}

/// Adds the attempted action and the file to an error of the operating system.
pub(super) fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> VtcError {
    let path = path.to_owned();
    move |source| VtcError::Io { action, path, source }
}
