//! A disk that hands each call on to another, after a tap has seen it: the tap may wait, count, or refuse.
//! For tests of what happens while a disk hangs or fails.

use std::path::Path;
use std::sync::Arc;

use super::disk::{Disk, DiskFile, DiskLock, DiskResult};

/// Sees calls before they reach the disk. A call that it refuses does not reach it.
pub trait Tap: Send + Sync + std::fmt::Debug {
    /// Before bytes of the file `path` are read.
    fn before_read(&self, _path: &Path) -> DiskResult<()> {
        Ok(())
    }

    /// Before this many bytes are written to the file `path` at `offset`.
    fn before_write(&self, _path: &Path, _offset: u64, _bytes: usize) -> DiskResult<()> {
        Ok(())
    }

    /// Before a file or a directory is synced.
    fn before_sync(&self, _path: &Path) -> DiskResult<()> {
        Ok(())
    }
}

/// A disk with a tap. All its files have the tap as well.
#[derive(Debug)]
pub struct TappedDisk<T> {
    disk: Arc<dyn Disk>,
    tap: Arc<T>,
}

impl<T: Tap + 'static> TappedDisk<T> {
    /// Puts `tap` between `disk` and those who use it.
    pub fn new(disk: Arc<dyn Disk>, tap: Arc<T>) -> TappedDisk<T> {
        TappedDisk { disk, tap }
    }

    fn file(&self, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        Arc::new(TappedFile::new(file, self.tap.clone()))
    }
}

impl<T: Tap + 'static> Disk for TappedDisk<T> {
    fn create(&self, path: &Path) -> DiskResult<Arc<dyn DiskFile>> {
        Ok(self.file(self.disk.create(path)?))
    }

    fn open(&self, path: &Path) -> DiskResult<Arc<dyn DiskFile>> {
        Ok(self.file(self.disk.open(path)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> DiskResult<()> {
        self.disk.rename(from, to)
    }

    fn link(&self, path: &Path, name: &Path) -> DiskResult<()> {
        self.disk.link(path, name)
    }

    fn remove(&self, path: &Path) -> DiskResult<()> {
        self.disk.remove(path)
    }

    fn list(&self, directory: &Path) -> DiskResult<Vec<String>> {
        self.disk.list(directory)
    }

    fn create_dir(&self, directory: &Path) -> DiskResult<()> {
        self.disk.create_dir(directory)
    }

    fn sync_dir(&self, directory: &Path) -> DiskResult<()> {
        self.tap.before_sync(directory)?;
        self.disk.sync_dir(directory)
    }

    fn lock(&self, path: &Path) -> DiskResult<Option<Box<dyn DiskLock>>> {
        self.disk.lock(path)
    }

    fn bytes_free(&self, directory: &Path) -> DiskResult<u64> {
        self.disk.bytes_free(directory)
    }

    fn random(&self) -> u64 {
        self.disk.random()
    }
}

/// A file with a tap.
#[derive(Debug)]
pub struct TappedFile<T> {
    file: Arc<dyn DiskFile>,
    tap: Arc<T>,
}

impl<T: Tap> TappedFile<T> {
    /// Puts `tap` between `file` and those who use it.
    pub fn new(file: Arc<dyn DiskFile>, tap: Arc<T>) -> TappedFile<T> {
        TappedFile { file, tap }
    }
}

impl<T: Tap> DiskFile for TappedFile<T> {
    fn path(&self) -> &Path {
        self.file.path()
    }

    fn len(&self) -> DiskResult<u64> {
        self.file.len()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> DiskResult<usize> {
        self.tap.before_read(self.path())?;
        self.file.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> DiskResult<usize> {
        self.tap.before_write(self.path(), offset, bytes.len())?;
        self.file.write_at(bytes, offset)
    }

    fn sync_data(&self) -> DiskResult<()> {
        self.tap.before_sync(self.path())?;
        self.file.sync_data()
    }

    fn reserve(&self, bytes: u64) -> DiskResult<()> {
        self.file.reserve(bytes)
    }

    fn set_len(&self, bytes: u64) -> DiskResult<()> {
        self.file.set_len(bytes)
    }

    fn is_shared(&self) -> DiskResult<bool> {
        self.file.is_shared()
    }
}
