//! Restores a data directory from a full backup and its increments.
//!
//! ```text
//!   full            since 0     end 100    files A  B  c
//!   increment       since 100   end 170    files A' .  C  d       . : an earlier one has it
//!   increment       since 170   end 220    files .  .  .  D  e    the newest list counts: A' B C D e
//! ```
//!
//! - The newest manifest lists all files that the log had at its end, and each is taken from the backup that
//!   has it, as it is: nothing is merged. So what a compaction dropped between two backups stays dropped, and
//!   no file of an older list comes back.
//! - Bytes are copied, never given a second name: the server will write to what is restored.
//! - The directory says that a restore is under way until all is there, durable, and was read as a log.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::copy::{Mover, Progress};
use super::error::BackupError;
use super::manifest::{CHECKPOINT, Manifest, SavedBeside, SavedFile};
use super::{RESTORING, names_in, refuse_copies};
use crate::io::{Clock, Disk, DiskResult};
use crate::log::{Log, LogOptions, OpenError, file_name, give_identity};
use crate::record::{Lsn, UnixMs};

/// A full backup and the increments that follow it, whose manifests fit each other.
#[derive(Debug)]
pub struct Chain {
    disk: Arc<dyn Disk>,
    /// In their order, the full one first; at least one.
    backups: Vec<(PathBuf, Manifest)>,
}

/// Where to. REQUIRES: all paths are absolute.
#[derive(Clone, Debug)]
pub struct Target {
    /// The data directory: empty, or not there yet.
    pub directory: PathBuf,
    /// Those of the log, as many as it had; the same.
    pub log_dirs: Vec<PathBuf>,
    /// That of the checkpoints.
    pub checkpoint_dir: PathBuf,
}

/// The result of a restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restored {
    /// The newest record.
    pub end: Lsn,
    /// When the newest of the backups was taken.
    pub unix_ms: UnixMs,
    /// Files of the log.
    pub files: usize,
    /// Bytes in all.
    pub bytes: u64,
}

impl Chain {
    /// Reads the manifests of a full backup and of its increments, in their order.
    pub fn open(disk: Arc<dyn Disk>, directories: &[PathBuf]) -> Result<Chain, BackupError> {
        let mut backups: Vec<(PathBuf, Manifest)> = Vec::new();
        for path in directories {
            let manifest = Manifest::read(&*disk, path)?;
            let fits = match backups.last() {
                None if manifest.since == Lsn::ZERO => Ok(()),
                None => Err(format!(
                    "it is an increment, of what came after record {}: name the full backup first, and then \
                     its increments in their order",
                    manifest.since
                )),
                Some((before, former)) => manifest.follows(former, before),
            };
            fits.map_err(|reason| BackupError::Mixed { path: path.clone(), reason })?;
            backups.push((path.clone(), manifest));
        }
        if backups.is_empty() {
            return Err(BackupError::NoBackup { path: PathBuf::new(), what: "backup" });
        }
        Ok(Chain { disk, backups })
    }

    /// How many directories the log has.
    pub fn directories(&self) -> usize {
        self.newest().directories as usize
    }

    fn newest(&self) -> &Manifest {
        &self.backups.last().expect("a chain has a backup").1
    }

    /// Makes a data directory of it.
    pub fn restore(
        &self,
        target: &Target,
        clock: &dyn Clock,
        progress: &Progress,
    ) -> Result<Restored, BackupError> {
        assert_eq!(target.log_dirs.len(), self.directories(), "the caller has as many directories");
        let disk = &*self.disk;
        let mover = Mover { disk, progress, clock, began: Duration::ZERO, bytes_per_second: 0 };
        let sources = self.sources()?;
        target.refuse_occupied(disk)?;
        disk.create_dir_all(&target.directory)?;
        disk.create(&target.directory.join(RESTORING))?;
        disk.sync_dir(&target.directory)?;
        let restored = self.fill(target, &mover, &sources);
        if restored.is_err() {
            // What cannot be removed is marked as not complete.
            let _ = target.clear(disk, &self.newest().beside);
        }
        restored
    }

    /// Where each file of the newest list is: a backup, and what its own list says.
    fn sources(&self) -> Result<Vec<(&Path, &SavedFile)>, BackupError> {
        let (path, newest) = self.backups.last().expect("a chain has a backup");
        let find = |wanted: &SavedFile| {
            let found = self.backups.iter().rev().find_map(|(path, manifest)| {
                let place = |file: &SavedFile| (file.stream, file.number);
                let at = manifest.files.binary_search_by_key(&place(wanted), place).ok()?;
                let file = &manifest.files[at];
                (file.is_same(wanted) && file.crc.is_some()).then_some((path.as_path(), file))
            });
            found.ok_or_else(|| {
                let reason = format!(
                    "{} with id {:016x} is in none of these backups: one is missing between them, or \
                     they are of two copies of the log that went on apart",
                    wanted.name(),
                    wanted.file_id
                );
                BackupError::Mixed { path: path.clone(), reason }
            })
        };
        newest.files.iter().map(find).collect()
    }

    fn fill(
        &self,
        target: &Target,
        mover: &Mover<'_>,
        sources: &[(&Path, &SavedFile)],
    ) -> Result<Restored, BackupError> {
        use std::sync::atomic::Ordering;
        let (disk, newest) = (mover.disk, self.newest());
        let (path, _) = self.backups.last().expect("a chain has a backup");
        let bytes = sources.iter().map(|(_, file)| file.bytes).sum::<u64>()
            + newest.checkpoint.as_ref().map_or(0, |saved| saved.bytes)
            + newest.beside.iter().map(|saved| saved.bytes).sum::<u64>();
        mover.progress.bytes_total.store(bytes, Ordering::Relaxed);
        for directory in &target.log_dirs {
            disk.create_dir_all(directory)?;
        }
        for (directory, file) in sources {
            let to = target.log_dirs[file.stream as usize].join(file_name(file.number));
            let crc = file.crc.expect("a source has the bytes");
            copy_checked(mover, &directory.join(file.name()), file.bytes, crc, &to)?;
        }
        if let Some(saved) = &newest.checkpoint {
            disk.create_dir_all(&target.checkpoint_dir)?;
            let to = target.checkpoint_dir.join(saved.checkpoint.file_name());
            copy_checked(mover, &path.join(CHECKPOINT), saved.bytes, saved.crc, &to)?;
            disk.sync_dir(&target.checkpoint_dir)?;
            saved.checkpoint.publish(disk, &target.checkpoint_dir)?;
        }
        for SavedBeside { name, bytes, crc } in &newest.beside {
            copy_checked(mover, &path.join(name), *bytes, *crc, &target.directory.join(name))?;
        }
        disk.sync_dir(&target.directory)?;
        // Files without an identity are no log to a start: it comes last.
        for (index, directory) in target.log_dirs.iter().enumerate() {
            disk.sync_dir(directory)?;
            give_identity(disk, directory, newest.log_id, index as u32, newest.directories)?;
        }
        self.check(target)?;
        disk.remove(&target.directory.join(RESTORING))?;
        disk.sync_dir(&target.directory)?;
        Ok(Restored { end: newest.end, unix_ms: newest.unix_ms, files: sources.len(), bytes })
    }

    /// Reads what was restored as a start would.
    fn check(&self, target: &Target) -> Result<(), BackupError> {
        let newest = self.newest();
        let options = LogOptions { base: newest.base, ..LogOptions::new(target.log_dirs.clone()) };
        let mut reader = Log::read(self.disk.clone(), options)?;
        while reader.next_block()?.is_some() {}
        let unfit = |reason: String| {
            let path = target.log_dirs[0].clone();
            Err(BackupError::Restored(OpenError::WrongDirectories { path, reason }))
        };
        let cut = newest.checkpoint.as_ref().map(|saved| saved.checkpoint.cut);
        if reader.last() != newest.end {
            return unfit(format!("it ends with record {}, not {}", reader.last(), newest.end));
        }
        if reader.base() > Lsn::ZERO && cut.is_none() {
            return unfit(format!("it goes on from record {}, and there is no checkpoint", reader.base()));
        }
        if cut.is_some_and(|cut| cut < reader.checkpoint_wanted().max(reader.base()) || cut > newest.end) {
            return unfit("its checkpoint is of another time".to_owned());
        }
        Ok(())
    }
}

impl Manifest {
    /// Whether it is an increment of `former`, which is in `before`.
    fn follows(&self, former: &Manifest, before: &Path) -> Result<(), String> {
        let before = before.display();
        if self.log_id != former.log_id {
            return Err(format!("it is of another log than {before}"));
        }
        if self.since == Lsn::ZERO {
            return Err(format!(
                "it is a full backup, as {before} is the one before it: name one of the two"
            ));
        }
        if self.since > former.end {
            return Err(format!(
                "it has what came after record {}, and {before} ends with record {}: the one between them is \
                 missing",
                self.since, former.end
            ));
        }
        if self.end < former.end {
            return Err(format!(
                "it ends with record {}, before the end of {before}, which is {}: name them in their order",
                self.end, former.end
            ));
        }
        Ok(())
    }
}

impl Target {
    fn all(&self) -> impl Iterator<Item = &Path> {
        let others = [&self.directory, &self.checkpoint_dir];
        others.into_iter().chain(&self.log_dirs).map(PathBuf::as_path)
    }

    /// Refuses directories in which there is something, but for each other.
    fn refuse_occupied(&self, disk: &dyn Disk) -> Result<(), BackupError> {
        for directory in self.all() {
            let leads_to_one =
                |name: &String| self.all().any(|other| other.starts_with(directory.join(name)));
            if names_in(disk, directory)?.iter().all(leads_to_one) {
                continue;
            }
            let is_begun = refuse_copies(disk, directory).is_err();
            let reason = if is_begun { ", and what is in it is no data directory" } else { "" };
            return Err(BackupError::Occupied { path: directory.to_path_buf(), reason });
        }
        Ok(())
    }

    /// Removes the files of all directories; the one that says that this is under way last.
    fn clear(&self, disk: &dyn Disk, beside: &[SavedBeside]) -> DiskResult<()> {
        for directory in self.log_dirs.iter().chain([&self.checkpoint_dir]) {
            let names = names_in(disk, directory)?;
            names.iter().try_for_each(|name| disk.remove(&directory.join(name)))?;
            if !names.is_empty() {
                disk.sync_dir(directory)?;
            }
        }
        let is_beside = |name: &&String| beside.iter().any(|saved| saved.name == **name);
        for name in names_in(disk, &self.directory)?.iter().filter(is_beside) {
            disk.remove(&self.directory.join(name))?;
        }
        disk.sync_dir(&self.directory)?;
        disk.remove(&self.directory.join(RESTORING))
    }
}

fn copy_checked(mover: &Mover<'_>, from: &Path, bytes: u64, crc: u32, to: &Path) -> Result<(), BackupError> {
    let damaged = |what: &str| BackupError::Damaged { path: from.to_path_buf(), what: what.to_owned() };
    let length = match mover.disk.open_to_scan(from) {
        Err(error) if error.source.kind() == io::ErrorKind::NotFound => return Err(damaged("it is missing")),
        opened => opened?.len()?,
    };
    // It may be longer: a failed disk can have given back what a file that is shared with the log was cut by.
    if length < bytes {
        return Err(damaged("it is shorter than it was"));
    }
    if mover.copy(from, bytes, to)? != crc {
        return Err(damaged("its checksum is not what it was"));
    }
    Ok(())
}
