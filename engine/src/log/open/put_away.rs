//! Folders for files that are taken out of the log and not deleted.

use std::path::{Path, PathBuf};

use super::source::Source;
use crate::io::{Disk, DiskResult};

/// Moves files whose header cannot be read, and of which nothing counts, to a folder `damaged-1` or so.
pub(in crate::log) fn put_headless_away(disk: &dyn Disk, sources: &[Source]) -> DiskResult<()> {
    let directories: Vec<_> = sources.iter().map(|source| source.directory.clone()).collect();
    let name = if sources.iter().any(|source| !source.passed.is_empty()) {
        free_name(disk, &directories)?
    } else {
        return Ok(());
    };
    for source in sources.iter().filter(|source| !source.passed.is_empty()) {
        let folder = source.directory.join(&name);
        disk.create_dir_all(&folder)?;
        disk.sync_dir(&source.directory)?;
        for file in &source.passed {
            disk.rename(&source.directory.join(Path::new(file)), &folder.join(file))?;
        }
        disk.sync_dir(&folder)?;
        disk.sync_dir(&source.directory)?;
    }
    Ok(())
}

/// The first of `damaged-1`, `damaged-2` … that is in none of the directories.
pub(in crate::log) fn free_name(disk: &dyn Disk, directories: &[PathBuf]) -> DiskResult<String> {
    let mut number = 1;
    loop {
        let name = format!("damaged-{number}");
        let mut is_free = true;
        for directory in directories {
            match disk.list(&directory.join(&name)) {
                Ok(inside) => is_free &= inside.is_empty(),
                Err(error) if error.source.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        if is_free {
            return Ok(name);
        }
        number += 1;
    }
}
