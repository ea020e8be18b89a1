//! Writes bytes through a buffer of bounded size, with their checksum; and the elements of a file: lengths,
//! strings, values.

use crate::crc::Crc;
use crate::format::{FIELD_TIME_MAX, Kind, REJSON, TimedForm, module_op};
use crate::lzf::Compressor;
use std::io::{self, Write};

/// The number of bytes that are written at once.
const BUFFER_BYTES: usize = 64 << 10;

/// Longest string that is tried as a number: -2147483648.
const NUMBER_BYTES_MAX: usize = 11;

/// Longest string that is not tried to be compressed, and the bytes that compression must save at least: as
/// in Redis.
const UNCOMPRESSED_BYTES_MAX: usize = 20;
const SAVED_BYTES_MIN: usize = 4;
/// Longest string that is compressed: so much memory may be taken for what comes of it, and to put together
/// one in pieces.
const COMPRESSED_BYTES_MAX: usize = 16 << 20;

/// Where bytes go.
pub(crate) struct Sink<W> {
    output: W,
    buffer: Vec<u8>,
    crc: Crc,
    /// Compresses strings, if they are to be compressed.
    compressor: Option<Compressor>,
}

impl<W: Write> Sink<W> {
    pub(crate) fn new(output: W) -> Sink<W> {
        Sink { output, buffer: Vec::new(), crc: Crc::new(), compressor: None }
    }

    /// Whether strings are compressed from now on, where that makes them shorter.
    pub(crate) fn set_compression(&mut self, compresses: bool) {
        self.compressor = compresses.then(Compressor::new);
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.buffer.len() + bytes.len() > BUFFER_BYTES {
            self.flush()?;
            if bytes.len() > BUFFER_BYTES {
                self.crc.update(bytes);
                return self.output.write_all(bytes);
            }
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    pub(crate) fn number(&mut self, number: u64) -> io::Result<()> {
        match number {
            0..=0x3f => self.bytes(&[number as u8]),
            0x40..=0x3fff => self.bytes(&(number as u16 | 0x4000).to_be_bytes()),
            _ => match u32::try_from(number) {
                Ok(number) => {
                    self.bytes(&[0x80])?;
                    self.bytes(&number.to_be_bytes())
                }
                Err(_) => {
                    self.bytes(&[0x81])?;
                    self.bytes(&number.to_be_bytes())
                }
            },
        }
    }

    /// A string; as a number where it is the decimal form of one of 32 bits, which every version reads.
    pub(crate) fn string(&mut self, string: &[u8]) -> io::Result<()> {
        let Some(number) = small_number(string) else {
            return self.text(string);
        };
        if let Ok(number) = i8::try_from(number) {
            self.bytes(&[0xc0, number as u8])
        } else if let Ok(number) = i16::try_from(number) {
            self.bytes(&[0xc1])?;
            self.bytes(&number.to_le_bytes())
        } else {
            self.bytes(&[0xc2])?;
            self.bytes(&number.to_le_bytes())
        }
    }

    /// A string that is no number.
    fn text(&mut self, string: &[u8]) -> io::Result<()> {
        let mut compressor = self.compressor.take();
        let is_tried = (UNCOMPRESSED_BYTES_MAX + 1..=COMPRESSED_BYTES_MAX).contains(&string.len());
        let packed = compressor.as_mut().filter(|_| is_tried);
        let packed = packed.and_then(|compressor| compressor.compress(string, SAVED_BYTES_MIN));
        if let Some(packed) = packed {
            self.bytes(&[0xc3])?;
            self.number(packed.len() as u64)?;
            self.number(string.len() as u64)?;
            self.bytes(packed)?;
        } else {
            self.number(string.len() as u64)?;
            self.bytes(string)?;
        }
        self.compressor = compressor;
        Ok(())
    }

    /// A string of `len` bytes, in pieces. REQUIRES: it is too long for a number.
    pub(crate) fn long_string<'p>(
        &mut self,
        len: usize,
        mut pieces: impl Iterator<Item = &'p [u8]>,
    ) -> io::Result<()> {
        assert!(len > NUMBER_BYTES_MAX, "a short string may have to be written as a number");
        if self.compressor.is_some() && len <= COMPRESSED_BYTES_MAX {
            return self.text(&pieces.collect::<Vec<_>>().concat());
        }
        self.number(len as u64)?;
        pieces.try_for_each(|piece| self.bytes(piece))
    }

    /// Writes the checksum of all before it, and everything out.
    pub(crate) fn finish(mut self) -> io::Result<W> {
        self.flush()?;
        let crc = self.crc.value();
        self.output.write_all(&crc.to_le_bytes())?;
        self.output.flush()?;
        Ok(self.output)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.crc.update(&self.buffer);
        self.output.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }
}

/// The number that a string is the only decimal form of.
fn small_number(string: &[u8]) -> Option<i32> {
    if string.len() > NUMBER_BYTES_MAX {
        return None;
    }
    let number = std::str::from_utf8(string).ok()?.parse().ok()?;
    (itoa::Buffer::new().format(number).as_bytes() == string).then_some(number)
}

/// Writes one value, element by element.
#[must_use = "a value is whole when it is finished"]
pub struct ValueWriter<'w, W> {
    pub(crate) sink: &'w mut Sink<W>,
    kind: Kind,
    /// The version of the file or payload.
    pub(crate) version: u16,
    /// The number of elements that have to come yet.
    left: u64,
    /// Of a hash whose fields have times: the form of these, and the first of them.
    times: Option<(TimedForm, u64)>,
}

impl<'w, W: Write> ValueWriter<'w, W> {
    /// Begins a value, after its type and key. A string is a value of one element.
    pub(crate) fn begin(
        sink: &'w mut Sink<W>,
        kind: Kind,
        version: u16,
        len: u64,
    ) -> io::Result<ValueWriter<'w, W>> {
        assert!(len > 0 && (!kind.is_string() || len == 1), "a value has elements, a string is one");
        match kind {
            Kind::String | Kind::Stream => {}
            Kind::Json => {
                sink.number(REJSON)?;
                sink.number(module_op::STRING)?;
            }
            _ => sink.number(len)?,
        }
        Ok(ValueWriter { sink, kind, version, left: len, times: None })
    }

    /// Begins a hash whose fields have times, none of which is before `first`.
    pub(crate) fn begin_timed_hash(
        sink: &'w mut Sink<W>,
        form: TimedForm,
        version: u16,
        len: u64,
        first: u64,
    ) -> io::Result<ValueWriter<'w, W>> {
        let first = first.min(FIELD_TIME_MAX);
        if form != TimedForm::Behind {
            sink.bytes(&first.to_le_bytes())?;
        }
        let writer = ValueWriter::begin(sink, Kind::Hash, version, len)?;
        Ok(ValueWriter { times: Some((form, first)), ..writer })
    }

    /// The string itself, the text of a document, the next element of a list, or a member of a set.
    pub fn element(&mut self, element: &[u8]) -> io::Result<()> {
        self.count(self.kind.is_string() || matches!(self.kind, Kind::List | Kind::Set));
        self.sink.string(element)?;
        self.end_of_parts()
    }

    /// As `element`, of `len` bytes that come in pieces.
    ///
    /// Panics if there are no more than some bytes: an element that may be a number must be in one piece.
    pub fn long_element<'p>(&mut self, len: usize, pieces: impl Iterator<Item = &'p [u8]>) -> io::Result<()> {
        self.count(self.kind.is_string() || matches!(self.kind, Kind::List | Kind::Set));
        self.sink.long_string(len, pieces)?;
        self.end_of_parts()
    }

    /// Ends the text of a document, as all data of modules ends.
    fn end_of_parts(&mut self) -> io::Result<()> {
        if self.kind == Kind::Json { self.sink.number(module_op::EOF) } else { Ok(()) }
    }

    /// A field of a hash.
    pub fn field(&mut self, field: &[u8], value: &[u8]) -> io::Result<()> {
        self.timed_field(field, value, None)
    }

    /// A field of a hash that is gone from this time on, in milliseconds since the Unix epoch, if it has one.
    /// In a file for Redis no time is later than the year 10889.
    ///
    /// Panics if it has a time and the value was begun as one without, or the time is before the first.
    pub fn timed_field(&mut self, field: &[u8], value: &[u8], time: Option<u64>) -> io::Result<()> {
        self.count(self.kind == Kind::Hash);
        assert!(time.is_none() || self.times.is_some(), "fields have times if the value was begun so");
        if let Some((TimedForm::Since, first)) = self.times {
            let later = time.map(|time| time.min(FIELD_TIME_MAX).checked_sub(first));
            self.sink.number(later.map_or(0, |later| later.expect("the first time is the first") + 1))?;
        }
        self.sink.string(field)?;
        self.sink.string(value)?;
        if let Some((TimedForm::Behind, _)) = self.times {
            let time = time.map_or(-1, |time| i64::try_from(time).unwrap_or(i64::MAX));
            self.sink.bytes(&time.to_le_bytes())?;
        }
        Ok(())
    }

    /// A member of a sorted set.
    pub fn scored(&mut self, member: &[u8], score: f64) -> io::Result<()> {
        self.count(self.kind == Kind::ZSet && !score.is_nan());
        self.sink.string(member)?;
        self.sink.bytes(&score.to_le_bytes())
    }

    /// Ends the value.
    ///
    /// Panics if it has fewer elements than it was begun with: the next bytes would be read as its elements.
    pub fn finish(self) {
        assert_eq!(self.left, 0, "a value has as many elements as it was begun with");
    }

    fn count(&mut self, fits: bool) {
        assert!(fits && self.left > 0, "elements are of the value's kind and as many as it was begun with");
        self.left -= 1;
    }

    /// All entries of a stream come, and so many groups follow.
    pub(crate) fn count_entries(&mut self, entries: u64, groups: u64) {
        assert!(
            self.kind == Kind::Stream && self.left == entries + 1,
            "a stream has as many entries as it was begun with"
        );
        self.left = groups;
    }

    /// A part of a stream comes, which says how many parts follow because of it.
    pub(crate) fn count_part(&mut self, following: u64) {
        self.count(self.kind == Kind::Stream);
        self.left += following;
    }
}
