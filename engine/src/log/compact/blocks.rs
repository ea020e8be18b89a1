//! Iterates over the blocks of a closed file.

use crate::io::{DiskFile, DiskResult};
use crate::log::block::BlockHeader;
use crate::log::closed::ClosedFile;
use crate::log::error::{CompactionError, Damage};
use crate::log::format::{
    BLOCK_ALIGN_BYTES, BLOCK_BEGIN, BLOCK_HEADER_BYTES, BLOCK_TRAILER_BYTES, FILE_HEADER_BYTES, FormatError,
};
use crate::log::open::ahead::FAILURES_MAX;
use crate::log::packed::{Body, NOT_AS_PACKED};
use crate::log::sizes::Sizes;
use crate::log::write::pipeline::SECTOR_BYTES;
use crate::record::Lsn;

/// The blocks of a file that is written to no more, or of the part of one that is not.
pub(in crate::log) struct Blocks<'f> {
    file: &'f dyn DiskFile,
    closed: &'f ClosedFile,
    /// The bytes that were read and not looked at, and where they begin.
    buffer: Vec<u8>,
    at: usize,
    /// The body of the block that was given last, if it was compressed.
    unpacked: Vec<u8>,
    /// Where the next one begins, or what lies before it.
    pub(in crate::log) offset: u64,
    /// Zeros that were passed since the last block.
    zeros: u64,
    /// Records of the blocks that were given, and the last of those.
    records: u64,
    sequence: u64,
    /// Damage has been passed.
    is_damaged: bool,
    /// So has all up to the end of the file.
    is_passed: bool,
    /// Zeros stood before a block that was given.
    has_zeros: bool,
    /// How often the disk gave nothing.
    failures: usize,
    /// The bytes that are read at once.
    read_bytes: usize,
    /// The bytes that are passed over where the disk gives nothing.
    skipped_bytes: u64,
}

impl<'f> Blocks<'f> {
    pub(in crate::log) fn new(file: &'f dyn DiskFile, closed: &'f ClosedFile) -> Blocks<'f> {
        let offset = FILE_HEADER_BYTES as u64;
        let (zeros, records, sequence, is_damaged) = (0, 0, 0, false);
        let Sizes { read_bytes, skipped_bytes, .. } = Sizes::default();
        Blocks {
            file,
            closed,
            buffer: Vec::new(),
            at: 0,
            unpacked: Vec::new(),
            offset,
            zeros,
            records,
            sequence,
            is_damaged,
            is_passed: false,
            has_zeros: false,
            failures: 0,
            read_bytes,
            skipped_bytes: skipped_bytes as u64,
        }
    }

    /// Reads so much at a time.
    pub(in crate::log) fn sized(self, sizes: &Sizes) -> Blocks<'f> {
        Blocks { read_bytes: sizes.read_bytes, skipped_bytes: sizes.skipped_bytes as u64, ..self }
    }

    /// The next block that counts: its header and its body, decompressed.
    pub(in crate::log) fn next(&mut self) -> Result<Option<(BlockHeader, &[u8])>, CompactionError> {
        loop {
            if !self.fill(BLOCK_HEADER_BYTES)? {
                return self.end();
            }
            if let Some(header) = BlockHeader::parse(&self.buffer[self.at..], self.closed.header.file_id) {
                if header.sequence > self.closed.sequence_limit {
                    return Ok(None);
                }
                if self.zeros >= SECTOR_BYTES as u64 || self.zeros > 0 && !self.is_at_sector() {
                    return Err(self.damaged("there are zeros where a block was"));
                }
                let length = usize::try_from(header.length).unwrap_or(usize::MAX);
                if !self.fill(length)? {
                    return Err(self.damaged("the file ends within a block"));
                }
                let block = self.at..self.at + length;
                if header.check(&self.buffer[block.clone()]).is_err() {
                    return Err(self.damaged("a block's checksum does not fit its bytes"));
                }
                let body = block.start + BLOCK_HEADER_BYTES..block.end - BLOCK_TRAILER_BYTES;
                let is_packed = Body::is_of(&header);
                if is_packed {
                    let packed = Body::of(&self.buffer[body.clone()]);
                    if packed.and_then(|packed| packed.unpack(&mut self.unpacked)).is_none() {
                        return Err(self.damaged(NOT_AS_PACKED));
                    }
                }
                // Whole, but not where it belongs: a device has put it there.
                if header.sequence <= self.sequence {
                    return Err(self.damaged("a block stands there once more, or too late"));
                }
                self.has_zeros |= self.zeros > 0;
                self.at = block.end;
                self.offset += header.length;
                (self.zeros, self.records) = (0, self.records + u64::from(header.count));
                self.sequence = header.sequence;
                let body = if is_packed { &self.unpacked[..] } else { &self.buffer[body] };
                return Ok(Some((header, body)));
            }
            // Nothing but zeros may lie between blocks, up to the next sector: a new epoch may begin there.
            if self.buffer[self.at..self.at + BLOCK_ALIGN_BYTES].iter().any(|byte| *byte != 0) {
                return Err(self.damaged("no block begins where one should"));
            }
            self.at += BLOCK_ALIGN_BYTES;
            self.offset += BLOCK_ALIGN_BYTES as u64;
            self.zeros += BLOCK_ALIGN_BYTES as u64;
        }
    }

    /// Whether the file ends here, with nothing but zeros.
    fn end(&mut self) -> Result<Option<(BlockHeader, &[u8])>, CompactionError> {
        if self.buffer[self.at..].iter().any(|byte| *byte != 0) {
            return Err(self.damaged("no block begins where one should"));
        }
        Ok(None)
    }

    fn is_at_sector(&self) -> bool {
        self.offset.is_multiple_of(SECTOR_BYTES as u64)
    }

    /// Whether there were as many records as the file has, and its last block; to be asked at its end. Behind
    /// damage nobody knows how many there should have been, so no zeros may have been between blocks.
    pub(in crate::log) fn assert_complete(&self) -> Result<(), CompactionError> {
        let contents = &self.closed.contents;
        let is_whole = (self.records, self.sequence) == (contents.records, contents.last_sequence);
        let ends_well = !self.has_zeros && self.sequence == contents.last_sequence;
        let is_damage_all = self.is_damaged && (ends_well || self.is_passed);
        if is_whole || is_damage_all || self.closed.sequence_limit != u64::MAX {
            return Ok(());
        }
        Err(self.damaged("there are zeros where a block was"))
    }

    /// Has so many bytes in the buffer; `false` if the file has fewer.
    fn fill(&mut self, wanted: usize) -> DiskResult<bool> {
        if self.buffer.len() - self.at >= wanted {
            return Ok(true);
        }
        let rest = self.closed.bytes.saturating_sub(self.offset);
        if (wanted as u64) > rest {
            return self.read(usize::try_from(rest).unwrap_or(usize::MAX)).map(|()| false);
        }
        let outcome = self.read((wanted.max(self.read_bytes) as u64).min(rest) as usize);
        let is_there = self.buffer.len() - self.at >= wanted;
        // What was read is good, whatever lies behind it.
        if is_there { Ok(true) } else { outcome.map(|()| false) }
    }

    /// Has the next `length` bytes in the buffer, fewer if the file ends before, or if the disk does not give
    /// what lies behind them.
    fn read(&mut self, length: usize) -> DiskResult<()> {
        self.buffer.drain(..self.at);
        self.at = 0;
        let have = self.buffer.len();
        self.buffer.resize(length.max(have), 0);
        let mut end = have;
        let mut outcome = Ok(());
        while end < self.buffer.len() {
            match self.file.read_at(&mut self.buffer[end..], self.offset + end as u64) {
                Ok(0) => break,
                Ok(more) => end += more,
                Err(error) => {
                    outcome = Err(error);
                    break;
                }
            }
        }
        self.buffer.truncate(end);
        // One that gave something is followed by one that gives nothing.
        self.failures += usize::from(outcome.is_err() && end == have);
        outcome
    }

    /// Goes on behind damage that [`Blocks::next`] has come to, if no record up to `covered` is needed, and
    /// none of those that were there is behind it; else gives back the error. Says up to which record they
    /// may have gone; those of the file do up to `ends`.
    pub(in crate::log) fn pass(
        &mut self,
        error: CompactionError,
        covered: Lsn,
        ends: Lsn,
    ) -> Result<(Damage, Lsn), CompactionError> {
        let (damage, up_to) = match error {
            error @ (CompactionError::Damaged(_) | CompactionError::Disk(_)) => self.pass_any(error, ends),
            error => return Err(error),
        };
        if up_to > covered || covered == Lsn::ZERO {
            return Err(CompactionError::Uncovered { damage, up_to });
        }
        Ok((damage, up_to))
    }

    /// Goes on behind damage that [`Blocks::next`] has come to. Says up to which record those that were there
    /// may have gone.
    pub(in crate::log) fn pass_any(&mut self, error: CompactionError, ends: Lsn) -> (Damage, Lsn) {
        let damage = match error {
            CompactionError::Damaged(damage) => damage,
            error => Damage::new(self.closed.path.to_path_buf(), self.offset, error.to_string()),
        };
        let zeros = std::mem::take(&mut self.zeros) > 0;
        self.is_damaged = true;
        let next = if zeros { self.first_here() } else { self.find_next() };
        let up_to = match next {
            Some(first) => Lsn(first.0 - 1),
            None => {
                self.is_passed = true;
                ends
            }
        };
        (damage, up_to)
    }

    /// The first record of the block that begins here, or of the next one.
    fn first_here(&mut self) -> Option<Lsn> {
        match BlockHeader::parse(self.buffer.get(self.at..)?, self.closed.header.file_id) {
            Some(header) => Some(header.first),
            None => self.find_next(),
        }
    }

    /// Looks for the next whole block behind where this one should have begun; the first record of it, or
    /// `None`, and the end of the file is reached.
    fn find_next(&mut self) -> Option<Lsn> {
        let mut mark = [0; 16];
        mark[..8].copy_from_slice(&BLOCK_BEGIN);
        mark[8..].copy_from_slice(&self.closed.header.file_id.to_le_bytes());
        // At most so much is in memory, but for a block that is larger.
        let mut from = self.offset + 1;
        // After too many failures the rest of the file is not tried.
        while from < self.closed.bytes && self.failures < FAILURES_MAX {
            (self.offset, self.at) = (from, 0);
            self.buffer.clear();
            let wanted =
                (self.closed.bytes - from).min(self.read_bytes.max(2 * BLOCK_HEADER_BYTES) as u64) as usize;
            let is_read = self.read(wanted).is_ok();
            let Some(at) = memchr::memmem::find(&self.buffer, &mark) else {
                from += match self.buffer.len() as u64 {
                    // The end of what was read may cut a mark in two.
                    _ if is_read => wanted.saturating_sub(mark.len() - 1).max(1) as u64,
                    0 => self.skipped_bytes,
                    // What the disk does not give begins here.
                    length => length,
                };
                continue;
            };
            (self.offset, self.at) = (from + at as u64, at);
            from = self.offset + 1;
            let before = (self.records, self.sequence);
            if let Ok(Some((header, _))) = self.next() {
                let (length, first) = (header.length, header.first);
                // It is to be looked at once more.
                self.offset -= length;
                self.at -= length as usize;
                (self.records, self.sequence) = before;
                return Some(first);
            }
        }
        self.offset = self.closed.bytes;
        self.at = 0;
        self.buffer.clear();
        None
    }

    fn damaged(&self, what: &str) -> CompactionError {
        Damage::new(self.closed.path.to_path_buf(), self.offset, what.to_string()).into()
    }
}

pub(in crate::log) fn not_understood(file: &ClosedFile, error: &FormatError) -> CompactionError {
    Damage::new(file.path.to_path_buf(), 0, error.to_string()).into()
}
