//! The judges of the keyed store: an oracle that acts between any two entries of a dump, and loom in every
//! order of two threads. Mutants test the judges themselves.

#[cfg(loom)]
mod model;
#[cfg(not(loom))]
mod oracle;

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::row::SnapRow;

/// The differences of a mutant. A method that it does not define does the same as the algorithm.
pub(super) trait Mutant: Send + 'static {
    /// The algorithm that it spoils.
    type Of: SnapRow;
    /// Its name in messages.
    const NAME: &'static str;

    fn write(of: &mut Self::Of, upper: usize, value: Box<[u8]>) {
        of.write(upper, value);
    }

    fn bring_across(of: &mut Self::Of, upper: usize) {
        of.bring_across(upper);
    }

    fn dumped(of: &mut Self::Of, upper: usize) {
        of.dumped(upper);
    }
}

/// A mutant as an algorithm.
pub(super) struct Mutated<M: Mutant>(M::Of);

impl<M: Mutant> SnapRow for Mutated<M> {
    const NAME: &'static str = M::NAME;
    const BRINGS_ACROSS: bool = M::Of::BRINGS_ACROSS;

    fn new(upper: usize, value: Box<[u8]>) -> Self {
        Mutated(M::Of::new(upper, value))
    }

    fn read(&self) -> &[u8] {
        self.0.read()
    }

    fn write(&mut self, upper: usize, value: Box<[u8]>) {
        M::write(&mut self.0, upper, value);
    }

    fn bring_across(&mut self, upper: usize) {
        M::bring_across(&mut self.0, upper);
    }

    fn at_cut(&self, upper: usize) -> Option<&[u8]> {
        self.0.at_cut(upper)
    }

    fn dumped(&mut self, upper: usize) {
        M::dumped(&mut self.0, upper);
    }

    fn copies(&self) -> usize {
        self.0.copies()
    }
}

/// Checks that `check` ends with the complaint of a judge, not of anything else.
fn rejects(name: &str, check: impl FnOnce()) {
    let complaint: Box<dyn Any + Send> =
        catch_unwind(AssertUnwindSafe(check)).expect_err("the mutant passes");
    let complaint = complaint.downcast::<String>().expect("the complaint is a text");
    assert!(complaint.contains(&format!("{name}: ")), "another complaint: {complaint}");
}
