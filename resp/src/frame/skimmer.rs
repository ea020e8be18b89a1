//! Counts replies without keeping them: for load generators, which read millions a second and need only the
//! number of errors.
//!
//! No tree is built and no depth is limited, because elements that are still to come add up in one number.
//! Blobs are passed over as they arrive, so the buffer never has to hold more than one incomplete line.
//! Blobs' line ends are not checked.

use super::error::FrameError;
use super::line::{Length, Line, LineFinder};
use crate::number::short_count;

/// The limit of nested streamed aggregates: no server sends them, so they do not get unlimited memory.
const STREAM_DEPTH_MAX: usize = 32;

/// The kind of a reply, by its first line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyKind {
    /// Any other reply.
    Value,
    /// An absent value.
    Null,
    /// An error.
    Error,
    /// Not a reply to anything: a message pushed by the server.
    Push,
}

/// The content of a buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skimmed {
    /// Bytes that are done with.
    pub consumed: usize,
    /// Whole replies, errors among them, pushes not.
    pub replies: u64,
    /// Replies that were errors.
    pub errors: u64,
    /// Replies that were absent values.
    pub nulls: u64,
}

/// Passes over the replies of one connection.
#[derive(Debug, Default)]
pub struct ReplySkimmer {
    lines: LineFinder,
    /// The kind of the present reply, once its first line after any attributes has been read.
    kind: Option<ReplyKind>,
    /// Bytes of a blob that are still to come, its line end included.
    blob_bytes_left: u64,
    /// Frames that the present reply still misses, itself included; `u64::MAX` inside a stream, until that
    /// ends.
    missing: u64,
    /// For each aggregate around the present streamed one, the number of elements still missing.
    around: Vec<u64>,
}

impl ReplySkimmer {
    /// A skimmer at the beginning of a connection.
    pub fn new() -> Self {
        Self::default()
    }

    /// Passes over all that `buf` holds. The bytes that were not consumed must come first in the next buffer.
    ///
    /// # Errors
    ///
    /// A [`FrameError`]: the connection must be closed.
    pub fn skim(&mut self, buf: &[u8]) -> Result<Skimmed, FrameError> {
        let mut skimmed = Skimmed::default();
        while let Some(kind) = self.next_reply(buf, &mut skimmed.consumed)? {
            skimmed.replies += u64::from(kind != ReplyKind::Push);
            skimmed.errors += u64::from(kind == ReplyKind::Error);
            skimmed.nulls += u64::from(kind == ReplyKind::Null);
        }
        Ok(skimmed)
    }

    /// Skips one reply, from `buf[*pos]` on. Moves `pos` past the bytes that are done with, which may be part
    /// of a reply that is not complete yet (`None`).
    ///
    /// # Errors
    ///
    /// A [`FrameError`]: the connection must be closed.
    #[inline]
    pub fn next_reply(&mut self, buf: &[u8], pos: &mut usize) -> Result<Option<ReplyKind>, FrameError> {
        if self.missing == 0 && self.blob_bytes_left == 0 {
            match buf.get(*pos..).unwrap_or_default() {
                [b'+', b'O', b'K', b'\r', b'\n', ..] => {
                    self.lines.forget();
                    *pos += 5;
                    return Ok(Some(ReplyKind::Value));
                }
                rest @ [b'$', ..] => {
                    if let Some((len, start)) = short_count(rest, 1)
                        && rest.len() >= start + usize::from(len) + 2
                    {
                        self.lines.forget();
                        *pos += start + usize::from(len) + 2;
                        return Ok(Some(ReplyKind::Value));
                    }
                }
                _ => {}
            }
        }
        self.next_line_by_line(buf, pos)
    }

    /// The same for every reply there is.
    fn next_line_by_line(&mut self, buf: &[u8], pos: &mut usize) -> Result<Option<ReplyKind>, FrameError> {
        loop {
            let rest = buf.get(*pos..).unwrap_or_default();
            if self.blob_bytes_left > 0 {
                let passed = self.blob_bytes_left.min(rest.len() as u64);
                *pos += passed as usize;
                self.blob_bytes_left -= passed;
                if self.blob_bytes_left > 0 {
                    return Ok(None);
                }
            } else {
                let Some(line) = self.lines.find(rest)? else {
                    return Ok(None);
                };
                *pos += line.len;
                self.missing = self.missing.max(1);
                // Inside of attributes the reply that they are about is missing as well.
                if self.kind.is_none() && self.missing == 1 && line.kind != b'|' {
                    self.kind = Some(kind(&line));
                }
                self.pass(line)?;
            }
            if self.missing == 0 && self.blob_bytes_left == 0 {
                return Ok(self.kind.take());
            }
        }
    }

    /// Subtracts a line from the missing elements, and adds the elements that it announces.
    fn pass(&mut self, line: Line<'_>) -> Result<(), FrameError> {
        match line.kind {
            b'+' | b'-' | b':' | b',' | b'(' | b'#' | b'_' => self.miss(1, 0),
            b'$' | b'!' | b'=' | b';' => match line.length()? {
                Length::Absent => self.miss(1, 0),
                Length::Streamed => self.enter_stream(),
                Length::Known(0) if line.kind == b';' => self.leave_stream(line),
                Length::Known(_) if line.kind == b';' && self.around.is_empty() => {
                    Err(FrameError::Type(line.kind))
                }
                Length::Known(len) => {
                    self.blob_bytes_left = len.saturating_add(2);
                    self.miss(u64::from(line.kind != b';'), 0)
                }
            },
            b'*' | b'~' | b'>' | b'%' | b'|' => match line.length()? {
                Length::Absent => self.miss(1, 0),
                Length::Streamed => self.enter_stream(),
                Length::Known(len) => {
                    let each = if matches!(line.kind, b'%' | b'|') { 2 } else { 1 };
                    let elements = len.checked_mul(each).ok_or(FrameError::TooLong(len))?;
                    // Attributes are not the reply that they are about.
                    self.miss(u64::from(line.kind != b'|'), elements)
                }
            },
            b'.' => self.leave_stream(line),
            other => Err(FrameError::Type(other)),
        }
    }

    /// Counts frames read and frames announced. Inside a stream nothing is missing but its end.
    fn miss(&mut self, read: u64, announced: u64) -> Result<(), FrameError> {
        if self.missing != u64::MAX {
            let left = self.missing.saturating_sub(read).checked_add(announced);
            self.missing = left.filter(|&left| left < u64::MAX).ok_or(FrameError::TooLong(announced))?;
        }
        Ok(())
    }

    fn enter_stream(&mut self) -> Result<(), FrameError> {
        if self.around.len() == STREAM_DEPTH_MAX {
            return Err(FrameError::TooDeep(STREAM_DEPTH_MAX));
        }
        self.around.push(std::mem::replace(&mut self.missing, u64::MAX));
        Ok(())
    }

    fn leave_stream(&mut self, line: Line<'_>) -> Result<(), FrameError> {
        self.missing = self.around.pop().ok_or(FrameError::Type(line.kind))?;
        self.miss(1, 0)
    }
}

/// The kind of the reply that begins with this line.
fn kind(line: &Line<'_>) -> ReplyKind {
    match (line.kind, line.text) {
        (b'-' | b'!', _) => ReplyKind::Error,
        (b'_', _) | (b'$' | b'*', b"-1") => ReplyKind::Null,
        (b'>', _) => ReplyKind::Push,
        _ => ReplyKind::Value,
    }
}
