//! Reads the files of a directory ahead of their reader, into buffers that are reused.
//!
//! ```text
//!  buffer:  | room for what is carried over | a piece as the disk gave it: whole pages |
//!                          | not used yet  ||                         | not used yet   |
//!                          +----- copied before the next piece <------+
//! ```
//!
//! Pieces of a file end where they like, blocks too: the part of a block that a piece has at its end is
//! copied before the piece that follows, so a chunk always begins with what has not been looked at yet. There
//! are so many buffers and no more; a buffer comes back when the last block in it has been replayed, or
//! decompressed, and the reading waits for that. A block that fits no buffer gets memory of its own. All of
//! that together is as much as the buffers have, or one such block with the piece that it ends in, and the
//! reading waits for it, too.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};

use crate::io::{Disk, DiskError, DiskFile, DiskResult, SCAN_ALIGN_BYTES};

use crate::log::chunk::{Allowance, Buffer, Chunk};
use crate::log::file::FileHeader;
use crate::log::sizes::Sizes;

/// Buffers of a directory. Some are being read, some are looked at, the others are replayed.
pub(in crate::log) const BUFFERS: usize = 5;
/// After so many failures the rest of a file is not tried: each try at a device that is gone may take
/// seconds.
pub(in crate::log) const FAILURES_MAX: usize = 16;
/// Pieces that wait to be looked at, at most.
const PIECES_AHEAD: usize = 2;

// Pieces that nobody looks at stay in their channel as long as there is a sender, who may wait for a buffer.
const _: () = assert!(PIECES_AHEAD < BUFFERS, "a reading that was given up gets a buffer, and ends");

/// A file to read.
#[derive(Clone, Debug)]
pub(in crate::log) struct StreamFile {
    pub(in crate::log) path: Arc<PathBuf>,
    pub(in crate::log) file: Arc<dyn DiskFile>,
    pub(in crate::log) header: FileHeader,
    /// Which of its directory's files, from 0.
    pub(in crate::log) index: usize,
    pub(in crate::log) bytes: u64,
    /// Blocks above this are void: a later epoch began after it.
    pub(in crate::log) sequence_limit: u64,
}

/// The bytes of one read.
struct Piece {
    buffer: Buffer,
    range: Range<usize>,
    /// Whether the file ends with it.
    ends_file: bool,
    /// Where the disk gave nothing, in place of which there are zeros, and why.
    unread: Vec<(u64, DiskError)>,
}

/// The files of a directory, one after the other.
pub(in crate::log) struct Ahead {
    pieces: Receiver<DiskResult<Piece>>,
    /// Whether all pieces of the file that is being looked at have been taken.
    file_ended: bool,
    /// The ranges that could not be read, of the pieces that have been taken.
    unread: Vec<(u64, DiskError)>,
    /// For what fits no buffer.
    allowance: Allowance,
    /// Bytes of a piece at most.
    piece_bytes: usize,
}

impl Ahead {
    /// Starts to read.
    pub(in crate::log) fn start(disk: Arc<dyn Disk>, files: Vec<StreamFile>, sizes: Sizes) -> Ahead {
        let (sender, pieces) = bounded(PIECES_AHEAD);
        std::thread::Builder::new()
            .name("tarn-log-read".to_string())
            .spawn(move || {
                let mut buffers = Buffers::for_files(&files, &sizes);
                for file in &files {
                    match read_file(&*disk, file, &mut buffers, &sender) {
                        Ok(true) => {}
                        Ok(false) => return,
                        Err(error) => {
                            let _ = sender.send(Err(error));
                            return;
                        }
                    }
                }
            })
            .expect("the system has room for a thread at the start");
        let allowance = Allowance::new(BUFFERS * sizes.piece_bytes);
        let piece_bytes = sizes.piece_bytes;
        Ahead { pieces, file_ended: true, unread: Vec::new(), allowance, piece_bytes }
    }

    /// The front of the next file.
    pub(in crate::log) fn next_file(&mut self) -> DiskResult<Chunk> {
        debug_assert!(self.file_ended, "a file is read to its end");
        self.file_ended = false;
        self.more(Chunk::default(), 1)
    }

    /// Where the disk gave nothing of what has been given since this was called last: zeros stand there.
    pub(in crate::log) fn take_unread(&mut self) -> Vec<(u64, DiskError)> {
        std::mem::take(&mut self.unread)
    }

    /// Whether the chunk that was given last reaches to the end of the file.
    pub(in crate::log) fn file_ended(&self) -> bool {
        self.file_ended
    }

    /// Goes on behind `rest`: a chunk that begins with the same bytes and has at least `wanted`, or all that
    /// the file still has.
    ///
    /// REQUIRES: other parts of earlier chunks are dropped, some time, by threads that do not wait for this.
    pub(in crate::log) fn more(&mut self, rest: Chunk, wanted: usize) -> DiskResult<Chunk> {
        let Some(mut piece) = self.next_piece()? else { return Ok(rest) };
        let have = rest.len() + piece.range.len();
        if rest.len() <= piece.range.start && (have >= wanted || self.file_ended) {
            let range = piece.range.start - rest.len()..piece.range.end;
            piece.buffer.bytes[range.start..piece.range.start].copy_from_slice(&rest);
            return Ok(Chunk { buffer: Some(Arc::new(piece.buffer)), range });
        }
        // A block that is larger than a piece, or nearly. What is left of an earlier one may have a share.
        let mut bytes = rest.to_vec();
        drop(rest);
        // The last of several pieces may go on behind what is wanted.
        let is_last = have >= wanted || self.file_ended;
        let room = if is_last { have } else { wanted + self.piece_bytes };
        let share = self.allowance.take(room);
        bytes.reserve_exact(room - bytes.len());
        bytes.extend_from_slice(&piece.buffer.bytes[piece.range]);
        drop(piece.buffer);
        while bytes.len() < wanted
            && let Some(piece) = self.next_piece()?
        {
            bytes.extend_from_slice(&piece.buffer.bytes[piece.range.clone()]);
        }
        Ok(Chunk::made(bytes, share))
    }

    fn next_piece(&mut self) -> DiskResult<Option<Piece>> {
        if self.file_ended {
            return Ok(None);
        }
        let mut piece =
            self.pieces.recv().expect("the reading thread reads every file to its end, or says why not")?;
        self.file_ended = piece.ends_file;
        self.unread.append(&mut piece.unread);
        Ok(Some(piece))
    }
}

/// Reads a file, as long as it was when it was listed, from its first byte; says whether anybody still
/// listens.
fn read_file(
    disk: &dyn Disk,
    file: &StreamFile,
    buffers: &mut Buffers,
    sender: &Sender<DiskResult<Piece>>,
) -> DiskResult<bool> {
    let handle = disk.open_to_scan(&file.path)?;
    let (mut offset, mut failures) = (0, 0);
    loop {
        let mut buffer = buffers.take();
        let (carried, piece) = (buffers.carried_bytes, buffers.piece_bytes);
        let start = carried + buffer.bytes[carried..].as_ptr().align_offset(SCAN_ALIGN_BYTES);
        let space = &mut buffer.bytes[start..start + piece];
        let rest = usize::try_from(file.bytes - offset).unwrap_or(usize::MAX);
        let (mut count, mut unread, mut longest) = (0, Vec::new(), piece);
        while count < rest.min(piece) {
            let end = piece.min(count + longest);
            match handle.read_at(&mut space[count..end], offset + count as u64) {
                // The file has become shorter since it was listed.
                Ok(0) => break,
                Ok(more) => count += more,
                // Past the cache nothing is given of what was asked for if one sector of it is bad.
                Err(_) if end - count > buffers.unread_bytes => longest = buffers.unread_bytes,
                Err(error) => {
                    unread.push((offset + count as u64, error));
                    failures += 1;
                    let end = if failures < FAILURES_MAX { end } else { piece };
                    space[count..end].fill(0);
                    count = end;
                }
            }
        }
        // It may also have become longer.
        let count = count.min(rest);
        let ends_file = count < piece || count == rest;
        offset += count as u64;
        let ends_file = ends_file || failures >= FAILURES_MAX;
        if sender.send(Ok(Piece { buffer, range: start..start + count, ends_file, unread })).is_err() {
            return Ok(false);
        }
        if ends_file {
            return Ok(true);
        }
    }
}

/// The buffers that nobody uses.
struct Buffers {
    made: usize,
    /// Room for what is carried over.
    carried_bytes: usize,
    /// Room for a piece, a multiple of the alignment.
    piece_bytes: usize,
    /// The bytes read at a time after an error, to the end of the piece; they are passed over if that fails
    /// too.
    unread_bytes: usize,
    home: Sender<Vec<u8>>,
    free: Receiver<Vec<u8>>,
}

impl Buffers {
    /// Buffers as large as these files need them.
    fn for_files(files: &[StreamFile], sizes: &Sizes) -> Buffers {
        let longest = files.iter().map(|file| file.bytes).max().unwrap_or_default();
        let longest = longest.next_multiple_of(SCAN_ALIGN_BYTES as u64);
        let piece_bytes =
            usize::try_from(longest).map_or(sizes.piece_bytes, |bytes| bytes.min(sizes.piece_bytes));
        // Nothing is carried over within a file that is one piece.
        let carried_bytes = if longest > sizes.piece_bytes as u64 { sizes.carried_bytes } else { 0 };
        let (home, free) = unbounded();
        Buffers { made: 0, carried_bytes, piece_bytes, unread_bytes: sizes.unread_bytes, home, free }
    }

    /// A buffer; waits for one if all are in use.
    fn take(&mut self) -> Buffer {
        let bytes = match self.free.try_recv() {
            Ok(bytes) => bytes,
            Err(_) if self.made < BUFFERS => {
                self.made += 1;
                vec![0; self.carried_bytes + self.piece_bytes + SCAN_ALIGN_BYTES]
            }
            Err(_) => self.free.recv().expect("the way home is open as long as this is"),
        };
        Buffer { bytes, home: Some(self.home.clone()), _share: None }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::path::Path;

    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;
    use crate::io::{SimDisk, SimOptions};
    use crate::log::file::{Era, FileHeader};
    use crate::record::Lsn;

    fn file(disk: &SimDisk, name: &str, contents: &[u8]) -> StreamFile {
        let file = disk.create(Path::new(name)).unwrap();
        file.write_all_at(contents, 0).unwrap();
        let path = Arc::new(Path::new(name).to_path_buf());
        let header = FileHeader {
            log_id: 1,
            stream: 0,
            number: 1,
            file_id: 1,
            epoch: 1,
            opened_after: 0,
            first: Lsn(1),
            era: Era::default(),
            compaction: None,
        };
        let bytes = contents.len() as u64;
        StreamFile { path, file, header, index: 0, bytes, sequence_limit: u64::MAX }
    }

    #[test]
    fn of_a_bad_sector_no_more_is_passed_over_than_a_small_read() {
        let sizes = Sizes { piece_bytes: 64 * SCAN_ALIGN_BYTES, ..Sizes::SMALL };
        let step = sizes.unread_bytes;
        let disk = SimDisk::new(1, SimOptions::default());
        let contents: Vec<u8> = (0..150 * step).map(|at| (at / 100 % 250 + 1) as u8).collect();
        let file = file(&disk, "a", &contents);
        // One at the end of a piece, two in the next one.
        let bad = [60, 70, 100].map(|at| at * step);
        let sector = |at: &usize| (Path::new("a").to_path_buf(), *at as u64 + 512..*at as u64 + 1024);
        disk.set_options(SimOptions { bad_bytes: bad.iter().map(sector).collect(), ..SimOptions::default() });
        let mut ahead = Ahead::start(Arc::new(disk), vec![file], sizes);
        let (mut offset, mut unread) = (0, Vec::new());
        let mut chunk = ahead.next_file().unwrap();
        loop {
            for (at, byte) in (offset..).zip(chunk.iter()) {
                let expected = if bad.contains(&(at - at % step)) { 0 } else { contents[at] };
                assert_eq!(*byte, expected, "at {at}");
            }
            offset += chunk.len();
            unread.extend(ahead.take_unread().into_iter().map(|(at, _)| at as usize));
            if ahead.file_ended() {
                break;
            }
            chunk = ahead.more(chunk.part(chunk.len()..chunk.len()), 1).unwrap();
        }
        assert_eq!((offset, &unread[..]), (contents.len(), &bad[..]));
    }

    #[test]
    fn chunks_of_any_length_give_back_the_files() {
        for seed in 0..300 {
            let mut rng = StdRng::seed_from_u64(seed);
            let disk = SimDisk::new(seed, SimOptions::default());
            let contents: Vec<Vec<u8>> = (0..3)
                .map(|_| {
                    let length = rng.random_range(0..10 * Sizes::SMALL.piece_bytes);
                    (0..length).map(|_| rng.random()).collect()
                })
                .collect();
            let names = ["a", "b", "c"];
            let files = names.iter().zip(&contents).map(|(name, bytes)| file(&disk, name, bytes)).collect();
            let mut ahead = Ahead::start(Arc::new(disk), files, Sizes::SMALL);
            for contents in &contents {
                let mut chunk = ahead.next_file().unwrap();
                let (mut offset, mut kept) = (0, Vec::new());
                loop {
                    let at = if ahead.file_ended() { chunk.len() } else { rng.random_range(0..=chunk.len()) };
                    assert!(chunk[..at] == contents[offset..offset + at], "seed {seed}, offset {offset}");
                    kept.push((offset, chunk.part(0..at)));
                    offset += at;
                    if ahead.file_ended() {
                        break;
                    }
                    let rest = chunk.part(at..chunk.len());
                    drop(std::mem::take(&mut chunk));
                    let wanted = rest.len() + rng.random_range(1..2 * Sizes::SMALL.piece_bytes);
                    // Memory of its own is waited for, and never written over.
                    let is_pooled = |buffer: &Buffer| buffer.home.is_some();
                    kept.retain(|(_, part): &(usize, Chunk)| part.buffer.as_deref().is_some_and(is_pooled));
                    chunk = ahead.more(rest, wanted).unwrap();
                    assert!(chunk.len() >= wanted || ahead.file_ended(), "seed {seed}, offset {offset}");
                    let buffer = chunk.buffer.as_deref().expect("it has bytes");
                    if let Some(share) = &buffer._share {
                        assert!(buffer.bytes.capacity() <= share.bytes, "seed {seed}, offset {offset}");
                    }
                    // A few are kept longer, as blocks on their way are.
                    kept.drain(..kept.len().saturating_sub(2));
                    let same =
                        |(offset, part): &(usize, Chunk)| part[..] == contents[*offset..offset + part.len()];
                    assert!(kept.iter().all(same), "seed {seed}: what is held is not written over");
                }
                assert_eq!(offset, contents.len(), "seed {seed}");
            }
        }
    }
}
