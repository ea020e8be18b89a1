//! Snapshots in files: each checkpoint is complete, whatever the snapshot held.
//!
//! ```text
//!   snapshot   .  b' .  d'       what it shows: all rows, or those that have changed
//!   base       a  b  c  d        rows.checkpoint, the checkpoint before
//!   unfinished a  b' c  d'       rows.unfinished; synced, then renamed to rows.checkpoint
//! ```
//!
//! Until the new file is whole and durable the old one stands under its name; what fails leaves it there, and
//! the snapshot's changes to the next one. `docs/format/rows.md` has the bytes.

mod error;
mod format;
mod reader;
mod writer;

use std::path::{Path, PathBuf};

pub use error::CheckpointError;
pub use reader::CheckpointReader;
pub use writer::CheckpointWriter;

use crate::rows::Shape;

/// A directory with the newest checkpoint of one array.
pub struct CheckpointDir {
    path: PathBuf,
    shape: Shape,
    /// Whether the file there is of this array: a base for what has changed since.
    has_base: bool,
}

impl CheckpointDir {
    /// Checkpoints of an array of this shape go to the directory `path`, which exists. The first must be
    /// of a snapshot that shows all rows, as the first of every array does; it replaces what is there.
    pub fn new(path: impl Into<PathBuf>, shape: Shape) -> CheckpointDir {
        CheckpointDir { path: path.into(), shape, has_base: false }
    }

    /// The file that has the newest checkpoint, once there is one.
    pub fn file(&self) -> PathBuf {
        self.path.join("rows.checkpoint")
    }

    /// Begins the next checkpoint; rows that it is not given are those of the one before.
    pub fn begin(&mut self) -> Result<CheckpointWriter<'_>, CheckpointError> {
        CheckpointWriter::new(self)
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn unfinished(&self) -> PathBuf {
        self.path.join("rows.unfinished")
    }
}
