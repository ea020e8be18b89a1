//! The streaming request decoder: finds the arguments of a command in a read buffer that may not hold all of
//! it yet.
//!
//! ```text
//! buf    … SET of before │ *3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$5\r\nva
//!                        ^ pos                            ^ cursor, counted from pos
//! ranges (8,3) (17,3)              missing 1              bulk_len 5
//! ```
//!
//! The parsed part of an incomplete request is kept as offsets from its first byte. So the caller may append
//! to its buffer, move it or compact it between two calls, and no byte is searched twice. Payload is never
//! searched.
//!
//! Invariants between two calls, `request` being the bytes from `pos` on: `cursor <= request.len()` unless a
//! `bulk_len` is known; `missing > 0` exactly if the `*` line has been read; `bulk_len` is known only if
//! `missing > 0`.

use memchr::memchr;

use super::args::{ArgRange, Args};
use super::error::ProtocolError;
use super::inline;
use super::limits::{INLINE_BYTES_MAX, Limits, UNAUTHENTICATED_ARGS_MAX, UNAUTHENTICATED_BULK_BYTES_MAX};
use crate::number::parse_i64;

/// Ranges kept from one request to the next. Memory of a longer request is freed.
const KEPT_ARGS_MAX: usize = 4096;

/// Bytes of unescaped inline text kept from one request to the next.
const KEPT_TEXT_BYTES_MAX: usize = 1024;

/// Bytes that the quick way reads for one argument.
const QUICK_HEADER_BYTES: usize = 6;

/// Decodes the requests of one connection. Allocates nothing a request, once it has seen a few.
#[derive(Debug)]
pub struct RequestDecoder {
    limits: Limits,
    authenticated: bool,
    /// Arguments of the present request that are still to come.
    missing: u32,
    /// Offset of the first byte that is not parsed yet.
    cursor: usize,
    /// Offset up to which the end of the present line has been looked for; of no meaning below `cursor`.
    scanned: usize,
    /// Length of the argument at `cursor`, once its `$` line has been read.
    bulk_len: Option<usize>,
    bytes_needed: usize,
    /// Where the arguments found so far are: in the request, or in `text` if it is an inline command.
    ranges: Vec<ArgRange>,
    /// The unescaped arguments of an inline command.
    text: Vec<u8>,
    /// Bytes examined so far: the tests prove with it that none is examined repeatedly.
    #[cfg(test)]
    pub(super) examined: usize,
}

/// The part of a request that begins at `pos`.
enum Step {
    /// A command in multibulk form, of this many bytes.
    Multibulk(usize),
    /// A command in inline form, of this many bytes.
    Inline(usize),
    /// This many bytes that say nothing: `*0`, `*-1` or an empty line.
    Nothing(usize),
    /// The beginning of something.
    Incomplete,
}

impl RequestDecoder {
    /// A decoder at the beginning of a connection that needs no authentication. Allocates nothing yet.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            authenticated: true,
            missing: 0,
            cursor: 0,
            scanned: 0,
            bulk_len: None,
            bytes_needed: 0,
            ranges: Vec::new(),
            text: Vec::new(),
            #[cfg(test)]
            examined: 0,
        }
    }

    /// The limits in force.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Changes the limits, from the next length that is read on.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Sets whether the client may send more than a handshake needs. Tightens or lifts the limits on a client
    /// that has yet to authenticate, from the next length that is read on.
    pub fn set_authenticated(&mut self, authenticated: bool) {
        self.authenticated = authenticated;
    }

    /// The least number of bytes that must be appended before the incomplete request can continue; 0 when
    /// that is not known. Useful after [`decode`](Self::decode) has returned `None`, for sizing the read
    /// buffer when a large argument is on its way.
    pub fn bytes_needed_hint(&self) -> usize {
        self.bytes_needed
    }

    /// True if part of a request has been parsed: the bytes before the end of the buffer are not between two
    /// requests.
    pub fn is_inside_request(&self) -> bool {
        self.missing > 0 || self.scanned > 0
    }

    /// Forgets an incomplete request, as for a new connection. Keeps limits and authentication.
    pub fn reset(&mut self) {
        self.finish();
        self.bulk_len = None;
        self.bytes_needed = 0;
    }

    /// Decodes the request that begins at `buf[*pos]` and moves `pos` past it.
    ///
    /// `None` means that more bytes are needed: call again with the same bytes and more appended. Empty
    /// requests (`*0`, empty lines) are skipped, so `pos` may have moved then, too. The bytes before `pos`
    /// are never needed again; those from `pos` on must still be there at the next call, at any address and
    /// any `pos`.
    ///
    /// The arguments borrow the buffer and the decoder: use them or copy them ([`Args::to_owned`]) before the
    /// next call.
    ///
    /// # Errors
    ///
    /// A [`ProtocolError`] leaves `pos` where it is. The connection must be closed; decoding cannot continue.
    #[inline]
    pub fn decode<'a>(
        &'a mut self,
        buf: &'a [u8],
        pos: &mut usize,
    ) -> Result<Option<Args<'a>>, ProtocolError> {
        loop {
            let request = buf.get(*pos..).unwrap_or_default();
            let step = match request.first() {
                Some(b'*') => self.multibulk(request)?,
                Some(_) => self.inline(request)?,
                None => {
                    self.bytes_needed = 0;
                    Step::Incomplete
                }
            };
            match step {
                Step::Multibulk(len) => {
                    *pos += len;
                    return Ok(Some(Args::new(request, &self.ranges)));
                }
                Step::Inline(len) => {
                    *pos += len;
                    return Ok(Some(Args::new(&self.text, &self.ranges)));
                }
                Step::Nothing(len) => *pos += len,
                Step::Incomplete => return Ok(None),
            }
        }
    }

    /// Continues a request that begins with `*`.
    ///
    /// The usual arguments, short and complete, are taken in a tight loop. `argument` takes the others, one
    /// at a time, and finds the words for errors.
    #[inline]
    fn multibulk(&mut self, request: &[u8]) -> Result<Step, ProtocolError> {
        if self.missing == 0 {
            let Some((count, next)) = self.arg_count(request)? else {
                return Ok(Step::Incomplete);
            };
            if count == 0 {
                self.finish();
                return Ok(Step::Nothing(next));
            }
            self.forget_args();
            self.missing = count;
            self.cursor = next;
        } else if self.bulk_len.is_some() && !self.argument(request)? {
            return Ok(Step::Incomplete);
        }
        // An argument that ends beyond this is too long for the quick way: its offsets might not fit.
        let window = &request[..request.len().min(self.limits.request_bytes_max())];
        let len_max = self.bulk_bytes_max();
        loop {
            let (mut cursor, mut missing) = (self.cursor, self.missing);
            while missing > 0 {
                #[cfg(test)]
                {
                    self.examined += QUICK_HEADER_BYTES;
                }
                let Some((len, start)) = quick_header(window, cursor) else { break };
                let end = start + len + 2;
                if end > window.len() || len > len_max {
                    break;
                }
                self.ranges.push(ArgRange { start: start as u32, len: len as u32 });
                cursor = end;
                missing -= 1;
            }
            if missing == 0 {
                self.finish();
                return Ok(Step::Multibulk(cursor));
            }
            self.cursor = cursor;
            self.missing = missing;
            if !self.argument(request)? {
                return Ok(Step::Incomplete);
            }
        }
    }

    /// Longest argument the client may send as things are.
    #[inline]
    fn bulk_bytes_max(&self) -> usize {
        let max = match self.authenticated {
            true => self.limits.proto_max_bulk_len,
            false => self.limits.proto_max_bulk_len.min(UNAUTHENTICATED_BULK_BYTES_MAX),
        };
        usize::try_from(max).unwrap_or(usize::MAX)
    }

    /// Takes the argument at the cursor; false if it is not all there.
    #[cold]
    fn argument(&mut self, request: &[u8]) -> Result<bool, ProtocolError> {
        let len = match self.bulk_len {
            Some(len) => len,
            None => match self.bulk_header(request)? {
                Some((len, start)) => {
                    self.cursor = start;
                    *self.bulk_len.insert(len)
                }
                None => return Ok(false),
            },
        };
        // The two bytes after an argument are counted and not checked, as in Redis.
        let end = self.cursor + len + 2;
        if request.len() < end {
            self.bytes_needed = end - request.len();
            return Ok(false);
        }
        // Both fit: `bulk_header` has refused requests of 4 GiB.
        self.ranges.push(ArgRange { start: self.cursor as u32, len: len as u32 });
        self.bulk_len = None;
        self.cursor = end;
        self.missing -= 1;
        Ok(true)
    }

    /// Reads the `*` line: the number of arguments, zero for the negative ones, and the offset after the
    /// line.
    #[inline]
    fn arg_count(&mut self, request: &[u8]) -> Result<Option<(u32, usize)>, ProtocolError> {
        let (count, next) = match request {
            [_, ones @ b'0'..=b'9', b'\r', _, ..] => (u32::from(ones - b'0'), 4),
            [_, tens @ b'1'..=b'9', ones @ b'0'..=b'9', b'\r', _, ..] => {
                (u32::from(tens - b'0') * 10 + u32::from(ones - b'0'), 5)
            }
            _ => {
                let Some((text, next)) = self.line(request, 0, ProtocolError::MultibulkCountTooBig)? else {
                    return Ok(None);
                };
                let count = parse_i64(&text[1..]).filter(|&count| count <= i64::from(i32::MAX));
                (count.ok_or(ProtocolError::MultibulkLength)?.max(0) as u32, next)
            }
        };
        if count > UNAUTHENTICATED_ARGS_MAX && !self.authenticated {
            return Err(ProtocolError::MultibulkLengthUnauthenticated);
        }
        Ok(Some((count, next)))
    }

    /// Reads the `$` line at the cursor: the argument's length and where it starts.
    fn bulk_header(&mut self, request: &[u8]) -> Result<Option<(usize, usize)>, ProtocolError> {
        let Some((text, start)) = self.line(request, self.cursor, ProtocolError::BulkCountTooBig)? else {
            return Ok(None);
        };
        let len = bulk_len(text)?;
        if len > self.limits.proto_max_bulk_len {
            return Err(ProtocolError::BulkLength);
        }
        if len > UNAUTHENTICATED_BULK_BYTES_MAX && !self.authenticated {
            return Err(ProtocolError::BulkLengthUnauthenticated);
        }
        // Neither this sum nor the offsets that follow can wrap, once the end is known to be below 4 GiB.
        if len.saturating_add(start as u64 + 2) > self.limits.request_bytes_max() as u64 {
            return Err(ProtocolError::QueryBufferLimit);
        }
        Ok(Some((len as usize, start)))
    }

    /// Finds the end of the line that starts at `start`: its text without the end, and the offset after the
    /// end. An end is a carriage return and any one more byte, as in Redis.
    #[cold]
    fn line<'r>(
        &mut self,
        request: &'r [u8],
        start: usize,
        too_big: ProtocolError,
    ) -> Result<Option<(&'r [u8], usize)>, ProtocolError> {
        match self.find(b'\r', request, start, too_big)? {
            Some(end) if end + 1 < request.len() => Ok(Some((&request[start..end], end + 2))),
            _ => Ok(None),
        }
    }

    /// Continues a request that does not begin with `*`: a line.
    #[cold]
    fn inline(&mut self, request: &[u8]) -> Result<Step, ProtocolError> {
        let Some(end) = self.find(b'\n', request, 0, ProtocolError::InlineTooBig)? else {
            return Ok(Step::Incomplete);
        };
        let line = &request[..end];
        self.forget_args();
        inline::split(line.strip_suffix(b"\r").unwrap_or(line), &mut self.text, &mut self.ranges)?;
        self.finish();
        Ok(if self.ranges.is_empty() { Step::Nothing(end + 1) } else { Step::Inline(end + 1) })
    }

    /// Finds the `end` of the line that starts at `start`, and remembers the bytes that it has searched in
    /// vain.
    fn find(
        &mut self,
        end: u8,
        request: &[u8],
        start: usize,
        too_big: ProtocolError,
    ) -> Result<Option<usize>, ProtocolError> {
        let from = self.scanned.max(start);
        // However the bytes arrive, a line of a length is accepted or refused by its length alone.
        let to = request.len().min(start + INLINE_BYTES_MAX + 1);
        let found = memchr(end, request.get(from..to).unwrap_or_default());
        let stop = found.map_or(to, |offset| from + offset);
        #[cfg(test)]
        {
            self.examined += stop - from;
        }
        self.scanned = stop;
        self.bytes_needed = 0;
        match found {
            Some(_) => Ok(Some(stop)),
            None if request.len() - start > INLINE_BYTES_MAX => Err(too_big),
            None => Ok(None),
        }
    }

    /// Makes room for the arguments of the next command.
    #[inline]
    fn forget_args(&mut self) {
        self.ranges.clear();
        self.text.clear();
        if self.ranges.capacity() > KEPT_ARGS_MAX {
            self.ranges = Vec::new();
        }
        if self.text.capacity() > KEPT_TEXT_BYTES_MAX {
            self.text = Vec::new();
        }
    }

    /// Goes to the beginning of the next request.
    #[inline]
    fn finish(&mut self) {
        self.missing = 0;
        self.cursor = 0;
        self.scanned = 0;
    }
}

/// Reads a whole `$` line with up to four digits at `at`: the number and the offset after the line. `None`
/// says nothing about the line; it must be read the careful way.
///
/// Six bytes are always there if an argument is: `$0` with its line end, and the argument's own.
#[inline(always)]
fn quick_header(request: &[u8], at: usize) -> Option<(usize, usize)> {
    let bytes: &[u8; QUICK_HEADER_BYTES] = request.get(at..at + QUICK_HEADER_BYTES)?.try_into().ok()?;
    let digit = |index: usize| usize::from(bytes[index].wrapping_sub(b'0'));
    if bytes[0] != b'$' {
        return None;
    }
    if bytes[2] == b'\r' {
        return (digit(1) <= 9).then(|| (digit(1), at + 4));
    }
    let (tens, ones) = (digit(1), digit(2));
    if tens == 0 || tens > 9 || ones > 9 {
        return None;
    }
    let count = tens * 10 + ones;
    if bytes[3] == b'\r' {
        return Some((count, at + 5));
    }
    let ones = digit(3);
    if ones > 9 {
        return None;
    }
    let count = count * 10 + ones;
    if bytes[4] == b'\r' {
        return Some((count, at + 6));
    }
    let ones = digit(4);
    if ones > 9 || bytes[5] != b'\r' {
        return None;
    }
    Some((count * 10 + ones, at + 7))
}

/// The number in a `$` line.
fn bulk_len(line: &[u8]) -> Result<u64, ProtocolError> {
    match line {
        [b'$', digits @ ..] => {
            parse_i64(digits).and_then(|len| u64::try_from(len).ok()).ok_or(ProtocolError::BulkLength)
        }
        // The line may be empty: then the byte found instead is the line's end.
        [other, ..] => Err(ProtocolError::ExpectedDollar(*other)),
        [] => Err(ProtocolError::ExpectedDollar(b'\r')),
    }
}
