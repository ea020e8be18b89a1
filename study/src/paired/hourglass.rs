//! Hourglass as in the authors' Redis: two copies, three bits of the paper, and one that says whether the row
//! was dumped.
//!
//! ```text
//!   period 1, upper 0    write a   copies a .   b1 b2 br = 1 0 0
//!   cut, upper 1         write b   copies a b              1 1 1     a is for the dump
//!            dumped                copies . b              0 1 1     a is garbage
//!   cut, upper 0         write c   copies c b              1 1 0
//! ```
//!
//! A row that was not written for long has its one copy on either side. If that is the upper one, the first
//! write of a period hands the pointer over to the lower side, unless it was dumped already. Algorithm 2 of
//! the paper overwrites it there, which is why its snapshots have only what has changed.

use super::row::SnapRow;

/// Written while copy 0, or copy 1, was the upper one: the paper's `b1` and `b2`.
const WRITTEN: [u8; 2] = [1, 2];
/// The newest value is copy 1: the paper's `br`.
const NEWEST: u8 = 4;
/// Dumped last, or made, while copy 1 was the upper one.
const DUMPED: u8 = 8;

/// A value under Hourglass.
pub struct HourglassRow {
    copies: [Option<Box<[u8]>>; 2],
    bits: u8,
}

impl HourglassRow {
    fn newest(&self) -> usize {
        usize::from(self.bits & NEWEST != 0)
    }

    fn is_written(&self, copy: usize) -> bool {
        self.bits & WRITTEN[copy] != 0
    }

    /// True if it was dumped since the cut, or is younger.
    fn is_dumped(&self, upper: usize) -> bool {
        usize::from(self.bits & DUMPED != 0) == upper
    }

    fn put(&mut self, bit: u8, is_set: bool) {
        self.bits = if is_set { self.bits | bit } else { self.bits & !bit };
    }

    /// Algorithm 2, `Client::Write`: the bit, the value, and where the newest one is.
    fn store(&mut self, upper: usize, value: Box<[u8]>) {
        self.put(WRITTEN[upper], true);
        self.copies[upper] = Some(value);
        self.put(NEWEST, upper == 1);
    }

    /// The copy with the value at the cut.
    fn at_cut(&self, upper: usize) -> usize {
        if self.is_written(upper) { upper ^ 1 } else { self.newest() }
    }
}

impl SnapRow for HourglassRow {
    const NAME: &'static str = "Hourglass";
    const BRINGS_ACROSS: bool = false;

    fn new(upper: usize, value: Box<[u8]>) -> HourglassRow {
        let mut row = HourglassRow { copies: [None, None], bits: 0 };
        row.put(DUMPED, upper == 1);
        row.store(upper, value);
        row
    }

    fn read(&self) -> &[u8] {
        self.copies[self.newest()].as_deref().expect("the newest copy is there")
    }

    fn write(&mut self, upper: usize, value: Box<[u8]>) {
        let is_settled_above = !self.is_written(upper) && self.newest() == upper;
        if self.is_dumped(upper) {
            self.copies[upper ^ 1] = None;
        } else if is_settled_above {
            self.copies[upper ^ 1] = self.copies[upper].take();
        }
        self.store(upper, value);
    }

    fn bring_across(&mut self, _: usize) {}

    fn at_cut(&self, upper: usize) -> Option<&[u8]> {
        if self.is_dumped(upper) { None } else { self.copies[self.at_cut(upper)].as_deref() }
    }

    fn dumped(&mut self, upper: usize) {
        if !self.is_dumped(upper) {
            self.copies[self.newest() ^ 1] = None;
        }
        self.put(WRITTEN[upper ^ 1], false);
        self.put(DUMPED, upper == 1);
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

    /// Writes as Algorithm 2 does, which keeps nothing of a row that has settled in the upper copy.
    pub(in super::super) struct WritesAsPublished;

    impl Mutant for WritesAsPublished {
        type Of = HourglassRow;
        const NAME: &'static str = "Hourglass that writes as published";

        fn write(of: &mut HourglassRow, upper: usize, value: Box<[u8]>) {
            of.store(upper, value);
        }
    }

    /// Does not note that a row was dumped.
    pub(in super::super) struct ForgetsThatItDumped;

    impl Mutant for ForgetsThatItDumped {
        type Of = HourglassRow;
        const NAME: &'static str = "Hourglass that forgets that it dumped";

        fn dumped(of: &mut HourglassRow, upper: usize) {
            let before = of.bits & DUMPED;
            of.dumped(upper);
            of.bits = of.bits & !DUMPED | before;
        }
    }

    /// Keeps the mark of the last period, which two periods do not show: not for loom.
    #[cfg(not(loom))]
    pub(in super::super) struct KeepsMarks;

    #[cfg(not(loom))]
    impl Mutant for KeepsMarks {
        type Of = HourglassRow;
        const NAME: &'static str = "Hourglass that keeps marks";

        fn dumped(of: &mut HourglassRow, upper: usize) {
            let before = of.bits & WRITTEN[upper ^ 1];
            of.dumped(upper);
            of.bits |= before;
        }
    }
}
