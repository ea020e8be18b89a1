//! A file of the log as the operating system has it.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::error::{VtcError, io_error};
use super::format::{FILE_HEADER_BYTES, file_header};

#[derive(Debug)]
pub(super) struct Device {
    pub path: PathBuf,
    file: File,
    /// Bytes that were written, and up to where they are synced.
    pub written: u64,
    pub synced: u64,
}

impl Device {
    /// Opens a file of this length, or makes an empty one.
    pub(super) fn open(path: PathBuf, bytes: Option<u64>) -> Result<Device, VtcError> {
        let Some(bytes) = bytes else { return Device::create(path) };
        let file = fs::OpenOptions::new().write(true).open(&path).map_err(io_error("open", &path))?;
        // What a crash left after it does not come back when timestamps go on.
        file.set_len(bytes).and_then(|()| file.sync_all()).map_err(io_error("cut", &path))?;
        Ok(Device { path, file, written: bytes, synced: bytes })
    }

    /// Makes an empty file: under another name first, so that a crash leaves a whole header or no file.
    fn create(path: PathBuf) -> Result<Device, VtcError> {
        let unfinished = copy_of(&path);
        let file = File::create(&unfinished).map_err(io_error("create", &unfinished))?;
        file.write_all_at(&file_header(0), 0)
            .and_then(|()| file.sync_all())
            .map_err(io_error("write", &unfinished))?;
        put_in_place(&unfinished, &path)?;
        let bytes = FILE_HEADER_BYTES as u64;
        Ok(Device { path, file, written: bytes, synced: bytes })
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), VtcError> {
        self.file.write_all_at(bytes, self.written).map_err(io_error("write", &self.path))?;
        self.written += bytes.len() as u64;
        Ok(())
    }

    pub(super) fn sync(&mut self) -> Result<(), VtcError> {
        self.file.sync_data().map_err(io_error("sync", &self.path))?;
        self.synced = self.written;
        Ok(())
    }

    /// Puts a file, all of which is synced, in the place of this one.
    pub(super) fn replace(&mut self, by: &Path, file: File, bytes: u64) -> Result<(), VtcError> {
        put_in_place(by, &self.path)?;
        (self.file, self.written, self.synced) = (file, bytes, bytes);
        Ok(())
    }
}

/// The copy of a file under compaction.
pub(super) fn copy_of(path: &Path) -> PathBuf {
    path.with_extension("tmp")
}

fn put_in_place(file: &Path, path: &Path) -> Result<(), VtcError> {
    fs::rename(file, path).map_err(io_error("rename", file))?;
    let dir = path.parent().expect("a file is in a directory");
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(io_error("sync", dir))
}
