//! The file system as the log needs it: [`Disk`] for names, [`DiskFile`] for bytes.
//!
//! The promises that the log builds on, and nothing more than these:
//!
//! ```text
//! write_at    visible to read_at at once; on the device only after sync_data
//! create      the name is on the device only after sync_dir of its directory; so create_dir, rename, link
//!             and remove
//! rename      the new name stands for the old file or the new one, never for a mixture
//! lock        gone when the process is gone
//! ```

use std::fmt::{self, Debug};
use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;

/// A call on a file system that failed: which call, on what, and why.
#[derive(Debug, Error)]
#[error("cannot {action} {}: {source}", path.display())]
pub struct DiskError {
    /// The action that failed, a verb: "write", "create" …
    pub action: &'static str,
    /// The file or directory.
    pub path: PathBuf,
    /// The answer of the operating system.
    pub source: io::Error,
}

impl DiskError {
    /// The error of `action` on `path`.
    pub fn new(action: &'static str, path: &Path, source: io::Error) -> DiskError {
        DiskError { action, path: path.to_path_buf(), source }
    }

    /// Whether the cause is a full disk or an exhausted quota.
    pub fn is_full(&self) -> bool {
        matches!(self.source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
    }
}

/// Whether a directory is not synced because that is nobody's business here, and not because it failed.
/// Shows a path without line breaks and other control characters: they stand as escapes, so that no path
/// begins a line of its own in a message.
pub struct OnOneLine<'p>(pub &'p Path);

impl fmt::Display for OnOneLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.to_string_lossy().chars() {
            if character.is_control() {
                write!(f, "{}", character.escape_debug())?;
            } else {
                write!(f, "{character}")?;
            }
        }
        Ok(())
    }
}

fn cannot_be_synced(error: &DiskError) -> bool {
    use io::ErrorKind::{InvalidInput, PermissionDenied, ReadOnlyFilesystem, Unsupported};
    matches!(error.source.kind(), InvalidInput | PermissionDenied | ReadOnlyFilesystem | Unsupported)
}

/// The answer of a call on a file system.
pub type DiskResult<T> = Result<T, DiskError>;

/// A lock that is released when it is dropped, and when the process ends in whatever way.
pub trait DiskLock: Send + Sync + Debug {}

/// A file system.
pub trait Disk: Send + Sync + Debug {
    /// Makes a new, empty file; an error if the name is taken.
    fn create(&self, path: &Path) -> DiskResult<Arc<dyn DiskFile>>;

    /// Opens a file to read and write; an error if there is none.
    fn open(&self, path: &Path) -> DiskResult<Arc<dyn DiskFile>>;

    /// Opens a file that is going to be read once, from front to back, in pieces aligned to
    /// [`SCAN_ALIGN_BYTES`]: past the operating system's cache where that is quicker.
    fn open_to_scan(&self, path: &Path) -> DiskResult<Arc<dyn DiskFile>> {
        self.open(path)
    }

    /// Opens a file to read what the device has of it, in pieces aligned to [`SCAN_ALIGN_BYTES`]: past the
    /// operating system's cache where that can be.
    fn open_to_verify(&self, path: &Path) -> DiskResult<Arc<dyn DiskFile>> {
        self.open(path)
    }

    /// Opens a new, empty file that is going to be written once, from front to back, in pieces aligned to
    /// [`SCAN_ALIGN_BYTES`], past the operating system's cache; `None` where that cannot be.
    fn open_to_stream(&self, _path: &Path) -> Option<Arc<dyn DiskFile>> {
        None
    }

    /// Gives a file another name in place of whatever had it.
    fn rename(&self, from: &Path, to: &Path) -> DiskResult<()>;

    /// Gives a file a second name, if the file system can and both are on it; an error if the name is taken.
    fn link(&self, path: &Path, name: &Path) -> DiskResult<()>;

    /// Takes a name away.
    fn remove(&self, path: &Path) -> DiskResult<()>;

    /// The names in a directory, sorted.
    fn list(&self, directory: &Path) -> DiskResult<Vec<String>>;

    /// Makes a directory in one that exists; `AlreadyExists` if it is there.
    fn create_dir(&self, directory: &Path) -> DiskResult<()>;

    /// Makes a directory and those above it, where they do not exist, and the names of all of them durable.
    ///
    /// Also of those that are there: their maker may have been killed before their names were synced.
    /// Of one that is there and above which nothing may be synced, nothing is known and nothing is said.
    fn create_dir_all(&self, directory: &Path) -> DiskResult<()> {
        let is_named = |level: &&Path| !level.as_os_str().is_empty();
        let levels: Vec<&Path> = directory.ancestors().filter(is_named).collect();
        let mut depth = 0;
        let mut made = 0..0;
        let mut goes_down = false;
        // Up to one that can be made or is there, and down again.
        while let Some(level) = levels.get(depth) {
            match self.create_dir(level) {
                Ok(()) => made = depth..made.end.max(depth + 1),
                Err(error) if error.source.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error)
                    if error.source.kind() == io::ErrorKind::NotFound
                        && !goes_down
                        && depth + 1 < levels.len() =>
                {
                    depth += 1;
                    continue;
                }
                Err(error) => return Err(error),
            }
            // What is missing below one that is there cannot be made.
            goes_down = true;
            match depth.checked_sub(1) {
                Some(below) => depth = below,
                None => break,
            }
        }
        for (depth, parent) in levels.iter().map(|level| level.parent()).enumerate() {
            let Some(parent) = parent else { continue };
            match self.sync_dir(parent) {
                Err(error) if made.contains(&depth) || !cannot_be_synced(&error) => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Makes the names in a directory durable.
    fn sync_dir(&self, directory: &Path) -> DiskResult<()>;

    /// Takes the lock of a lock file, which is made if it is not there; `None` if another holder has it.
    fn lock(&self, path: &Path) -> DiskResult<Option<Box<dyn DiskLock>>>;

    /// Bytes that can still be written below a directory.
    fn bytes_free(&self, directory: &Path) -> DiskResult<u64>;

    /// A number that nobody can foresee.
    fn random(&self) -> u64;
}

/// The alignment of direct I/O, for reads of a file opened to be scanned and writes to one opened to be
/// streamed to: offset, address and length are multiples of this.
pub const SCAN_ALIGN_BYTES: usize = 4096;

/// An open file.
pub trait DiskFile: Send + Sync + Debug {
    /// The name under which it was opened.
    fn path(&self) -> &Path;

    /// Length in bytes.
    fn len(&self) -> DiskResult<u64>;

    /// Whether it has no bytes.
    fn is_empty(&self) -> DiskResult<bool> {
        Ok(self.len()? == 0)
    }

    /// Reads at most `buffer.len()` bytes; fewer at the end of the file or when it pleases, 0 only at the
    /// end.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> DiskResult<usize>;

    /// Writes at least one and at most `bytes.len()` bytes and says how many.
    fn write_at(&self, bytes: &[u8], offset: u64) -> DiskResult<usize>;

    /// Makes all bytes written before this call durable, and the length.
    ///
    /// After an error nothing is known about them: a second call that succeeds does not say that they are
    /// durable.
    fn sync_data(&self) -> DiskResult<()>;

    /// Reserves space for the first `bytes` bytes without changing the length.
    fn reserve(&self, bytes: u64) -> DiskResult<()>;

    /// Cuts or extends the file with zeros and gives back what was reserved behind.
    fn set_len(&self, bytes: u64) -> DiskResult<()>;

    /// Whether it has another name beside the one under which it was opened.
    fn is_shared(&self) -> DiskResult<bool>;

    /// A file for a child process that shares nothing else with us; `None` where there is no such thing, as
    /// in a simulation.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Writes all of `bytes`.
    fn write_all_at(&self, mut bytes: &[u8], mut offset: u64) -> DiskResult<()> {
        while !bytes.is_empty() {
            let count = self.write_at(bytes, offset)?;
            if count == 0 {
                return Err(DiskError::new("write", self.path(), io::ErrorKind::WriteZero.into()));
            }
            bytes = &bytes[count..];
            offset += count as u64;
        }
        Ok(())
    }

    /// Fills `buffer` as far as the file reaches; says how far.
    fn read_full_at(&self, buffer: &mut [u8], offset: u64) -> DiskResult<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            let count = self.read_at(&mut buffer[filled..], offset + filled as u64)?;
            if count == 0 {
                break;
            }
            filled += count;
        }
        Ok(filled)
    }
}
