//! The streaming reply decoder.
//!
//! ```text
//! *2\r\n %1\r\n $1\r\na\r\n :5\r\n  +…        open: [ array, 1 missing, holds the map ]
//!                                ^ pos
//! ```
//!
//! Every finished line and blob is taken out of the buffer at once and kept in `open`, the aggregates that
//! are still being read, outermost first. So nothing is read twice, and the buffer needs to hold no more than
//! one blob. Invariants between two calls: every aggregate in `open` misses an element, and `open.len() <=
//! depth_max`.

use super::error::FrameError;
use super::line::{Length, Line, LineFinder};
use super::types::Frame;

/// Elements for which room is made before any of them has arrived.
const RESERVED_MAX: u64 = 64;

/// Limits on the memory that a server may make a client keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameLimits {
    /// Aggregates within aggregates (32). Frames are shown and dropped by recursion: a thousand is safe, a
    /// million is not.
    pub depth_max: usize,
    /// Elements of one aggregate, a map's keys and values counted alike (2^32 - 1).
    pub elements_max: u64,
    /// Bytes of one string (512 MiB).
    pub bulk_bytes_max: u64,
}

impl Default for FrameLimits {
    fn default() -> Self {
        Self { depth_max: 32, elements_max: u64::from(u32::MAX), bulk_bytes_max: 512 << 20 }
    }
}

/// Decodes the replies of one connection.
#[derive(Debug, Default)]
pub struct FrameDecoder {
    limits: FrameLimits,
    lines: LineFinder,
    /// A blob whose line has been read: its type and its length in bytes.
    blob: Option<(u8, usize)>,
    open: Vec<Open>,
}

/// An aggregate that is being read.
#[derive(Debug)]
struct Open {
    kind: Kind,
    /// Elements to come; `None` until a streamed aggregate's end is read.
    missing: Option<u64>,
    elements: Vec<Frame>,
}

#[derive(Debug)]
enum Kind {
    Array,
    Map,
    Set,
    Push,
    /// Keys and values of attributes.
    Attributes,
    /// The reply that these attributes are about.
    AttributedReply(Vec<(Frame, Frame)>),
    /// A string that comes in parts.
    StreamedBulk(Vec<u8>),
}

impl FrameDecoder {
    /// A decoder at the beginning of a connection.
    pub fn new(limits: FrameLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Decodes the reply that continues at `buf[*pos]` and moves `pos` past the bytes that it has used.
    ///
    /// `None` means that more bytes are needed; the bytes before `pos` are never needed again, those from
    /// `pos` on must still be there at the next call.
    ///
    /// # Errors
    ///
    /// A [`FrameError`]: the connection must be closed.
    pub fn decode(&mut self, buf: &[u8], pos: &mut usize) -> Result<Option<Frame>, FrameError> {
        loop {
            let rest = buf.get(*pos..).unwrap_or_default();
            let finished = if let Some((kind, len)) = self.blob {
                let Some(body) = rest.get(..len + 2) else {
                    return Ok(None);
                };
                *pos += body.len();
                self.blob = None;
                self.end_of_blob(kind, body.strip_suffix(b"\r\n").ok_or(FrameError::LineEnd)?)?
            } else {
                // A wrong type is reported at once, not when its line ends.
                rest.first().map_or(Ok(()), |&kind| known(kind))?;
                let Some(line) = self.lines.find(rest)? else {
                    return Ok(None);
                };
                *pos += line.len;
                self.read(line)?
            };
            if let Some(frame) = finished
                && let Some(reply) = self.place(frame)
            {
                return Ok(Some(reply));
            }
        }
    }

    /// Reads a line: returns a frame if the line is one by itself, and otherwise remembers what follows.
    fn read(&mut self, line: Line<'_>) -> Result<Option<Frame>, FrameError> {
        self.check_place(line)?;
        let text = line.text;
        Ok(Some(match line.kind {
            b'+' => Frame::Simple(text.to_vec()),
            b'-' => Frame::Error(text.to_vec()),
            b':' => Frame::Integer(
                crate::number::parse_i64(text.strip_prefix(b"+").unwrap_or(text)).ok_or(line.invalid())?,
            ),
            b',' => double(text).ok_or(line.invalid())?,
            b'(' => big_number(text).ok_or(line.invalid())?,
            b'#' if text == b"t" => Frame::Boolean(true),
            b'#' if text == b"f" => Frame::Boolean(false),
            b'_' if text.is_empty() => Frame::Null,
            b'#' | b'_' => return Err(line.invalid()),
            b'$' | b'!' | b'=' | b';' => return self.begin_blob(line),
            b'*' | b'%' | b'~' | b'>' | b'|' => return self.begin_aggregate(line),
            b'.' => return self.end_of_stream(line).map(Some),
            other => return Err(FrameError::Type(other)),
        }))
    }

    /// Checks that a line of this type may come here: parts belong into a streamed string and nothing else
    /// does.
    fn check_place(&self, line: Line<'_>) -> Result<(), FrameError> {
        match self.open.last() {
            Some(Open { kind: Kind::StreamedBulk(_), .. }) if line.kind == b';' => Ok(()),
            Some(Open { kind: Kind::StreamedBulk(_), .. }) => Err(FrameError::Type(line.kind)),
            _ if line.kind == b';' => Err(FrameError::Type(line.kind)),
            Some(Open { missing: None, elements, .. })
                if elements.len() as u64 >= self.limits.elements_max && line.kind != b'.' =>
            {
                Err(FrameError::TooLong(elements.len() as u64 + 1))
            }
            _ => Ok(()),
        }
    }

    /// Reads the line of a blob or of a part of one.
    fn begin_blob(&mut self, line: Line<'_>) -> Result<Option<Frame>, FrameError> {
        match (line.kind, line.length()?) {
            (b'$', Length::Absent) => return Ok(Some(Frame::NullBulk)),
            (b'$', Length::Streamed) => self.open(Kind::StreamedBulk(Vec::new()), None, 0)?,
            (b';', Length::Known(0)) => {
                if let Some(Open { kind: Kind::StreamedBulk(bytes), .. }) = self.open.pop() {
                    return Ok(Some(Frame::Bulk(bytes)));
                }
            }
            (kind, Length::Known(len)) => {
                let before = match self.open.last() {
                    Some(Open { kind: Kind::StreamedBulk(bytes), .. }) => bytes.len() as u64,
                    _ => 0,
                };
                let total = len.saturating_add(before);
                if total > self.limits.bulk_bytes_max {
                    return Err(FrameError::TooLong(total));
                }
                self.blob = Some((kind, usize::try_from(len).map_err(|_| FrameError::TooLong(len))?));
            }
            _ => return Err(line.invalid()),
        }
        Ok(None)
    }

    /// Takes the bytes of a blob or of a part of one.
    fn end_of_blob(&mut self, kind: u8, body: &[u8]) -> Result<Option<Frame>, FrameError> {
        match (kind, body) {
            (b'!', _) => Ok(Some(Frame::BulkError(body.to_vec()))),
            (b'=', [a, b, c, b':', text @ ..]) => Ok(Some(Frame::Verbatim([*a, *b, *c], text.to_vec()))),
            (b'=', _) => Err(FrameError::Text(kind)),
            (b';', _) => {
                if let Some(Open { kind: Kind::StreamedBulk(bytes), .. }) = self.open.last_mut() {
                    bytes.extend_from_slice(body);
                }
                Ok(None)
            }
            _ => Ok(Some(Frame::Bulk(body.to_vec()))),
        }
    }

    /// Reads the line of an aggregate.
    fn begin_aggregate(&mut self, line: Line<'_>) -> Result<Option<Frame>, FrameError> {
        let kind = match line.kind {
            b'%' => Kind::Map,
            b'~' => Kind::Set,
            b'>' => Kind::Push,
            b'|' => Kind::Attributes,
            _ => Kind::Array,
        };
        let each = if matches!(kind, Kind::Map | Kind::Attributes) { 2 } else { 1 };
        match line.length()? {
            Length::Absent if matches!(kind, Kind::Array) => Ok(Some(Frame::NullArray)),
            Length::Streamed if !matches!(kind, Kind::Push | Kind::Attributes) => {
                self.open(kind, None, 0)?;
                Ok(None)
            }
            Length::Known(len) => {
                let elements = len.saturating_mul(each);
                if elements > self.limits.elements_max {
                    return Err(FrameError::TooLong(elements));
                }
                self.open(kind, Some(elements), elements.min(RESERVED_MAX) as usize)?;
                Ok(self.close_if_whole())
            }
            _ => Err(line.invalid()),
        }
    }

    /// Ends a streamed aggregate.
    fn end_of_stream(&mut self, line: Line<'_>) -> Result<Frame, FrameError> {
        match self.open.pop() {
            Some(Open { kind, missing: None, elements }) if line.text.is_empty() => match kind {
                Kind::Map if elements.len() % 2 == 1 => Err(line.invalid()),
                kind => Ok(whole(kind, elements)),
            },
            _ => Err(line.invalid()),
        }
    }

    fn open(&mut self, kind: Kind, missing: Option<u64>, room: usize) -> Result<(), FrameError> {
        if self.open.len() >= self.limits.depth_max {
            return Err(FrameError::TooDeep(self.limits.depth_max));
        }
        self.open.push(Open { kind, missing, elements: Vec::with_capacity(room) });
        Ok(())
    }

    /// Puts a frame into the innermost aggregate, and that into its own where it is whole by this; returns
    /// the frame that no aggregate waits for, the reply.
    fn place(&mut self, mut frame: Frame) -> Option<Frame> {
        loop {
            let Some(innermost) = self.open.last_mut() else {
                return Some(frame);
            };
            innermost.elements.push(frame);
            if let Some(missing) = &mut innermost.missing {
                *missing = missing.saturating_sub(1);
            }
            frame = self.close_if_whole()?;
        }
    }

    /// Closes the innermost aggregate if it misses nothing. Attributes that are whole wait for their reply.
    fn close_if_whole(&mut self) -> Option<Frame> {
        if self.open.last()?.missing != Some(0) {
            return None;
        }
        let Open { kind, elements, .. } = self.open.pop()?;
        match kind {
            Kind::Attributes => {
                let kind = Kind::AttributedReply(pairs(elements));
                self.open.push(Open { kind, missing: Some(1), elements: Vec::new() });
                None
            }
            kind => Some(whole(kind, elements)),
        }
    }
}

/// The frame that all its elements make.
fn whole(kind: Kind, mut elements: Vec<Frame>) -> Frame {
    match kind {
        Kind::Array | Kind::Attributes => Frame::Array(elements),
        Kind::Set => Frame::Set(elements),
        Kind::Push => Frame::Push(elements),
        Kind::Map => Frame::Map(pairs(elements)),
        Kind::AttributedReply(attributes) => {
            Frame::Attributed(attributes, Box::new(elements.pop().unwrap_or(Frame::Null)))
        }
        Kind::StreamedBulk(bytes) => Frame::Bulk(bytes),
    }
}

/// Keys with their values.
fn pairs(elements: Vec<Frame>) -> Vec<(Frame, Frame)> {
    let mut pairs = Vec::with_capacity(elements.len() / 2);
    let mut elements = elements.into_iter();
    while let (Some(key), Some(value)) = (elements.next(), elements.next()) {
        pairs.push((key, value));
    }
    pairs
}

fn double(text: &[u8]) -> Option<Frame> {
    std::str::from_utf8(text).ok()?.parse::<f64>().ok()?;
    Some(Frame::Double(text.to_vec()))
}

fn big_number(text: &[u8]) -> Option<Frame> {
    let digits = text.strip_prefix(b"-").or(text.strip_prefix(b"+")).unwrap_or(text);
    let valid = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    valid.then(|| Frame::BigNumber(text.to_vec()))
}

/// Refuses a byte that no line begins with.
fn known(kind: u8) -> Result<(), FrameError> {
    if b"+-:,(#_$!=;*%~>|.".contains(&kind) { Ok(()) } else { Err(FrameError::Type(kind)) }
}
