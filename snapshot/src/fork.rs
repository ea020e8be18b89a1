//! Fork: the kernel keeps the old rows, in the pages of a child process.
//!
//! ```text
//!   parent  clients write in place; the first write to a page copies it
//!              |  ^
//!   request: first row  |  |  rows, 1 MiB at most
//!              v  |
//!   child   has the rows as they were; answers until it hears END
//! ```
//!
//! The traversal asks for piece after piece, so it can break off and be repeated, and a child never writes
//! without being asked. The rows travel through a pipe, which a child that writes a file itself would spare;
//! the file would be all that it can do.
//!
//! Between `fork` and `_exit` the child calls `close`, `read`, `write` and `_exit` alone: other threads of
//! the parent may have held any lock, that of the allocator included.
//!
//! Several clients. Up to two copies of the data; the taken phase is O(pages), for their tables are copied.

#![expect(
    unsafe_code,
    reason = "fork, and what may be called between it and _exit, are calls of the C library"
)]

use std::io::{self, Read, Write};
use std::ops::ControlFlow;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::algorithm::{Algorithm, Visit};
use crate::error::SnapshotError;
use crate::rows::{Rows, Shape};

/// Bytes that the child is asked for at once, unless a row is longer.
const PIECE_BYTES: usize = 1 << 20;
/// The request that ends the child.
const END: u64 = u64::MAX;

/// Leaves the snapshot to a child process.
pub struct Fork {
    shape: Shape,
    now: Rows,
    child: Mutex<Option<Child>>,
}

/// The parent's view of a child.
struct Child {
    pid: libc::pid_t,
    requests: io::PipeWriter,
    rows: io::PipeReader,
}

impl Child {
    /// Asks for rows from `first` on; `bytes` is as long as the answer.
    fn ask(&mut self, first: usize, bytes: &mut [u8]) -> io::Result<()> {
        self.requests.write_all(&(first as u64).to_ne_bytes())?;
        self.rows.read_exact(bytes)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // If the child is gone this fails, which changes nothing.
        let _ = self.requests.write_all(&END.to_ne_bytes());
        loop {
            // SAFETY: the pid is that of a child of ours that nobody else waits for; a null pointer means
            // that the status is not wanted.
            let reaped = unsafe { libc::waitpid(self.pid, std::ptr::null_mut(), 0) };
            if reaped >= 0 || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
                return;
            }
        }
    }
}

/// What a child needs to answer.
struct Answers<'r> {
    words: &'r [AtomicU64],
    row_fields: usize,
    rows_per_piece: usize,
    requests: RawFd,
    rows: RawFd,
}

impl Answers<'_> {
    /// The life of the child: answers requests until it hears [`END`] or the parent is gone.
    fn serve(&self) -> ! {
        let mut request = [0; size_of::<u64>()];
        while self.read(&mut request) {
            let first = u64::from_ne_bytes(request);
            // A request for what is not there is answered by leaving, which the parent sees.
            let Some(start) = (first as usize).checked_mul(self.row_fields) else { break };
            let Some(rest) = self.words.get(start..).filter(|_| first != END) else { break };
            let piece = &rest[..rest.len().min(self.rows_per_piece * self.row_fields)];
            if !self.write(piece) {
                break;
            }
        }
        // SAFETY: ends the process without running anything of the parent's.
        unsafe { libc::_exit(0) }
    }

    /// Fills `request`; `false` if the parent is gone.
    fn read(&self, request: &mut [u8; size_of::<u64>()]) -> bool {
        let mut filled = 0;
        while filled < request.len() {
            let rest = &mut request[filled..];
            // SAFETY: `rest` is memory of ours, as long as we say.
            let count = unsafe { libc::read(self.requests, rest.as_mut_ptr().cast(), rest.len()) };
            match usize::try_from(count) {
                Ok(0) => return false,
                Ok(count) => filled += count,
                Err(_) if interrupted() => {}
                Err(_) => return false,
            }
        }
        true
    }

    /// Writes all of `piece`; `false` if the parent is gone.
    fn write(&self, piece: &[AtomicU64]) -> bool {
        let bytes = size_of_val(piece);
        let mut written = 0;
        while written < bytes {
            // SAFETY: the pointer stays within `piece`, of which `bytes - written` bytes follow. The child
            // has one thread, so nobody changes the words while the kernel reads them.
            let count = unsafe {
                let from = piece.as_ptr().cast::<u8>().add(written);
                libc::write(self.rows, from.cast(), bytes - written)
            };
            match usize::try_from(count) {
                Ok(count) => written += count,
                Err(_) if interrupted() => {}
                Err(_) => return false,
            }
        }
        true
    }
}

/// Whether the last call failed because of a signal.
fn interrupted() -> bool {
    io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
}

impl Fork {
    fn start(&self) -> io::Result<Child> {
        let (their_requests, requests) = io::pipe()?;
        let (rows, their_rows) = io::pipe()?;
        let answers = Answers {
            words: self.now.words(),
            row_fields: self.shape.fields,
            rows_per_piece: self.rows_per_piece(),
            requests: their_requests.as_raw_fd(),
            rows: their_rows.as_raw_fd(),
        };
        let ours = [requests.as_raw_fd(), rows.as_raw_fd()];
        // SAFETY: the child calls nothing but what may be called there, and never returns.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                // The child would keep the pipe to itself open, and never see that the parent is gone.
                // SAFETY: in this process nobody else uses them.
                ours.iter().for_each(|end| unsafe { _ = libc::close(*end) });
                answers.serve()
            }
            pid => Ok(Child { pid, requests, rows }),
        }
    }

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

    fn new(shape: Shape) -> Result<Fork, SnapshotError> {
        Ok(Fork { shape, now: Rows::new(shape)?, child: Mutex::new(None) })
    }

    fn read(&self, row: usize, fields: &mut [u64]) {
        self.now.read(row, fields);
    }

    fn read_field(&self, row: usize, field: usize) -> u64 {
        self.now.read_field(row, field)
    }

    fn write(&self, row: usize, fields: &[u64]) {
        self.now.write(row, fields);
    }

    fn write_field(&self, row: usize, field: usize, value: u64) {
        self.now.write_field(row, field, value);
    }

    fn take(&self) -> Result<(), SnapshotError> {
        let child = self.start().map_err(system("fork a process for the snapshot"))?;
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
            child.ask(first, piece).map_err(system("read from the process that has the snapshot"))?;
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

    fn finish(&self) {
        *self.child() = None;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_child_that_dies_is_told_and_the_next_snapshot_works() {
        let fork = Fork::new(Shape::new(100, 16).unwrap()).unwrap();
        fork.write(99, &[1, 2]);
        fork.take().unwrap();
        let pid = fork.child().as_ref().unwrap().pid;
        // SAFETY: the pid is that of our child, which nobody has reaped.
        assert_eq!(unsafe { libc::kill(pid, libc::SIGKILL) }, 0);
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
