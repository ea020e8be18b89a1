//! Snapshots in files: each checkpoint is complete, whatever the snapshot held.
//!
//! ```text
//!   snapshot   .  b' .  d'       what it shows: all rows, or those that have changed
//!   base       a  b  c  d        rows.checkpoint, the checkpoint before
//!   unfinished a  b' c  d'       rows.unfinished; synced, then renamed to rows.checkpoint
//! ```
//!
//! The old file keeps its name until the new one is complete and durable. After a failure the old file stays,
//! and the snapshot's changes go to the next one.
//!
//! Changes apply only to the state that they begin with. If a snapshot shows only changes, its base is the
//! checkpoint of the snapshot before, or there is none. `docs/format/rows.md` has the bytes.

mod error;
mod format;
mod reader;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use error::CheckpointError;
pub use reader::CheckpointReader;
pub use writer::CheckpointWriter;

use crate::shape::Shape;

/// A directory with the newest checkpoint of one array.
pub struct CheckpointDir {
    path: PathBuf,
    shape: Shape,
    /// The state that the file there has, if it was written through this value.
    has: Option<State>,
}

/// The state that a snapshot has shown completely. Each state is unique, also among arrays.
#[derive(Clone, Default)]
pub(crate) struct State(Arc<()>);

impl State {
    fn is(&self, other: &State) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl CheckpointDir {
    /// Checkpoints of an array of this shape go to the directory `path`, which exists. The first must be of a
    /// snapshot that shows all rows, as the first of every array does; it replaces the file that is there. If
    /// snapshots show only changes, each complete one must be written here. After a snapshot that was only
    /// traversed, or went elsewhere, the next one's changes have no base.
    pub fn new(path: impl Into<PathBuf>, shape: Shape) -> CheckpointDir {
        CheckpointDir { path: path.into(), shape, has: None }
    }

    /// The file that has the newest checkpoint, once there is one.
    pub fn file(&self) -> PathBuf {
        self.path.join("rows.checkpoint")
    }

    /// Begins the next checkpoint, of an array of this shape. If the snapshot shows only the changes since
    /// `since`, rows that are not put have that state.
    pub(crate) fn begin(
        &mut self,
        shape: Shape,
        since: Option<&State>,
    ) -> Result<CheckpointWriter<'_>, CheckpointError> {
        if shape != self.shape {
            return Err(CheckpointError::OtherShape { array: shape, dir: self.shape });
        }
        let is_base = |has: &State| since.is_some_and(|since| has.is(since));
        let base = self.has.as_ref().is_some_and(is_base).then(|| CheckpointReader::open(self.file()));
        CheckpointWriter::new(self, base.transpose()?)
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn unfinished(&self) -> PathBuf {
        self.path.join("rows.unfinished")
    }
}
