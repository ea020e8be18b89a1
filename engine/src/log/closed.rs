//! The files that are written to no more: what is in them, and what is known of it.

use std::path::{Path, PathBuf};

use super::file::FileHeader;
use super::pipeline::{Active, Pipeline};
use crate::record::Lsn;

/// What is in a file, or was before it was compacted.
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

/// A file that is written to no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClosedFile {
    pub(super) path: PathBuf,
    pub(super) header: FileHeader,
    pub(super) bytes: u64,
    pub(super) contents: Contents,
    /// Blocks above this are void, and others have their numbers.
    pub(super) sequence_limit: u64,
}

impl ClosedFile {
    pub(super) fn new(path: &Path, header: &FileHeader, bytes: u64, contents: Contents) -> ClosedFile {
        let (path, header) = (path.to_path_buf(), *header);
        ClosedFile { path, header, bytes, contents, sequence_limit: u64::MAX }
    }

    /// As it is when a later epoch has blocks from behind `opened_after` on.
    pub(super) fn voided(mut self, opened_after: u64) -> ClosedFile {
        if self.contents.last_sequence > opened_after {
            self.sequence_limit = self.sequence_limit.min(opened_after);
        }
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

    /// Which of the directories it is in, counted from 0.
    pub fn directory(&self) -> usize {
        self.header.stream as usize
    }

    /// How many records it has.
    pub fn records(&self) -> u64 {
        self.contents.records
    }

    /// The first and the last record that it has, or had before it was compacted; `None` if it has none.
    pub fn lsns(&self) -> Option<(Lsn, Lsn)> {
        self.contents.lsns()
    }

    /// Whatever made records of it needless up to here was known when it was compacted; 0 if it never was.
    pub fn timestamp(&self) -> Lsn {
        self.header.compaction.map_or(Lsn::ZERO, |compaction| compaction.timestamp)
    }

    /// Whether nothing lies between this file and `next`, so that both can become one.
    pub fn is_followed_by(&self, next: &ClosedFile) -> bool {
        let follows = self.header.number + 1 == *next.header.numbers().start();
        follows && self.header.stream == next.header.stream && self.header.era == next.header.era
    }
}

impl Pipeline {
    /// Adds a file, behind those of its directory with lower numbers.
    pub(super) fn note_closed(&self, file: ClosedFile) {
        let mut closed = self.closed.lock();
        let place = |file: &ClosedFile| (file.header.stream, file.header.number);
        let at = closed.partition_point(|other| place(other) < place(&file));
        closed.insert(at, file);
    }

    /// Notes that a later epoch has blocks from behind `opened_after` on.
    pub(super) fn void_closed(&self, opened_after: u64) {
        for file in self.closed.lock().iter_mut() {
            *file = file.clone().voided(opened_after);
        }
    }
}

impl Active {
    /// The first record that may be in a file that is not closed.
    pub(super) fn first_open(&self) -> Lsn {
        let leaving = self.leaving.iter().map(|leaving| &leaving.contents);
        let contents = self.lanes.iter().map(|lane| &lane.contents).chain(leaving);
        contents.filter_map(Contents::lsns).map(|(first, _)| first).min().unwrap_or(self.next)
    }
}
