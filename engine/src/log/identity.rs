//! Which log a directory belongs to, and who has it open.
//!
//! Each directory holds a lock file and an identity: the log's id, which of its directories this is, and how
//! many there are. A directory that is missing or comes from elsewhere is refused before anything is read; an
//! empty one becomes a new member.
//!
//! ```text
//!  0        8         16       32      36      40      44
//!  | magic  | version | log id | index | count | crc32c |
//! ```

use std::path::{Path, PathBuf};

use super::error::{Damage, OpenError};
use super::file::{UNFINISHED, file_number, write_atomically};
use super::format::FORMAT_VERSION;
use crate::io::{Disk, DiskLock};

const MAGIC: [u8; 8] = *b"TARNLID\n";
const IDENTITY_BYTES: usize = 44;
const IDENTITY_FILE: &str = "tarnlog.id";
const LOCK_FILE: &str = "tarnlog.lock";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    log_id: u128,
    index: u32,
    count: u32,
}

/// The directories of one log, locked, in the order of their indexes.
#[derive(Debug)]
pub(super) struct Directories {
    pub(super) log_id: u128,
    pub(super) paths: Vec<PathBuf>,
    /// The names of the log files of each directory.
    pub(super) files: Vec<Vec<String>>,
    pub(super) locks: Vec<Box<dyn DiskLock>>,
}

impl Directories {
    /// Locks the directories, checks that they are all of one log, and makes new members of empty ones.
    pub(super) fn open(disk: &dyn Disk, given: &[PathBuf]) -> Result<Directories, OpenError> {
        let mut locks = Vec::new();
        let mut members = Vec::new();
        let mut newcomers = Vec::new();
        for path in given {
            disk.create_dir_all(path)?;
            locks.push(disk.lock(&path.join(LOCK_FILE))?.ok_or_else(|| OpenError::InUse(path.clone()))?);
            let names = disk.list(path)?;
            for unfinished in names.iter().filter(|name| name.ends_with(UNFINISHED)) {
                disk.remove(&path.join(unfinished))?;
            }
            let files: Vec<String> =
                names.iter().filter(|name| file_number(name).is_some()).cloned().collect();
            if names.iter().any(|name| name == IDENTITY_FILE) {
                members.push((Identity::read(disk, path)?, path.clone(), files));
            } else if files.is_empty() {
                newcomers.push(path.clone());
            } else {
                return Err(wrong(path, format!("it holds log files but no {IDENTITY_FILE}")));
            }
        }
        members.sort_by_key(|(identity, ..)| identity.index);
        check_members(&members)?;
        Directories::join(disk, members, newcomers, locks)
    }

    /// Gives identities to the newcomers, then tells everybody how many they are.
    ///
    /// Nothing is logged before all know the number, so a member that is missing later is missed; a crash
    /// half way leaves newcomers that nobody misses and that are welcome again.
    fn join(
        disk: &dyn Disk,
        members: Vec<(Identity, PathBuf, Vec<String>)>,
        newcomers: Vec<PathBuf>,
        locks: Vec<Box<dyn DiskLock>>,
    ) -> Result<Directories, OpenError> {
        let log_id = match members.first() {
            Some((identity, ..)) => identity.log_id,
            None => u128::from(disk.random()) << 64 | u128::from(disk.random()),
        };
        let count = (members.len() + newcomers.len()) as u32;
        let mut identities: Vec<Identity> = members.iter().map(|(identity, ..)| *identity).collect();
        let (mut paths, mut files): (Vec<_>, Vec<_>) =
            members.into_iter().map(|(_, path, files)| (path, files)).unzip();
        for path in newcomers {
            let index = paths.len() as u32;
            let identity = Identity { log_id, index, count: index + 1 };
            identity.write(disk, &path)?;
            identities.push(identity);
            paths.push(path);
            files.push(Vec::new());
        }
        for (identity, path) in identities.iter().zip(&paths) {
            if identity.count != count {
                Identity { count, ..*identity }.write(disk, path)?;
            }
        }
        Ok(Directories { log_id, paths, files, locks })
    }
}

fn check_members(members: &[(Identity, PathBuf, Vec<String>)]) -> Result<(), OpenError> {
    let Some((first, first_path, _)) = members.first() else { return Ok(()) };
    let count = members.iter().map(|(identity, ..)| identity.count).max().unwrap_or(0);
    for (index, (identity, path, _)) in members.iter().enumerate() {
        if identity.log_id != first.log_id {
            let reason = format!("it belongs to another log than {}", first_path.display());
            return Err(wrong(path, reason));
        }
        if (identity.index as usize) < index {
            return Err(wrong(path, format!("it is a copy of another directory, number {}", identity.index)));
        }
        if identity.index as usize > index {
            let reason =
                format!("it is one of {count} directories of a log, and number {index} is not given");
            return Err(wrong(path, reason));
        }
    }
    if count as usize > members.len() {
        let reason =
            format!("it is one of {count} directories of a log, and only {} are given", members.len());
        return Err(wrong(first_path, reason));
    }
    Ok(())
}

fn wrong(path: &Path, reason: String) -> OpenError {
    OpenError::WrongDirectories { path: path.to_path_buf(), reason }
}

impl Identity {
    fn read(disk: &dyn Disk, directory: &Path) -> Result<Identity, OpenError> {
        let path = directory.join(IDENTITY_FILE);
        let mut bytes = [0; IDENTITY_BYTES];
        let count = disk.open(&path)?.read_full_at(&mut bytes, 0)?;
        let u32_at =
            |at: usize| u32::from_le_bytes(*bytes[at..].first_chunk().expect("4 bytes in the identity"));
        if count < IDENTITY_BYTES || bytes[..8] != MAGIC || u32_at(40) != crc32c::crc32c(&bytes[..40]) {
            return Err(Damage::new(path, 0, "the identity of the directory is spoilt".to_string()).into());
        }
        if u32_at(8) != FORMAT_VERSION {
            let reason = format!("its format has version {}, known is {FORMAT_VERSION}", u32_at(8));
            return Err(OpenError::TooNew { path, reason });
        }
        let log_id = u128::from_le_bytes(*bytes[16..].first_chunk().expect("16 bytes in the identity"));
        Ok(Identity { log_id, index: u32_at(32), count: u32_at(36) })
    }

    fn write(&self, disk: &dyn Disk, directory: &Path) -> Result<(), OpenError> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes.extend_from_slice(&0_u32.to_le_bytes());
        bytes.extend_from_slice(&self.log_id.to_le_bytes());
        bytes.extend_from_slice(&self.index.to_le_bytes());
        bytes.extend_from_slice(&self.count.to_le_bytes());
        bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
        Ok(write_atomically(disk, &directory.join(IDENTITY_FILE), &bytes)?)
    }
}
