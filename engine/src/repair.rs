//! Repairs a log that a start refuses: reports the damage, and how much of the log can be recovered.
//!
//! It is examined as a start reads it, records replayed, so that both find the same damage. That takes as
//! much memory as the start does. Damage of which the checkpoint has what was there is none to a start, so
//! it is none here where the checkpoint is known: what stands behind it is kept.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::checkpoint::{Checkpoint, CheckpointError};
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
    /// The damage, and the records that will be kept.
    pub survey: Survey,
    reader: Reader,
}

/// Where a log is, and its checkpoints.
#[derive(Clone, Debug)]
pub struct Places<'p> {
    /// All directories of the log.
    pub log: &'p [PathBuf],
    /// The directory of the checkpoints; `None` to look beside those of the log.
    pub checkpoints: Option<&'p Path>,
}

/// Examines a log, replaying it with `threads` threads, and changes nothing.
pub fn check<'p>(
    disk: &Arc<dyn Disk>,
    places: impl Into<Places<'p>>,
    threads: usize,
) -> Result<Survey, OpenError> {
    examine(disk, &places.into(), threads, false).map(|(survey, _)| survey)
}

impl Repair {
    /// As [`check`]; nobody opens the log until the repair is dropped.
    pub fn begin<'p>(
        disk: &Arc<dyn Disk>,
        places: impl Into<Places<'p>>,
        threads: usize,
    ) -> Result<Repair, OpenError> {
        let (survey, reader) = examine(disk, &places.into(), threads, true)?;
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

impl<'p> From<&'p Vec<PathBuf>> for Places<'p> {
    /// Whose checkpoints are beside the log.
    fn from(log: &'p Vec<PathBuf>) -> Places<'p> {
        Places { log, checkpoints: None }
    }
}

impl Places<'_> {
    /// A start would build on a checkpoint with all up to here; 0 without one.
    fn cut(&self, disk: &dyn Disk, reader: &Reader) -> Result<Lsn, OpenError> {
        let cut_of = |directory: &Path| {
            let found = Checkpoint::of(disk, directory)?;
            Ok(found.filter(|found| is_built_on(reader, found)).map(|found| found.cut))
        };
        let failed = |error: CheckpointError| OpenError::Checkpoint(Box::new(error));
        if let Some(directory) = self.checkpoints {
            return Ok(cut_of(directory).map_err(failed)?.unwrap_or(Lsn::ZERO));
        }
        let beside = self.log.iter().filter_map(|log| Some(log.parent()?.join("checkpoints")));
        // What is there may be anything, unless it says that it belongs to this log.
        Ok(beside.filter_map(|directory| cut_of(&directory).ok()?).max().unwrap_or(Lsn::ZERO))
    }
}

/// Whether a start would replay a log on top of a checkpoint.
fn is_built_on(reader: &Reader, checkpoint: &Checkpoint) -> bool {
    checkpoint.log == Some(reader.log_id()) && checkpoint.cut >= reader.base().max(reader.checkpoint_wanted())
}

fn examine(
    disk: &Arc<dyn Disk>,
    places: &Places<'_>,
    threads: usize,
    keeps_locks: bool,
) -> Result<(Survey, Reader), OpenError> {
    let mut reader = Log::examine(disk.clone(), places.log, keeps_locks)?;
    let cut = places.cut(&**disk, &reader)?;
    reader.cover(cut);
    let from = (Lsn::ZERO, reader.unfit());
    let (nobody, tables) = (Early::default(), empty(DATABASES));
    let blocks = || Ok(reader.next_block()?.map(Arc::new));
    let (tables, replayed) = replay(blocks, tables, from, threads, (&nobody, 0), |_| {})?;
    drop(tables);
    // What a log that goes on from a checkpoint changes is not all here.
    // Nor is all there that a compaction relied on, if that is cut off.
    let is_damage = reader.base() == Lsn::ZERO && !reader.claims_more() && !reader.lacks_covered();
    if let Some(misfit) = replayed.misfit.filter(|_| is_damage) {
        // The locks of the first reading would refuse the second.
        drop(reader);
        reader = Log::examine(disk.clone(), places.log, keeps_locks)?;
        reader.cover(cut);
        reader.stop_before(misfit.sequence, misfit.damage);
    }
    Ok((reader.survey()?, reader))
}
