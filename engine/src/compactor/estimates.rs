//! Estimates how many records of each file are obsolete.
//!
//! Bits say of a range of `Lsn`s how many records are obsolete, and files of other directories have records
//! in it, too. So whenever there are more bits in the range of a file than at the last look, it gets its
//! share: of the records in the range that were not known to be obsolete, its own.
//!
//! ```text
//!   directory 0   ....[   file 7: 3,000 records live   ][   file 8 ...
//!   directory 1   ][   file 5: 2,000 live   ][   file 6 ...
//!                     '---- 400 new bits ----'            file 7 gets 400 * 3,000 / (3,000 + 1,500 + 500)
//! ```
//!
//! A file that was given too many has fewer left that are live, so it gets a smaller share of the next: what
//! is guessed wrong comes right. Of a compacted file it is counted.
//!
//! The files of a directory follow each other in the `Lsn`s, so how many records lie in a range is the
//! difference of two sums: a look over all files is as good as linear.

use std::collections::HashMap;

use crate::log::{ClosedFile, Extent, Look, Validity};
use crate::record::Lsn;

use super::lsns::Lsns;

/// A directory and the number of a file in it.
pub(super) type Place = (usize, u64);

/// The estimates of all files.
#[derive(Debug, Default)]
pub(super) struct Estimates {
    pub(super) known: HashMap<Place, Guess>,
}

/// The estimate of one file.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Guess {
    /// Bits of its range that it has got its share of.
    pub(super) bits: u64,
    /// Its records that are obsolete.
    pub(super) obsolete: f64,
}

impl Estimates {
    /// Gives files their share of the bits that were set since the last look. REQUIRES: `files` are all of
    /// the log, as [`extents`] has them.
    pub(super) fn look(&mut self, files: &[Extent], validity: &Validity) {
        // While a compaction puts a file in the place of another, what is known is of that, which had more.
        let live = |file: &Extent| (file.records as f64 - self.obsolete(file.place())).max(0.0);
        let mut directories: Vec<Spread> = Vec::new();
        for file in files {
            directories.resize_with(directories.len().max(file.directory + 1), Spread::default);
            directories[file.directory].push(file, live(file));
        }
        for file in files {
            let bits = bits_of(file, validity);
            let guess = self.known.entry(file.place()).or_default();
            let own = file.records as f64;
            if bits > guess.bits {
                let live = (own - guess.obsolete).max(0.0);
                let all: f64 = directories.iter().map(|spread| spread.between(file)).sum();
                let share = live / all.max(live).max(1.0);
                guess.obsolete += (bits - guess.bits) as f64 * share;
            }
            *guess = Guess { bits, obsolete: guess.obsolete.min(own) };
        }
        if self.known.len() > 2 * files.len() {
            let is_there = |place: &Place| files.binary_search_by_key(place, Extent::place).is_ok();
            self.known.retain(|place, _| is_there(place));
        }
    }

    /// The share of obsolete records of a file.
    pub(super) fn waste(&self, file: &ClosedFile) -> f64 {
        match file.records() {
            0 => 0.0,
            own => (self.obsolete(file.place()) / own as f64).min(1.0),
        }
    }

    /// Clears the bits of records that have left the log. Files keep what they were given.
    pub(super) fn forget(&mut self, gone: &[Lsn], files: &[Extent], validity: &Validity) {
        let (Some(first), Some(last)) = (gone.first(), gone.last()) else { return };
        let has_some = |file: &&Extent| file.first <= *last && *first <= file.last;
        let bits = |file: &Extent| validity.invalid_in(file.first.max(*first)..=file.last.min(*last));
        let before: Vec<(&Extent, u64)> =
            files.iter().filter(has_some).map(|file| (file, bits(file))).collect();
        validity.forget(gone);
        for (file, before) in before {
            if let Some(guess) = self.known.get_mut(&file.place()) {
                let cleared = before.saturating_sub(bits(file));
                guess.bits = guess.bits.saturating_sub(cleared);
            }
        }
    }

    /// Notes that `file`, if anything is left, took the place of `others` and has the records `kept`, of
    /// which some may have become obsolete while they were copied.
    pub(super) fn count(
        &mut self,
        others: &[Place],
        file: Option<&Extent>,
        kept: &Lsns,
        validity: &Validity,
    ) {
        others.iter().for_each(|other| _ = self.known.remove(other));
        let Some(file) = file else { return };
        // First, as more may be set meanwhile.
        let bits = bits_of(file, validity);
        let (mut look, mut obsolete) = (Look::default(), 0);
        kept.each(|lsns| {
            let (Some(first), Some(last)) = (lsns.first(), lsns.last()) else { return };
            validity.look(*first..=*last, &mut look);
            let is_valid = |lsn: &&Lsn| look.is_valid(**lsn).unwrap_or_else(|| validity.is_valid(**lsn));
            obsolete += lsns.len() - lsns.iter().filter(is_valid).count();
        });
        self.known.insert(file.place(), Guess { bits, obsolete: obsolete as f64 });
    }

    /// Records of a file that are obsolete.
    pub(super) fn obsolete(&self, place: Place) -> f64 {
        self.known.get(&place).map_or(0.0, |guess| guess.obsolete)
    }
}

/// All files by directory and number; `open` was asked for before `closed`, so some may be in both.
pub(super) fn extents(open: Vec<Extent>, closed: &[ClosedFile]) -> Vec<Extent> {
    let mut files: Vec<Extent> = closed.iter().filter_map(ClosedFile::extent).chain(open).collect();
    // Those that are closed stay before those that are not.
    files.sort_by_key(Extent::place);
    files.dedup_by_key(|file| file.place());
    files
}

/// How many bits are set in the range of a file.
fn bits_of(file: &Extent, validity: &Validity) -> u64 {
    validity.invalid_in(file.first..=file.last)
}

/// How the records of a directory that are not known to be obsolete lie over the `Lsn`s.
///
/// INVARIANT: `first < end` of each run, and `end` of one is at most `first` of the next.
#[derive(Debug, Default)]
struct Spread {
    runs: Vec<Run>,
    live: f64,
}

/// Those of a file.
#[derive(Debug)]
struct Run {
    first: u64,
    end: u64,
    /// How many are in the files before.
    before: f64,
    live: f64,
}

impl Spread {
    /// Adds the next file of the directory.
    fn push(&mut self, file: &Extent, live: f64) {
        // After a failure of the disk, records are written once more to a later file, and do not count here.
        let first = self.runs.last().map_or(file.first.0, |run| file.first.0.max(run.end));
        if first <= file.last.0 {
            self.runs.push(Run { first, end: file.last.0 + 1, before: self.live, live });
            self.live += live;
        }
    }

    /// How many lie in the range of `file`.
    fn between(&self, file: &Extent) -> f64 {
        self.before(file.last.0 + 1) - self.before(file.first.0)
    }

    /// How many lie before `lsn`, if those of each file are spread evenly.
    fn before(&self, lsn: u64) -> f64 {
        let Some(run) = self.runs.get(self.runs.partition_point(|run| run.end <= lsn)) else {
            return self.live;
        };
        run.before + run.live * lsn.saturating_sub(run.first) as f64 / (run.end - run.first) as f64
    }
}
