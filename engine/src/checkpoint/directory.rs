//! The directory of checkpoints: takes the next checkpoint, and finds the one that a start loads.
//!
//! ```text
//!   checkpoint-8.tarn.new ──complete, synced──> checkpoint-8.tarn ──> MANIFEST names it ──> 7 is removed
//! ```
//!
//! Whatever fails or ends in between, the manifest names a whole checkpoint: the old one or the new one. What
//! is left of others is removed by the next start, once the name that it found is durable: a kill may have
//! left that to chance.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::lock::{Mutex, rank};

use super::error::CheckpointError;
use super::fork::fork;
use super::format::{FileHeader, FileKind};
use super::load::{Loaded, load};
use super::manifest::{Checkpoint, file_name, is_unfinished, number_of};
use super::merge::merge;
use super::pace::{Pacer, Progress, TakeOptions};
use super::reader::FileReader;
use super::source::Source;
use super::take::{Base, dump};
use super::writer::{self, Totals};
use crate::io::{Disk, DiskLock, Verified};
use crate::record::{Lsn, UnixMs};
use crate::table::Table;

const LOCK_FILE: &str = "checkpoint.lock";
/// Ends the name of a file that is not complete.
const UNFINISHED: &str = ".new";
/// Ends the name of a file of changes.
const CHANGES: &str = ".changes";

/// How a checkpoint gets the store as of one instant.
///
/// The mode says what a checkpoint reads of the store. Each mode leaves one file with all entries, so a start
/// loads one file, whatever wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointMode {
    /// Reads all entries through a view, and writes them.
    Full,
    /// Reads through a view the entries that have changed since the last checkpoint, and merges them with its
    /// file into a new one. Full where no earlier checkpoint of this process can be merged with.
    Incremental,
    /// A child process has all entries, and writes them.
    Fork,
}

/// The costs of a checkpoint.
#[derive(Clone, Copy, Debug, Default)]
pub struct Taken {
    /// Keys in it.
    pub keys: u64,
    /// Its length.
    pub bytes: u64,
    /// Until its cut was taken.
    pub cut: Duration,
    /// Until all that it needs of the store was read.
    pub read: Duration,
    /// In all.
    pub all: Duration,
    /// Bytes of memory that a child process had for itself at its end, if there was one.
    pub child_bytes: Option<u64>,
}

/// The checkpoints of one directory.
pub struct Checkpoints {
    disk: Arc<dyn Disk>,
    directory: PathBuf,
    _lock: Box<dyn DiskLock>,
    /// The checkpoint that the manifest names.
    current: Mutex<Option<Checkpoint>>,
    /// The store at the last checkpoint that this process took. Held while one is being taken.
    base: Mutex<Option<Base>, rank::CheckpointTurn>,
    number: AtomicU64,
    /// Files that the manifest may have named for a while, until it surely names another; and those that the
    /// disk has not removed yet.
    unsure: Mutex<Vec<PathBuf>>,
    progress: Progress,
}

impl Checkpoints {
    /// Opens a directory, which is made if there is none, and removes what is left of checkpoints that were
    /// not completed.
    pub fn open(disk: Arc<dyn Disk>, directory: &Path) -> Result<Checkpoints, CheckpointError> {
        disk.create_dir_all(directory)?;
        let lock = disk.lock(&directory.join(LOCK_FILE))?;
        let lock = lock.ok_or_else(|| CheckpointError::InUse(directory.to_path_buf()))?;
        let current = Checkpoint::read(&*disk, directory)?;
        if current.is_some() {
            // What relies on it, here and in the log, must not outlast it.
            disk.sync_dir(directory)?;
        }
        let keep = current.as_ref().map(Checkpoint::file_name);
        for name in disk.list(directory)? {
            if is_left_over(&name) && Some(&name) != keep.as_ref() {
                disk.remove(&directory.join(name))?;
            }
        }
        let number = AtomicU64::new(current.as_ref().map_or(0, |checkpoint| checkpoint.number));
        Ok(Checkpoints {
            disk,
            directory: directory.to_path_buf(),
            _lock: lock,
            current: Mutex::new(current),
            base: Mutex::default(),
            number,
            unsure: Mutex::default(),
            progress: Progress::default(),
        })
    }

    /// The checkpoint that a start would load.
    pub fn current(&self) -> Option<Checkpoint> {
        self.current.lock().clone()
    }

    /// Notes that this log goes on where the checkpoint ends. REQUIRES: there is one.
    pub(crate) fn continue_with(&self, log: u128) -> Result<(), CheckpointError> {
        let mut current = self.current.lock();
        let Some(checkpoint) = &mut *current else { return Ok(()) };
        if checkpoint.log == Some(log) {
            return Ok(());
        }
        let linked = Checkpoint { log: Some(log), ..checkpoint.clone() };
        linked.publish(&*self.disk, &self.directory)?;
        *checkpoint = linked;
        Ok(())
    }

    /// Whether the current checkpoint has all that `source` has.
    pub fn has_all_of(&self, source: &dyn Source) -> bool {
        let newest = source.newest();
        self.current().is_some_and(|checkpoint| checkpoint.cut == newest)
    }

    /// Lets `take` have the file of the current checkpoint; once more if another took its place meanwhile.
    pub(crate) fn current_file<T, E>(
        &self,
        mut take: impl FnMut(&Path) -> Result<T, E>,
    ) -> Result<Option<(Checkpoint, T)>, E> {
        loop {
            let Some(current) = self.current() else { return Ok(None) };
            match take(&self.directory.join(current.file_name())) {
                Ok(taken) => return Ok(Some((current, taken))),
                Err(_) if self.current().as_ref() != Some(&current) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Where the checkpoints are.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// How far the one that is being taken has come.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Loads the current checkpoint, if there is one, into `tables`, which are empty, with `threads` threads.
    /// `progress` is told how many bytes have been read, and of how many.
    pub fn load(
        &self,
        tables: Vec<Arc<Table>>,
        threads: usize,
        progress: &dyn Fn(u64, u64),
    ) -> Result<Option<Loaded>, CheckpointError> {
        let Some(checkpoint) = self.current() else { return Ok(None) };
        let reader = FileReader::open(&*self.disk, &self.directory.join(checkpoint.file_name()))?;
        load(reader.of_checkpoint(&checkpoint)?, tables, threads, progress).map(Some)
    }

    /// Reads the current checkpoint past the operating system's cache and checks that it is the file of the
    /// manifest, its blocks and their checksums. It decodes no entry, so it does not see what only `load`
    /// refuses. `pace` gets the number of bytes read and returns whether to go on. Returns the cut and what
    /// is wrong, if anything is; `None` if there is no checkpoint, or `pace` gave it up, or another has taken
    /// its place.
    pub fn verify(&self, mut pace: impl FnMut(u64) -> bool) -> Option<(Lsn, Result<(), CheckpointError>)> {
        let current = self.current()?;
        let path = self.directory.join(current.file_name());
        let mut goes_on = true;
        let mut read = || {
            let reader = FileReader::of(Verified::open(&*self.disk, &path)?, &path)?;
            let mut reader = reader.of_checkpoint(&current)?;
            let (mut body, mut before) = (Vec::new(), 0);
            while let Some(block) = reader.next_block(body)? {
                block.check(&path)?;
                body = block.body;
                let (at, _) = reader.progress()?;
                goes_on = pace(at - before);
                before = at;
                if !goes_on {
                    break;
                }
            }
            Ok(())
        };
        let outcome = read();
        // One that was replaced meanwhile has lost its name.
        (goes_on && self.current().as_ref() == Some(&current)).then_some((current.cut, outcome))
    }

    /// Has the next checkpoint read nothing of the current one, which is damaged.
    pub fn distrust_current(&self) {
        // A thread that takes one now finds the damage by itself.
        if let Some(mut base) = self.base.try_lock() {
            *base = None;
        }
    }

    /// Takes a checkpoint of `source`. On an error the last one is as it was.
    pub fn take(
        &self,
        source: &dyn Source,
        mode: CheckpointMode,
        options: TakeOptions,
        unix_ms: UnixMs,
    ) -> Result<Taken, CheckpointError> {
        let Some(mut base) = self.base.try_lock() else { return Err(CheckpointError::Busy) };
        let began = source.clock().monotonic();
        let number = self.number.fetch_add(1, Ordering::Relaxed) + 1;
        let path = self.directory.join(file_name(number));
        let mut taking =
            Taking { checkpoints: self, source, options, unix_ms, began, taken: Taken::default() };
        let unfinished = with_ending(&path, UNFINISHED);
        let changes = with_ending(&path, CHANGES);
        let taken = match (mode, &*base, self.current()) {
            (CheckpointMode::Incremental, Some(base), Some(last)) => {
                match taking.changes_merged(&changes, base, &last, &unfinished) {
                    // The last one is damaged or cannot be read, and all of it is in the store.
                    Err(CheckpointError::Damaged { .. } | CheckpointError::Disk(_)) => {
                        // It is not there where the last one could not even be opened.
                        let _ = self.disk.remove(&unfinished);
                        taking.full(&unfinished)
                    }
                    taken => taken,
                }
            }
            (CheckpointMode::Fork, ..) => taking.forked(&unfinished),
            _ => taking.full(&unfinished),
        };
        let outcome = taken.and_then(|(next_base, totals)| {
            let (cut, keys) = (next_base.cut, totals.keys);
            let checkpoint = Checkpoint { number, cut, keys, unix_ms, log: source.settle(cut)? };
            self.publish(&unfinished, &path, &checkpoint)?;
            *base = Some(next_base);
            Ok(totals)
        });
        // What is left over, if anything.
        self.remove(changes);
        let totals = outcome.inspect_err(|_| self.remove(unfinished))?;
        let Taken { cut, read, child_bytes, .. } = taking.taken;
        Ok(Taken {
            keys: totals.keys,
            bytes: totals.bytes,
            cut,
            read,
            all: source.clock().monotonic().saturating_sub(began),
            child_bytes,
        })
    }

    /// Makes a complete file the checkpoint, and removes the one before.
    fn publish(
        &self,
        unfinished: &Path,
        path: &Path,
        checkpoint: &Checkpoint,
    ) -> Result<(), CheckpointError> {
        self.disk.rename(unfinished, path)?;
        let disk = &*self.disk;
        let prepared =
            disk.sync_dir(&self.directory).and_then(|()| checkpoint.prepare(disk, &self.directory));
        if let Err(error) = prepared {
            // No manifest names it, and it shall not fill the disk.
            self.remove(path.to_path_buf());
            return Err(error.into());
        }
        if let Err(error) = Checkpoint::publish_prepared(disk, &self.directory) {
            // The manifest may or may not name the new file: both are there, so either is right.
            self.unsure.lock().push(path.to_path_buf());
            return Err(error.into());
        }
        let last = self.current.lock().replace(checkpoint.clone());
        let last = last.map(|last| self.directory.join(last.file_name()));
        let unsure = std::mem::take(&mut *self.unsure.lock());
        unsure.into_iter().chain(last).for_each(|obsolete| self.remove(obsolete));
        Ok(())
    }

    /// Removes a file, if it is there. Where that fails the next checkpoint tries again, and the next start.
    fn remove(&self, path: PathBuf) {
        if let Err(error) = self.disk.remove(&path)
            && error.source.kind() != std::io::ErrorKind::NotFound
        {
            self.unsure.lock().push(path);
        }
    }
}

/// Whether a name is one that is made here, but for that of the manifest. Whatever else lies in the directory
/// is somebody else's, be its name as similar as it may.
fn is_left_over(name: &str) -> bool {
    let endings = [UNFINISHED, CHANGES].into_iter();
    let whole = endings.filter_map(|ending| name.strip_suffix(ending)).next().unwrap_or(name);
    number_of(whole).is_some() || is_unfinished(name)
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// A checkpoint that is being taken.
struct Taking<'t> {
    checkpoints: &'t Checkpoints,
    source: &'t dyn Source,
    options: TakeOptions,
    unix_ms: UnixMs,
    began: Duration,
    taken: Taken,
}

impl Taking<'_> {
    fn header(&self, kind: FileKind, cut: Lsn, base: Lsn, databases: usize) -> FileHeader {
        FileHeader { kind, databases: databases as u32, cut, base, unix_ms: self.unix_ms }
    }

    fn elapsed(&self) -> Duration {
        self.source.clock().monotonic().saturating_sub(self.began)
    }

    /// Writes all of a view, or what has changed since `base`, to a new file.
    fn dump(&mut self, path: &Path, base: Option<&Base>) -> Result<(Base, Totals), CheckpointError> {
        let Checkpoints { disk, progress, .. } = self.checkpoints;
        let view = self.source.view()?;
        self.taken.cut = self.elapsed();
        progress.begin((0..view.databases()).map(|db| view.keys(db as u8) as u64).sum());
        let (next_base, cut, databases) = (Base::of(&view), view.cut(), view.databases());
        let file = disk.create(path)?;
        let (kind, since) = base.map_or((FileKind::Full, Lsn::ZERO), |base| (FileKind::Changes, base.cut));
        let header = self.header(kind, cut, since, databases);
        let pace = self.options.pace;
        let totals = writer::write(&file, &header, self.options, &progress.bytes, |blocks| {
            let dumped = dump(view, base, pace, progress, self.source, blocks);
            self.taken.read = self.elapsed();
            dumped
        })?;
        Ok((next_base, totals))
    }

    /// Reads and writes all entries.
    fn full(&mut self, path: &Path) -> Result<(Base, Totals), CheckpointError> {
        self.dump(path, None)
    }

    /// A child process reads and writes all.
    fn forked(&mut self, path: &Path) -> Result<(Base, Totals), CheckpointError> {
        let Checkpoints { disk, progress, .. } = self.checkpoints;
        let file = disk.create(path)?;
        let forked = fork(self.source, &*file)?;
        self.taken.cut = self.elapsed();
        progress.begin(forked.keys);
        progress.forks.fetch_add(1, Ordering::Relaxed);
        progress.last_fork_us.store(forked.took.as_micros() as u64, Ordering::Relaxed);
        let base = Base::at(forked.cut, &forked.tables);
        let header = self.header(FileKind::Full, base.cut, Lsn::ZERO, forked.tables.len());
        file.write_all_at(&header.encode(), 0)?;
        let (totals, child_bytes) = forked.finish(&*file, progress)?;
        self.taken.read = self.elapsed();
        self.taken.child_bytes = Some(child_bytes);
        file.sync_data()?;
        Ok((base, totals))
    }

    /// Reads the entries that have changed since `base`, and merges them into the last checkpoint.
    fn changes_merged(
        &mut self,
        changes: &Path,
        base: &Base,
        last: &Checkpoint,
        path: &Path,
    ) -> Result<(Base, Totals), CheckpointError> {
        if last.cut != base.cut {
            return self.full(path);
        }
        let (next_base, _) = self.dump(changes, Some(base))?;
        let Checkpoints { disk, progress, directory, .. } = self.checkpoints;
        let mut is_complete = true;
        let of_changes = changes;
        let full = FileReader::open(&**disk, &directory.join(last.file_name()))?;
        let mut full = full.of_checkpoint(last)?;
        let mut changes = FileReader::open(&**disk, changes)?.of_changes(base.cut, next_base.cut)?;
        let header = self.header(FileKind::Full, next_base.cut, Lsn::ZERO, changes.header.databases as usize);
        let file = disk.create(path)?;
        let totals = writer::write(&file, &header, self.options, &progress.bytes, |blocks| {
            let mut pacer = Pacer::new(self.options.pace, progress, self.source);
            let merged = merge(&mut full, &mut changes, blocks, || pacer.rest_if_due())?;
            is_complete = merged.is_complete;
            Ok::<_, CheckpointError>(())
        })?;
        if !is_complete {
            // The store has grown much. All of it makes groups that the next one can be merged with.
            // Files that are open keep their place on the disk.
            drop((full, changes, file));
            let _ = disk.remove(of_changes);
            disk.remove(path)?;
            return self.full(path);
        }
        Ok((next_base, totals))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::io::{SimDisk, SimOptions};

    #[test]
    fn what_others_have_put_beside_the_checkpoints_stays() {
        let disk = SimDisk::new(1, SimOptions::default());
        let directory = Path::new("/checkpoints");
        let theirs = [
            "MANIFEST.bak",
            "MANIFEST.new.old",
            "MANIFEST2",
            "checkpoint-007.tarn",
            "checkpoint-7.tarn.bak",
            "checkpoint-7.tarn.new.changes",
            "checkpoint-backup.old",
            "checkpoint-notes.tarn",
        ];
        let ours =
            ["MANIFEST.new", "checkpoint-7.tarn", "checkpoint-8.tarn.changes", "checkpoint-9.tarn.new"];
        for name in theirs.iter().chain(&ours) {
            disk.create(&directory.join(name)).unwrap();
        }
        let opened = Checkpoints::open(Arc::new(disk.clone()), directory).unwrap();
        assert!(opened.current().is_none());
        assert_eq!(disk.list(directory).unwrap(), theirs);
    }
}
