//! Copies a file, or only reads it, at a limited rate, and computes its checksum.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::lock::{Condvar, Mutex};

use super::error::BackupError;
use crate::io::{Clock, Disk, DiskFile, DiskResult, SCAN_ALIGN_BYTES};
use crate::log::create_over;

/// The bytes that are read, written and synced at once. A larger piece would delay other users of the
/// device.
const PIECE_BYTES: usize = 1 << 20;

/// How far a backup has come; for others to look at and to stop it.
#[derive(Debug, Default)]
pub struct Progress {
    /// Bytes that were copied, or read to know their checksum.
    pub bytes: AtomicU64,
    /// How many there are in all, as far as it is known.
    pub bytes_total: AtomicU64,
    stop: AtomicBool,
    turn: Mutex<()>,
    stopped: Condvar,
}

impl Progress {
    /// Has the backup given up.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        let _turn = self.turn.lock();
        self.stopped.notify_all();
    }

    /// Whether the backup is to be given up.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Moves bytes no faster than it may.
pub(super) struct Mover<'m> {
    pub(super) disk: &'m dyn Disk,
    pub(super) progress: &'m Progress,
    pub(super) clock: &'m dyn Clock,
    pub(super) began: Duration,
    /// Bytes a second at most; 0 for no limit.
    pub(super) bytes_per_second: u64,
}

impl Mover<'_> {
    /// Copies the first `bytes` of a file to a new one, durably but for its name, and returns their checksum.
    pub(super) fn copy(&self, from: &Path, bytes: u64, to: &Path) -> Result<u32, BackupError> {
        self.copy_of(&*self.disk.open_to_scan(from)?, bytes, to)
    }

    /// As [`Self::copy`], of a file that may lose its name to another one.
    pub(super) fn copy_of(&self, source: &dyn DiskFile, bytes: u64, to: &Path) -> Result<u32, BackupError> {
        let copy = create_over(self.disk, to)?;
        self.read(source, bytes, |piece, offset| {
            copy.write_all_at(piece, offset)?;
            Ok(copy.sync_data()?)
        })
    }

    /// The checksum of the first `bytes` of a file.
    pub(super) fn checksum(&self, path: &Path, bytes: u64) -> Result<u32, BackupError> {
        self.read(&*self.disk.open_to_scan(path)?, bytes, |_, _| Ok(()))
    }

    fn read(
        &self,
        source: &dyn DiskFile,
        bytes: u64,
        mut take: impl FnMut(&[u8], u64) -> Result<(), BackupError>,
    ) -> Result<u32, BackupError> {
        if source.len()? < bytes {
            return Err(ended(source.path(), bytes));
        }
        let mut buffer = vec![0; PIECE_BYTES + SCAN_ALIGN_BYTES];
        let start = buffer.as_ptr().align_offset(SCAN_ALIGN_BYTES);
        let space = &mut buffer[start..start + PIECE_BYTES];
        let (mut offset, mut crc) = (0, 0);
        while offset < bytes {
            let wanted = (bytes - offset).min(PIECE_BYTES as u64) as usize;
            let mut count = 0;
            while count < wanted {
                match source.read_at(&mut space[count..], offset + count as u64)? {
                    0 => return Err(ended(source.path(), bytes)),
                    more => count += more,
                }
            }
            let piece = &space[..wanted];
            crc = crc32c::crc32c_append(crc, piece);
            take(piece, offset)?;
            offset += wanted as u64;
            self.moved(wanted as u64)?;
        }
        Ok(crc)
    }

    /// Notes that bytes were moved, and waits if that was fast enough.
    fn moved(&self, bytes: u64) -> Result<(), BackupError> {
        let moved = self.progress.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if let Some(seconds) = moved.checked_div(self.bytes_per_second) {
            let rest = (moved % self.bytes_per_second) as f64 / self.bytes_per_second as f64;
            let due = self.began + Duration::from_secs(seconds) + Duration::from_secs_f64(rest);
            let mut turn = self.progress.turn.lock();
            while !self.progress.is_stopped() {
                let now = self.clock.monotonic();
                if now >= due {
                    break;
                }
                self.progress.stopped.wait_for(&mut turn, due - now);
            }
        }
        if self.progress.is_stopped() { Err(BackupError::Stopped) } else { Ok(()) }
    }
}

fn ended(path: &Path, bytes: u64) -> BackupError {
    BackupError::Damaged { path: path.to_path_buf(), what: format!("it has less than its {bytes} bytes") }
}

/// All bytes of a small file.
pub(super) fn whole(file: &dyn DiskFile, bytes: usize) -> DiskResult<Vec<u8>> {
    let length = bytes.next_multiple_of(SCAN_ALIGN_BYTES);
    let mut buffer = vec![0; length + SCAN_ALIGN_BYTES];
    let start = buffer.as_ptr().align_offset(SCAN_ALIGN_BYTES);
    let space = &mut buffer[start..start + length];
    let mut count = 0;
    while count < bytes {
        match file.read_at(&mut space[count..], count as u64)? {
            0 => break,
            more => count += more,
        }
    }
    Ok(space[..count.min(bytes)].to_vec())
}
