//! A long file that is written once, from front to back, past the operating system's cache where that is
//! possible.
//!
//! What goes through the cache is copied once more, drives out what others read, and reaches the device when
//! the system pleases: all of it at once if nobody hurries it, in small pieces with a sync each if somebody
//! does. Past the cache each piece is on its way when it is written, and one is at a time.

use std::path::PathBuf;
use std::sync::Arc;

use super::disk::{Disk, DiskFile, DiskResult, SCAN_ALIGN_BYTES};

/// What the device is given in one go.
const PIECE_BYTES: usize = if cfg!(test) { SCAN_ALIGN_BYTES } else { 1 << 20 };

/// The file.
#[derive(Debug)]
pub struct Outgoing {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    way: Way,
    /// A piece that is aligned within it.
    space: Vec<u8>,
    start: usize,
    /// Bytes of the piece.
    filled: usize,
    /// Bytes before it.
    written: u64,
}

#[derive(Debug)]
enum Way {
    /// No piece has been full yet.
    Unknown,
    PastCache(Arc<dyn DiskFile>),
    /// Each piece is synced: a device that is given a whole file at once keeps others waiting.
    ThroughCache,
}

impl Outgoing {
    /// Nothing of it is written yet. REQUIRES: `file` is an empty one of `disk`, under the name that it was
    /// opened with.
    pub fn new(disk: &Arc<dyn Disk>, file: Arc<dyn DiskFile>) -> Outgoing {
        let path = file.path().to_path_buf();
        let (disk, space) = (disk.clone(), Vec::new());
        Outgoing { disk, path, file, way: Way::Unknown, space, start: 0, filled: 0, written: 0 }
    }

    /// Adds bytes at the end.
    pub fn push(&mut self, mut bytes: &[u8]) -> DiskResult<()> {
        if self.space.is_empty() {
            self.space = vec![0; PIECE_BYTES + SCAN_ALIGN_BYTES];
            self.start = self.space.as_ptr().align_offset(SCAN_ALIGN_BYTES);
        }
        while !bytes.is_empty() {
            let (some, rest) = bytes.split_at(bytes.len().min(PIECE_BYTES - self.filled));
            let place = self.start + self.filled;
            self.space[place..place + some.len()].copy_from_slice(some);
            self.filled += some.len();
            bytes = rest;
            if self.filled == PIECE_BYTES {
                self.write()?;
            }
        }
        Ok(())
    }

    fn write(&mut self) -> DiskResult<()> {
        if let Way::Unknown = self.way {
            self.way = self.disk.open_to_stream(&self.path).map_or(Way::ThroughCache, Way::PastCache);
        }
        let piece = &self.space[self.start..self.start + self.filled];
        let is_written = match &self.way {
            Way::PastCache(file) => match file.write_all_at(piece, self.written) {
                // It went well with another piece, but does so no more, as after a short write.
                Err(error) if error.source.kind() == std::io::ErrorKind::InvalidInput => false,
                answer => answer.map(|()| true)?,
            },
            _ => false,
        };
        if !is_written {
            self.way = Way::ThroughCache;
            self.file.write_all_at(piece, self.written)?;
            self.file.sync_data()?;
        }
        self.written += self.filled as u64;
        self.filled = 0;
        Ok(())
    }

    /// Writes what is left. The bytes are durable, as any others, after `sync_data`.
    pub fn finish(self) -> DiskResult<Arc<dyn DiskFile>> {
        let rest = &self.space[self.start..self.start + self.filled];
        self.file.write_all_at(rest, self.written)?;
        Ok(self.file)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::io::ErrorKind;
    use std::path::Path;

    use super::*;
    use crate::io::disk::DiskError;
    use crate::io::{OsDisk, SimDisk, SimOptions};

    /// A way past the cache that takes a first piece and no other.
    #[derive(Debug)]
    struct Fickle(Arc<dyn DiskFile>);

    impl DiskFile for Fickle {
        fn path(&self) -> &Path {
            self.0.path()
        }

        fn write_at(&self, bytes: &[u8], offset: u64) -> DiskResult<usize> {
            match offset {
                0 => self.0.write_at(bytes, offset),
                _ => Err(DiskError::new("write", self.path(), ErrorKind::InvalidInput.into())),
            }
        }

        fn len(&self) -> DiskResult<u64> {
            unreachable!("it is only written to")
        }

        fn read_at(&self, _: &mut [u8], _: u64) -> DiskResult<usize> {
            unreachable!("it is only written to")
        }

        fn sync_data(&self) -> DiskResult<()> {
            unreachable!("it is only written to")
        }

        fn reserve(&self, _: u64) -> DiskResult<()> {
            unreachable!("it is only written to")
        }

        fn set_len(&self, _: u64) -> DiskResult<()> {
            unreachable!("it is only written to")
        }

        fn is_shared(&self) -> DiskResult<bool> {
            unreachable!("it is only written to")
        }
    }

    #[test]
    fn all_bytes_are_there_in_order_and_may_be_written_over() {
        // Where the build lies: a temporary directory may be in memory.
        let place = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let disk: Arc<dyn Disk> = Arc::new(OsDisk);
        for (number, length) in [0, 1, 4095, 4096, 4097, 20_000].into_iter().enumerate() {
            let contents: Vec<u8> = (0..length).map(|at: usize| (at / 3) as u8).collect();
            let path = place.path().join(number.to_string());
            let mut outgoing = Outgoing::new(&disk, disk.create(&path).unwrap());
            contents.chunks(700).for_each(|some| outgoing.push(some).unwrap());
            let file = outgoing.finish().unwrap();
            file.write_all_at(&contents[..length.min(512)], 0).unwrap();
            file.sync_data().unwrap();
            assert!(std::fs::read(&path).unwrap() == contents, "{length} bytes");
        }
    }
    #[test]
    fn where_there_is_no_way_past_the_cache_each_piece_is_synced() {
        for takes_one in [false, true] {
            let sim = SimDisk::new(1, SimOptions::default());
            let disk: Arc<dyn Disk> = Arc::new(sim.clone());
            let file = disk.create(Path::new("/file")).unwrap();
            let mut outgoing = Outgoing::new(&disk, file.clone());
            if takes_one {
                outgoing.way = Way::PastCache(Arc::new(Fickle(file)));
            }
            let contents: Vec<u8> = (0..5 * PIECE_BYTES + 100).map(|at| (at / 3) as u8).collect();
            contents.chunks(700).for_each(|some| outgoing.push(some).unwrap());
            outgoing.finish().unwrap().sync_data().unwrap();
            assert!(sim.contents(Path::new("/file")).unwrap() == contents);
            // What a real disk had past its cache, the simulated one had in it.
            let pieces = if takes_one { 2 } else { 1 };
            assert_eq!(sim.synced_bytes_max(), (pieces * PIECE_BYTES) as u64);
        }
    }
}
