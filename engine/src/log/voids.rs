//! The dropped blocks: ranges of which no directory has a record, each with the file that records the range.
//!
//! ```text
//!  directory 0:   1 .  .  4 .  .  .  8          runs: 2-7 without 4 (it has records)
//!  directory 1:      2       5  6               told by: the file that has said all of a run, if one has
//!  directory 2:         3          7
//! ```
//!
//! Invariants, for what is on disk at every instant, be it after a crash:
//!
//! - Each block up to the last one is in a file, or a file tells that nothing is left of it.
//! - A block that has a place of its own in a file is told of by none; so no run goes over the last block of
//!   a file, which always has one (but for what a repair wrote).
//! - A run has a teller only if that one file tells the whole run. A file that is compacted leaves out what
//!   lies in a run with another teller, and records again all else that it recorded. Files are compacted one
//!   by one, and only those count that have their name durably, so no two rely on each other.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use crate::record::Lsn;

/// Blocks that follow each other in the log, of which nothing is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Void {
    pub(super) from: u64,
    pub(super) to: u64,
    /// The first of the records that they had.
    pub(super) first: Lsn,
    /// The record behind the last of them.
    pub(super) next: Lsn,
}

/// A file: its directory and its number.
pub(super) type Teller = (u32, u64);

/// The voids of a log, as runs with something between every two.
#[derive(Clone, Debug, Default)]
pub(super) struct Voids {
    /// By their first block.
    runs: BTreeMap<u64, Run>,
    /// No record up to here is needed, and some may not be there: see `covered`.
    passed_to: Lsn,
}

#[derive(Clone, Copy, Debug)]
struct Run {
    void: Void,
    /// The file that tells all of it.
    teller: Option<Teller>,
}

impl Void {
    /// Whether nothing lies between them.
    pub(super) fn touches(&self, other: &Void) -> bool {
        self.from <= other.to + 1 && other.from <= self.to + 1
    }

    /// Both together. REQUIRES: they touch.
    pub(super) fn with(&self, other: &Void) -> Void {
        let begins = if other.from < self.from { other } else { self };
        let ends = if other.to > self.to { other } else { self };
        Void { from: begins.from, to: ends.to, first: begins.first, next: ends.next }
    }
}

impl Voids {
    /// Notes what a file tells.
    pub(super) fn note(&mut self, void: &Void, teller: Teller) {
        let touched: Vec<Run> = self.touched_by(void).copied().collect();
        let whole = touched.iter().fold(*void, |whole, run| whole.with(&run.void));
        let is_whole = |other: &Void| (other.from, other.to) == (whole.from, whole.to);
        let former = || touched.iter().find(|run| is_whole(&run.void)).and_then(|run| run.teller);
        let teller = if is_whole(void) { Some(teller) } else { former() };
        for run in &touched {
            self.runs.remove(&run.void.from);
        }
        self.runs.insert(whole.from, Run { void: whole, teller });
    }

    /// Notes that records up to here are not needed, and that some are not there.
    pub(super) fn note_passed(&mut self, lsn: Lsn) {
        self.passed_to = self.passed_to.max(lsn);
    }

    /// A checkpoint must have all records up to here, as some are not there; 0 if all are.
    pub(super) fn passed_to(&self) -> Lsn {
        self.passed_to
    }

    /// The run that has all of these blocks.
    pub(super) fn run_of(&self, from: u64, to: u64) -> Option<&Void> {
        self.find(from, to).map(|run| &run.void)
    }

    /// Whether a file that is none of `numbers` in directory `stream` tells all of the run that has all of
    /// these blocks.
    pub(super) fn is_told_elsewhere(
        &self,
        from: u64,
        to: u64,
        stream: u32,
        numbers: &RangeInclusive<u64>,
    ) -> bool {
        let teller = self.find(from, to).and_then(|run| run.teller);
        teller.is_some_and(|teller| teller.0 != stream || !numbers.contains(&teller.1))
    }

    /// `void` with all runs that it touches.
    pub(super) fn widened(&self, void: &Void) -> Void {
        self.touched_by(void).fold(*void, |whole, run| whole.with(&run.void))
    }

    /// How many runs there are.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.runs.len()
    }

    fn find(&self, from: u64, to: u64) -> Option<&Run> {
        let (_, run) = self.runs.range(..=from).next_back()?;
        (to <= run.void.to).then_some(run)
    }

    fn touched_by(&self, void: &Void) -> impl Iterator<Item = &Run> {
        let before = self.runs.range(..=void.to + 1).rev().map(|(_, run)| run);
        let from = void.from;
        before.take_while(move |run| from <= run.void.to + 1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn void(from: u64, to: u64) -> Void {
        Void { from, to, first: Lsn(from * 10), next: Lsn(to * 10 + 10) }
    }

    proptest! {
        /// Runs are what was told, joined, and a teller has told all of its run.
        #[test]
        fn runs_are_the_union_of_what_was_told(
            told in prop::collection::vec((1..60_u64, 0..12_u64, 0..4_u32), 0..40),
        ) {
            let mut voids = Voids::default();
            for (from, more, stream) in &told {
                voids.note(&void(*from, from + more), (*stream, 1));
            }
            let has = |block: u64| told.iter().any(|(from, more, _)| (*from..=from + more).contains(&block));
            for block in 1..80 {
                let run = voids.run_of(block, block);
                prop_assert_eq!(run.is_some(), has(block));
                let Some(run) = run else { continue };
                prop_assert_eq!(*run, void(run.from, run.to));
                prop_assert!((run.from..=run.to).all(has));
                prop_assert!(!has(run.from - 1) && !has(run.to + 1), "runs are as long as they can be");
                let Run { teller, .. } = voids.runs[&run.from];
                let tells_all = |stream: u32| told.contains(&(run.from, run.to - run.from, stream));
                prop_assert!(teller.is_none_or(|(stream, _)| tells_all(stream)));
                prop_assert!(teller.is_some() || !(0..4).any(tells_all));
                prop_assert_eq!(voids.widened(&void(block, block)), *run);
            }
        }
    }

    #[test]
    fn a_file_does_not_rely_on_itself_nor_on_several() {
        let mut voids = Voids::default();
        voids.note(&void(3, 5), (0, 7));
        assert!(voids.is_told_elsewhere(4, 5, 1, &(7..=7)));
        assert!(voids.is_told_elsewhere(4, 5, 0, &(8..=9)));
        assert!(!voids.is_told_elsewhere(4, 5, 0, &(6..=8)), "it is told by one of these");
        assert!(!voids.is_told_elsewhere(5, 6, 1, &(7..=7)), "nobody tells of 6");
        voids.note(&void(6, 9), (1, 1));
        assert!(!voids.is_told_elsewhere(4, 4, 2, &(1..=1)), "nobody tells all of 3-9");
    }
}
