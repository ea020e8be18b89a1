//! Fork: the kernel keeps the old rows, in the pages of a child process.
//!
//! ```text
//!   parent  clients write in place; the first write to a page copies it
//!              |  ^
//!   request: first row  |  |  rows, 1 MiB at most, or that they are in the file
//!              v  |
//!   child   has the rows as they were; answers until it is told to end
//! ```
//!
//! The traversal asks for piece after piece, so it can break off and be repeated. A checkpoint's rows do not
//! travel: the child writes them to the file itself.
//!
//! Several clients. Up to two copies of the data; the taken phase is O(pages), for their tables are copied.

mod child;

use std::io;
use std::ops::ControlFlow;
use std::sync::{Mutex, MutexGuard, PoisonError};

use self::child::{Child, Memory};
use crate::algorithm::{Algorithm, Visit};
use crate::checkpoint::{CheckpointError, CheckpointWriter};
use crate::error::SnapshotError;
use crate::rows::Rows;
use crate::shape::Shape;

/// Bytes that the child is asked for at once, unless a row is longer.
const PIECE_BYTES: usize = 1 << 20;

/// Leaves the snapshot to a child process.
pub struct Fork {
    shape: Shape,
    now: Rows,
    child: Mutex<Option<Child>>,
}

impl Fork {
    fn child(&self) -> MutexGuard<'_, Option<Child>> {
        // A visit may panic during a traversal; the child then waits for the next request.
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn rows_per_piece(&self) -> usize {
        (PIECE_BYTES / self.shape.row_bytes()).max(1)
    }
}

fn system(action: &'static str) -> impl Fn(io::Error) -> SnapshotError {
    move |error| SnapshotError::System { action, reason: error.to_string() }
}

impl Algorithm for Fork {
    const NAME: &'static str = "Fork";
    const FULL: bool = true;
    const COPIES: usize = 2;

    fn new(shape: Shape) -> Result<Fork, SnapshotError> {
        Ok(Fork { shape, now: Rows::new(shape)?, child: Mutex::new(None) })
    }

    #[inline]
    fn read(&self, row: usize, fields: &mut [u64]) {
        self.now.read(row, fields);
    }

    #[inline]
    fn read_field(&self, row: usize, field: usize) -> u64 {
        self.now.read_field(row, field)
    }

    #[inline]
    fn write(&self, row: usize, fields: &[u64]) {
        self.now.write(row, fields);
    }

    #[inline]
    fn write_field(&self, row: usize, field: usize, value: u64) {
        self.now.write_field(row, field, value);
    }

    fn take(&self) -> Result<(), SnapshotError> {
        let memory = Memory { words: self.now.words(), row_fields: self.shape.fields };
        let child = Child::fork(&memory).map_err(system("fork a process for the snapshot"))?;
        *self.child() = Some(child);
        Ok(())
    }

    fn traverse(&self, visit: Visit<'_>) -> Result<ControlFlow<()>, SnapshotError> {
        let mut child = self.child();
        let child = child.as_mut().expect("a snapshot has been taken and not yet ended");
        let rows_per_piece = self.rows_per_piece();
        let row_bytes = self.shape.row_bytes();
        let mut piece = vec![0; rows_per_piece * row_bytes];
        let mut fields = vec![0; self.shape.fields];
        for first in (0..self.shape.rows).step_by(rows_per_piece) {
            let rows = rows_per_piece.min(self.shape.rows - first);
            let piece = &mut piece[..rows * row_bytes];
            child.show(first, rows, piece).map_err(system("read from the process that has the snapshot"))?;
            for (row, bytes) in piece.chunks_exact(row_bytes).enumerate() {
                for (field, bytes) in fields.iter_mut().zip(bytes.as_chunks().0) {
                    *field = u64::from_ne_bytes(*bytes);
                }
                if visit(first + row, &fields).is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn dump(&self, to: &mut CheckpointWriter<'_>) -> Result<(), CheckpointError> {
        let mut child = self.child();
        let child = child.as_mut().expect("a snapshot has been taken and not yet ended");
        let (path, offset) = to.elsewhere();
        let path = path.to_owned();
        let failed = |source| CheckpointError::Io { action: "write", path: path.clone(), source };
        child.open(&path, offset).map_err(failed)?;
        while let Some((first, rows)) = to.next_piece() {
            to.written_elsewhere(child.write(first, rows).map_err(failed)?);
        }
        Ok(())
    }

    fn finish(&self) {
        *self.child() = None;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use rustix::process::{Pid, Signal, kill_process};

    use super::*;

    #[test]
    fn a_child_that_dies_is_told_and_the_next_snapshot_works() {
        let fork = Fork::new(Shape::new(100, 16).unwrap()).unwrap();
        fork.write(99, &[1, 2]);
        fork.take().unwrap();
        let pid = fork.child().as_ref().unwrap().pid;
        kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
        let error = fork.traverse(&mut |_, _| ControlFlow::Continue(())).unwrap_err();
        assert!(
            error.to_string().starts_with("cannot read from the process that has the snapshot: "),
            "{error}"
        );
        fork.finish();
        fork.take().unwrap();
        let mut last = Vec::new();
        fork.traverse(&mut |_, fields| {
            last = fields.to_vec();
            ControlFlow::Continue(())
        })
        .unwrap()
        .continue_value()
        .unwrap();
        fork.finish();
        assert_eq!(last, [1, 2]);
    }
}
