//! The file system of the machine.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::ReadWriteFlags;

use super::disk::{Disk, DiskError, DiskFile, DiskLock, DiskResult, SCAN_ALIGN_BYTES};

/// The file system of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct OsDisk;

/// Lets this thread run, from now on, when no other wants the processor; it cannot be undone. REQUIRES: it
/// holds nothing that others wait for.
pub fn give_way() {
    // A system that refuses runs it as any other.
    let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), LOWEST_PRIORITY);
}

const LOWEST_PRIORITY: i32 = 19;

/// A file of the machine.
#[derive(Debug)]
struct OsFile {
    file: File,
    path: PathBuf,
}

#[derive(Debug)]
struct OsLock {
    // The lock goes with the descriptor.
    _file: File,
}

impl DiskLock for OsLock {}

impl Disk for OsDisk {
    fn create(&self, path: &Path) -> DiskResult<Arc<dyn DiskFile>> {
        open(OpenOptions::new().read(true).write(true).create_new(true), "create", path)
    }

    fn open(&self, path: &Path) -> DiskResult<Arc<dyn DiskFile>> {
        open(OpenOptions::new().read(true).write(true), "open", path)
    }

    fn open_to_scan(&self, path: &Path) -> DiskResult<Arc<dyn DiskFile>> {
        match open_direct(path) {
            Some(file) => Ok(Arc::new(OsFile { file, path: path.to_path_buf() })),
            None => open(OpenOptions::new().read(true), "open", path),
        }
    }

    fn open_to_verify(&self, path: &Path) -> DiskResult<Arc<dyn DiskFile>> {
        use rustix::fs::{Advice, fadvise};
        if let Ok(direct) = OpenOptions::new().read(true).custom_flags(DIRECT).open(path)
            && with_aligned_page(|page| direct.read_at(page, 0)).is_ok()
        {
            return Ok(Arc::new(OsFile { file: direct, path: path.to_path_buf() }));
        }
        // The next best: what is in the cache and clean is forgotten, and read again.
        let file = File::open(path).map_err(|error| DiskError::new("open", path, error))?;
        let _ = fadvise(&file, 0, None, Advice::DontNeed);
        Ok(Arc::new(OsFile { file, path: path.to_path_buf() }))
    }

    fn open_to_stream(&self, path: &Path) -> Option<Arc<dyn DiskFile>> {
        let direct = OpenOptions::new().write(true).custom_flags(DIRECT).open(path).ok()?;
        // Some file systems refuse only the writing.
        with_aligned_page(|page| direct.write_at(page, 0)).ok()?;
        Some(Arc::new(OsFile { file: direct, path: path.to_path_buf() }))
    }

    fn rename(&self, from: &Path, to: &Path) -> DiskResult<()> {
        fs::rename(from, to).map_err(|error| DiskError::new("rename", from, error))
    }

    fn link(&self, path: &Path, name: &Path) -> DiskResult<()> {
        fs::hard_link(path, name).map_err(|error| DiskError::new("link", path, error))
    }

    fn remove(&self, path: &Path) -> DiskResult<()> {
        fs::remove_file(path).map_err(|error| DiskError::new("remove", path, error))
    }

    fn list(&self, directory: &Path) -> DiskResult<Vec<String>> {
        let failed = |error| DiskError::new("list", directory, error);
        let mut names = Vec::new();
        for entry in fs::read_dir(directory).map_err(failed)? {
            // A name that is not UTF-8 is none of the log's.
            if let Ok(name) = entry.map_err(failed)?.file_name().into_string() {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    fn create_dir(&self, directory: &Path) -> DiskResult<()> {
        let failed = |error| DiskError::new("create directory", directory, error);
        match fs::create_dir(directory) {
            // Whatever else a file system says of one that is there.
            Err(_) if directory.is_dir() => Err(failed(io::ErrorKind::AlreadyExists.into())),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Err(failed(io::ErrorKind::NotADirectory.into()))
            }
            answer => answer.map_err(failed),
        }
    }

    fn sync_dir(&self, directory: &Path) -> DiskResult<()> {
        let named = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
        File::open(named)
            .and_then(|handle| handle.sync_all())
            .map_err(|error| DiskError::new("sync directory", directory, error))
    }

    fn lock(&self, path: &Path) -> DiskResult<Option<Box<dyn DiskLock>>> {
        let failed = |error| DiskError::new("lock", path, error);
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).open(path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Box::new(OsLock { _file: file }))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(failed(error)),
        }
    }

    fn bytes_free(&self, directory: &Path) -> DiskResult<u64> {
        let stat = rustix::fs::statvfs(directory)
            .map_err(|error| DiskError::new("ask for the free space of", directory, error.into()))?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    fn random(&self) -> u64 {
        rand::random()
    }
}

impl OsFile {
    fn failed(&self, action: &'static str, error: impl Into<io::Error>) -> DiskError {
        DiskError::new(action, &self.path, error.into())
    }
}

impl DiskFile for OsFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> DiskResult<u64> {
        self.file.metadata().map(|metadata| metadata.len()).map_err(|error| self.failed("examine", error))
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> DiskResult<usize> {
        retry(|| self.file.read_at(buffer, offset)).map_err(|error| self.failed("read", error))
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> DiskResult<usize> {
        retry(|| self.file.write_at(bytes, offset)).map_err(|error| self.failed("write", error))
    }

    fn sync_data(&self) -> DiskResult<()> {
        // Not retried, not even when interrupted: after any error the state of the bytes is unknown.
        rustix::fs::fdatasync(&self.file).map_err(|error| self.failed("sync", error))
    }

    fn reserve(&self, bytes: u64) -> DiskResult<()> {
        use rustix::fs::{FallocateFlags, fallocate};
        match fallocate(&self.file, FallocateFlags::KEEP_SIZE, 0, bytes) {
            // A file system that cannot reserve finds out later whether there is room.
            Ok(()) | Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => Ok(()),
            Err(error) => Err(self.failed("reserve space for", error)),
        }
    }

    fn set_len(&self, bytes: u64) -> DiskResult<()> {
        self.file.set_len(bytes).map_err(|error| self.failed("cut", error))
    }

    fn is_shared(&self) -> DiskResult<bool> {
        let metadata = self.file.metadata().map_err(|error| self.failed("examine", error))?;
        Ok(metadata.nlink() > 1)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }
}

fn open(options: &OpenOptions, action: &'static str, path: &Path) -> DiskResult<Arc<dyn DiskFile>> {
    let file = options.open(path).map_err(|error| DiskError::new(action, path, error))?;
    Ok(Arc::new(OsFile { file, path: path.to_path_buf() }))
}

/// Opens a file to be read past the operating system's cache, which halves the processor time of reading a
/// cold file; `None` if its bytes are in the cache, or the file system cannot do it.
fn open_direct(path: &Path) -> Option<File> {
    use rustix::fs::{Advice, fadvise};
    let cached = File::open(path).ok()?;
    let middle = cached.metadata().ok()?.len() / 2;
    // Not to read a page that is not there, and its neighbours, only to see that.
    fadvise(&cached, 0, None, Advice::Random).ok()?;
    let mut byte = [0];
    let look = |byte: &mut [u8]| {
        rustix::io::preadv2(&cached, &mut [io::IoSliceMut::new(byte)], middle, ReadWriteFlags::NOWAIT)
    };
    if look(&mut byte) != Err(rustix::io::Errno::AGAIN) {
        return None;
    }
    let direct = OpenOptions::new().read(true).custom_flags(DIRECT).open(path).ok()?;
    // Some file systems refuse only the reading.
    with_aligned_page(|page| direct.read_at(page, 0)).ok()?;
    Some(direct)
}

const DIRECT: i32 = rustix::fs::OFlags::DIRECT.bits().cast_signed();

fn with_aligned_page<T>(act: impl FnOnce(&mut [u8]) -> T) -> T {
    let mut page = vec![0; 2 * SCAN_ALIGN_BYTES];
    let start = page.as_ptr().align_offset(SCAN_ALIGN_BYTES);
    act(&mut page[start..start + SCAN_ALIGN_BYTES])
}

fn retry(mut call: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            answer => return answer,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn what_is_written_is_read_back_and_cut() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("file");
        let file = OsDisk.create(&path).unwrap();
        file.reserve(4096).unwrap();
        file.write_all_at(b"hello", 3).unwrap();
        file.sync_data().unwrap();
        OsDisk.sync_dir(place.path()).unwrap();
        let mut buffer = [9; 16];
        assert_eq!(file.read_full_at(&mut buffer, 0).unwrap(), 8);
        assert_eq!(&buffer[..8], b"\0\0\0hello");
        file.set_len(4).unwrap();
        assert_eq!(OsDisk.open(&path).unwrap().len().unwrap(), 4);
        assert!(OsDisk.bytes_free(place.path()).unwrap() > 0);
    }

    #[test]
    fn directories_are_made_as_deep_as_they_are_named() {
        let place = tempfile::tempdir().unwrap();
        let deep = place.path().join("a/b/c");
        for _ in 0..2 {
            OsDisk.create_dir_all(&deep).unwrap();
            assert!(deep.is_dir());
        }
        std::fs::write(deep.join("file"), "").unwrap();
        let error = OsDisk.create_dir_all(&deep.join("file/d")).unwrap_err();
        assert_eq!(error.source.kind(), io::ErrorKind::NotADirectory, "{error}");
        assert!(OsDisk.create_dir_all(&deep.join("file")).is_err());
    }

    #[test]
    fn a_scan_reads_what_is_in_the_cache_and_what_is_not() {
        use rustix::fs::{Advice, fadvise};
        // Where the build lies: a temporary directory may be in memory, which cannot be read past a cache.
        let place = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = place.path().join("file");
        let contents: Vec<u8> = (0..3 * SCAN_ALIGN_BYTES + 100).map(|at| (at / 7) as u8).collect();
        let file = OsDisk.create(&path).unwrap();
        file.write_all_at(&contents, 0).unwrap();
        for cached in [true, false] {
            if !cached {
                let file = File::open(&path).unwrap();
                file.sync_all().unwrap();
                fadvise(&file, 0, None, Advice::DontNeed).unwrap();
            }
            let file = OsDisk.open_to_scan(&path).unwrap();
            let mut space = vec![0; 6 * SCAN_ALIGN_BYTES];
            let start = space.as_ptr().align_offset(SCAN_ALIGN_BYTES);
            let count = file.read_at(&mut space[start..start + 4 * SCAN_ALIGN_BYTES], 0).unwrap();
            assert!(space[start..start + count] == contents, "cached: {cached}");
        }
        let missing = OsDisk.open_to_scan(&place.path().join("none")).unwrap_err();
        assert!(missing.to_string().starts_with("cannot open "), "{missing}");
    }

    #[test]
    fn a_lock_has_one_holder() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("lock");
        let held = OsDisk.lock(&path).unwrap();
        assert!(held.is_some());
        assert!(OsDisk.lock(&path).unwrap().is_none());
        drop(held);
        // A child that another test forks has it for a moment, until it closes what it does not need.
        let is_free = |_| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            OsDisk.lock(&path).unwrap().is_some()
        };
        assert!((0..10_000).any(is_free));
    }

    #[test]
    fn an_error_names_the_call_and_the_file() {
        let error = OsDisk.open(Path::new("/nowhere/at/all")).unwrap_err();
        assert!(error.to_string().starts_with("cannot open /nowhere/at/all: "), "{error}");
        assert!(!error.is_full());
    }
}
