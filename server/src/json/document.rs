//! A document: from text to a value and back, within limits.
//!
//! The store has the text, without blanks, its members in the order in which they came. What is written can
//! be read again: no text nests deeper than its reader goes, and each number is written in the digits from
//! which the same number is read.

use std::io;

use serde::Serialize;
use serde_json::Value;
use serde_json::ser::{CompactFormatter, Formatter, Serializer};
use tarn_engine::record::BYTES_MAX;
use tarn_engine::value::StringRef;

use crate::error::CommandError;

/// Arrays and objects within each other at most. What reads a document calls itself so often, and refuses
/// more.
pub const DEPTH_MAX: usize = 127;

const DAMAGED: &str = "ERR the value at this key is no JSON document: the log or checkpoint that it was \
    loaded from was damaged, or written by another program";
/// The error for what is nested deeper than [`DEPTH_MAX`].
pub const TOO_DEEP: CommandError = CommandError::text("ERR recursion limit exceeded");

/// A document, read.
pub struct Document {
    /// The value of the document.
    pub root: Value,
}

impl Document {
    /// Reads what the store has.
    pub fn stored(text: StringRef<'_>) -> Result<Document, CommandError> {
        let root = serde_json::from_slice(&text.to_bytes()).map_err(|_| CommandError::text(DAMAGED))?;
        Ok(Document { root })
    }

    /// Its text as the store keeps it. Fails if it nests too deep, or has more than so many bytes.
    pub fn to_text(&self, bytes_max: usize) -> Result<Vec<u8>, CommandError> {
        if depth_of(&self.root) > DEPTH_MAX {
            return Err(TOO_DEEP);
        }
        Layout::default().text(&self.root, bytes_max)
    }
}

/// The text as the store keeps it of one that stands elsewhere; `None` if it is no JSON, or nests too deep.
pub fn kept(text: &[u8]) -> Option<Vec<u8>> {
    let root = serde_json::from_slice(text).ok()?;
    Document { root }.to_text(BYTES_MAX).ok()
}

/// Reads a value that a client gives.
pub fn parse(bytes: &[u8]) -> Result<Value, CommandError> {
    serde_json::from_slice(bytes).map_err(|error| CommandError::owned(format!("ERR {error}")))
}

/// Writes a text that has at most so many bytes.
fn write<T: Serialize, F: Formatter>(
    value: &T,
    formatter: F,
    bytes_max: usize,
) -> Result<Vec<u8>, CommandError> {
    let mut text = Bounded { bytes: Vec::new(), bytes_max };
    let written = value.serialize(&mut Serializer::with_formatter(&mut text, formatter));
    written.map_err(|_| CommandError::StringTooLong)?;
    Ok(text.bytes)
}

/// Bytes that do not become more than they may.
struct Bounded {
    bytes: Vec<u8>,
    bytes_max: usize,
}

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > self.bytes_max - self.bytes.len() {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Arrays and objects within each other; 0 for a value that is neither.
fn depth_of(value: &Value) -> usize {
    match value {
        Value::Array(elements) => 1 + elements.iter().map(depth_of).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(depth_of).max().unwrap_or(0),
        _ => 0,
    }
}

/// Bytes that the text of a value has at least: enough to refuse copies of it that could not be kept.
pub fn len_at_least(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 2,
        Value::Array(elements) => 1 + elements.iter().map(|element| 1 + len_at_least(element)).sum::<usize>(),
        Value::Object(members) => {
            1 + members.iter().map(|(name, member)| 4 + name.len() + len_at_least(member)).sum::<usize>()
        }
        _ => 1,
    }
}

/// The name of a value's type for `JSON.TYPE`.
pub fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The separators between parts of a text: `INDENT`, `NEWLINE` and `SPACE` of `JSON.GET`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layout<'a> {
    /// Once for each level, before a part.
    pub indent: &'a [u8],
    /// Before each part, and before a closing bracket.
    pub newline: &'a [u8],
    /// Between the colon and the value of a member.
    pub space: &'a [u8],
}

impl Layout<'_> {
    /// Whether it is that of the store.
    pub fn is_compact(&self) -> bool {
        *self == Layout::default()
    }

    /// The text of a value, of at most so many bytes.
    pub fn text<T: Serialize>(&self, value: &T, bytes_max: usize) -> Result<Vec<u8>, CommandError> {
        match self.is_compact() {
            true => write(value, CompactFormatter, bytes_max),
            false => write(value, Spaced { layout: *self, level: 0, has_parts: false }, bytes_max),
        }
    }
}

/// Writes by a layout.
struct Spaced<'a> {
    layout: Layout<'a>,
    level: usize,
    /// Whether the bracket that was opened last has something behind it.
    has_parts: bool,
}

impl Spaced<'_> {
    fn open<W: ?Sized + io::Write>(&mut self, out: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.level += 1;
        self.has_parts = false;
        out.write_all(bracket)
    }

    fn part<W: ?Sized + io::Write>(&mut self, out: &mut W, is_first: bool) -> io::Result<()> {
        if !is_first {
            out.write_all(b",")?;
        }
        self.line(out)
    }

    fn line<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(self.layout.newline)?;
        (0..self.level).try_for_each(|_| out.write_all(self.layout.indent))
    }

    fn close<W: ?Sized + io::Write>(&mut self, out: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.level -= 1;
        if self.has_parts {
            self.line(out)?;
        }
        self.has_parts = true;
        out.write_all(bracket)
    }
}

impl Formatter for Spaced<'_> {
    fn begin_array<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.open(out, b"[")
    }

    fn end_array<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.close(out, b"]")
    }

    fn begin_array_value<W: ?Sized + io::Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.part(out, first)
    }

    fn end_array_value<W: ?Sized + io::Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.has_parts = true;
        Ok(())
    }

    fn begin_object<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.open(out, b"{")
    }

    fn end_object<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.close(out, b"}")
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.part(out, first)
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(b":")?;
        out.write_all(self.layout.space)
    }

    fn end_object_value<W: ?Sized + io::Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.has_parts = true;
        Ok(())
    }
}
