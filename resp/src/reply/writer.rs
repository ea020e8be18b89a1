//! The reply encoder: appends replies to an output buffer in the protocol that the client has chosen.
//!
//! Commands give the type that they mean (a map, a double, a null); a client that speaks RESP2 gets the older
//! form that Redis 7.0 sends it:
//!
//! | meant | RESP3 | RESP2 |
//! | --- | --- | --- |
//! | null, null array | `_` | `$-1`, `*-1` |
//! | map of n pairs, set of n, push of n | `%n`, `~n`, `>n` | `*2n`, `*n`, `*n` |
//! | double, big number, verbatim text | `,` `(` `=` | bulk string of the text |
//! | boolean | `#t`, `#f` | `:1`, `:0` |
//! | attributes | `\|n` | nothing |
//!
//! A header says how many replies must follow it; the writer does not count them.

use super::double::format_double;
use crate::request::ProtocolError;
use crate::wire;

/// The protocol version a client speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// The version every connection begins with.
    #[default]
    Resp2,
    /// After `HELLO 3`.
    Resp3,
}

/// Appends replies to a buffer.
#[derive(Debug)]
pub struct Writer<'a> {
    out: &'a mut Vec<u8>,
    protocol: Protocol,
    /// Once `out` is longer than this, nothing more is appended.
    limit: usize,
    /// Something was left out for that.
    over: bool,
}

/// The place of a header whose count is not known yet: see [`Writer::defer`].
#[derive(Debug)]
#[must_use = "a header that is never written breaks the reply"]
pub struct Deferred {
    at: usize,
    reserved: usize,
}

impl<'a> Writer<'a> {
    /// A writer that appends to `out`.
    #[inline]
    pub fn new(out: &'a mut Vec<u8>, protocol: Protocol) -> Self {
        Self { out, protocol, limit: usize::MAX, over: false }
    }

    /// Stops the output buffer from growing by more than one reply past `bytes`. Later replies are left out,
    /// and [`is_over`](Self::is_over) says that the written ones are of no use.
    #[inline]
    pub fn limited(mut self, bytes: usize) -> Self {
        self.limit = bytes;
        self
    }

    /// True if the output buffer has passed its limit.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.over || self.out.len() > self.limit
    }

    /// True if there is room for more; else records that something is left out.
    #[inline]
    fn has_room(&mut self) -> bool {
        let has_room = self.out.len() <= self.limit;
        self.over |= !has_room;
        has_room
    }

    /// Appends these bytes.
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        if self.has_room() {
            self.out.extend_from_slice(bytes);
        }
    }

    /// The protocol written.
    #[inline]
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Changes the protocol from the next reply on, as `HELLO` does.
    pub fn set_protocol(&mut self, protocol: Protocol) {
        self.protocol = protocol;
    }

    /// Bytes in the output buffer, those of other replies included.
    #[inline]
    pub fn len(&self) -> usize {
        self.out.len()
    }

    /// True if the output buffer is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.out.is_empty()
    }

    /// Removes everything that was written after the buffer had `len` bytes, as [`len`](Self::len) reported
    /// then.
    pub fn truncate(&mut self, len: usize) {
        self.out.truncate(len);
        self.over &= self.out.len() > self.limit;
    }

    /// Appends bytes that are a reply already.
    #[inline]
    pub fn raw(&mut self, encoded: &[u8]) {
        self.put(encoded);
    }

    /// The simple string `OK`.
    #[inline]
    pub fn ok(&mut self) {
        self.put(b"+OK\r\n");
    }

    /// A simple string: a word or a line of the server's own. Line ends in it become spaces.
    #[inline]
    pub fn simple(&mut self, text: impl AsRef<[u8]>) {
        self.line(b'+', text.as_ref());
    }

    /// An error: a code in capitals, a space and a sentence (`ERR no such key`). Line ends at either end of
    /// it go, others become spaces.
    #[inline]
    pub fn error(&mut self, text: impl AsRef<[u8]>) {
        self.line(b'-', trim_line_ends(text.as_ref()));
    }

    /// The error that a client gets before it is disconnected for breaking the protocol; nothing where Redis
    /// sends nothing.
    pub fn protocol_error(&mut self, error: &ProtocolError) {
        match error {
            ProtocolError::QueryBufferLimit => {}
            // The byte goes back as it came, be it text or not.
            ProtocolError::ExpectedDollar(byte) => {
                let mut text = b"ERR Protocol error: expected '$', got '?'".to_vec();
                if let [.., place, _] = text.as_mut_slice() {
                    *place = *byte;
                }
                self.error(&text);
            }
            other => self.error(format!("ERR {other}").as_bytes()),
        }
    }

    /// An integer.
    #[inline]
    pub fn integer(&mut self, number: i64) {
        if self.has_room() {
            wire::integer(self.out, number);
        }
    }

    /// A bulk string: any bytes.
    #[inline]
    pub fn bulk(&mut self, bytes: &[u8]) {
        if self.has_room() {
            wire::blob(self.out, b'$', bytes);
        }
    }

    /// A bulk string of `len` bytes in several pieces.
    pub fn bulk_of_pieces<'p>(&mut self, len: usize, pieces: impl Iterator<Item = &'p [u8]>) {
        if self.has_room() {
            wire::blob_of_pieces(self.out, b'$', len, pieces);
        }
    }

    /// A bulk string with the text of a number.
    #[inline]
    pub fn bulk_integer(&mut self, number: i64) {
        self.bulk(itoa::Buffer::new().format(number).as_bytes());
    }

    /// A bulk string with the text of a double, in both protocols: for replies that Redis never made RESP3
    /// doubles.
    pub fn bulk_double(&mut self, number: f64) {
        self.bulk(format_double(number).as_bytes());
    }

    /// The absent value.
    #[inline]
    pub fn null(&mut self) {
        self.put(self.either(b"$-1\r\n", b"_\r\n"));
    }

    /// The absent array.
    #[inline]
    pub fn null_array(&mut self) {
        self.put(self.either(b"*-1\r\n", b"_\r\n"));
    }

    /// The header of an array: `len` replies follow.
    #[inline]
    pub fn array(&mut self, len: usize) {
        self.header(b'*', len as u64);
    }

    /// The header of a map: `2 * pairs` replies follow, each key before its value.
    #[inline]
    pub fn map(&mut self, pairs: usize) {
        match self.protocol {
            Protocol::Resp2 => self.header(b'*', 2 * pairs as u64),
            Protocol::Resp3 => self.header(b'%', pairs as u64),
        }
    }

    /// The header of a set: `len` replies follow, none of them twice.
    #[inline]
    pub fn set(&mut self, len: usize) {
        self.header(self.either(b'*', b'~'), len as u64);
    }

    /// The header of something the client did not ask for at this moment, such as a published message: `len`
    /// replies follow.
    #[inline]
    pub fn push(&mut self, len: usize) {
        self.header(self.either(b'*', b'>'), len as u64);
    }

    /// The header of attributes, which go before the reply they are about: `2 * pairs` replies follow, then
    /// that reply.
    ///
    /// Returns false, having written nothing, if the client cannot read them: then write neither keys nor
    /// values.
    #[must_use = "attributes must be left out if there is no header for them"]
    pub fn attributes(&mut self, pairs: usize) -> bool {
        let known = self.protocol == Protocol::Resp3;
        if known {
            self.header(b'|', pairs as u64);
        }
        known
    }

    /// A double.
    pub fn double(&mut self, number: f64) {
        match self.protocol {
            Protocol::Resp2 => self.bulk_double(number),
            Protocol::Resp3 => self.line(b',', format_double(number).as_bytes()),
        }
    }

    /// A double, given as its text.
    pub fn double_text(&mut self, text: &[u8]) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(text),
            Protocol::Resp3 => self.line(b',', text),
        }
    }

    /// A truth value.
    #[inline]
    pub fn boolean(&mut self, truth: bool) {
        let text: &[u8] = match (self.protocol, truth) {
            (Protocol::Resp2, true) => b":1\r\n",
            (Protocol::Resp2, false) => b":0\r\n",
            (Protocol::Resp3, true) => b"#t\r\n",
            (Protocol::Resp3, false) => b"#f\r\n",
        };
        self.put(text);
    }

    /// An integer of any size, given as its decimal digits.
    pub fn big_number(&mut self, digits: &[u8]) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(digits),
            Protocol::Resp3 => self.line(b'(', digits),
        }
    }

    /// Text to be shown unchanged; `format` is `txt` or `mkd`.
    pub fn verbatim(&mut self, format: [u8; 3], text: &[u8]) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(text),
            Protocol::Resp3 => {
                if self.has_room() {
                    wire::header(self.out, b'=', text.len() as u64 + 4);
                    self.out.extend_from_slice(&format);
                    self.out.push(b':');
                    self.out.extend_from_slice(text);
                    self.out.extend_from_slice(b"\r\n");
                }
            }
        }
    }

    /// Leaves room for a header whose count is known only after its elements have been written. `guess` is
    /// the likely count: if the true one has as many digits, nothing has to be moved later. Of nested
    /// deferred headers, the inner one is finished first.
    pub fn defer(&mut self, guess: usize) -> Deferred {
        let at = self.out.len();
        self.header(b'*', guess as u64);
        Deferred { at, reserved: self.out.len() - at }
    }

    /// Writes an array's header where it was left out: `len` replies have been written since.
    pub fn finish_array(&mut self, deferred: Deferred, len: usize) {
        self.finish(deferred, |writer| writer.array(len));
    }

    /// Writes a map's header where it was left out: `2 * pairs` replies have been written since.
    pub fn finish_map(&mut self, deferred: Deferred, pairs: usize) {
        self.finish(deferred, |writer| writer.map(pairs));
    }

    /// Writes a set's header where it was left out: `len` replies have been written since.
    pub fn finish_set(&mut self, deferred: Deferred, len: usize) {
        self.finish(deferred, |writer| writer.set(len));
    }

    /// Replaces the reserved bytes by a header.
    fn finish(&mut self, deferred: Deferred, header: impl FnOnce(&mut Self)) {
        if self.is_over() {
            return;
        }
        let end = self.out.len();
        header(self);
        let mut encoded = [0; wire::HEADER_BYTES_MAX];
        let len = self.out.len() - end;
        encoded[..len].copy_from_slice(&self.out[end..]);
        self.out.truncate(end);
        self.out.splice(deferred.at..deferred.at + deferred.reserved, encoded[..len].iter().copied());
    }

    /// One of two, by protocol.
    #[inline]
    fn either<T>(&self, resp2: T, resp3: T) -> T {
        match self.protocol {
            Protocol::Resp2 => resp2,
            Protocol::Resp3 => resp3,
        }
    }

    #[inline]
    fn header(&mut self, kind: u8, number: u64) {
        if self.has_room() {
            wire::header(self.out, kind, number);
        }
    }

    fn line(&mut self, kind: u8, text: &[u8]) {
        if self.has_room() {
            wire::line(self.out, kind, text);
        }
    }
}

/// The text without the line ends before and after it.
fn trim_line_ends(mut text: &[u8]) -> &[u8] {
    while let [b'\r' | b'\n', rest @ ..] | [rest @ .., b'\r' | b'\n'] = text {
        text = rest;
    }
    text
}
