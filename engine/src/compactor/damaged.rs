//! Damaged files of the log: their reports, and when compaction can drop the damage.
//!
//! Memory has everything that the log says. So a checkpoint has the records of a damaged block, and lacks
//! keys whose removal was lost. Damage therefore asks for a checkpoint, if the last one does not reach as
//! far. Then the file is compacted at once, without the damaged records. (Logging the keys of the lost
//! records again would not do for removals: older records of deleted keys may be in any older file, and
//! would count again.)

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::log::{ClosedFile, Damage};
use crate::record::Lsn;

use super::estimates::Place;

/// A file of the log with damage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedFile {
    /// Where it is.
    pub path: PathBuf,
    /// The damage, as it was found first.
    pub damage: Damage,
    /// A checkpoint that has all up to here has what was there.
    pub up_to: Lsn,
}

/// The files that are known to have damage.
#[derive(Debug, Default)]
pub(super) struct DamagedFiles {
    files: BTreeMap<Place, DamagedFile>,
}

impl DamagedFiles {
    /// Notes damage in a file; says whether it is news.
    pub(super) fn note(&mut self, file: &ClosedFile, damage: Damage, up_to: Lsn) -> bool {
        let path = file.path().to_path_buf();
        let before = self.files.len();
        let noted = self.files.entry(file.place()).or_insert(DamagedFile { path, damage, up_to });
        noted.up_to = noted.up_to.max(up_to);
        self.files.len() > before
    }

    /// Forgets files that have been compacted.
    pub(super) fn forget(&mut self, files: &[ClosedFile]) {
        files.iter().for_each(|file| _ = self.files.remove(&file.place()));
    }

    /// Forgets what is no file of the log any more. `files` are in the order of their places.
    pub(super) fn retain(&mut self, files: &[ClosedFile]) {
        self.files.retain(|place, _| files.binary_search_by_key(place, ClosedFile::place).is_ok());
    }

    /// Those of which a checkpoint with all up to `cut` has what was there.
    pub(super) fn covered_by(&self, cut: Lsn) -> impl Iterator<Item = Place> {
        self.files.iter().filter(move |(_, file)| file.up_to <= cut).map(|(place, _)| *place)
    }

    /// Whether a checkpoint with all up to `cut` is not enough.
    pub(super) fn want_more_than(&self, cut: Lsn) -> bool {
        self.files.values().any(|file| file.up_to > cut)
    }

    /// All of them.
    pub(super) fn all(&self) -> Vec<DamagedFile> {
        self.files.values().cloned().collect()
    }
}
