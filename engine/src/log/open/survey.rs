//! Examines a log without opening it to write: what a start would keep and lose, and why it would refuse.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::identity::{Directories, belongs_to_log};
use super::reader::{Reader, Recovered};
use super::source::Lost;
use crate::io::{Disk, DiskResult};
use crate::log::error::{Damage, OpenError, Remedy};
use crate::log::handle::Log;
use crate::log::options::LogOptions;
use crate::record::Lsn;

/// The result of examining a log.
#[derive(Clone, Debug)]
pub struct Survey {
    /// The files whose blocks can be read, by directory and number.
    pub files: Vec<FileSurvey>,
    /// The records that a start keeps, after a repair if one is needed; and the torn tail.
    pub recovered: Recovered,
    /// Why a start refuses, the first reason first. A log without is whole up to its torn tail.
    pub damage: Vec<Damage>,
    /// The records after those that are kept.
    pub lost: Lost,
    /// Whether a repair has begun and not ended.
    pub is_under_repair: bool,
    /// Whether compacted files that are kept relied on what is not: older records of its keys are gone.
    pub lacks_older: bool,
}

/// The result of examining one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSurvey {
    /// The file.
    pub path: PathBuf,
    /// Its number.
    pub number: u64,
    /// The epoch in which it was made.
    pub epoch: u64,
    /// Its length.
    pub bytes: u64,
    /// Blocks that are kept.
    pub blocks: u64,
    /// Records that are kept.
    pub records: u64,
    /// The first and the last of them, or of what was there before it was compacted, if there are any.
    pub lsns: Option<(Lsn, Lsn)>,
    /// If it was compacted: what made records of it obsolete up to here was known then.
    pub compacted: Option<Lsn>,
    /// The part of it that is not kept.
    pub lost: Lost,
}

impl Log {
    /// Begins to read a log without changing anything. Damage ends the reading as a torn tail would, and is
    /// told by [`Reader::survey`]. The directories stay locked if `keeps_locks`; else they must only be free
    /// now and when the survey is made.
    pub fn examine(
        disk: Arc<dyn Disk>,
        directories: &[PathBuf],
        keeps_locks: bool,
    ) -> Result<Reader, OpenError> {
        let options = LogOptions::new(directories.to_vec());
        let directories = Directories::look(&*disk, directories, keeps_locks)?;
        Reader::begin(disk, options, directories, true)
    }
}

impl Log {
    /// Begins to read a log as a start does, refusing what it refuses, but changes nothing. The directories
    /// stay locked until the reader is dropped.
    pub fn read(disk: Arc<dyn Disk>, options: LogOptions) -> Result<Reader, OpenError> {
        let given = options.directories.clone();
        let directories = Directories::look(&*disk, &given, true)?;
        if directories.is_under_repair {
            return Err(OpenError::UnderRepair { path: given[0].clone(), remedy: Remedy::new(given) });
        }
        if let Some((_, damage)) = directories.lost_identities.first() {
            return Err(OpenError::from(damage.clone()).with_remedy(&given));
        }
        Reader::begin(disk, options, directories, false)
    }

    /// Whether any of these directories has to do with a log.
    pub fn is_in(disk: &dyn Disk, directories: &[PathBuf]) -> DiskResult<bool> {
        for path in directories {
            match disk.list(path) {
                Ok(names) if names.iter().any(|name| belongs_to_log(name)) => return Ok(true),
                Err(error) if error.source.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(false)
    }
}

impl Reader {
    /// Keeps no block from `sequence` on, because of `damage` that only shows when the records are replayed.
    pub fn stop_before(&mut self, sequence: u64, damage: Damage) {
        self.stop = Some((sequence, damage));
    }

    /// Reads what was not read yet and says what was found. REQUIRES: the log is being examined.
    pub fn survey(&mut self) -> Result<Survey, OpenError> {
        while self.next_block()?.is_some() {}
        if self.directories.locks.is_empty() {
            self.directories.assert_unused(&*self.disk)?;
        }
        let mut files = Vec::new();
        let mut lost = Lost::default();
        for source in &self.sources {
            for (file, tally) in source.files.iter().zip(&source.tallies) {
                files.push(FileSurvey {
                    path: file.path.to_path_buf(),
                    number: file.header.number,
                    epoch: file.header.epoch,
                    bytes: file.bytes,
                    blocks: tally.blocks,
                    records: tally.contents.records,
                    lsns: tally.contents.lsns(),
                    compacted: file.header.compaction.map(|compaction| compaction.timestamp),
                    lost: tally.lost,
                });
            }
            let tallied = source.tallies.iter().map(|tally| tally.lost);
            let unreadable =
                source.unreadable.iter().map(|file| Lost { bytes: file.bytes, ..Lost::default() });
            for part in tallied.chain(unreadable) {
                lost.blocks += part.blocks;
                lost.records += part.records;
                lost.bytes += part.bytes;
            }
        }
        let identities = self.directories.lost_identities.iter().map(|(_, damage)| damage);
        let headers = self.sources.iter().flat_map(|source| &source.unreadable).map(|file| &file.damage);
        let damage = identities.chain(headers).chain(&self.state.damage).cloned().collect();
        let is_under_repair = self.directories.is_under_repair;
        let (recovered, lacks_older) = (self.state.recovered.clone(), self.lacks_older());
        Ok(Survey { files, recovered, damage, lost, is_under_repair, lacks_older })
    }

    /// Whether files that are kept, in part at least, were compacted relying on more, or a repair that has
    /// not ended found so.
    fn lacks_older(&self) -> bool {
        let mut files = self.sources.iter().flat_map(|source| source.files.iter().zip(&source.tallies));
        files.any(|(file, tally)| {
            file.header.compaction.filter(|_| tally.blocks > 0).is_some_and(|compaction| {
                let was_lowered = self.directories.is_under_repair && compaction.unfit > Lsn::ZERO;
                was_lowered || self.state.is_beyond(&compaction)
            })
        })
    }
}
