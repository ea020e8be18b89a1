//! Reads bytes through a buffer of bounded size, with their place and their checksum; and the elements of a
//! file: lengths and strings.
//!
//! ```text
//!   buffer  |#########|===========|...............|
//!           0      hashed      start             end
//!            in the checksum  read   not read yet
//! ```
//!
//! Invariant: hashed <= start <= end <= buffer length.

use crate::crc::Crc;
use crate::error::{Damage, ReadError};
use crate::format::STRING_BYTES_MAX;
use crate::lzf;
use std::io::{ErrorKind, Read};

/// The number of bytes that are read at once.
pub(crate) const BUFFER_BYTES: usize = 64 << 10;

/// Memory for a string that is kept for the next one.
const KEPT_BYTES: usize = 1 << 20;

/// A length, or the special encoding in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Length {
    /// A number.
    Number(u64),
    /// The form of a string, with the byte that says so.
    Form(u8),
}

/// A stream of bytes.
pub(crate) struct Source<R> {
    input: R,
    buffer: Box<[u8]>,
    hashed: usize,
    start: usize,
    end: usize,
    /// The place of the buffer's first byte in the stream.
    base: u64,
    crc: Crc,
    /// A compressed string, before it is decompressed.
    packed: Vec<u8>,
}

impl<R: Read> Source<R> {
    /// Reads at most `buffer_bytes`, at least 1, at once.
    pub(crate) fn new(input: R, buffer_bytes: usize) -> Source<R> {
        let buffer = vec![0; buffer_bytes.max(1)].into_boxed_slice();
        Source { input, buffer, hashed: 0, start: 0, end: 0, base: 0, crc: Crc::new(), packed: Vec::new() }
    }

    /// The number of bytes that were read.
    pub(crate) fn offset(&self) -> u64 {
        self.base + self.start as u64
    }

    /// The checksum of the bytes that were read.
    pub(crate) fn crc(&mut self) -> u64 {
        self.crc.update(&self.buffer[self.hashed..self.start]);
        self.hashed = self.start;
        self.crc.value()
    }

    /// True if nothing follows.
    pub(crate) fn is_at_end(&mut self) -> Result<bool, ReadError> {
        Ok(self.start == self.end && self.fill()? == 0)
    }

    /// Reads on into the empty buffer; how much there was, 0 at the end.
    fn fill(&mut self) -> Result<usize, ReadError> {
        debug_assert_eq!(self.start, self.end);
        self.crc.update(&self.buffer[self.hashed..self.start]);
        self.base += self.end as u64;
        (self.hashed, self.start, self.end) = (0, 0, 0);
        loop {
            match self.input.read(&mut self.buffer) {
                Ok(len) => {
                    self.end = len;
                    return Ok(len);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(source) => return Err(ReadError::Io { offset: self.offset(), source }),
            }
        }
    }

    /// The next bytes, at least 1 and at most `len_max`, of `part`.
    fn piece(&mut self, len_max: u64, part: &'static str) -> Result<&[u8], ReadError> {
        if self.start == self.end && self.fill()? == 0 {
            return Err(ReadError::Truncated { offset: self.offset(), part });
        }
        let len = (self.end - self.start).min(usize::try_from(len_max).unwrap_or(usize::MAX));
        self.start += len;
        Ok(&self.buffer[self.start - len..self.start])
    }

    /// The next byte, of `part`.
    pub(crate) fn byte(&mut self, part: &'static str) -> Result<u8, ReadError> {
        Ok(self.piece(1, part)?[0])
    }

    /// The next `N` bytes, of `part`.
    pub(crate) fn array<const N: usize>(&mut self, part: &'static str) -> Result<[u8; N], ReadError> {
        let (mut array, mut filled) = ([0; N], 0);
        while filled < N {
            let piece = self.piece((N - filled) as u64, part)?;
            array[filled..filled + piece.len()].copy_from_slice(piece);
            filled += piece.len();
        }
        Ok(array)
    }

    /// Passes over `len` bytes of `part`.
    pub(crate) fn skip(&mut self, mut len: u64, part: &'static str) -> Result<(), ReadError> {
        while len > 0 {
            len -= self.piece(len, part)?.len() as u64;
        }
        Ok(())
    }

    fn append(&mut self, mut len: u64, out: &mut Vec<u8>) -> Result<(), ReadError> {
        while len > 0 {
            let piece = self.piece(len, "a string")?;
            out.extend_from_slice(piece);
            len -= piece.len() as u64;
        }
        Ok(())
    }

    /// A length, or the special encoding in its place.
    pub(crate) fn length(&mut self) -> Result<Length, ReadError> {
        const PART: &str = "a length";
        let offset = self.offset();
        let first = self.byte(PART)?;
        Ok(Length::Number(match (first >> 6, first & 0x3f) {
            (0, low) => u64::from(low),
            (1, high) => u64::from(high) << 8 | u64::from(self.byte(PART)?),
            (2, 0) => u64::from(u32::from_be_bytes(self.array(PART)?)),
            (2, 1) => u64::from_be_bytes(self.array(PART)?),
            (2, _) => return Err(damaged(offset, Damage::Length(first))),
            _ => return Ok(Length::Form(first)),
        }))
    }

    /// A count, or another number in the form of a length.
    pub(crate) fn number(&mut self) -> Result<u64, ReadError> {
        let offset = self.offset();
        match self.length()? {
            Length::Number(number) => Ok(number),
            Length::Form(first) => Err(damaged(offset, Damage::NoNumber(first))),
        }
    }

    /// Replaces the content of `out` by the next string.
    pub(crate) fn string(&mut self, out: &mut Vec<u8>) -> Result<(), ReadError> {
        self.string_of(STRING_BYTES_MAX, out)
    }

    /// The same with another limit.
    pub(crate) fn string_of(&mut self, bytes_max: u64, out: &mut Vec<u8>) -> Result<(), ReadError> {
        out.clear();
        out.shrink_to(KEPT_BYTES);
        let offset = self.offset();
        let number = match self.length()? {
            Length::Number(len) if len > bytes_max => {
                return Err(damaged(offset, Damage::StringTooLong(len)));
            }
            Length::Number(len) => return self.append(len, out),
            Length::Form(0xc0) => i64::from(i8::from_le_bytes(self.array("a number")?)),
            Length::Form(0xc1) => i64::from(i16::from_le_bytes(self.array("a number")?)),
            Length::Form(0xc2) => i64::from(i32::from_le_bytes(self.array("a number")?)),
            Length::Form(0xc3) => return self.compressed_string(offset, bytes_max, out),
            Length::Form(first) => return Err(damaged(offset, Damage::StringForm(first))),
        };
        out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
        Ok(())
    }

    fn compressed_string(&mut self, offset: u64, bytes_max: u64, out: &mut Vec<u8>) -> Result<(), ReadError> {
        let (packed_len, len) = (self.number()?, self.number()?);
        if let Some(too_long) = [packed_len, len].into_iter().find(|len| *len > bytes_max) {
            return Err(damaged(offset, Damage::StringTooLong(too_long)));
        }
        // So few packed bytes cannot become that many: refused before unpacking.
        if len > packed_len * lzf::EXPANSION_MAX {
            return Err(damaged(offset, Damage::Compressed(len)));
        }
        let mut packed = std::mem::take(&mut self.packed);
        packed.clear();
        packed.shrink_to(KEPT_BYTES);
        self.append(packed_len, &mut packed)?;
        let made = usize::try_from(len).ok().and_then(|len| lzf::decompress(&packed, len, out));
        self.packed = packed;
        made.ok_or_else(|| damaged(offset, Damage::Compressed(len)))
    }

    /// Skips a string, however long, without reading it.
    pub(crate) fn skip_string(&mut self) -> Result<(), ReadError> {
        const PART: &str = "a string";
        let offset = self.offset();
        match self.length()? {
            Length::Number(len) => self.skip(len, PART),
            Length::Form(0xc0) => self.skip(1, PART),
            Length::Form(0xc1) => self.skip(2, PART),
            Length::Form(0xc2) => self.skip(4, PART),
            Length::Form(0xc3) => {
                let (packed_len, _) = (self.number()?, self.number()?);
                self.skip(packed_len, PART)
            }
            Length::Form(first) => Err(damaged(offset, Damage::StringForm(first))),
        }
    }
}

/// The error for damage at `offset`.
pub(crate) fn damaged(offset: u64, damage: Damage) -> ReadError {
    ReadError::Damaged { offset, damage }
}
