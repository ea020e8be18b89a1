//! Cuts a damaged log before the first damaged place, so that it can be opened again.
//!
//! ```text
//!  1 mark     tarnlog.repair in each directory: nobody but a repair opens the log from now on
//!  2 save     damaged-1/: copies of the files that are cut, and the files of which nothing is kept
//!  3 cut      as at every start: blocks that may not be durable are written again, ends cut off, all synced
//!  4 unmark
//! ```
//!
//! - Then nothing says any more that a block behind the last one was durable: a kept block tells of those
//!   before it, and the header of a file with a kept block was written before that.
//!   Compacted files say it too; that is taken back before 3.
//! - A file that a backup shares is replaced by a copy of it before it is changed.
//! - What is cut off is durable elsewhere first: 2 is synced before 3 begins.
//! - Killed at any call, it is run again and finds the same last block: the block that is missing behind it
//!   never comes to be there. What was saved stays saved, as each run has a folder of its own.

use std::path::{Path, PathBuf};

use super::ahead::StreamFile;
use super::identity::{IDENTITY_FILE, end_repair};
use super::put_away::free_name;
use super::reader::Reader;
use super::source::Source;
use crate::io::{Disk, DiskFile, DiskResult};
use crate::log::condensed::{Condenser, Sealed};
use crate::log::error::OpenError;
use crate::log::file::{Compaction, FileHeader, create_over, publish, unfinished_path};
use crate::log::options::Compression;
use crate::log::sizes::Sizes;
use crate::log::voids::Voids;
use crate::record::Lsn;

/// The bytes that are read and written at once.
const COPY_BYTES: usize = 1 << 20;

impl Reader {
    /// Cuts the log behind the last block that is kept. Returns the folders that hold what was cut off.
    /// REQUIRES: the log is being examined, with its directories locked.
    pub fn truncate(mut self) -> Result<Vec<PathBuf>, OpenError> {
        while self.next_block()?.is_some() {}
        self.refuse_forged_numbers()?;
        if self.directories.pending.is_some() {
            return Err(OpenError::Unrelated(
                "the log was being switched on when the server ended, and it is not known here whether its \
                 checkpoint was completed: start the server once"
                    .to_string(),
            ));
        }
        let disk = self.disk.clone();

        self.directories.begin_repair(&*disk)?;
        let name = free_name(&*disk, &self.directories.paths)?;
        let mut folders = Vec::new();
        for (index, source) in self.sources.iter_mut().enumerate() {
            let identity = self.directories.lost_identities.iter().any(|(lost, _)| *lost == index);
            if put_away(&*disk, source, &name, identity)? {
                folders.push(source.directory.join(&name));
            }
        }
        self.directories.restore_identities(&*disk)?;
        self.unshare()?;
        for source in &mut self.sources {
            tell_voids(&*disk, source)?;
        }
        self.lower_claims()?;
        let finished = self.finish()?;
        end_repair(&*disk, &finished.paths)?;
        Ok(folders)
    }
}

impl Reader {
    /// Has files that will be changed for themselves: a backup may share them.
    fn unshare(&mut self) -> Result<(), OpenError> {
        let disk = self.disk.clone();
        for source in &mut self.sources {
            for (file, tally) in source.files.iter_mut().zip(&source.tallies) {
                if tally.kept_bytes < file.bytes && !tally.is_empty() && file.file.is_shared()? {
                    copy(&*disk, file, &file.path)?;
                    file.file = disk.open(&file.path)?;
                }
            }
        }
        Ok(())
    }

    /// Has compacted files that are kept claim no more than is kept. They are replaced as a whole: half a
    /// header is none.
    fn lower_claims(&mut self) -> Result<(), OpenError> {
        let (last, last_lsn) = (self.state.sequence(), self.last());
        for source in &mut self.sources {
            for (file, tally) in source.files.iter_mut().zip(&source.tallies) {
                // Blocks of earlier epochs may be in a file of the newest.
                let claims_more =
                    |claims: &Compaction| self.state.is_beyond(claims) || file.header.opened_after > last;
                let claims = file.header.compaction.filter(claims_more);
                if let Some(compaction) = claims.filter(|_| !tally.is_empty()) {
                    // The numbers behind are given again, to others.
                    let (durable, timestamp) =
                        (compaction.durable.min(last), compaction.timestamp.min(last_lsn));
                    // Nor is there what made some records of theirs obsolete.
                    let compaction = Some(Compaction { durable, timestamp, unfit: last_lsn, ..compaction });
                    let opened_after = file.header.opened_after.min(last);
                    let header = FileHeader { compaction, opened_after, ..file.header };
                    let unfinished = unfinished_path(&file.path);
                    let replacement = create_over(&*self.disk, &unfinished)?;
                    copy_bytes(&*file.file, &*replacement, tally.kept_bytes)?;
                    replacement.write_all_at(&header.encode(), 0)?;
                    replacement.sync_data()?;
                    publish(&*self.disk, &unfinished, &file.path)?;
                    (file.file, file.bytes) = (self.disk.open(&file.path)?, tally.kept_bytes);
                    file.header = header;
                }
            }
        }
        Ok(())
    }
}

/// Writes a block that tells the voids which are kept and whose block is not: else their sequences would be
/// missing. The file is replaced as a whole, so that killed on the way, a repair finds it as it was.
fn tell_voids(disk: &dyn Disk, source: &mut Source) -> DiskResult<()> {
    let (Some(teller), false) = (source.teller, source.untold.is_empty()) else { return Ok(()) };
    let (file, tally) = (&mut source.files[teller], &mut source.tallies[teller]);
    let unfinished = unfinished_path(&file.path);
    let replacement = create_over(disk, &unfinished)?;
    copy_bytes(&*file.file, &*replacement, tally.kept_bytes)?;
    let (known, number) = (Voids::default(), file.header.number);
    let mut condenser = Condenser::new(&known, file.header.stream, number..=number, 0, &Sizes::default());
    for void in source.untold.drain(..) {
        condenser.end_with(void);
        tally.contents.add(void.to, void.first, Lsn(void.next.0 - 1));
        tally.contents.records -= void.next.0 - void.first.0;
    }
    condenser.finish();
    let (mut offset, mut buffer) = (tally.kept_bytes, Vec::new());
    for block in condenser.full.drain(..) {
        let Sealed { length, .. } = block.seal(file.header.file_id, offset, Compression::No, &mut buffer);
        replacement.write_all_at(&buffer, offset)?;
        offset += length;
    }
    replacement.sync_data()?;
    publish(disk, &unfinished, &file.path)?;
    (tally.kept_bytes, tally.is_gone) = (offset, false);
    (file.file, file.bytes) = (disk.open(&file.path)?, offset);
    Ok(())
}

/// Saves what a directory loses; `false` if that is nothing.
fn put_away(disk: &dyn Disk, source: &mut Source, name: &str, identity: bool) -> DiskResult<bool> {
    let has_losses = source.tallies.iter().any(|tally| tally.lost.bytes > 0);
    if !has_losses && source.unreadable.is_empty() && !identity {
        return Ok(false);
    }
    let directory = &source.directory;
    let folder = directory.join(name);
    disk.create_dir_all(&folder)?;
    for (file, tally) in source.files.iter().zip(&mut source.tallies) {
        if tally.lost.bytes == 0 {
            continue;
        }
        let to = folder.join(file.path.file_name().expect("a log file has a name"));
        // One that is to tell voids is kept, so that a repair that is killed before finds it again.
        let tells = source.teller == Some(file.index) && !source.untold.is_empty();
        if tally.is_empty() && !tells {
            disk.rename(&file.path, &to)?;
            tally.is_gone = true;
        } else {
            copy(disk, file, &to)?;
        }
    }
    for unreadable in &source.unreadable {
        disk.rename(&directory.join(&unreadable.name), &folder.join(&unreadable.name))?;
    }
    if identity && disk.list(directory)?.iter().any(|name| name == IDENTITY_FILE) {
        disk.rename(&directory.join(IDENTITY_FILE), &folder.join(IDENTITY_FILE))?;
    }
    disk.sync_dir(&folder)?;
    disk.sync_dir(directory)?;
    Ok(true)
}

/// Copies a file, durably.
fn copy(disk: &dyn Disk, from: &StreamFile, to: &Path) -> DiskResult<()> {
    let unfinished = unfinished_path(to);
    let copy = create_over(disk, &unfinished)?;
    copy_bytes(&*from.file, &*copy, from.bytes)?;
    copy.sync_data()?;
    publish(disk, &unfinished, to)
}

/// Copies the first `length` bytes of a file, or all if it is shorter.
fn copy_bytes(from: &dyn DiskFile, to: &dyn DiskFile, length: u64) -> DiskResult<()> {
    let mut bytes = vec![0; COPY_BYTES];
    let mut offset = 0;
    while offset < length {
        let wanted = bytes.len().min(usize::try_from(length - offset).unwrap_or(usize::MAX));
        let count = from.read_full_at(&mut bytes[..wanted], offset)?;
        if count == 0 {
            break;
        }
        to.write_all_at(&bytes[..count], offset)?;
        offset += count as u64;
    }
    Ok(())
}
