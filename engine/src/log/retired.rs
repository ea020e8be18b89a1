//! Retires a log whose records are all in a checkpoint. Renames its files so that no start reads them; they
//! stay until somebody removes them.
//!
//! ```text
//!   mark in each directory ── 000001.tarnlog ──> retired-1/000001.tarnlog … ── marks removed
//! ```
//!
//! A start that finds a mark goes on with it before it looks for a log, so a crash in between leaves no part
//! of one.

use super::Log;
use super::error::OpenError;
use super::file::{UNFINISHED, write_atomically};
use super::open::identity::{belongs_to_log, is_pending_mark, lock_with, remove_if_there};
use crate::io::{Disk, DiskLock, DiskResult};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Stands in each directory of a log that is being put aside.
const RETIRING_FILE: &str = "tarnlog.retiring";
/// Begins the name of the directory that a log is put aside in.
const RETIRED: &str = "retired-";

impl Log {
    /// Puts the log in these directories aside, if there is one. Returns where it is now, once for each
    /// directory that had a part of it.
    ///
    /// REQUIRES: a checkpoint, which is durable, has all that the log has.
    pub fn retire(disk: &dyn Disk, directories: &[PathBuf]) -> Result<Vec<PathBuf>, OpenError> {
        if !Log::is_in(disk, directories)? {
            return Ok(Vec::new());
        }
        let there = existing(disk, directories)?;
        let _locks = lock_all(disk, &there)?;
        there.iter().try_for_each(|directory| write_atomically(disk, &directory.join(RETIRING_FILE), &[]))?;
        move_away(disk, &there)
    }

    /// As [`retire`](Log::retire), of a log that was being put aside when the process ended.
    pub fn finish_retiring(disk: &dyn Disk, directories: &[PathBuf]) -> Result<Vec<PathBuf>, OpenError> {
        let there = existing(disk, directories)?;
        let mut is_marked = false;
        for directory in &there {
            is_marked |= disk.list(directory)?.iter().any(|name| name == RETIRING_FILE);
        }
        if !is_marked {
            return Ok(Vec::new());
        }
        let _locks = lock_all(disk, &there)?;
        move_away(disk, &there)
    }
}

/// Those of the directories that exist.
fn existing<'d>(disk: &dyn Disk, directories: &'d [PathBuf]) -> DiskResult<Vec<&'d Path>> {
    let mut there = Vec::new();
    for directory in directories {
        match disk.list(directory) {
            Ok(_) => there.push(directory.as_path()),
            Err(error) if error.source.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(there)
}

fn lock_all(disk: &dyn Disk, there: &[&Path]) -> Result<Vec<Box<dyn DiskLock>>, OpenError> {
    let mut locks = Vec::new();
    there.iter().try_for_each(|directory| lock_with(disk, directory, &mut locks))?;
    Ok(locks)
}

fn move_away(disk: &dyn Disk, there: &[&Path]) -> Result<Vec<PathBuf>, OpenError> {
    let mut retired = Vec::new();
    for directory in there {
        let names = disk.list(directory)?;
        let files: Vec<&String> = names.iter().filter(|name| is_part(name)).collect();
        if files.is_empty() {
            continue;
        }
        let aside = next_aside(disk, directory)?;
        for name in files {
            disk.rename(&directory.join(name), &aside.join(name))?;
        }
        // The new names before the old ones are forgotten.
        disk.sync_dir(&aside)?;
        disk.sync_dir(directory)?;
        retired.push(aside);
    }
    for directory in there {
        remove_if_there(disk, &directory.join(RETIRING_FILE))?;
        disk.sync_dir(directory)?;
    }
    Ok(retired)
}

/// Whether a file of this name is a part of a log, or of one that was being made.
fn is_part(name: &str) -> bool {
    let whole = name.strip_suffix(UNFINISHED).unwrap_or(name);
    belongs_to_log(whole) || is_pending_mark(whole)
}

/// Makes the next directory that a log is put aside in.
fn next_aside(disk: &dyn Disk, directory: &Path) -> DiskResult<PathBuf> {
    let mut number = 1;
    loop {
        let aside = directory.join(format!("{RETIRED}{number}"));
        match disk.create_dir(&aside) {
            Ok(()) => {
                disk.sync_dir(directory)?;
                return Ok(aside);
            }
            Err(error) if error.source.kind() == ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::io::{SimDisk, SimOptions};
    use crate::log::LogOptions;
    use std::sync::Arc;

    fn two() -> Vec<PathBuf> {
        ["/a", "/b"].map(PathBuf::from).to_vec()
    }

    /// A log in two directories.
    fn make(disk: &SimDisk) {
        let mut reader = Log::open(Arc::new(disk.clone()), LogOptions::new(two())).unwrap();
        while reader.next_block().unwrap().is_some() {}
        reader.into_log().unwrap().0.close().unwrap();
    }

    #[test]
    fn a_log_that_was_put_aside_is_no_log_any_more_and_nothing_of_it_is_gone() {
        let disk = SimDisk::new(1, SimOptions::default());
        for number in 1..4 {
            make(&disk);
            let _ = disk.create(Path::new("/b/notes.txt"));
            let parts = |directory: &str| disk.list(Path::new(directory)).unwrap();
            let before = parts("/a").into_iter().filter(|name| is_part(name)).collect::<Vec<_>>();
            let aside = Log::retire(&disk, &two()).unwrap();
            assert_eq!(aside, ["/a", "/b"].map(|path| Path::new(path).join(format!("{RETIRED}{number}"))));
            assert_eq!(parts(&format!("/a/{RETIRED}{number}")), before);
            assert!(!Log::is_in(&disk, &two()).unwrap());
            assert!(parts("/b").contains(&"notes.txt".to_owned()));
            assert_eq!(Log::retire(&disk, &two()).unwrap(), Vec::<PathBuf>::new());
        }
    }

    #[test]
    fn what_was_begun_is_gone_on_with_and_nothing_else_is_touched() {
        let disk = SimDisk::new(1, SimOptions::default());
        assert!(Log::finish_retiring(&disk, &two()).unwrap().is_empty());
        make(&disk);
        assert!(Log::finish_retiring(&disk, &two()).unwrap().is_empty());
        assert!(Log::is_in(&disk, &two()).unwrap());
        write_atomically(&disk, Path::new("/b/tarnlog.retiring"), &[]).unwrap();
        disk.create_dir(Path::new("/a/retired-1")).unwrap();
        disk.rename(Path::new("/a/tarnlog.id"), Path::new("/a/retired-1/tarnlog.id")).unwrap();
        assert_eq!(Log::finish_retiring(&disk, &two()).unwrap().len(), 2);
        assert!(!Log::is_in(&disk, &two()).unwrap());
        assert!(Log::finish_retiring(&disk, &two()).unwrap().is_empty());
    }
}
