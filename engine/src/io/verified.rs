//! Reads a file front to back as the device has it, to verify that it is intact.

use std::path::Path;
use std::sync::Arc;

use crate::lock::Mutex;

use super::disk::{Disk, DiskError, DiskFile, DiskResult, SCAN_ALIGN_BYTES};

/// Bytes that are read in one go.
const PIECE_BYTES: usize = 256 << 10;

/// A file that is read in aligned pieces, past the operating system's cache where that can be. It can only be
/// read.
#[derive(Debug)]
pub struct Verified {
    file: Arc<dyn DiskFile>,
    piece: Mutex<Piece>,
}

/// The last bytes that were read.
#[derive(Debug)]
struct Piece {
    /// Room for a piece, wherever in it the alignment lets that begin.
    space: Vec<u8>,
    start: usize,
    /// Where in the file it begins, and how many bytes it has.
    offset: u64,
    length: usize,
}

impl Verified {
    /// Opens a file.
    pub fn open(disk: &dyn Disk, path: &Path) -> DiskResult<Arc<dyn DiskFile>> {
        let file = disk.open_to_verify(path)?;
        let space = vec![0; PIECE_BYTES + SCAN_ALIGN_BYTES];
        let start = space.as_ptr().align_offset(SCAN_ALIGN_BYTES);
        let piece = Mutex::new(Piece { space, start, offset: 0, length: 0 });
        Ok(Arc::new(Verified { file, piece }))
    }

    fn refused(&self, action: &'static str) -> DiskError {
        DiskError::new(action, self.file.path(), std::io::ErrorKind::Unsupported.into())
    }
}

impl Piece {
    fn has(&self, offset: u64) -> bool {
        offset >= self.offset && offset - self.offset < self.length as u64
    }
}

impl DiskFile for Verified {
    fn path(&self) -> &Path {
        self.file.path()
    }

    fn len(&self) -> DiskResult<u64> {
        self.file.len()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> DiskResult<usize> {
        let piece = &mut *self.piece.lock();
        if !piece.has(offset) {
            piece.length = 0;
            piece.offset = offset - offset % SCAN_ALIGN_BYTES as u64;
            let space = &mut piece.space[piece.start..piece.start + PIECE_BYTES];
            piece.length = self.file.read_full_at(space, piece.offset)?;
            if !piece.has(offset) {
                return Ok(0);
            }
        }
        let from = (offset - piece.offset) as usize;
        let count = buffer.len().min(piece.length - from);
        buffer[..count].copy_from_slice(&piece.space[piece.start + from..][..count]);
        Ok(count)
    }

    fn write_at(&self, _bytes: &[u8], _offset: u64) -> DiskResult<usize> {
        Err(self.refused("write"))
    }

    fn sync_data(&self) -> DiskResult<()> {
        Err(self.refused("sync"))
    }

    fn reserve(&self, _bytes: u64) -> DiskResult<()> {
        Err(self.refused("reserve space for"))
    }

    fn set_len(&self, _bytes: u64) -> DiskResult<()> {
        Err(self.refused("cut"))
    }

    fn is_shared(&self) -> DiskResult<bool> {
        self.file.is_shared()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::io::OsDisk;

    #[test]
    fn it_gives_what_the_file_has_wherever_it_is_read() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("file");
        let bytes: Vec<u8> = (0..PIECE_BYTES * 2 + 4321).map(|at| (at * 7 % 251) as u8).collect();
        std::fs::write(&path, &bytes).unwrap();
        let file = Verified::open(&OsDisk, &path).unwrap();
        assert_eq!(file.len().unwrap(), bytes.len() as u64);
        for offset in [0, 5, PIECE_BYTES - 3, PIECE_BYTES, 3 * 4096 + 1, bytes.len() - 2, bytes.len()] {
            let mut buffer = vec![0; PIECE_BYTES + 10];
            let count = file.read_full_at(&mut buffer, offset as u64).unwrap();
            assert!(buffer[..count] == bytes[offset..bytes.len().min(offset + buffer.len())], "{offset}");
        }
    }
}
