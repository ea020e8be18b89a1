//! The line every reply begins with: a type byte, a text, a carriage return and a line feed.

use memchr::memchr2;

use super::error::FrameError;
use crate::number::parse_i64;

/// Longest line accepted, in bytes: longer text is sent as a blob.
pub(super) const LINE_BYTES_MAX: usize = 1 << 20;

/// A whole line.
#[derive(Clone, Copy)]
pub(super) struct Line<'a> {
    /// The type byte.
    pub(super) kind: u8,
    /// The text between the type and the end.
    pub(super) text: &'a [u8],
    /// Bytes of the whole line.
    pub(super) len: usize,
}

/// The meaning of a line's text for the bytes that follow it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Length {
    /// This number of bytes or elements follows.
    Known(u64),
    /// Nothing: an absent value.
    Absent,
    /// Parts, until a last one.
    Streamed,
}

/// Finds lines, and remembers how much of an incomplete one has been searched.
#[derive(Debug, Default)]
pub(super) struct LineFinder {
    scanned: usize,
}

impl LineFinder {
    /// Begins again, for a caller that has found the end of an incomplete line by itself.
    #[inline]
    pub(super) fn forget(&mut self) {
        self.scanned = 0;
    }

    /// The line that `bytes` begins with; `None` if it is incomplete. Call again with the same bytes and more
    /// appended.
    #[inline]
    pub(super) fn find<'a>(&mut self, bytes: &'a [u8]) -> Result<Option<Line<'a>>, FrameError> {
        let unseen = bytes.get(self.scanned..).unwrap_or_default();
        let end = match memchr2(b'\r', b'\n', unseen) {
            Some(offset) => self.scanned + offset,
            None => bytes.len(),
        };
        self.scanned = end;
        if end > LINE_BYTES_MAX {
            return Err(FrameError::LineTooLong);
        }
        match bytes.get(end..) {
            None | Some([] | [b'\r']) => Ok(None),
            Some([b'\r', b'\n', ..]) if end > 0 => {
                self.scanned = 0;
                Ok(Some(Line { kind: bytes[0], text: &bytes[1..end], len: end + 2 }))
            }
            Some(_) => Err(FrameError::LineEnd),
        }
    }
}

impl Line<'_> {
    /// Reads the text as a length.
    pub(super) fn length(&self) -> Result<Length, FrameError> {
        match self.text {
            b"?" => Ok(Length::Streamed),
            b"-1" => Ok(Length::Absent),
            text => {
                let length = parse_i64(text).and_then(|length| u64::try_from(length).ok());
                Ok(Length::Known(length.ok_or(self.invalid())?))
            }
        }
    }

    /// The error that says that the text is not valid for the type.
    pub(super) fn invalid(&self) -> FrameError {
        FrameError::Text(self.kind)
    }
}
