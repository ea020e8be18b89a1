//! Loads the tables at a start: reads the checkpoint, if the log continues from one, and replays the log on
//! top of it.
//!
//! `replay` deals with the blocks, `gathered` with the records of a block, `loose` with those that need not
//! fit, `torn` with keys of which a repair has cut off some, `start` with logs and checkpoints that do not
//! belong together.

mod collected;
#[cfg(test)]
mod collected_tests;
mod gathered;
mod loose;
mod meeting;
mod misfit;
mod prepared;
mod replay;
mod room;
mod start;
mod torn;

use crate::backup;
use crate::checkpoint::{Checkpoints, Loaded};
use crate::early::Early;
use crate::io::Disk;
use crate::log::{Log, LogOptions, OpenError, Reader, Recovered, Validity};
use crate::record::Lsn;
use crate::table::Table;
pub use loose::Place;
pub use misfit::Misfit;
pub use replay::{Replayed, Replayers, replay};
use start::{base_of, is_continued, refuse_without_its_log};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Reports what a log held.
pub type Report = Box<dyn Fn(&Recovered) + Send + Sync>;

/// How far opening has come; shared with those who wait for it.
#[derive(Default)]
pub struct Progress {
    /// Bytes of the log that have been read.
    pub bytes_read: AtomicU64,
    /// Bytes of the log in all.
    pub bytes: AtomicU64,
    /// The entries that are loaded so far.
    pub early: Early,
    /// Is called once all of the log is read and nothing of it is changed. The opening may still fail after
    /// that.
    pub found: OnceLock<Report>,
}

impl Progress {
    /// Notes that `read` of `bytes` have been read.
    pub fn note(&self, read: u64, bytes: u64) {
        self.bytes_read.store(read, Ordering::Relaxed);
        self.bytes.store(bytes, Ordering::Relaxed);
    }
}

/// The result of opening.
pub struct Opened {
    /// The databases.
    pub tables: Vec<Arc<Table>>,
    /// The log, ready to go on.
    pub log: Log,
    /// Which of its records have been replaced.
    pub validity: Arc<Validity>,
    /// The result of reading the log.
    pub recovered: Recovered,
    /// The result of the replay.
    pub replayed: Replayed,
}

/// Opens the log of `options`, or makes one, and replays it into `databases` tables with `threads` threads:
/// on top of the checkpoint, if there is one that it goes on from.
pub fn open(
    disk: Arc<dyn Disk>,
    options: LogOptions,
    checkpoints: Option<&Checkpoints>,
    databases: usize,
    threads: usize,
    progress: &Progress,
) -> Result<Opened, OpenError> {
    open_log(disk, options, checkpoints, databases, threads, progress).map_err(|error| match checkpoints {
        Some(checkpoints) => error.with_checkpoints(checkpoints.directory()),
        None => error,
    })
}

fn open_log(
    disk: Arc<dyn Disk>,
    mut options: LogOptions,
    checkpoints: Option<&Checkpoints>,
    databases: usize,
    threads: usize,
    progress: &Progress,
) -> Result<Opened, OpenError> {
    let directories = options.directories.clone();
    directories.iter().try_for_each(|directory| backup::refuse_copies(&*disk, directory))?;
    options.base = base_of(checkpoints);
    refuse_without_its_log(&*disk, &directories, checkpoints)?;
    let mut reader = Log::open(disk, options)?;
    let validity = Arc::new(Validity::new());
    let (loaded, replayed) = load(&mut reader, checkpoints, databases, threads, progress, &validity)
        .map_err(|error| error.with_remedy(&directories))?;
    if let Some(checkpoints) = checkpoints {
        checkpoints.continue_with(reader.log_id()).map_err(|error| OpenError::Checkpoint(Box::new(error)))?;
    }
    let (log, recovered) = reader.into_log()?;
    torn::log_again(&replayed.torn, &loaded.tables, &log.appender(), &validity)?;
    Ok(Opened { tables: loaded.tables, log, validity, recovered, replayed })
}

/// Reads what `open` would load and changes nothing: the checkpoint, and the log in `directories` if there is
/// one.
pub fn read(
    disk: Arc<dyn Disk>,
    directories: Vec<PathBuf>,
    checkpoints: &Checkpoints,
    databases: usize,
    threads: usize,
    progress: &Progress,
) -> Result<Loaded, OpenError> {
    if !Log::is_in(&*disk, &directories)? {
        let loaded = load_checkpoint(checkpoints, empty(databases), threads, progress)?;
        return Ok(loaded.unwrap_or_else(|| nothing(empty(databases))));
    }
    let mut options = LogOptions::new(directories.clone());
    options.base = base_of(Some(checkpoints));
    let read = || {
        let mut reader = Log::read(disk, options)?;
        let validity = Validity::new();
        let (loaded, _) = load(&mut reader, Some(checkpoints), databases, threads, progress, &validity)
            .map_err(|error| error.with_remedy(&directories))?;
        Ok(loaded)
    };
    read().map_err(|error: OpenError| error.with_checkpoints(checkpoints.directory()))
}

/// Reads a log to its end, on top of the checkpoint if there is one that it goes on from.
fn load(
    reader: &mut Reader,
    checkpoints: Option<&Checkpoints>,
    databases: usize,
    threads: usize,
    progress: &Progress,
    validity: &Validity,
) -> Result<(Loaded, Replayed), OpenError> {
    let checkpoint = checkpoints.and_then(Checkpoints::current);
    let (tables, early) = (empty(databases), &progress.early);
    let loaded = match checkpoints {
        Some(checkpoints) if is_continued(reader, checkpoint.as_ref(), checkpoints)? => {
            let cut = checkpoint.map_or(Lsn::ZERO, |checkpoint| checkpoint.cut);
            reader.cover(cut);
            early.begin(&tables, cut);
            load_checkpoint(checkpoints, tables.clone(), threads, progress)?
        }
        _ => {
            early.begin(&tables, Lsn::ZERO);
            None
        }
    };
    let Loaded { tables, cut, .. } = loaded.unwrap_or_else(|| nothing(tables));
    let (unfit, relied_on) = (reader.unfit(), reader.relied_on());
    let replayers = Replayers { threads, sizes: reader.sizes() };
    let next = || {
        let block = reader.next_block()?;
        let read = reader.progress();
        progress.note(read.bytes_read(), read.bytes_total);
        early.note_sure(reader.sure());
        Ok(block.map(Arc::new))
    };
    let invalidate = |lsns: &[Lsn]| validity.invalidate(lsns);
    let (tables, replayed) = replay(next, tables, (cut, unfit), replayers, (early, relied_on), invalidate)?;
    if let Some(misfit) = replayed.misfit {
        return Err(misfit.damage.into());
    }
    validity.begin(replayed.upheavals.clone(), cut);
    let last = reader.last();
    if last < cut {
        return Err(OpenError::Unrelated(format!(
            "the log ends with record {last}, before the checkpoint, which has all up to {cut}: files of it \
             are missing; restore them, or move the log away and start with --appendonly no to use the \
             checkpoint alone"
        )));
    }
    progress.found.get().inspect(|found| found(reader.recovered()));
    let keys = tables.iter().map(|table| table.len() as u64).sum();
    Ok((Loaded { tables, cut: last, keys }, replayed))
}

fn load_checkpoint(
    checkpoints: &Checkpoints,
    tables: Vec<Arc<Table>>,
    threads: usize,
    progress: &Progress,
) -> Result<Option<Loaded>, OpenError> {
    let note = |read, bytes| progress.note(read, bytes);
    checkpoints.load(tables, threads, &note).map_err(|error| OpenError::Checkpoint(Box::new(error)))
}

/// Empty databases, at the beginning of time.
fn nothing(tables: Vec<Arc<Table>>) -> Loaded {
    Loaded { tables, cut: Lsn::ZERO, keys: 0 }
}

/// So many databases without keys.
pub fn empty(databases: usize) -> Vec<Arc<Table>> {
    (0..databases).map(|_| Arc::default()).collect()
}
