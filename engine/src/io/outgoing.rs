//! A long file that is written once, front to back, past the page cache where that is possible.
//!
//! What goes through the cache is copied once more, drives out what others read, and reaches the device when
//! the system pleases: all of it at once if nobody hurries it, in small pieces with a sync each if somebody
//! does. Past the cache one piece at a time is on its way, which a thread of its own writes while the next
//! one is filled:
//!
//! ```text
//!   push ──> [ piece, being filled ] ──full──> [ piece, being written ] ──> device
//!                      ^───────────── empty again ────────┘
//! ```

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};

use super::disk::{Disk, DiskFile, DiskResult, SCAN_ALIGN_BYTES};

/// The file.
#[derive(Debug)]
pub struct Outgoing {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    way: Way,
    /// The bytes that the device is given at once.
    piece_bytes: usize,
    /// The piece that is being filled.
    piece: Piece,
}

#[derive(Debug)]
enum Way {
    /// No piece has been full yet.
    Unknown,
    PastCache(Writer),
    /// Each piece is synced: a device that is given a whole file at once keeps others waiting.
    ThroughCache,
}

/// A part of the file, aligned within its space.
#[derive(Debug, Default)]
struct Piece {
    space: Vec<u8>,
    start: usize,
    filled: usize,
    /// Bytes of the file before it.
    offset: u64,
}

/// Writes pieces on a thread of its own.
#[derive(Debug)]
struct Writer {
    /// `None` only at the end.
    pieces: Option<SyncSender<Piece>>,
    written: Receiver<(Piece, DiskResult<()>)>,
    is_writing: bool,
    thread: Option<JoinHandle<()>>,
}

impl Outgoing {
    /// Nothing of it is written yet; the device is given `piece_bytes` in one go. REQUIRES: `file` is an
    /// empty one of `disk`, under the name that it was opened with; `piece_bytes` is a multiple of
    /// [`SCAN_ALIGN_BYTES`].
    pub fn new(disk: &Arc<dyn Disk>, file: Arc<dyn DiskFile>, piece_bytes: usize) -> Outgoing {
        debug_assert!(piece_bytes > 0 && piece_bytes.is_multiple_of(SCAN_ALIGN_BYTES), "pieces are aligned");
        let path = file.path().to_path_buf();
        Outgoing { disk: disk.clone(), path, file, way: Way::Unknown, piece_bytes, piece: Piece::default() }
    }

    /// Adds bytes at the end.
    pub fn push(&mut self, mut bytes: &[u8]) -> DiskResult<()> {
        while !bytes.is_empty() {
            bytes = self.piece.fill(bytes, self.piece_bytes);
            if self.piece.filled == self.piece_bytes {
                self.write()?;
            }
        }
        Ok(())
    }

    fn write(&mut self) -> DiskResult<()> {
        if let Way::Unknown = self.way {
            let writer = self.disk.open_to_stream(&self.path).and_then(|file| Writer::new(file).ok());
            self.way = writer.map_or(Way::ThroughCache, Way::PastCache);
        }
        let mut next = self.wait()?;
        (next.offset, next.filled) = (self.piece.offset + self.piece.filled as u64, 0);
        let piece = std::mem::replace(&mut self.piece, next);
        match &mut self.way {
            Way::PastCache(writer) => {
                writer.begin(piece);
                Ok(())
            }
            _ => {
                self.write_through_cache(&piece)?;
                self.piece = Piece { offset: self.piece.offset, filled: 0, ..piece };
                Ok(())
            }
        }
    }

    /// Waits until the piece that is on its way is written, and returns it, or a new one.
    fn wait(&mut self) -> DiskResult<Piece> {
        let Way::PastCache(writer) = &mut self.way else { return Ok(Piece::default()) };
        let Some((piece, answer)) = writer.end() else { return Ok(Piece::default()) };
        match answer {
            // It went well with another piece, but does so no more, as after a short write.
            Err(error) if error.source.kind() == io::ErrorKind::InvalidInput => {
                self.way = Way::ThroughCache;
                self.write_through_cache(&piece)?;
            }
            answer => answer?,
        }
        Ok(piece)
    }

    fn write_through_cache(&self, piece: &Piece) -> DiskResult<()> {
        self.file.write_all_at(piece.bytes(), piece.offset)?;
        self.file.sync_data()
    }

    /// Writes what is left. The bytes are durable, as any others, after `sync_data`.
    pub fn finish(mut self) -> DiskResult<Arc<dyn DiskFile>> {
        self.wait()?;
        self.file.write_all_at(self.piece.bytes(), self.piece.offset)?;
        Ok(self.file)
    }
}

impl Piece {
    /// Takes as many bytes as there is room for, and returns the others.
    fn fill<'b>(&mut self, bytes: &'b [u8], piece_bytes: usize) -> &'b [u8] {
        if self.space.is_empty() {
            self.space = vec![0; piece_bytes + SCAN_ALIGN_BYTES];
            self.start = self.space.as_ptr().align_offset(SCAN_ALIGN_BYTES);
        }
        let (some, rest) = bytes.split_at(bytes.len().min(piece_bytes - self.filled));
        let place = self.start + self.filled;
        self.space[place..place + some.len()].copy_from_slice(some);
        self.filled += some.len();
        rest
    }

    fn bytes(&self) -> &[u8] {
        &self.space[self.start..self.start + self.filled]
    }
}

impl Writer {
    fn new(file: Arc<dyn DiskFile>) -> io::Result<Writer> {
        let (pieces, filled) = sync_channel::<Piece>(1);
        let (done, written) = sync_channel(1);
        let write = move || {
            for piece in filled {
                let answer = file.write_all_at(piece.bytes(), piece.offset);
                if done.send((piece, answer)).is_err() {
                    return;
                }
            }
        };
        let thread = Builder::new().name("tarn-log-copy".to_owned()).spawn(write)?;
        Ok(Writer { pieces: Some(pieces), written, is_writing: false, thread: Some(thread) })
    }

    /// REQUIRES: what was begun before has been ended.
    fn begin(&mut self, piece: Piece) {
        let pieces = self.pieces.as_ref().expect("it has not ended");
        pieces.send(piece).expect("the thread takes pieces until this is dropped");
        self.is_writing = true;
    }

    /// The piece that was begun, when it is written, and how that went.
    fn end(&mut self) -> Option<(Piece, DiskResult<()>)> {
        let is_writing = std::mem::take(&mut self.is_writing);
        is_writing.then(|| self.written.recv().expect("the thread answers for each piece"))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // The thread writes what it has, and ends.
        self.pieces = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::path::Path;

    use super::*;
    use crate::io::{DiskError, Fault, OsDisk, SimDisk, SimOptions, Tap, TappedFile};

    const PIECE_BYTES: usize = SCAN_ALIGN_BYTES;

    #[test]
    fn all_bytes_are_there_in_order_and_may_be_written_over() {
        // Where the build lies: a temporary directory may be in memory.
        let place = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let disk: Arc<dyn Disk> = Arc::new(OsDisk);
        for (number, length) in [0, 1, 4095, 4096, 4097, 20_000].into_iter().enumerate() {
            let contents: Vec<u8> = (0..length).map(|at: usize| (at / 3) as u8).collect();
            let path = place.path().join(number.to_string());
            let mut outgoing = Outgoing::new(&disk, disk.create(&path).unwrap(), PIECE_BYTES);
            contents.chunks(700).for_each(|some| outgoing.push(some).unwrap());
            let file = outgoing.finish().unwrap();
            file.write_all_at(&contents[..length.min(512)], 0).unwrap();
            file.sync_data().unwrap();
            assert!(std::fs::read(&path).unwrap() == contents, "{length} bytes");
        }
    }

    /// Takes this many pieces past the cache, and refuses the next.
    #[derive(Debug)]
    struct Picky {
        pieces: u64,
    }

    impl Tap for Picky {
        fn before_write(&self, path: &Path, offset: u64, _: usize) -> DiskResult<()> {
            if offset < self.pieces * PIECE_BYTES as u64 {
                return Ok(());
            }
            Err(DiskError::new("write", path, io::ErrorKind::InvalidInput.into()))
        }
    }

    #[test]
    fn where_there_is_no_way_past_the_cache_any_more_each_piece_is_synced() {
        let contents: Vec<u8> = (0..5 * PIECE_BYTES + 100).map(|at| (at / 7) as u8).collect();
        for pieces in 0..5 {
            let sim = SimDisk::new(1, SimOptions::default());
            let disk: Arc<dyn Disk> = Arc::new(sim.clone());
            let path = Path::new("/file");
            let mut outgoing = Outgoing::new(&disk, disk.create(path).unwrap(), PIECE_BYTES);
            // The simulated disk itself has no way past its cache.
            if pieces > 0 {
                let file = Arc::new(TappedFile::new(disk.open(path).unwrap(), Arc::new(Picky { pieces })));
                outgoing.way = Way::PastCache(Writer::new(file).unwrap());
            }
            contents.chunks(700).for_each(|some| outgoing.push(some).unwrap());
            outgoing.finish().unwrap().sync_data().unwrap();
            assert!(sim.contents(path).unwrap() == contents, "{pieces} pieces");
            // What a real disk had past its cache, the simulated one had in it.
            assert_eq!(sim.synced_bytes_max(), (pieces + 1) * PIECE_BYTES as u64, "{pieces} pieces");
        }
    }

    #[test]
    fn a_write_that_fails_is_told_by_the_end_at_the_latest() {
        let sim = SimDisk::new(1, SimOptions::default());
        let disk: Arc<dyn Disk> = Arc::new(sim.clone());
        for pieces in 1..4 {
            let path = Path::new("/").join(pieces.to_string());
            let mut outgoing = Outgoing::new(&disk, disk.create(&path).unwrap(), PIECE_BYTES);
            outgoing.way = Way::PastCache(Writer::new(disk.open(&path).unwrap()).unwrap());
            outgoing.push(&vec![1; (pieces - 1) * PIECE_BYTES]).unwrap();
            outgoing.wait().unwrap();
            let faults_per_mille = vec![(Fault::WriteError, 1000)];
            sim.set_options(SimOptions { faults_per_mille, ..SimOptions::default() });
            // The last piece is full, so that nothing is left for the end.
            let told = outgoing.push(&[1; PIECE_BYTES]).and_then(|()| outgoing.finish().map(drop));
            assert!(told.is_err(), "{pieces} pieces");
            sim.set_options(SimOptions::default());
        }
    }
}
