//! Takes a backup of a running log.
//!
//! ```text
//!   directory, backup.unfinished
//!   turn of the compactor ── checkpoint ── log durable up to its newest record ── pin ── files
//!   turn given back ── what stands beside ── checksums of what has a second name ── sync
//!   backup.manifest in place of backup.unfinished
//! ```
//!
//! - While the turn is held no file goes away and none is replaced; clients go on, files are begun and left.
//! - A file that nobody changes any more gets a second name; where that cannot be, and of those that are
//!   still written to, the bytes are copied.
//! - The checkpoint comes first: it must not be newer than the log, nor older than files were compacted with.
//! - Until the manifest has its name, the directory says that it holds nothing finished.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::copy::{Mover, Progress};
use super::error::BackupError;
use super::manifest::{CHECKPOINT, Manifest, SavedBeside, SavedCheckpoint, SavedFile, may_stand_beside};
use super::{MANIFEST, UNFINISHED, names_in, refuse_copies};
use crate::checkpoint::Checkpoints;
use crate::compactor::Compactor;
use crate::io::{Disk, DiskResult};
use crate::log::{Appender, Pinned, PinnedFile};
use crate::record::Lsn;
use crate::store::Store;

/// The options of a backup.
#[derive(Clone, Debug)]
pub struct Request {
    /// Where to: an empty directory, or one that is not there yet. REQUIRES: the path is absolute.
    pub directory: PathBuf,
    /// Leaves out what a backup has that ended with this record; 0 for a full one.
    pub since: Lsn,
    /// Files of the data directory that go along, those of them that are there: each is replaced as a whole
    /// when it changes. REQUIRES: their names are letters, digits, `.`, `_` and `-`, and none that is used
    /// here.
    pub beside: Vec<PathBuf>,
    /// Bytes read and written in a second at most; 0 for no limit.
    pub bytes_per_second: u64,
}

/// How it went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// The newest record that it has: where the next increment begins.
    pub end: Lsn,
    /// Files that the log has.
    pub files: usize,
    /// Those of them that are in this backup.
    pub files_here: usize,
    /// Those of them that share their bytes with the log.
    pub files_linked: usize,
    /// Bytes of all files in this backup, the checkpoint too.
    pub bytes: u64,
    /// How long it took.
    pub took: Duration,
}

/// Takes a backup of a store's log. `compactor` is the one that compacts that log; `checkpoints` are those
/// that a start would build on.
pub fn take(
    store: &Store,
    compactor: &Compactor,
    checkpoints: &Checkpoints,
    request: &Request,
    progress: &Progress,
) -> Result<Taken, BackupError> {
    let log = store.log().ok_or(BackupError::NoLog)?;
    let disk = &**log.disk();
    let (clock, bytes_per_second) = (store.clock(), request.bytes_per_second);
    let began = clock.monotonic();
    let mover = Mover { disk, progress, clock, began, bytes_per_second };
    let (since, last) = (request.since, log.last());
    if since > last {
        return Err(BackupError::Ahead { since, last });
    }
    begin(disk, request)?;
    let mut taking = Taking { mover, compactor, log: &log, checkpoints, request, taken: Taken::default() };
    let finished = taking.gather().and_then(|gathered| taking.finish(gathered));
    if let Err(error) = finished {
        taking.give_up();
        return Err(error);
    }
    taking.taken.took = clock.monotonic().saturating_sub(began);
    Ok(taking.taken)
}

/// Makes the directory, which says from now on that it holds a backup that is not finished.
fn begin(disk: &dyn Disk, request: &Request) -> Result<(), BackupError> {
    let path = &request.directory;
    let names = names_in(disk, path)?;
    if !names.is_empty() {
        let reason = match refuse_copies(disk, path) {
            Ok(()) => "",
            Err(_) if names.iter().any(|name| name == MANIFEST) => ", it holds a backup",
            Err(_) => ", it holds a backup that was not finished",
        };
        return Err(BackupError::Occupied { path: path.clone(), reason });
    }
    disk.create_dir_all(path)?;
    disk.create(&path.join(UNFINISHED))?;
    Ok(disk.sync_dir(path)?)
}

/// A backup that is being taken.
struct Taking<'t> {
    mover: Mover<'t>,
    compactor: &'t Compactor,
    log: &'t Appender,
    checkpoints: &'t Checkpoints,
    request: &'t Request,
    taken: Taken,
}

/// The files that are in the backup directory so far. Checksums that are not known yet are 0.
struct Gathered {
    manifest: Manifest,
    /// The files of which the checksum is not known.
    unsummed: Vec<usize>,
    /// Whether that of the checkpoint is not.
    is_checkpoint_unsummed: bool,
}

impl Taking<'_> {
    /// Puts all files into the directory.
    fn gather(&mut self) -> Result<Gathered, BackupError> {
        let goes_on = || !self.mover.progress.is_stopped();
        let turn = self.compactor.turn(goes_on).ok_or(BackupError::Stopped)?;
        let (checkpoint, is_checkpoint_unsummed) = self.save_checkpoint()?;
        self.log.sync_up_to(self.log.last())?;
        let mut pinned = self.log.pin()?;
        let since = self.request.since;
        let here = self.choose(&mut pinned)?;
        let mut files = Vec::with_capacity(pinned.files.len());
        let mut unsummed = Vec::new();
        for (mut file, is_here) in pinned.files.into_iter().zip(here) {
            let crc = if is_here { self.save(&mut file)? } else { None };
            if is_here && crc.is_none() {
                unsummed.push(files.len());
            }
            files.push(saved(&file, crc));
        }
        drop(turn);
        let beside = self.save_beside()?;
        let manifest = Manifest {
            log_id: pinned.log_id,
            since,
            end: pinned.last,
            sequence: pinned.sequence,
            base: pinned.base,
            directories: pinned.directories,
            unix_ms: self.mover.clock.unix_ms(),
            checkpoint,
            beside,
            files,
        };
        Ok(Gathered { manifest, unsummed, is_checkpoint_unsummed })
    }

    /// Says which files belong into this backup, and counts them.
    fn choose(&mut self, pinned: &mut Pinned) -> Result<Vec<bool>, BackupError> {
        for file in &mut pinned.files {
            file.look(self.mover.disk)?;
        }
        let files = &pinned.files;
        let here: Vec<bool> =
            (0..files.len()).map(|at| !is_in_former(files, at, self.request.since)).collect();
        let chosen = files.iter().zip(&here).filter(|(_, here)| **here);
        // What is copied up to some block is read once more.
        let work = |(file, _): (&PinnedFile, _)| file.bytes() * (2 - u64::from(file.is_settled()));
        self.mover.progress.bytes_total.fetch_add(chosen.map(work).sum(), Ordering::Relaxed);
        self.taken.files = files.len();
        self.taken.files_here = here.iter().filter(|here| **here).count();
        Ok(here)
    }

    /// The checkpoint that a start of this log would build on, and whether its checksum is not known.
    fn save_checkpoint(&mut self) -> Result<(Option<SavedCheckpoint>, bool), BackupError> {
        let Mover { disk, progress, .. } = self.mover;
        let to = self.request.directory.join(CHECKPOINT);
        let saved = self.checkpoints.current_file(|path| {
            let bytes = disk.open(path)?.len()?;
            progress.bytes_total.store(bytes, Ordering::Relaxed);
            let crc = self.link_or_copy(path, bytes, &to)?;
            Ok::<_, BackupError>((bytes, crc))
        })?;
        let Some((checkpoint, (bytes, crc))) = saved else { return Ok((None, false)) };
        self.taken.bytes += bytes;
        Ok((Some(SavedCheckpoint { checkpoint, bytes, crc: crc.unwrap_or(0) }), crc.is_none()))
    }

    /// Copies what stands beside the log.
    fn save_beside(&mut self) -> Result<Vec<SavedBeside>, BackupError> {
        let mut saved = Vec::new();
        for path in &self.request.beside {
            let name = path.file_name().and_then(|name| name.to_str()).filter(|name| may_stand_beside(name));
            let name = name.expect("the caller names files that may stand beside the log").to_owned();
            let source = match self.mover.disk.open_to_scan(path) {
                Err(error) if error.source.kind() == io::ErrorKind::NotFound => continue,
                opened => opened?,
            };
            let bytes = source.len()?;
            self.mover.progress.bytes_total.fetch_add(bytes, Ordering::Relaxed);
            let crc = self.mover.copy_of(&*source, bytes, &self.request.directory.join(&name))?;
            self.taken.bytes += bytes;
            saved.push(SavedBeside { name, bytes, crc });
        }
        Ok(saved)
    }

    /// Puts a file into the directory; returns its checksum, unless it has a second name there.
    fn save(&mut self, file: &mut PinnedFile) -> Result<Option<u32>, BackupError> {
        let disk = self.mover.disk;
        let to = self.request.directory.join(saved(file, None).name());
        let crc = if file.is_settled() {
            self.link_or_copy(file.path(), file.bytes(), &to)?
        } else {
            self.mover.copy(file.path(), file.bytes(), &to)?;
            file.measure(disk, &to)?;
            let copy = disk.open(&to)?;
            copy.set_len(file.bytes())?;
            copy.sync_data()?;
            Some(self.mover.checksum(&to, file.bytes())?)
        };
        self.taken.files_linked += usize::from(crc.is_none());
        self.taken.bytes += file.bytes();
        Ok(crc)
    }

    /// Gives a file a second name, or copies it where that cannot be; then its checksum is known.
    fn link_or_copy(&self, from: &Path, bytes: u64, to: &Path) -> Result<Option<u32>, BackupError> {
        match self.mover.disk.link(from, to) {
            Ok(()) => Ok(None),
            Err(_) => self.mover.copy(from, bytes, to).map(Some),
        }
    }

    /// Puts the manifest in place. From then on it is a backup.
    fn finish(&mut self, gathered: Gathered) -> Result<(), BackupError> {
        let Gathered { mut manifest, unsummed, is_checkpoint_unsummed } = gathered;
        let (disk, directory) = (self.mover.disk, &self.request.directory);
        if let Some(saved) = manifest.checkpoint.as_mut().filter(|_| is_checkpoint_unsummed) {
            saved.crc = self.mover.checksum(&directory.join(CHECKPOINT), saved.bytes)?;
        }
        for at in unsummed {
            let file = &mut manifest.files[at];
            file.crc = Some(self.mover.checksum(&directory.join(file.name()), file.bytes)?);
        }
        self.taken.end = manifest.end;
        let unfinished = directory.join(UNFINISHED);
        let file = disk.open(&unfinished)?;
        file.write_all_at(manifest.text().as_bytes(), 0)?;
        file.sync_data()?;
        disk.sync_dir(directory)?;
        disk.rename(&unfinished, &directory.join(MANIFEST))?;
        Ok(disk.sync_dir(directory)?)
    }

    /// Removes what was made.
    fn give_up(&self) {
        let (disk, directory) = (self.mover.disk, &self.request.directory);
        let remove = || -> DiskResult<()> {
            let names = disk.list(directory)?;
            if names.iter().any(|name| name == MANIFEST) {
                // It may have its name or not: it shall not have it while files go.
                disk.rename(&directory.join(MANIFEST), &directory.join(UNFINISHED))?;
                disk.sync_dir(directory)?;
            }
            for name in names.iter().filter(|name| *name != MANIFEST && *name != UNFINISHED) {
                disk.remove(&directory.join(name))?;
            }
            disk.sync_dir(directory)?;
            disk.remove(&directory.join(UNFINISHED))
        };
        // What cannot be removed says that it is not finished.
        let _ = remove();
    }
}

/// Whether every backup of this log that ends with `since`, or further on, has a file as it is.
///
/// It has it if the file was compacted before that one began, or never; and if the directory had gone on to
/// another file by then: one that has records up to `since`.
fn is_in_former(files: &[PinnedFile], at: usize, since: Lsn) -> bool {
    let file = &files[at];
    let follows = |next: &PinnedFile| {
        next.stream() == file.stream() && next.contents().1.is_some_and(|(first, _)| first <= since)
    };
    file.is_settled() && file.timestamp() < since && files[at + 1..].iter().any(follows)
}

fn saved(file: &PinnedFile, crc: Option<u32>) -> SavedFile {
    let (blocks, lsns) = file.contents();
    SavedFile {
        stream: file.stream(),
        number: file.number(),
        file_id: file.file_id(),
        bytes: file.bytes(),
        timestamp: file.timestamp(),
        blocks,
        lsns: lsns.unwrap_or_default(),
        crc,
    }
}
