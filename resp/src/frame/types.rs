//! A reply as a value that owns its bytes.

use crate::wire;

/// One reply of any type of RESP2 or RESP3. Equal if sent alike: the nulls of both versions are three
/// different frames.
///
/// `Display` shows it as redis-cli does on a terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// A line of the server's own, such as `OK` (`+`).
    Simple(Vec<u8>),
    /// An error: a code, a space and a sentence (`-`).
    Error(Vec<u8>),
    /// An integer (`:`).
    Integer(i64),
    /// Any bytes (`$`).
    Bulk(Vec<u8>),
    /// An absent string in RESP2 (`$-1`).
    NullBulk,
    /// An absent array in RESP2 (`*-1`).
    NullArray,
    /// An absent value in RESP3 (`_`).
    Null,
    /// A truth value (`#`).
    Boolean(bool),
    /// A floating-point number, in the text it was sent in (`,`).
    Double(Vec<u8>),
    /// An integer of any size, in the text it was sent in (`(`).
    BigNumber(Vec<u8>),
    /// An error of any bytes (`!`).
    BulkError(Vec<u8>),
    /// Text to be shown unchanged, with its format, such as `txt` (`=`).
    Verbatim([u8; 3], Vec<u8>),
    /// Replies in order (`*`).
    Array(Vec<Frame>),
    /// Keys and their values, in the order sent (`%`).
    Map(Vec<(Frame, Frame)>),
    /// Replies without an order of meaning, in the order sent (`~`).
    Set(Vec<Frame>),
    /// Replies that no request asked for at this moment (`>`).
    Push(Vec<Frame>),
    /// A reply with keys and values about it (`|`).
    Attributed(Vec<(Frame, Frame)>, Box<Frame>),
}

impl Frame {
    /// A bulk string.
    pub fn bulk(bytes: impl Into<Vec<u8>>) -> Self {
        Self::Bulk(bytes.into())
    }

    /// A simple string.
    pub fn simple(text: impl Into<Vec<u8>>) -> Self {
        Self::Simple(text.into())
    }

    /// An error.
    pub fn error(text: impl Into<Vec<u8>>) -> Self {
        Self::Error(text.into())
    }

    /// The reply itself, where attributes go before it.
    pub fn without_attributes(&self) -> &Self {
        match self {
            Self::Attributed(_, reply) => reply.without_attributes(),
            reply => reply,
        }
    }

    /// True for an absent value, in any of its three encodings.
    pub fn is_null(&self) -> bool {
        matches!(self.without_attributes(), Self::Null | Self::NullBulk | Self::NullArray)
    }

    /// True for an error.
    pub fn is_error(&self) -> bool {
        self.as_error().is_some()
    }

    /// The text of an error.
    pub fn as_error(&self) -> Option<&[u8]> {
        match self.without_attributes() {
            Self::Error(text) | Self::BulkError(text) => Some(text),
            _ => None,
        }
    }

    /// The bytes of a string of any kind, or the text of a double or a big number.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self.without_attributes() {
            Self::Simple(bytes) | Self::Bulk(bytes) | Self::Verbatim(_, bytes) => Some(bytes),
            Self::Double(text) | Self::BigNumber(text) => Some(text),
            _ => None,
        }
    }

    /// The value of an integer.
    pub fn as_integer(&self) -> Option<i64> {
        match self.without_attributes() {
            Self::Integer(number) => Some(*number),
            _ => None,
        }
    }

    /// The value of a double.
    pub fn as_double(&self) -> Option<f64> {
        match self.without_attributes() {
            Self::Double(text) => std::str::from_utf8(text).ok()?.parse().ok(),
            _ => None,
        }
    }

    /// The elements of an array, a set or a push.
    pub fn as_array(&self) -> Option<&[Frame]> {
        match self.without_attributes() {
            Self::Array(frames) | Self::Set(frames) | Self::Push(frames) => Some(frames),
            _ => None,
        }
    }

    /// The keys and values of a map.
    pub fn as_map(&self) -> Option<&[(Frame, Frame)]> {
        match self.without_attributes() {
            Self::Map(pairs) => Some(pairs),
            _ => None,
        }
    }

    /// Appends the bytes that decode to this frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Simple(text) => wire::line(out, b'+', text),
            Self::Error(text) => wire::line(out, b'-', text),
            Self::Integer(number) => wire::integer(out, *number),
            Self::Bulk(bytes) => wire::blob(out, b'$', bytes),
            Self::NullBulk => wire::line(out, b'$', b"-1"),
            Self::NullArray => wire::line(out, b'*', b"-1"),
            Self::Null => wire::line(out, b'_', b""),
            Self::Boolean(truth) => wire::line(out, b'#', if *truth { b"t" } else { b"f" }),
            Self::Double(text) => wire::line(out, b',', text),
            Self::BigNumber(text) => wire::line(out, b'(', text),
            Self::BulkError(text) => wire::blob(out, b'!', text),
            Self::Verbatim(format, text) => {
                wire::blob(out, b'=', &[format.as_slice(), b":", text].concat());
            }
            Self::Array(frames) => encode_all(out, b'*', frames),
            Self::Set(frames) => encode_all(out, b'~', frames),
            Self::Push(frames) => encode_all(out, b'>', frames),
            Self::Map(pairs) => encode_pairs(out, b'%', pairs),
            Self::Attributed(pairs, reply) => {
                encode_pairs(out, b'|', pairs);
                reply.encode(out);
            }
        }
    }
}

fn encode_all(out: &mut Vec<u8>, kind: u8, frames: &[Frame]) {
    wire::header(out, kind, frames.len() as u64);
    for frame in frames {
        frame.encode(out);
    }
}

fn encode_pairs(out: &mut Vec<u8>, kind: u8, pairs: &[(Frame, Frame)]) {
    wire::header(out, kind, pairs.len() as u64);
    for (key, value) in pairs {
        key.encode(out);
        value.encode(out);
    }
}
