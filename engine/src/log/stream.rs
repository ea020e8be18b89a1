//! Reading one directory: a thread that reads ahead, checks, and after a spoilt stretch finds the next whole
//! block.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_channel::{Receiver, Sender, bounded};

use super::block::{Block, BlockFault, BlockHeader};
use super::error::OpenError;
use super::file::FileHeader;
use super::format::{BLOCK_BEGIN, BLOCK_HEADER_BYTES, BLOCK_TRAILER_BYTES, FILE_HEADER_BYTES};
use crate::io::{DiskFile, DiskResult};

/// Bytes read in one go.
const CHUNK_BYTES: usize = 1 << 20;
/// Chunks that wait to be merged, at most.
const CHUNKS_AHEAD: usize = 8;
/// Chunks that are kept for use again.
const CHUNKS_KEPT: usize = 32;

/// A file to read.
#[derive(Clone, Debug)]
pub(super) struct StreamFile {
    pub(super) path: Arc<PathBuf>,
    pub(super) file: Arc<dyn DiskFile>,
    pub(super) header: FileHeader,
    /// Which of its directory's files, from 0.
    pub(super) index: usize,
    pub(super) bytes: u64,
    /// Blocks above this are void: a later epoch began after it.
    pub(super) sequence_limit: u64,
}

/// What stands in a file, in order.
#[derive(Debug)]
pub(super) enum Found {
    /// A whole block.
    Block { file: usize, block: Block },
    /// Bytes that are none.
    Fault(Fault),
}

/// A stretch of a file that holds no whole block, and not zeros alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) path: Arc<PathBuf>,
    pub(super) offset: u64,
    /// Up to the last byte that is not zero.
    pub(super) bytes: u64,
    pub(super) what: &'static str,
}

/// Starts to read a directory's files, in order.
pub(super) fn read_ahead(
    files: Vec<StreamFile>,
    bytes_read: Arc<AtomicU64>,
) -> Receiver<Result<Vec<Found>, OpenError>> {
    let (sender, receiver) = bounded(CHUNKS_AHEAD);
    std::thread::Builder::new()
        .name("tarn-log-read".to_string())
        .spawn(move || {
            let mut chunks = Chunks::default();
            for file in &files {
                if !read_file(file, &mut chunks, &bytes_read, &sender) {
                    return;
                }
            }
        })
        .expect("the system has room for a thread at the start");
    receiver
}

/// Reads a file to its end; says whether anybody still listens.
fn read_file(
    file: &StreamFile,
    chunks: &mut Chunks,
    bytes_read: &AtomicU64,
    sender: &Sender<Result<Vec<Found>, OpenError>>,
) -> bool {
    let mut scan = Scan { file, chunks, offset: FILE_HEADER_BYTES as u64, fault: None, found: Vec::new() };
    while scan.offset < file.bytes {
        let before = scan.offset;
        let outcome = scan.chunk();
        bytes_read.fetch_add(scan.offset - before, Ordering::Relaxed);
        let found = std::mem::take(&mut scan.found);
        let message = outcome.map(|()| found);
        let failed = message.is_err();
        if sender.send(message).is_err() || failed {
            return false;
        }
    }
    scan.end_fault();
    bytes_read.fetch_add(FILE_HEADER_BYTES as u64, Ordering::Relaxed);
    scan.found.is_empty() || sender.send(Ok(scan.found)).is_ok()
}

/// How far a file has been read.
struct Scan<'a> {
    file: &'a StreamFile,
    chunks: &'a mut Chunks,
    offset: u64,
    /// A stretch without blocks that goes on.
    fault: Option<Fault>,
    found: Vec<Found>,
}

impl Scan<'_> {
    /// Reads a chunk and takes from it all blocks that it holds whole.
    fn chunk(&mut self) -> Result<(), OpenError> {
        let chunk = self.read(CHUNK_BYTES)?;
        let start = self.offset;
        let at_end = start + chunk.len() as u64 >= self.file.bytes;
        let mut at = 0;
        while at < chunk.len() {
            if chunk.len() - at < BLOCK_HEADER_BYTES && !at_end && at > 0 {
                break;
            }
            let Some(header) = BlockHeader::parse(&chunk[at..], self.file.header.file_id) else {
                at = self.skip(&chunk, at, at_end);
                continue;
            };
            if header.length <= (chunk.len() - at) as u64 {
                at += self.block(header, &chunk, at)?;
            } else if header.length > self.file.bytes - start - at as u64 {
                self.note(start + at as u64, BLOCK_HEADER_BYTES as u64, "the file ends within a block");
                at += BLOCK_HEADER_BYTES;
            } else if at == 0 {
                return self.large_block(header);
            } else {
                break;
            }
        }
        // Nothing comes if the file has become shorter since it was listed.
        self.offset = if chunk.is_empty() { self.file.bytes } else { start + at as u64 };
        Ok(())
    }

    /// Reads a block that is larger than a chunk.
    fn large_block(&mut self, header: BlockHeader) -> Result<(), OpenError> {
        let length =
            usize::try_from(header.length).expect("a block that fits the file fits the address space");
        let chunk = self.read(length)?;
        let start = self.offset;
        if chunk.len() < length {
            // The file became shorter while it was read.
            self.note(start, chunk.len() as u64, "the file ends within a block");
            self.offset = self.file.bytes;
            return Ok(());
        }
        self.offset += self.block(header, &chunk, 0)? as u64;
        Ok(())
    }

    /// Checks the block at `at` and says where to go on from there.
    fn block(&mut self, header: BlockHeader, chunk: &Arc<Vec<u8>>, at: usize) -> Result<usize, OpenError> {
        let length = header.length as usize;
        let offset = self.offset + at as u64;
        match header.check(&chunk[at..at + length]) {
            Ok(()) => {
                self.end_fault();
                if header.sequence <= self.file.sequence_limit {
                    let body = at + BLOCK_HEADER_BYTES..at + length - BLOCK_TRAILER_BYTES;
                    let path = self.file.path.clone();
                    let block = Block { header, path, offset, chunk: chunk.clone(), body };
                    self.found.push(Found::Block { file: self.file.index, block });
                }
                Ok(length)
            }
            Err(BlockFault::UnknownFlags) => Err(OpenError::TooNew {
                path: self.file.path.to_path_buf(),
                reason: format!("the block at byte {offset} has flags {:#x}", header.flags),
            }),
            Err(BlockFault::BadBody) => {
                self.note(offset, BLOCK_HEADER_BYTES as u64, "a block's checksum does not fit its bytes");
                Ok(BLOCK_HEADER_BYTES)
            }
        }
    }

    /// Skips from `at`, where no block begins, to where one may.
    fn skip(&mut self, chunk: &[u8], at: usize, at_end: bool) -> usize {
        let mut mark = [0; 16];
        mark[..8].copy_from_slice(&BLOCK_BEGIN);
        mark[8..].copy_from_slice(&self.file.header.file_id.to_le_bytes());
        let to = match memchr::memmem::find(&chunk[at + 1..], &mark) {
            Some(distance) => at + 1 + distance,
            None if at_end => chunk.len(),
            // The end of the chunk may cut a mark in two.
            None => (at + 1).max(chunk.len().saturating_sub(mark.len())),
        };
        if let Some(last) = chunk[at..to].iter().rposition(|byte| *byte != 0) {
            self.note(self.offset + at as u64, last as u64 + 1, "no block begins where one should");
        }
        to
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

    /// Reads so many bytes, or to the end of the file.
    fn read(&mut self, length: usize) -> DiskResult<Arc<Vec<u8>>> {
        let rest = usize::try_from(self.file.bytes - self.offset).unwrap_or(usize::MAX);
        let mut chunk = self.chunks.take();
        let bytes = Arc::get_mut(&mut chunk).expect("a chunk that is taken has one owner");
        bytes.resize(length.min(rest), 0);
        let count = self.file.file.read_full_at(bytes, self.offset)?;
        bytes.truncate(count);
        self.chunks.keep(&chunk);
        Ok(chunk)
    }
}

/// Memory for chunks, used again when the blocks in it are gone: fresh memory would cost as much as checking
/// what is read into it.
#[derive(Default)]
struct Chunks {
    kept: VecDeque<Arc<Vec<u8>>>,
}

impl Chunks {
    fn take(&mut self) -> Arc<Vec<u8>> {
        let free = self.kept.iter_mut().position(|chunk| Arc::get_mut(chunk).is_some());
        free.and_then(|index| self.kept.remove(index)).unwrap_or_default()
    }

    fn keep(&mut self, chunk: &Arc<Vec<u8>>) {
        if chunk.len() <= CHUNK_BYTES && self.kept.len() < CHUNKS_KEPT {
            self.kept.push_back(chunk.clone());
        }
    }
}
