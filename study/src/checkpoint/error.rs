//! The errors of writing and reading a checkpoint.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::error::SnapshotError;
use crate::shape::Shape;

/// Why a checkpoint cannot be written or read.
#[derive(Debug, Error)]
pub enum CheckpointError {
    /// The snapshot cannot be traversed.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// The operating system refused. The data that it refused to write is not there; the checkpoint before
    /// is.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// The attempted action.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A file that is no checkpoint, or not the one that was written.
    #[error("{} is damaged at byte {offset}: {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where it is damaged.
        offset: u64,
        /// The fault.
        what: &'static str,
    },
    /// Rows that the snapshot does not show, and no checkpoint to take them from.
    #[error("row {row} is missing, and there is no checkpoint before this one that has it")]
    NoBase {
        /// The first such row.
        row: usize,
    },
    /// The directory is for arrays of another shape.
    #[error("an array of {} rows of {} bytes has no checkpoints among those of {} rows of {} bytes",
        array.rows, array.row_bytes(), dir.rows, dir.row_bytes())]
    OtherShape {
        /// The array's.
        array: Shape,
        /// The directory's.
        dir: Shape,
    },
    /// A row out of order, or of another array.
    #[error("row {row} with {fields} fields does not fit: rows come in order, 0 to {}, with {} fields",
        shape.rows - 1, shape.fields)]
    Row {
        /// The row.
        row: usize,
        /// Its fields.
        fields: usize,
        /// The array's shape.
        shape: Shape,
    },
}

/// Adds the attempted action and the file to an error of the operating system.
pub(super) fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> CheckpointError {
    let path = path.to_owned();
    move |source| CheckpointError::Io { action, path, source }
}
