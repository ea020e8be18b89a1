//! Reads a file of a checkpoint, block by block. Trusts nothing in it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::{CheckpointError, damaged};
use super::format::{
    BLOCK_HEADER_BYTES, BlockHeader, CONTINUES, FILE_HEADER_BYTES, FileHeader, FileKind, HeaderError, LAST,
    tag, u64_at,
};
use super::manifest::Checkpoint;
use crate::io::{Disk, DiskFile};
use crate::record::Lsn;
use crate::value::run::checked_run;

/// A block as it was read: see [`Block::check`].
pub(super) struct Block {
    pub(super) body: Vec<u8>,
    /// Where in the file the body begins.
    offset: u64,
    head: [u8; BLOCK_HEADER_BYTES],
    header: BlockHeader,
}

impl Block {
    /// Whether the checksum is right. Until then nothing of it is to be believed.
    pub(super) fn check(&self, path: &Path) -> Result<(), CheckpointError> {
        if self.header.fits(&self.head, &self.body) {
            return Ok(());
        }
        Err(damaged(path, self.offset - BLOCK_HEADER_BYTES as u64, "the checksum of this block is wrong"))
    }

    /// The database of its first records.
    pub(super) const fn db(&self) -> u8 {
        self.header.head.db
    }

    /// Whether the large value at its end goes on in the next block.
    pub(super) const fn continues(&self) -> bool {
        self.header.head.flags & CONTINUES != 0
    }

    const fn records(&self) -> u32 {
        self.header.head.records
    }
}

/// A file that is being read.
pub(super) struct FileReader {
    file: Arc<dyn DiskFile>,
    pub(super) header: FileHeader,
    at: u64,
    sequence: u32,
    /// Keys in all, once the last block has been read.
    keys: Option<u64>,
    /// Keys that the manifest says it holds, if the file is to be the checkpoint.
    keys_expected: Option<u64>,
}

impl FileReader {
    pub(super) fn open(disk: &dyn Disk, path: &Path) -> Result<FileReader, CheckpointError> {
        FileReader::of(disk.open(path)?, path)
    }

    /// Reads a file that is open.
    pub(super) fn of(file: Arc<dyn DiskFile>, path: &Path) -> Result<FileReader, CheckpointError> {
        let mut head = [0; FILE_HEADER_BYTES];
        let read = file.read_full_at(&mut head, 0)?;
        let header = FileHeader::decode(&head[..read]).map_err(|error| match error {
            HeaderError::Damaged(what) => damaged(path, 0, what),
            HeaderError::Version(version) => CheckpointError::TooNew {
                path: path.to_path_buf(),
                reason: format!("format version {version} is not known here"),
            },
        })?;
        let at = FILE_HEADER_BYTES as u64;
        Ok(FileReader { file, header, at, sequence: 0, keys: None, keys_expected: None })
    }

    /// Refuses a file that is not the one of `checkpoint`, its number of keys at the last block: only that
    /// file has what a start takes from the manifest.
    pub(super) fn of_checkpoint(mut self, checkpoint: &Checkpoint) -> Result<FileReader, CheckpointError> {
        let FileHeader { kind, cut, base, unix_ms, .. } = self.header;
        if kind != FileKind::Full || base != Lsn::ZERO {
            return Err(damaged(self.path(), 0, "this is a file of changes, and no checkpoint"));
        }
        if (cut, unix_ms) != (checkpoint.cut, checkpoint.unix_ms) {
            let what = format!(
                "MANIFEST is of another file: its cut is {} at Unix time {} ms, and that of this file \
                 {cut} at {unix_ms} ms",
                checkpoint.cut, checkpoint.unix_ms
            );
            return Err(damaged(self.path(), 0, what));
        }
        self.keys_expected = Some(checkpoint.keys);
        Ok(self)
    }

    /// Refuses a file that is not what changed from `base` to `cut`.
    pub(super) fn of_changes(self, base: Lsn, cut: Lsn) -> Result<FileReader, CheckpointError> {
        let header = &self.header;
        if (header.kind, header.base, header.cut) != (FileKind::Changes, base, cut) {
            return Err(damaged(self.path(), 0, "this is not the file of changes that was written"));
        }
        Ok(self)
    }

    pub(super) fn path(&self) -> &Path {
        self.file.path()
    }

    /// How far it has been read, and how long it is.
    pub(super) fn progress(&self) -> Result<(u64, u64), CheckpointError> {
        Ok((self.at, self.file.len()?))
    }

    /// Keys that the file says it holds. REQUIRES: there are no more blocks.
    pub(super) fn keys(&self) -> u64 {
        self.keys.expect("the last block has been read")
    }

    /// The next block, its body in `body`; `None` at the end of a whole file. A file without its end was not
    /// completed.
    pub(super) fn next_block(&mut self, mut body: Vec<u8>) -> Result<Option<Block>, CheckpointError> {
        if self.keys.is_some() {
            return Ok(None);
        }
        let at = self.at;
        let fail = |what: &str| Err(damaged(self.file.path(), at, what));
        let mut head = [0; BLOCK_HEADER_BYTES];
        if self.file.read_full_at(&mut head, at)? < BLOCK_HEADER_BYTES {
            return fail("the file ends here without its last block");
        }
        let Some(header) = BlockHeader::decode(&head) else { return fail("no block begins here") };
        let offset = at + BLOCK_HEADER_BYTES as u64;
        // Before the room for it is taken: there may be nothing behind a length.
        if header.body_bytes > self.file.len()?.saturating_sub(offset) {
            return fail("the file ends within this block");
        }
        // What was in it is overwritten, not cleared.
        body.resize(header.body_bytes as usize, 0);
        if self.file.read_full_at(&mut body, offset)? < body.len() {
            return fail("the file ends within this block");
        }
        if header.head.sequence != self.sequence {
            return fail("this is not the block that follows");
        }
        self.at = offset + header.body_bytes;
        self.sequence += 1;
        let block = Block { body, offset, head, header };
        if header.head.flags & LAST == 0 {
            return Ok(Some(block));
        }
        block.check(self.file.path())?;
        if block.body.len() != 8 || self.at != self.file.len()? {
            return fail("the last block is not the end of the file");
        }
        let keys = u64_at(&block.body, 0);
        if let Some(expected) = self.keys_expected.filter(|expected| *expected != keys) {
            let what = format!("MANIFEST is of another file: it says {expected} keys, and this file {keys}");
            return Err(damaged(self.file.path(), at, what));
        }
        self.keys = Some(keys);
        Ok(None)
    }
}

/// One record of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Record<'a> {
    Range { db: u8, whole: bool, from: u64, end: u64 },
    Entry(&'a [u8]),
    Nodes(&'a [u8]),
    Leaf(&'a [u8]),
    Times(&'a [u8]),
    End,
}

impl Record<'_> {
    /// The record at `at` of a body, and where it ends.
    fn read(body: &[u8], at: usize) -> Option<(Record<'_>, usize)> {
        let (tag, at) = (*body.get(at)?, at + 1);
        Some(match tag {
            tag::RANGE => {
                let bytes = body.get(at..at + 18)?;
                let whole = match bytes[1] {
                    0 => false,
                    1 => true,
                    _ => return None,
                };
                let (from, end) = (u64_at(bytes, 2), u64_at(bytes, 10));
                (Record::Range { db: bytes[0], whole, from, end }, at + 18)
            }
            tag::END => (Record::End, at),
            _ => {
                let (piece, end) = checked_run(body, at)?;
                let record = match tag {
                    tag::ENTRY => Record::Entry(piece),
                    tag::NODES => Record::Nodes(piece),
                    tag::LEAF => Record::Leaf(piece),
                    tag::TIMES => Record::Times(piece),
                    _ => return None,
                };
                (record, end)
            }
        })
    }
}

/// The records of blocks that belong together.
pub(super) struct Records<'b> {
    path: PathBuf,
    blocks: &'b [Block],
    at: usize,
    left: u32,
}

impl<'b> Records<'b> {
    pub(super) fn of(path: &Path, blocks: &'b [Block]) -> Records<'b> {
        let left = blocks.first().map_or(0, Block::records);
        Records { path: path.to_path_buf(), blocks, at: 0, left }
    }

    /// The error that the record before is what it cannot be.
    pub(super) fn damaged(&self, what: &str) -> CheckpointError {
        let offset = self.blocks.first().map_or(0, |block| block.offset + self.at as u64);
        damaged(&self.path, offset, what)
    }

    fn fail(&mut self, what: &str) -> Option<Result<Record<'b>, CheckpointError>> {
        let error = self.damaged(what);
        (self.blocks, self.left) = (&[], 0);
        Some(Err(error))
    }
}

impl<'b> Iterator for Records<'b> {
    type Item = Result<Record<'b>, CheckpointError>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.left == 0 {
            let (first, rest) = self.blocks.split_first()?;
            if self.at != first.body.len() {
                return self.fail("a block holds more than its records");
            }
            self.blocks = rest;
            self.at = 0;
            self.left = rest.first().map_or(0, Block::records);
        }
        self.left -= 1;
        match self.blocks.first().and_then(|block| Record::read(&block.body, self.at)) {
            Some((record, end)) => {
                self.at = end;
                Some(Ok(record))
            }
            None => self.fail("no record begins here"),
        }
    }
}

/// All records of a file, one after the other.
pub(super) struct Stream<'r> {
    reader: &'r mut FileReader,
    block: Option<Block>,
    at: usize,
}

impl<'r> Stream<'r> {
    pub(super) fn of(reader: &'r mut FileReader) -> Stream<'r> {
        Stream { reader, block: None, at: 0 }
    }

    /// The next record; `None` at the end of the file.
    pub(super) fn next(&mut self) -> Result<Option<Record<'_>>, CheckpointError> {
        while self.block.as_ref().is_none_or(|block| self.at == block.body.len()) {
            let body = self.block.take().map(|block| block.body).unwrap_or_default();
            let Some(block) = self.reader.next_block(body)? else { return Ok(None) };
            block.check(self.reader.path())?;
            self.block = Some(block);
            self.at = 0;
        }
        let block = self.block.as_ref().expect("there is one, or the end was reached");
        let Some((record, end)) = Record::read(&block.body, self.at) else {
            return Err(damaged(self.reader.path(), block.offset + self.at as u64, "no record begins here"));
        };
        self.at = end;
        Ok(Some(record))
    }
}
