//! The files of the log, current and closed, and the records that are in each.

use super::appender::Appender;
use super::pipeline::{Active, Pipeline};
use crate::log::closed::{ClosedFile, Contents, Extent};
use crate::log::file::FileHeader;
use crate::record::Lsn;

impl Appender {
    /// The files that are written to no more, by directory and number.
    pub fn closed_files(&self) -> Vec<ClosedFile> {
        self.pipeline.closed.lock().clone()
    }

    /// Has the files that are written to left for the next ones, where they have records up to `lsn`. Waits
    /// for nothing; `true` when [`Appender::closed_files`] has them all, but for those of directories that
    /// get no next file, and of a log that has failed.
    pub fn leave_files(&self, lsn: Lsn) -> bool {
        self.pipeline.begin_to_leave(lsn)
    }

    /// The records of the files that [`Appender::closed_files`], called later, may not tell of: those of
    /// files that are written to, and of some that were just left.
    pub fn open_extents(&self) -> Vec<Extent> {
        let active = self.pipeline.active.lock();
        let leaving = active.leaving.iter().map(|leaving| (&leaving.file, &leaving.contents));
        let current = active.lanes.iter().filter_map(|lane| Some((lane.current.as_ref()?, &lane.contents)));
        leaving.chain(current).filter_map(|(file, contents)| Extent::of(&file.header, contents)).collect()
    }

    /// No record that a closed file tells of is behind this one, whatever is left of the file.
    pub(in crate::log) fn end_of(&self, file: &ClosedFile) -> Lsn {
        let active = self.pipeline.active.lock();
        let is_behind =
            |header: &FileHeader| header.stream == file.header.stream && header.number > file.header.number;
        let closed = self.pipeline.closed.lock();
        let closed = closed.iter().filter(|other| is_behind(&other.header)).map(|other| other.contents);
        let leaving = active.leaving.iter().filter(|leaving| is_behind(&leaving.file.header));
        let leaving = leaving.map(|leaving| leaving.contents);
        // Sequences rise from file to file.
        let lane = &active.lanes[file.directory()];
        let first = closed.chain(leaving).chain([lane.contents]).find_map(|contents| contents.lsns());
        Lsn(first.map_or(active.next, |(first, _)| first).0.saturating_sub(1))
    }

    /// The first record that may be in a file that [`Appender::closed_files`], called later, does not tell
    /// of.
    pub fn first_open(&self) -> Lsn {
        self.pipeline.active.lock().first_open()
    }
}

impl Pipeline {
    /// Adds a file, behind those of its directory with lower numbers.
    pub(in crate::log) fn note_closed(&self, file: ClosedFile) {
        let mut closed = self.closed.lock();
        let at = closed.partition_point(|other| other.place() < file.place());
        closed.insert(at, file);
    }

    /// Notes that a later epoch has blocks from behind `opened_after` on.
    pub(in crate::log) fn void_closed(&self, opened_after: u64) {
        for file in self.closed.lock().iter_mut() {
            *file = file.clone().voided(opened_after);
        }
    }
}

impl Active {
    /// The first record that may be in a file that is not closed.
    pub(in crate::log) fn first_open(&self) -> Lsn {
        let leaving = self.leaving.iter().map(|leaving| &leaving.contents);
        let contents = self.lanes.iter().map(|lane| &lane.contents).chain(leaving);
        contents.filter_map(Contents::lsns).map(|(first, _)| first).min().unwrap_or(self.next)
    }
}
