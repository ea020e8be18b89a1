//! A closed file, which is no longer written to: its contents and its state.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::file::FileHeader;
use super::voids::Teller;
use crate::record::Lsn;

/// The contents of a file, now or before it was compacted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Contents {
    /// The first and the last block; 0 for none.
    pub(super) first_sequence: u64,
    pub(super) last_sequence: u64,
    /// How many records there are.
    pub(super) records: u64,
    /// The first and the last record that is or was there; 0 for none.
    pub(super) first: Lsn,
    pub(super) last: Lsn,
    /// The bytes that compression of its blocks saves, but for padding.
    pub(super) saved: u64,
}

impl Contents {
    /// Adds a block with the records from `first` to `last`; `last` is before `first` if it has none.
    pub(super) fn add(&mut self, sequence: u64, first: Lsn, last: Lsn) {
        if self.first_sequence == 0 {
            self.first_sequence = sequence;
        }
        self.last_sequence = sequence;
        self.records += last.0 + 1 - first.0;
        if first <= last {
            self.last = last;
            if self.first == Lsn::ZERO {
                self.first = first;
            }
        }
    }

    /// The first and the last record that is or was there.
    pub(super) fn lsns(&self) -> Option<(Lsn, Lsn)> {
        (self.first > Lsn::ZERO).then_some((self.first, self.last))
    }
}

/// The records of a file, be it written to or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Which of the directories it is in, counted from 0.
    pub directory: usize,
    /// Which file of the directory it is.
    pub number: u64,
    /// How many records there are.
    pub records: u64,
    /// The first record that is there, or was.
    pub first: Lsn,
    /// The last one.
    pub last: Lsn,
}

impl Extent {
    /// The directory and the number, by which files have their order.
    pub fn place(&self) -> (usize, u64) {
        (self.directory, self.number)
    }

    pub(super) fn of(header: &FileHeader, contents: &Contents) -> Option<Extent> {
        let (first, last) = contents.lsns()?;
        let (directory, number) = (header.stream as usize, header.number);
        Some(Extent { directory, number, records: contents.records, first, last })
    }
}

/// A file that is written to no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClosedFile {
    /// Shared: there may be thousands of files, of which lists are made often.
    pub(super) path: Arc<Path>,
    pub(super) header: FileHeader,
    pub(super) bytes: u64,
    pub(super) contents: Contents,
    /// Blocks above this are void, and others have their numbers.
    pub(super) sequence_limit: u64,
    /// Blocks that its header voids in older files may still stand there: the log has failed since it was
    /// opened.
    pub(super) is_epoch_needed: bool,
}

impl ClosedFile {
    pub(super) fn new(path: &Path, header: &FileHeader, bytes: u64, contents: Contents) -> ClosedFile {
        let (path, header) = (path.into(), *header);
        ClosedFile { path, header, bytes, contents, sequence_limit: u64::MAX, is_epoch_needed: false }
    }

    /// As it is when a later epoch has blocks from behind `opened_after` on.
    pub(super) fn voided(mut self, opened_after: u64) -> ClosedFile {
        if self.contents.last_sequence > opened_after {
            self.sequence_limit = self.sequence_limit.min(opened_after);
        }
        self
    }

    /// As it is while the log is open that was opened in the epoch `opened_in`. Only a start cuts for sure
    /// what an epoch voids.
    pub(super) fn of_log_opened_in(mut self, opened_in: u64) -> ClosedFile {
        self.is_epoch_needed = self.header.epoch > opened_in;
        self
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its length.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Its length, were no block of it compressed: as much as there is to copy.
    pub fn raw_bytes(&self) -> u64 {
        self.bytes + self.contents.saved
    }

    /// Which of the directories it is in, counted from 0.
    pub fn directory(&self) -> usize {
        self.header.stream as usize
    }

    /// Its directory and number.
    pub fn place(&self) -> (usize, u64) {
        (self.directory(), self.header.number)
    }

    /// Whether it is this very file, or what it was made of has not been compacted since.
    pub fn is_same_file(&self, other: &ClosedFile) -> bool {
        self.header.file_id == other.header.file_id
    }

    /// As it is named among those that tell of voids.
    pub(super) fn teller(&self) -> Teller {
        (self.header.stream, self.header.number)
    }

    /// Its records; `None` if it has none.
    pub fn extent(&self) -> Option<Extent> {
        Extent::of(&self.header, &self.contents)
    }

    /// How many records it has.
    pub fn records(&self) -> u64 {
        self.contents.records
    }

    /// The first and the last record that it has, or had before it was compacted; `None` if it has none.
    pub fn lsns(&self) -> Option<(Lsn, Lsn)> {
        self.contents.lsns()
    }

    /// Whatever made records of it obsolete up to here was known when it was compacted; 0 if it never was.
    pub fn timestamp(&self) -> Lsn {
        self.header.compaction.map_or(Lsn::ZERO, |compaction| compaction.timestamp)
    }

    /// Whether nothing lies between this file and `next`, so that both can become one.
    pub fn is_followed_by(&self, next: &ClosedFile) -> bool {
        let follows = self.header.number + 1 == *next.header.numbers().start();
        // One file says of one epoch alone what it voids.
        let keeps_epochs =
            self.header.epoch == next.header.epoch || !self.is_epoch_needed && !next.is_epoch_needed;
        follows
            && keeps_epochs
            && self.header.stream == next.header.stream
            && self.header.era == next.header.era
    }
}

/// Where those of `closed` are that `files`, which follow each other, have the places of.
pub(super) fn places_of(closed: &[ClosedFile], files: &[ClosedFile]) -> Range<usize> {
    let (Some(first), Some(last)) = (files.first(), files.last()) else { return 0..0 };
    let start = closed.partition_point(|file| file.place() < first.place());
    let length = closed[start..].partition_point(|file| file.place() <= last.place());
    start..start + length
}
