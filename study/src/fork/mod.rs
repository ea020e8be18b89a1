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
//! - [`Fork`]: the child keeps all pages until it ends.
//! - [`ReturningFork`]: the child gives the pages of a piece back to the kernel once the piece is written.
//!   So the old content of a page that a client has changed is free again, and a page that the parent alone
//!   has is not copied when a client changes it. The idea is that of DMC (SAC 2020). A traversal may be
//!   repeated, so it gives nothing back; a checkpoint is the end of its snapshot.
//! - [`HotColdFork`]: the first sixteenth of the rows is in small pages, the rest in huge ones. A huge page
//!   has no page table of its own, but the first write to it copies 2 MiB: so it suits rows that clients
//!   seldom write. The study names this as future work. Who uses it puts the rows that are written most
//!   first.
//!
//! Several clients. Up to two copies of the data; the taken phase is O(pages), for their tables are copied.

mod child;

use std::io;
use std::ops::ControlFlow;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::param::page_size;

use self::child::{Child, Memory};
use crate::algorithm::{Algorithm, Visit};
use crate::checkpoint::{CheckpointError, CheckpointWriter};
use crate::error::SnapshotError;
use crate::rows::Rows;
use crate::shape::Shape;

/// Bytes that the child is asked for at once, unless a row is longer.
const PIECE_BYTES: usize = 1 << 20;

/// Leaves the snapshot to a child process, which keeps its pages until it ends.
pub type Fork = Forking<false>;

/// Leaves the snapshot to a child process, which gives back the pages that it has written.
pub type ReturningFork = Forking<true>;

/// Leaves the snapshot to a child process; the rows that are written most, which come first, are in small
/// pages, the others in huge ones.
pub type HotColdFork = Forking<false, true>;

/// One row of so many is among the hot ones of a [`HotColdFork`].
const ROWS_PER_HOT: usize = 16;

/// Leaves the snapshot to a child process; with `RETURNS`, that gives back the pages that it has written.
/// With `HOT_COLD` the rows are in pages of two sizes.
pub struct Forking<const RETURNS: bool, const HOT_COLD: bool = false> {
    shape: Shape,
    now: Rows,
    child: Mutex<Option<Child>>,
}

impl<const RETURNS: bool, const HOT_COLD: bool> Forking<RETURNS, HOT_COLD> {
    fn child(&self) -> MutexGuard<'_, Option<Child>> {
        // A visit may panic during a traversal; the child then waits for the next request.
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn rows_per_piece(&self) -> usize {
        (PIECE_BYTES / self.shape.row_bytes()).max(1)
    }

    /// Writes a checkpoint of pieces, each by `write`: rows from the first one on, and how many.
    fn dump_by(
        &self,
        to: &mut CheckpointWriter<'_>,
        write: impl Fn(&mut Child, usize, usize) -> io::Result<u32>,
    ) -> Result<(), CheckpointError> {
        let mut child = self.child();
        let child = child.as_mut().expect("a snapshot has been taken and not yet ended");
        let (path, offset) = to.elsewhere();
        let path = path.to_owned();
        let failed = |source| CheckpointError::Io { action: "write", path: path.clone(), source };
        child.open(&path, offset).map_err(failed)?;
        while let Some((first, rows)) = to.next_piece() {
            to.written_elsewhere(write(child, first, rows).map_err(failed)?);
        }
        Ok(())
    }
}

fn system(action: &'static str) -> impl Fn(io::Error) -> SnapshotError {
    move |error| SnapshotError::System { action, reason: error.to_string() }
}

impl<const RETURNS: bool, const HOT_COLD: bool> Algorithm for Forking<RETURNS, HOT_COLD> {
    const NAME: &'static str = match (RETURNS, HOT_COLD) {
        (true, _) => "Fork that returns pages",
        (false, true) => "Fork with hot and cold pages",
        (false, false) => "Fork",
    };
    const FULL: bool = true;
    const COPIES: usize = 2;

    fn new(shape: Shape) -> Result<Forking<RETURNS, HOT_COLD>, SnapshotError> {
        let now = match (RETURNS, HOT_COLD) {
            (true, _) => Rows::in_pages(shape, page_size())?,
            (false, true) => Rows::hot_and_cold(shape, shape.rows.div_ceil(ROWS_PER_HOT))?,
            (false, false) => Rows::new(shape)?,
        };
        Ok(Forking { shape, now, child: Mutex::new(None) })
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
        let page_bytes = RETURNS.then(page_size);
        let memory = Memory { words: self.now.words(), row_fields: self.shape.fields, page_bytes };
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
        self.dump_by(to, |child, first, rows| {
            let sum = child.write(first, rows)?;
            if RETURNS {
                child.give_back(first, rows)?;
            }
            Ok(sum)
        })
    }

    fn finish(&self) {
        *self.child() = None;
    }
}

/// Mutants that the judges must reject.
#[cfg(test)]
pub(crate) mod mutants {
    use super::*;
    use crate::judge::Mutant;

    /// Gives a piece back before it is written.
    pub(crate) struct ReturnsBeforeItWrites;

    impl Mutant for ReturnsBeforeItWrites {
        type Of = ReturningFork;
        const NAME: &'static str = "Fork that returns pages before it writes them";

        fn dump(of: &ReturningFork, to: &mut CheckpointWriter<'_>) -> Result<(), CheckpointError> {
            of.dump_by(to, |child, first, rows| {
                child.give_back(first, rows)?;
                child.write(first, rows)
            })
        }
    }

    /// Gives the page back, too, in which the piece that comes next begins.
    pub(crate) struct ReturnsOfTheNextPiece;

    impl Mutant for ReturnsOfTheNextPiece {
        type Of = ReturningFork;
        const NAME: &'static str = "Fork that returns a page of the next piece";

        fn dump(of: &ReturningFork, to: &mut CheckpointWriter<'_>) -> Result<(), CheckpointError> {
            of.dump_by(to, |child, first, rows| {
                let sum = child.write(first, rows)?;
                child.give_back(first, (rows + 1).min(of.shape.rows - first))?;
                Ok(sum)
            })
        }
    }

    /// Gives back what a traversal has shown, which may be repeated.
    pub(crate) struct ReturnsWhatItShows;

    impl Mutant for ReturnsWhatItShows {
        type Of = ReturningFork;
        const NAME: &'static str = "Fork that returns pages that it shows";

        fn traverse(of: &ReturningFork, visit: Visit<'_>) -> Result<ControlFlow<()>, SnapshotError> {
            let outcome = of.traverse(visit)?;
            let mut child = of.child();
            let child = child.as_mut().expect("a snapshot has been taken and not yet ended");
            child.give_back(0, of.shape.rows).map_err(system("give pages back"))?;
            Ok(outcome)
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    use rustix::process::{Pid, Signal, kill_process};

    use super::*;
    use crate::checkpoint::CheckpointDir;

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

    /// The share of the pages that a child has when it has written a checkpoint, of pages that clients
    /// have changed meanwhile.
    fn kept<A: Algorithm>(of: impl Fn(&A) -> (libc::pid_t, usize)) -> f64 {
        let shape = Shape::new(50_000, 64).unwrap();
        let algorithm = A::new(shape).unwrap();
        algorithm.take().unwrap();
        (0..shape.rows).for_each(|row| algorithm.write(row, &[1; 8]));
        let place = tempfile::tempdir().unwrap();
        let mut dir = CheckpointDir::new(place.path(), shape);
        let mut writer = dir.begin(shape, None).unwrap();
        algorithm.dump(&mut writer).unwrap();
        let (pid, address) = of(&algorithm);
        // Eight bytes a page, whose highest bit says that the page is there.
        let first = address.div_ceil(page_size());
        let mut pages = vec![[0; 8]; shape.rows * shape.row_bytes() / page_size() - 1];
        let map = File::open(format!("/proc/{pid}/pagemap")).unwrap();
        map.read_exact_at(pages.as_flattened_mut(), first as u64 * 8).unwrap();
        let there = pages.iter().filter(|page| u64::from_ne_bytes(**page) >> 63 == 1).count();
        algorithm.finish();
        there as f64 / pages.len() as f64
    }

    #[test]
    fn a_child_keeps_the_pages_that_it_has_written_unless_it_returns_them() {
        fn place<const RETURNS: bool>(fork: &Forking<RETURNS>) -> (libc::pid_t, usize) {
            (fork.child().as_ref().unwrap().pid, fork.now.words().as_ptr().addr())
        }
        assert_eq!(kept::<Fork>(place), 1.0);
        assert_eq!(kept::<ReturningFork>(place), 0.0);
    }

    /// The flags of the memory that an address is in.
    fn flags_of(address: usize) -> String {
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut is_there = false;
        for line in maps.lines() {
            if let Some(flags) = line.strip_prefix("VmFlags:").filter(|_| is_there) {
                return format!("{flags} ");
            }
            let range = line.split_once(' ').and_then(|(range, _)| range.split_once('-'));
            let range = range.map(|(from, to)| [from, to].map(|end| usize::from_str_radix(end, 16)));
            if let Some([Ok(from), Ok(to)]) = range {
                is_there = (from..to).contains(&address);
            }
        }
        panic!("no memory has {address:x}")
    }

    #[test]
    fn hot_rows_ask_for_small_pages_and_cold_ones_for_huge_ones() {
        // 32 MiB, of which 2 are hot.
        let shape = Shape::new(1 << 19, 64).unwrap();
        let fork = match HotColdFork::new(shape) {
            Ok(fork) => fork,
            Err(SnapshotError::System { reason, .. }) => {
                return println!("there are no huge pages: {reason}");
            }
            Err(error) => panic!("{error}"),
        };
        let huge = |row: usize| {
            let flags = flags_of(fork.now.row(row).as_ptr().addr());
            [" nh ", " hg "].map(|flag| flags.contains(flag))
        };
        let first_cold = shape.rows / ROWS_PER_HOT;
        assert_eq!([0, first_cold - 1].map(huge), [[true, false]; 2]);
        assert_eq!([first_cold, shape.rows - 1].map(huge), [[false, true]; 2]);
    }
}
