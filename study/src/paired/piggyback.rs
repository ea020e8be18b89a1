//! Piggyback as in Algorithm 3 of the paper: two copies, and a tag that says which of them has the newest
//! value.
//!
//! ```text
//!   period 1, upper 0    write a        copies a .   tag 1
//!   cut, upper 1         bring across   copies a a   tag 0
//!                        write b        copies a b   tag 2       a is for the dump
//!            dumped                     copies . b   tag 2       a is garbage
//!   cut, upper 0         bring across   copies b b   tag 0
//! ```
//!
//! A row that nobody writes keeps two copies that are alike. The pass copies the bytes, as the paper's does.

use super::row::SnapRow;

/// The copies are alike. Else the tag is the number of the newest copy and 1.
const ALIKE: u8 = 0;

/// A value under Piggyback.
pub struct PiggybackRow {
    copies: [Option<Box<[u8]>>; 2],
    tag: u8,
}

/// The tag of a row whose newest value is this copy alone.
const fn tag(copy: usize) -> u8 {
    copy as u8 + 1
}

impl SnapRow for PiggybackRow {
    const NAME: &'static str = "Piggyback";
    const BRINGS_ACROSS: bool = true;

    fn new(upper: usize, value: Box<[u8]>) -> PiggybackRow {
        let mut row = PiggybackRow { copies: [None, None], tag: ALIKE };
        row.write(upper, value);
        row
    }

    fn read(&self) -> &[u8] {
        self.copies[usize::from(self.tag == tag(1))].as_deref().expect("the newest copy is there")
    }

    /// Algorithm 3, `Client::Write`.
    fn write(&mut self, upper: usize, value: Box<[u8]>) {
        self.copies[upper] = Some(value);
        self.tag = tag(upper);
    }

    /// A row of Algorithm 3, `Snapshotter::WriteToOnline`.
    fn bring_across(&mut self, upper: usize) {
        if self.tag == tag(upper ^ 1) {
            self.copies[upper] = self.copies[upper ^ 1].clone();
            self.tag = ALIKE;
        }
    }

    fn at_cut(&self, upper: usize) -> Option<&[u8]> {
        self.copies[upper ^ 1].as_deref()
    }

    fn dumped(&mut self, upper: usize) {
        if self.tag == tag(upper) {
            self.copies[upper ^ 1] = None;
        }
    }

    fn copies(&self) -> usize {
        self.copies.iter().flatten().count()
    }
}

/// Mutants that the judges must reject.
#[cfg(test)]
pub(super) mod mutants {
    use super::*;
    use crate::paired::judge::Mutant;

    /// Brings nothing across.
    pub(in super::super) struct LeavesOutItsPass;

    impl Mutant for LeavesOutItsPass {
        type Of = PiggybackRow;
        const NAME: &'static str = "Piggyback that leaves out its pass";

        fn bring_across(_: &mut PiggybackRow, _: usize) {}
    }

    /// Brings the old value across although there is a newer one.
    pub(in super::super) struct OverwritesTheNewest;

    impl Mutant for OverwritesTheNewest {
        type Of = PiggybackRow;
        const NAME: &'static str = "Piggyback that overwrites the newest";

        fn bring_across(of: &mut PiggybackRow, upper: usize) {
            if of.copies[upper ^ 1].is_some() {
                of.copies[upper] = of.copies[upper ^ 1].clone();
                of.tag = ALIKE;
            }
        }
    }
}
