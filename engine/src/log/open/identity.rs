//! The identity of the log that a directory belongs to, and the lock against opening it twice.
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

use crate::io::{Disk, DiskLock, DiskResult};
use crate::log::error::{Damage, OpenError, Remedy};
use crate::log::file::{FileHeader, UNFINISHED, file_number, write_atomically};
use crate::log::format::FORMAT_VERSION;
use crate::record::Lsn;

const MAGIC: [u8; 8] = *b"TARNLID\n";
const IDENTITY_BYTES: usize = 44;
pub(in crate::log) const IDENTITY_FILE: &str = "tarnlog.id";
const LOCK_FILE: &str = "tarnlog.lock";
/// Stands in each directory while a repair is under way.
const REPAIR_FILE: &str = "tarnlog.repair";
/// Stands in the first directory while a log that was switched on waits for its checkpoint.
const PENDING_FILE: &str = "tarnlog.pending";
/// The advice for an operator who has removed directories on purpose.
const FEWER: &str = "; to go on with fewer, start with all once more, SHUTDOWN SAVE, start with --appendonly \
                     no and a --log-dir of new ones, and CONFIG SET appendonly yes";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    log_id: u128,
    index: u32,
    count: u32,
}

/// The directories of one log, locked, in the order of their indexes.
#[derive(Debug)]
pub(in crate::log) struct Directories {
    pub(in crate::log) log_id: u128,
    pub(in crate::log) paths: Vec<PathBuf>,
    /// The names of the log files of each directory.
    pub(in crate::log) files: Vec<Vec<String>>,
    pub(in crate::log) locks: Vec<Box<dyn DiskLock>>,
    /// Directories whose identity is spoilt or missing; only an examination gets as far as having any.
    pub(in crate::log) lost_identities: Vec<(usize, Damage)>,
    /// Whether a repair has begun and not ended.
    pub(in crate::log) is_under_repair: bool,
    /// The era behind this record counts only if a checkpoint has all up to there.
    pub(in crate::log) pending: Option<Lsn>,
}

/// A directory of a log.
struct Member {
    identity: Identity,
    path: PathBuf,
    files: Vec<String>,
    /// The identity is a guess, for this reason.
    damage: Option<Damage>,
}

impl Directories {
    /// Locks the directories, checks that they are all of one log, and makes new members of empty ones.
    pub(in crate::log) fn open(disk: &dyn Disk, given: &[PathBuf]) -> Result<Directories, OpenError> {
        let mut locks = Vec::new();
        let mut members = Vec::new();
        let mut newcomers = Vec::new();
        for path in given {
            disk.create_dir_all(path)?;
            lock_with(disk, path, &mut locks)?;
            let names = disk.list(path)?;
            if names.iter().any(|name| name == REPAIR_FILE) {
                let remedy = Remedy::new(given.to_vec());
                return Err(OpenError::UnderRepair { path: path.clone(), remedy });
            }
            for unfinished in names.iter().filter(|name| is_unfinished(name)) {
                disk.remove(&path.join(unfinished))?;
            }
            let files = log_files(&names);
            if names.iter().any(|name| name == IDENTITY_FILE) {
                let identity = Identity::read(disk, path).map_err(|error| error.with_remedy(given))?;
                members.push(Member { identity, path: path.clone(), files, damage: None });
            } else if files.is_empty() {
                newcomers.push(path.clone());
            } else {
                return Err(OpenError::from(no_identity(path)).with_remedy(given));
            }
        }
        members.sort_by_key(|member| member.identity.index);
        check_members(&members, &newcomers)?;
        Directories::join(disk, members, newcomers, locks)
    }

    /// Looks at the directories of a log and changes nothing. Their locks are kept if `keeps_locks`.
    pub(in crate::log) fn look(
        disk: &dyn Disk,
        given: &[PathBuf],
        keeps_locks: bool,
    ) -> Result<Directories, OpenError> {
        let mut locks = Vec::new();
        let mut members = Vec::new();
        let mut is_under_repair = false;
        for path in given {
            let names = disk.list(path)?;
            let files = log_files(&names);
            let has_identity = names.iter().any(|name| name == IDENTITY_FILE);
            if !has_identity && files.is_empty() {
                return Err(wrong(path, "there is no log in it".to_string()));
            }
            lock_with(disk, path, &mut locks)?;
            is_under_repair |= names.iter().any(|name| name == REPAIR_FILE);
            let read = if has_identity { Identity::read(disk, path) } else { Err(no_identity(path).into()) };
            let (identity, damage) = match read {
                Ok(identity) => (identity, None),
                Err(OpenError::Damaged(damage)) => {
                    (Identity::guess(disk, path, &files, given.len())?, Some(damage))
                }
                Err(error) => return Err(error),
            };
            members.push(Member { identity, path: path.clone(), files, damage });
        }
        members.sort_by_key(|member| member.identity.index);
        check_members(&members, &[])?;
        if !keeps_locks {
            locks.clear();
        }
        let lost = |(index, member): (usize, &Member)| Some((index, member.damage.clone()?));
        Ok(Directories {
            pending: read_pending(disk, &members[0].path)?,
            log_id: members[0].identity.log_id,
            lost_identities: members.iter().enumerate().filter_map(lost).collect(),
            paths: members.iter().map(|member| member.path.clone()).collect(),
            files: members.into_iter().map(|member| member.files).collect(),
            locks,
            is_under_repair,
        })
    }

    /// Fails if somebody has the log open.
    pub(in crate::log) fn assert_unused(&self, disk: &dyn Disk) -> Result<(), OpenError> {
        self.paths.iter().try_for_each(|path| lock(disk, path).map(drop))
    }

    /// Lets nobody but a repair open the log from now on.
    pub(in crate::log) fn begin_repair(&self, disk: &dyn Disk) -> Result<(), OpenError> {
        for path in &self.paths {
            write_atomically(disk, &path.join(REPAIR_FILE), &[])?;
        }
        Ok(())
    }

    /// Writes identities in place of those that are lost.
    pub(in crate::log) fn restore_identities(&self, disk: &dyn Disk) -> Result<(), OpenError> {
        for (index, _) in &self.lost_identities {
            let (index, count) = (*index as u32, self.paths.len() as u32);
            Identity { log_id: self.log_id, index, count }.write(disk, &self.paths[index as usize])?;
        }
        Ok(())
    }

    /// Gives identities to the newcomers, then tells everybody how many they are.
    ///
    /// Nothing is logged before all know the number, so a member that is missing later is missed; a crash
    /// half way leaves newcomers that nobody misses and that are welcome again.
    fn join(
        disk: &dyn Disk,
        members: Vec<Member>,
        newcomers: Vec<PathBuf>,
        locks: Vec<Box<dyn DiskLock>>,
    ) -> Result<Directories, OpenError> {
        let log_id = match members.first() {
            Some(member) => member.identity.log_id,
            None => u128::from(disk.random()) << 64 | u128::from(disk.random()),
        };
        let count = (members.len() + newcomers.len()) as u32;
        let mut identities: Vec<Identity> = members.iter().map(|member| member.identity).collect();
        let (mut paths, mut files): (Vec<_>, Vec<_>) =
            members.into_iter().map(|member| (member.path, member.files)).unzip();
        for path in newcomers {
            let index = paths.len() as u32;
            let identity = Identity { log_id, index, count: index + 1 };
            identity.write(disk, &path)?;
            identities.push(identity);
            paths.push(path);
            files.push(Vec::new());
        }
        if identities.iter().any(|identity| identity.count != count) {
            // An earlier attempt may have failed to make the name of an identity durable that is seen now.
            paths.iter().try_for_each(|path| disk.sync_dir(path))?;
        }
        for (identity, path) in identities.iter().zip(&paths) {
            if identity.count != count {
                Identity { count, ..*identity }.write(disk, path)?;
            }
        }
        let pending = read_pending(disk, &paths[0])?;
        let (lost_identities, is_under_repair) = (Vec::new(), false);
        Ok(Directories { log_id, paths, files, locks, lost_identities, is_under_repair, pending })
    }
}

/// Says durably that the era behind `behind` counts only if a checkpoint has all up to there. REQUIRES: the
/// directories of the log are locked, and this is the first.
pub(in crate::log) fn write_pending(disk: &dyn Disk, directory: &Path, behind: Lsn) -> DiskResult<()> {
    let mut bytes = behind.0.to_le_bytes().to_vec();
    bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
    write_atomically(disk, &directory.join(PENDING_FILE), &bytes)
}

/// Takes back what [`write_pending`] said: the era counts, or is there no more.
pub(in crate::log) fn remove_pending(disk: &dyn Disk, directory: &Path) -> DiskResult<()> {
    remove_if_there(disk, &directory.join(PENDING_FILE))?;
    disk.sync_dir(directory)
}

/// Removes a file that an earlier attempt, or somebody else, may have removed.
pub(in crate::log) fn remove_if_there(disk: &dyn Disk, path: &Path) -> DiskResult<()> {
    match disk.remove(path) {
        Err(error) if error.source.kind() == std::io::ErrorKind::NotFound => Ok(()),
        answer => answer,
    }
}

fn read_pending(disk: &dyn Disk, directory: &Path) -> Result<Option<Lsn>, OpenError> {
    if !disk.list(directory)?.iter().any(|name| name == PENDING_FILE) {
        return Ok(None);
    }
    let path = directory.join(PENDING_FILE);
    let mut bytes = [0; 12];
    let count = disk.open(&path)?.read_full_at(&mut bytes, 0)?;
    let (behind, crc) = bytes.split_at(8);
    if count < bytes.len() || crc != crc32c::crc32c(behind).to_le_bytes() {
        return Err(Damage::new(path, 0, "it does not say which records it speaks of".to_string()).into());
    }
    Ok(Some(Lsn(u64::from_le_bytes(*behind.first_chunk().expect("8 bytes of 12")))))
}

/// Says in a directory which one of a log it is.
pub(crate) fn give_identity(
    disk: &dyn Disk,
    directory: &Path,
    log_id: u128,
    index: u32,
    count: u32,
) -> Result<(), OpenError> {
    Identity { log_id, index, count }.write(disk, directory)
}

/// Allows the repaired log to be opened again. REQUIRES: the caller has the directories locked.
pub(in crate::log) fn end_repair(disk: &dyn Disk, directories: &[PathBuf]) -> Result<(), OpenError> {
    for path in directories {
        // A repair that was killed here before may have removed it.
        if disk.list(path)?.iter().any(|name| name == REPAIR_FILE) {
            disk.remove(&path.join(REPAIR_FILE))?;
            disk.sync_dir(path)?;
        }
    }
    Ok(())
}

fn lock(disk: &dyn Disk, path: &Path) -> Result<Box<dyn DiskLock>, OpenError> {
    disk.lock(&path.join(LOCK_FILE))?.ok_or_else(|| OpenError::InUse(path.to_path_buf()))
}

/// Locks one more directory of those that are locked already.
pub(in crate::log) fn lock_with(
    disk: &dyn Disk,
    path: &Path,
    locks: &mut Vec<Box<dyn DiskLock>>,
) -> Result<(), OpenError> {
    match lock(disk, path) {
        Ok(lock) => locks.push(lock),
        Err(OpenError::InUse(path)) if !locks.is_empty() => {
            // Whatever name it has: if it is free when ours are, it was one of them.
            locks.clear();
            return Err(lock(disk, &path).map_or_else(|error| error, |_| OpenError::NamedTwice(path.clone())));
        }
        Err(error) => return Err(error),
    }
    Ok(())
}

fn log_files(names: &[String]) -> Vec<String> {
    names.iter().filter(|name| file_number(name).is_some()).cloned().collect()
}

/// Whether a file of this name says that its directory is one of a log.
pub(in crate::log) fn belongs_to_log(name: &str) -> bool {
    name == IDENTITY_FILE || name == REPAIR_FILE || file_number(name).is_some()
}

/// Whether a file of this name says that a log was being switched on.
pub(in crate::log) fn is_pending_mark(name: &str) -> bool {
    name == PENDING_FILE
}

/// Whether a name is one that a file of a log has until it is complete. Whatever else ends like that is
/// somebody else's.
fn is_unfinished(name: &str) -> bool {
    name.strip_suffix(UNFINISHED).is_some_and(|whole| belongs_to_log(whole) || whole == PENDING_FILE)
}

fn no_identity(path: &Path) -> Damage {
    Damage::new(path.join(IDENTITY_FILE), 0, "it is missing where there are log files".to_string())
}

/// Fails unless these are all directories of one log. `empty` ones are given, too.
fn check_members(members: &[Member], empty: &[PathBuf]) -> Result<(), OpenError> {
    let Some(first) = members.first() else { return Ok(()) };
    let count = members.iter().map(|member| member.identity.count).max().unwrap_or(0);
    for (index, Member { identity, path, .. }) in members.iter().enumerate() {
        if identity.log_id != first.identity.log_id {
            let reason = format!("it belongs to another log than {}", first.path.display());
            return Err(wrong(path, reason));
        }
        if (identity.index as usize) < index {
            return Err(wrong(path, format!("it is a copy of another directory, number {}", identity.index)));
        }
        if identity.index as usize > index {
            missing_among(empty, path, count)?;
            let reason =
                format!("it is one of {count} directories of a log, and number {index} is not given{FEWER}");
            return Err(wrong(path, reason));
        }
    }
    if count as usize > members.len() {
        missing_among(empty, &first.path, count)?;
        let reason =
            format!("it is one of {count} directories of a log, and only {} are given{FEWER}", members.len());
        return Err(wrong(&first.path, reason));
    }
    Ok(())
}

/// Fails if one that is missing of the `count` directories may be one of those that are given and `empty`.
fn missing_among(empty: &[PathBuf], other: &Path, count: u32) -> Result<(), OpenError> {
    let Some(path) = empty.first() else { return Ok(()) };
    let reason = format!(
        "there is no log in it, and {} is one of {count} directories of a log: restore it (is the device \
         mounted?)",
        other.display()
    );
    Err(wrong(path, reason))
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

    /// The probable identity of a directory, by its log files.
    fn guess(
        disk: &dyn Disk,
        directory: &Path,
        files: &[String],
        count: usize,
    ) -> Result<Identity, OpenError> {
        for name in files {
            let path = directory.join(name);
            match FileHeader::read(&path, &*disk.open(&path)?) {
                Ok(header) => {
                    let (log_id, index) = (header.log_id, header.stream);
                    return Ok(Identity { log_id, index, count: count as u32 });
                }
                Err(OpenError::Damaged(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Err(wrong(directory, "nothing whole in it says which log it belongs to".to_string()))
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
