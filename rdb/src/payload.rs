//! A value by itself, in the form of `DUMP` and `RESTORE`.
//!
//! ```text
//!   | type | value | version, u16 little-endian | checksum of all before, u64 little-endian |
//! ```

use crate::crc::crc64;
use crate::error::{Damage, ReadError};
use crate::format::{
    Kind, Type, VALKEY_VERSIONS, VERSION_OF_VALKEY, VERSION_WITH_FIELD_TIMES, VERSION_WITH_FUNCTIONS,
    VERSION_WRITTEN, VERSIONS, is_of_valkey, written_timed_type, written_type,
};
use crate::reader;
use crate::sink::{Sink, ValueWriter};
use crate::source::{BUFFER_BYTES, Source, damaged};
use crate::value::{self, Scratch};
use crate::visitor::Visitor;

const VERSION_BYTES: usize = 2;
const FOOTER_BYTES: usize = VERSION_BYTES + 8;

/// A payload that is not read.
#[derive(Debug, thiserror::Error)]
pub enum PayloadError {
    /// It has no room for its last ten bytes.
    #[error("a payload of {0} bytes is too short")]
    Short(usize),
    /// It is of a version that is not read.
    #[error("a payload of version {0}; versions up to 13 of Redis, and 80 and 81 of Valkey, are read")]
    Version(u16),
    /// It is not the value that was written.
    #[error("the checksum of a payload is wrong")]
    Checksum,
    /// The libraries of functions in it are too long.
    #[error("a payload of more than 256 MB of functions")]
    Long,
    /// It makes no sense, or Tarn cannot hold it.
    #[error("a payload {0}")]
    Value(#[from] ReadError),
}

/// Reads a payload; how many elements the value has, 1 for a string, 0 for an empty collection, which is no
/// value. A stream counts 1 more than it has entries.
pub fn read(payload: &[u8], visitor: &mut dyn Visitor) -> Result<u64, PayloadError> {
    let (body, version) = body(payload, true)?;
    Ok(read_body(body, version, visitor)?)
}

/// As `read`, whatever the checksum is.
pub fn read_unchecked(payload: &[u8], visitor: &mut dyn Visitor) -> Result<u64, PayloadError> {
    let (body, version) = body(payload, false)?;
    Ok(read_body(body, version, visitor)?)
}

/// The bytes before the version and the checksum, if these are right; and the version. The checksum is looked
/// at if `is_checked`.
pub(crate) fn body(payload: &[u8], is_checked: bool) -> Result<(&[u8], u16), PayloadError> {
    let short = || PayloadError::Short(payload.len());
    let (body, footer) = payload.split_last_chunk::<FOOTER_BYTES>().ok_or_else(short)?;
    let [low, high, stored @ ..] = *footer;
    let version = u16::from_le_bytes([low, high]);
    if version > *VERSIONS.end() && !VALKEY_VERSIONS.contains(&version) {
        return Err(PayloadError::Version(version));
    }
    // Unlike that of a file, this checksum is never left out.
    if is_checked && crc64(&payload[..body.len() + VERSION_BYTES]) != u64::from_le_bytes(stored) {
        return Err(PayloadError::Checksum);
    }
    Ok((body, version))
}

fn read_body(body: &[u8], version: u16, visitor: &mut dyn Visitor) -> Result<u64, ReadError> {
    let mut source = Source::new(body, body.len().min(BUFFER_BYTES));
    let number = source.byte("the type of a value")?;
    let found = Type::of(number, version).ok_or_else(|| damaged(0, Damage::Type(number)))?;
    let encoding = match value::held(found, &mut source)? {
        Ok(encoding) => encoding,
        Err(foreign) => return Err(reader::refuse(&mut source, foreign, 0, number, b"")),
    };
    let count = value::read(encoding, &mut source, &mut Scratch::default(), visitor)?;
    if source.is_at_end()? { Ok(count) } else { Err(ReadError::Trailing { offset: source.offset() }) }
}

/// The payload of a value of `len` elements, 1 for a string, which `write` writes and finishes. A stream
/// counts 1 more than it has entries; it is written as Redis 7.0 does, all else here as Redis 5.
///
/// Panics if `len` is 0: there are no empty collections.
pub fn write(
    kind: Kind,
    len: u64,
    write: impl FnOnce(ValueWriter<'_, Vec<u8>>) -> std::io::Result<()>,
) -> Vec<u8> {
    let version = if kind == Kind::Stream { VERSION_WITH_FUNCTIONS } else { VERSION_WRITTEN };
    framed(written_type(kind, version), version, |sink| write(ValueWriter::begin(sink, kind, version, len)?))
}

/// The payload of a hash of `len` fields, some of which have times, none before `first`; as Valkey 9 writes
/// it if `version` is one of its, else as Redis 7.4.
///
/// Panics if `len` is 0.
pub fn write_timed_hash(
    version: u16,
    len: u64,
    first: u64,
    write: impl FnOnce(ValueWriter<'_, Vec<u8>>) -> std::io::Result<()>,
) -> Vec<u8> {
    let version = if is_of_valkey(version) { VERSION_OF_VALKEY } else { VERSION_WITH_FIELD_TIMES };
    let (number, form) = written_timed_type(version).expect("both versions have times of fields");
    framed(number, version, |sink| write(ValueWriter::begin_timed_hash(sink, form, version, len, first)?))
}

fn framed(
    number: u8,
    version: u16,
    write: impl FnOnce(&mut Sink<Vec<u8>>) -> std::io::Result<()>,
) -> Vec<u8> {
    let mut sink = Sink::new(Vec::new());
    let written = (|| {
        sink.bytes(&[number])?;
        write(&mut sink)?;
        sink.bytes(&version.to_le_bytes())?;
        sink.finish()
    })();
    written.expect("a vector takes whatever is written to it")
}
