//! Reads one directory: a thread checks what was read ahead, decompresses blocks, and finds the next intact
//! one after a damaged stretch.
//!
//! Decompressed blocks take as much memory ahead of the replay as read ones do, whatever was made of how few
//! bytes: if there is not enough, what was found goes on its way, and the thread waits until it is replayed.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_channel::{Receiver, Sender, unbounded};

use super::ahead::{Ahead, BUFFERS, StreamFile};
use crate::io::{Disk, DiskError};
use crate::log::block::{Block, BlockFault, BlockHeader};
use crate::log::chunk::{Allowance, Chunk};
use crate::log::condensed::{Ranges, Table, Told};
use crate::log::error::{Damage, OpenError};
use crate::log::format::{
    BLOCK_BEGIN, BLOCK_HEADER_BYTES, BLOCK_TRAILER_BYTES, FILE_HEADER_BYTES, FormatError,
};
use crate::log::packed::{Body, NOT_AS_PACKED, raw_length};
use crate::log::sizes::Sizes;

/// An item of a file, in order.
#[derive(Debug)]
pub(in crate::log) enum Found {
    /// A whole block.
    Block { file: usize, block: Block },
    /// Blocks of which a compaction has left nothing, as the block behind them tells.
    Voids { file: usize, tells: Tells },
    /// Bytes that are none.
    Fault(Fault),
    /// Bytes that the disk did not give.
    Unread(Unread),
}

/// The next of the voids that a table records. Those behind it are read from the table when they are come to:
/// few bytes of a file may record millions.
#[derive(Debug)]
pub(in crate::log) struct Tells {
    pub(in crate::log) next: Told,
    ranges: Ranges,
    /// The table behind the next one, and what follows it.
    rest: Chunk,
}

impl Tells {
    /// Goes on with the void behind the next one, if there is one; says whether.
    pub(in crate::log) fn advance(&mut self) -> bool {
        let mut rest = &self.rest[..];
        let next = self.ranges.take(&mut rest).expect("the table has been read before");
        self.rest.range.start = self.rest.range.end - rest.len();
        let Some(next) = next else { return false };
        self.next = next;
        true
    }
}

/// A place from which on a file could not be read, or not all of it.
#[derive(Debug)]
pub(in crate::log) struct Unread {
    pub(in crate::log) path: Arc<PathBuf>,
    pub(in crate::log) offset: u64,
    pub(in crate::log) error: OpenError,
}

impl Found {
    /// Where in its file it stands.
    fn offset(&self) -> u64 {
        match self {
            Found::Block { block, .. } => block.offset,
            Found::Fault(fault) => fault.offset,
            Found::Unread(unread) => unread.offset,
            // They are told by the block behind them.
            Found::Voids { .. } => 0,
        }
    }
}

/// A stretch of a file that holds no whole block, and not zeros alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::log) struct Fault {
    pub(in crate::log) path: Arc<PathBuf>,
    pub(in crate::log) offset: u64,
    /// Up to the last byte that is not zero.
    pub(in crate::log) bytes: u64,
    pub(in crate::log) what: &'static str,
}

impl Fault {
    pub(in crate::log) fn to_damage(&self) -> Damage {
        Damage::new(self.path.to_path_buf(), self.offset, self.what.to_string())
    }
}

/// The contents of a part of a directory's files; `None` after the last part. The sender says so, so that
/// its death is not taken for the end of the log.
pub(in crate::log) type Message = Result<Option<Vec<Found>>, OpenError>;

/// Starts to read a directory's files, in order.
pub(in crate::log) fn read_ahead(
    disk: Arc<dyn Disk>,
    files: Vec<StreamFile>,
    bytes_read: Arc<AtomicU64>,
    sizes: Sizes,
) -> Receiver<Message> {
    // Messages hold buffers or a part of an allowance, which bound them. A bounded channel would keep those
    // that nobody has received until the sender is gone, too; and the sender may wait for the memory in them.
    let (sender, receiver) = unbounded();
    let mut ahead = Ahead::start(disk, files.clone(), sizes);
    std::thread::Builder::new()
        .name("tarn-log-check".to_string())
        .spawn(move || {
            let mut allowance = Allowance::new(BUFFERS * sizes.piece_bytes);
            for file in &files {
                if !read_file(file, &mut ahead, &mut allowance, &bytes_read, &sender) {
                    return;
                }
            }
            let _ = sender.send(Ok(None));
        })
        .expect("the system has room for a thread at the start");
    receiver
}

/// Reads a file to its end; says whether anybody still listens.
fn read_file(
    file: &StreamFile,
    ahead: &mut Ahead,
    allowance: &mut Allowance,
    bytes_read: &AtomicU64,
    sender: &Sender<Message>,
) -> bool {
    let (found, unread) = (Vec::new(), VecDeque::new());
    let mut scan = Scan { file, offset: 0, fault: None, found, unread, allowance, sender, is_heard: true };
    match scan.file(ahead, bytes_read) {
        Ok(heard) => heard,
        Err(error) => {
            let _ = sender.send(Err(error));
            false
        }
    }
}

/// How far a file has been read.
struct Scan<'a> {
    file: &'a StreamFile,
    offset: u64,
    /// A stretch without blocks that goes on.
    fault: Option<Fault>,
    found: Vec<Found>,
    /// The ranges that could not be read, and have not been delivered.
    unread: VecDeque<(u64, DiskError)>,
    allowance: &'a mut Allowance,
    sender: &'a Sender<Message>,
    /// Whether somebody listens, as far as it is known.
    is_heard: bool,
}

impl Scan<'_> {
    /// Reads the file, and counts the bytes that were looked at; says whether anybody still listens.
    fn file(&mut self, ahead: &mut Ahead, bytes_read: &AtomicU64) -> Result<bool, OpenError> {
        let mut chunk = ahead.next_file()?;
        let mut at = FILE_HEADER_BYTES.min(chunk.len());
        loop {
            // Before the blocks of the chunk, some of which may be delivered before it has been looked at.
            self.unread.extend(ahead.take_unread());
            let wanted = self.chunk(&chunk, &mut at, ahead.file_ended())?;
            if !self.is_heard {
                return Ok(false);
            }
            if ahead.file_ended() && at == chunk.len() {
                self.end_fault();
                self.place_unread(u64::MAX);
                bytes_read.fetch_add(at as u64, Ordering::Relaxed);
                return Ok(self.deliver());
            }
            self.place_unread(self.offset + at as u64);
            bytes_read.fetch_add(at as u64, Ordering::Relaxed);
            if !self.deliver() {
                return Ok(false);
            }
            self.offset += at as u64;
            // Nothing of the chunk is held here but what has not been looked at: that waits for memory.
            let rest = chunk.part(at..chunk.len());
            drop(std::mem::take(&mut chunk));
            (chunk, at) = (ahead.more(rest, wanted)?, 0);
        }
    }

    /// Sends what was found; says whether anybody still listens.
    fn deliver(&mut self) -> bool {
        let found = std::mem::take(&mut self.found);
        if !found.is_empty() {
            self.is_heard = self.sender.send(Ok(Some(found))).is_ok();
        }
        self.is_heard
    }

    /// Takes from `chunk` all blocks that it holds whole, from `at` on. Moves `at` to what cannot be decided
    /// yet and says how many bytes that needs. At the end of the file all is decided, unless nobody listens.
    fn chunk(&mut self, chunk: &Chunk, at: &mut usize, file_ended: bool) -> Result<usize, OpenError> {
        while *at < chunk.len() && self.is_heard {
            let rest = chunk.len() - *at;
            if rest < BLOCK_HEADER_BYTES && !file_ended {
                break;
            }
            let Some(header) = BlockHeader::parse(&chunk[*at..], self.file.header.file_id) else {
                *at = self.skip(chunk, *at, file_ended);
                continue;
            };
            if header.length <= rest as u64 {
                *at += self.block(header, chunk, *at)?;
            } else if file_ended || header.length > self.file.bytes - self.offset - *at as u64 {
                let offset = self.offset + *at as u64;
                self.note(offset, BLOCK_HEADER_BYTES as u64, "the file ends within a block");
                *at += BLOCK_HEADER_BYTES;
            } else {
                return Ok(usize::try_from(header.length).expect("what fits the file fits the address space"));
            }
        }
        Ok(BLOCK_HEADER_BYTES)
    }

    /// Checks the block at `at` and says where to go on from there.
    fn block(&mut self, header: BlockHeader, chunk: &Chunk, at: usize) -> Result<usize, OpenError> {
        let length = header.length as usize;
        let offset = self.offset + at as u64;
        let file = self.file;
        let too_new = |reason: String| {
            let reason = format!("the block at byte {offset}{reason}");
            OpenError::TooNew { path: file.path.to_path_buf(), reason }
        };
        match header.check(&chunk[at..at + length]) {
            Ok(()) => {}
            Err(BlockFault::UnknownFlags) => {
                return Err(too_new(format!(" has flags {:#x}", header.flags)));
            }
            Err(BlockFault::BadBody) => {
                self.note(offset, BLOCK_HEADER_BYTES as u64, "a block's checksum does not fit its bytes");
                return Ok(BLOCK_HEADER_BYTES);
            }
        }
        if header.sequence > file.sequence_limit {
            self.end_fault();
            return Ok(length);
        }
        let body = chunk.part(at + BLOCK_HEADER_BYTES..at + length - BLOCK_TRAILER_BYTES);
        let Some(body) = self.decompressed(&header, body, offset) else {
            self.note(offset, BLOCK_HEADER_BYTES as u64, NOT_AS_PACKED);
            return Ok(BLOCK_HEADER_BYTES);
        };
        let saved = raw_length(body.len()).saturating_sub(header.length);
        let (table, tells, body) = table_of(&header, &body).map_err(|error| too_new(format!(": {error}")))?;
        self.end_fault();
        let Table { own, is_void, .. } = table;
        let (file, path) = (file.index, file.path.clone());
        self.found.extend(tells.map(|tells| Found::Voids { file, tells }));
        let block = Block { header, path, offset, body, own, is_void, saved, behind: 0 };
        self.found.push(Found::Block { file, block });
        Ok(length)
    }

    /// The body of the block at `offset` as it was before it was compressed, if it is; `None` if it is not
    /// what was compressed. Waits until there is memory for it.
    fn decompressed(&mut self, header: &BlockHeader, body: Chunk, offset: u64) -> Option<Chunk> {
        if !Body::is_of(header) {
            return Some(body);
        }
        let packed = Body::of(&body)?;
        // A block of an empty body takes memory, too.
        let bytes = packed.raw + size_of::<Found>();
        if !self.allowance.has(bytes) {
            // Memory comes back when this is replayed, or when the receiver is dropped, and all that it has
            // not received with it.
            self.end_fault();
            self.place_unread(offset);
            self.deliver();
        }
        let share = self.allowance.take(bytes);
        let mut made = Vec::new();
        packed.unpack(&mut made)?;
        Some(Chunk::made(made, share))
    }

    /// Skips from `at`, where no block begins, to where one may.
    fn skip(&mut self, chunk: &[u8], at: usize, file_ended: bool) -> usize {
        let mut mark = [0; 16];
        mark[..8].copy_from_slice(&BLOCK_BEGIN);
        mark[8..].copy_from_slice(&self.file.header.file_id.to_le_bytes());
        let to = match memchr::memmem::find(&chunk[at + 1..], &mark) {
            Some(distance) => at + 1 + distance,
            None if file_ended => chunk.len(),
            // The end of the chunk may cut a mark in two.
            None => (at + 1).max(chunk.len().saturating_sub(mark.len())),
        };
        if let Some(last) = chunk[at..to].iter().rposition(|byte| *byte != 0) {
            self.note(self.offset + at as u64, last as u64 + 1, "no block begins where one should");
        }
        to
    }

    /// Puts what could not be read before `end` where it stands among what was found.
    fn place_unread(&mut self, end: u64) {
        while let Some((offset, error)) = self.unread.pop_front_if(|(offset, _)| *offset < end) {
            // Voids stand with the block that tells them, which says where.
            let behind = self
                .found
                .iter()
                .rposition(|found| !matches!(found, Found::Voids { .. }) && found.offset() <= offset);
            let place = behind.map_or(0, |behind| behind + 1);
            let (path, error) = (self.file.path.clone(), OpenError::from(error));
            self.found.insert(place, Found::Unread(Unread { path, offset, error }));
        }
    }

    fn note(&mut self, offset: u64, bytes: u64, what: &'static str) {
        match &mut self.fault {
            Some(fault) => fault.bytes = offset + bytes - fault.offset,
            None => self.fault = Some(Fault { path: self.file.path.clone(), offset, bytes, what }),
        }
    }

    fn end_fault(&mut self) {
        self.found.extend(self.fault.take().map(Found::Fault));
    }
}

/// The table of a block, the first of the voids that it records, and the records behind it. All of the table
/// is looked at.
fn table_of(header: &BlockHeader, body: &Chunk) -> Result<(Table, Option<Tells>, Chunk), FormatError> {
    let mut rest = &body[..];
    let (table, mut ranges) = Table::begin(header, &mut rest)?;
    let first = ranges.take(&mut rest)?;
    let behind = |rest: &[u8]| body.part(body.len() - rest.len()..body.len());
    let tells = first.map(|next| Tells { next, ranges, rest: behind(rest) });
    while ranges.take(&mut rest)?.is_some() {}
    Ok((table, tells, behind(rest)))
}
