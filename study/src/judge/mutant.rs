//! A mutant: an algorithm of the package with one difference. The difference is the published form, or a form
//! that is natural to write without knowing the reason for the code.
//!
//! ```text
//!   Mutated<M>  ──►  M, what is done otherwise  ──►  M::Of, the algorithm
//!        │  write_field, traverse, dump, finish, abandon ▲
//!        └──────────────── all the rest ─────────────────┘
//! ```
//!
//! Each is at the end of the file of its algorithm, in a module `mutants`.

use std::marker::PhantomData;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::algorithm::{Algorithm, Visit};
use crate::checkpoint::{CheckpointError, CheckpointWriter};
use crate::error::SnapshotError;
use crate::shape::Shape;

/// The differences of a mutant. A method that it does not define does the same as the algorithm.
pub(crate) trait Mutant: Sized + Send + Sync + 'static {
    /// The algorithm that it spoils.
    type Of: Algorithm + 'static;
    /// Its name in messages.
    const NAME: &'static str;

    fn write_field(of: &Self::Of, row: usize, field: usize, value: u64) {
        of.write_field(row, field, value);
    }

    fn traverse(of: &Self::Of, visit: Visit<'_>) -> Result<ControlFlow<()>, SnapshotError> {
        of.traverse(visit)
    }

    fn dump(of: &Self::Of, to: &mut CheckpointWriter<'_>) -> Result<(), CheckpointError> {
        of.dump(to)
    }

    fn finish(of: &Self::Of) {
        of.finish();
    }

    fn abandon(of: &Self::Of) {
        of.abandon();
    }
}

/// Has no difference. The judges must accept it; else they would reject mutants only for being mutants.
pub(super) struct Faithful<A>(PhantomData<A>);

impl<A: Algorithm + 'static> Mutant for Faithful<A> {
    type Of = A;
    const NAME: &'static str = A::NAME;
}

/// The mutant as an algorithm.
pub(crate) struct Mutated<M: Mutant>(M::Of);

impl<M: Mutant> Algorithm for Mutated<M> {
    const NAME: &'static str = M::NAME;
    const FULL: bool = M::Of::FULL;
    const COPIES: usize = M::Of::COPIES;

    fn new(shape: Shape) -> Result<Mutated<M>, SnapshotError> {
        Ok(Mutated(M::Of::new(shape)?))
    }

    fn read(&self, row: usize, fields: &mut [u64]) {
        self.0.read(row, fields);
    }

    fn read_field(&self, row: usize, field: usize) -> u64 {
        self.0.read_field(row, field)
    }

    fn write(&self, row: usize, fields: &[u64]) {
        self.0.write(row, fields);
    }

    fn write_field(&self, row: usize, field: usize, value: u64) {
        M::write_field(&self.0, row, field, value);
    }

    fn take(&self) -> Result<(), SnapshotError> {
        self.0.take()
    }

    fn traverse(&self, visit: Visit<'_>) -> Result<ControlFlow<()>, SnapshotError> {
        M::traverse(&self.0, visit)
    }

    fn dump(&self, to: &mut CheckpointWriter<'_>) -> Result<(), CheckpointError> {
        M::dump(&self.0, to)
    }

    fn finish(&self) {
        M::finish(&self.0);
    }

    fn abandon(&self) {
        M::abandon(&self.0);
    }
}

/// Checks that `check` ends with the complaint of a judge: `name` shows or reads a wrong row.
pub(super) fn rejects(name: &str, check: impl FnOnce()) {
    let complaint = catch_unwind(AssertUnwindSafe(check)).expect_err("the mutant passes");
    let complaint = complaint.downcast::<String>().expect("the complaint is a text");
    assert!(complaint.contains(&format!("{name}: ")), "another complaint: {complaint}");
}
