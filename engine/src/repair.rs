//! A log whose start is refused: what is wrong with it, and how much of it can be had back.
//!
//! It is examined as a start reads it, records replayed, so that both find the same damage. That takes as
//! much memory as the start does.

use std::path::PathBuf;
use std::sync::Arc;

use crate::early::Early;
use crate::io::Disk;
use crate::log::{Log, OpenError, Reader};
use crate::record::Lsn;
use crate::recovery::{empty, replay};

pub use crate::log::{Damage, FileSurvey, Lost, Remedy, Survey};

/// As many databases as a record can name.
const DATABASES: usize = 256;

/// A log that was examined for a repair; its directories are locked.
pub struct Repair {
    /// What is wrong and what will be kept.
    pub survey: Survey,
    reader: Reader,
}

/// Examines the log in `directories`, replaying it with `threads` threads, and changes nothing.
pub fn check(disk: &Arc<dyn Disk>, directories: &[PathBuf], threads: usize) -> Result<Survey, OpenError> {
    examine(disk, directories, threads, false).map(|(survey, _)| survey)
}

impl Repair {
    /// As [`check`]; nobody opens the log until the repair is dropped.
    pub fn begin(disk: &Arc<dyn Disk>, directories: &[PathBuf], threads: usize) -> Result<Repair, OpenError> {
        let (survey, reader) = examine(disk, directories, threads, true)?;
        Ok(Repair { survey, reader })
    }

    /// Whether a start refuses the log.
    pub fn is_needed(&self) -> bool {
        self.survey.is_under_repair || !self.survey.damage.is_empty()
    }

    /// Cuts the log before the first damage. Returns the folders that hold what was cut off.
    pub fn truncate(self) -> Result<Vec<PathBuf>, OpenError> {
        self.reader.truncate()
    }
}

fn examine(
    disk: &Arc<dyn Disk>,
    directories: &[PathBuf],
    threads: usize,
    keeps_locks: bool,
) -> Result<(Survey, Reader), OpenError> {
    let mut reader = Log::examine(disk.clone(), directories, keeps_locks)?;
    let from = (Lsn::ZERO, reader.unfit());
    let (nobody, tables) = (Early::default(), empty(DATABASES));
    let blocks = || Ok(reader.next_block()?.map(Arc::new));
    let (tables, replayed) = replay(blocks, tables, from, threads, (&nobody, 0), |_| {})?;
    drop(tables);
    // What a log that goes on from a checkpoint changes is not all here.
    // Nor is all there that a compaction relied on, if that is cut off.
    let is_damage = reader.base() == Lsn::ZERO && !reader.claims_more();
    if let Some(misfit) = replayed.misfit.filter(|_| is_damage) {
        // The locks of the first reading would refuse the second.
        drop(reader);
        reader = Log::examine(disk.clone(), directories, keeps_locks)?;
        reader.stop_before(misfit.sequence, misfit.damage);
    }
    Ok((reader.survey()?, reader))
}
