//! RDB files and payloads from any bytes: no panic, no more memory than the bytes are worth, and what is read
//! reads the same from any pieces, and again when it is written.
//!
//! ```text
//!  input:  | size of pieces | bit 0: leave streams out, bit 1: mend the checksum | a file, or a value |
//! ```
//!
//! What does not begin as a file is also tried as a value by itself, behind which a fitting footer is put.
#![no_main]

use std::io::{self, Read};

use cap::Cap;
use libfuzzer_sys::fuzz_target;
use tarn_rdb::{Head, Kind, Reader, Skipped, Unsupported, Visitor, Writer, crc64, payload};

/// A length that a file only tells must not be allocated: beyond this the process is aborted. 4096 bytes
/// become at most 352 KiB, several times over.
#[global_allocator]
static ALLOCATOR: Cap<std::alloc::System> = Cap::new(std::alloc::System, 64 << 20);

fuzz_target!(|input: &[u8]| {
    let [piece, choices, bytes @ ..] = input else { return };
    let unsupported = if choices & 1 == 1 { Unsupported::Skip } else { Unsupported::Refuse };
    let file = if choices & 2 == 2 { mended(bytes) } else { bytes.to_vec() };
    let whole = read(&file[..], unsupported);
    let pieces = read(Pieces { rest: &file, len: usize::from(*piece).max(1) }, unsupported);
    assert_eq!(whole, pieces);
    if let Ok((keys, _)) = &whole {
        assert_comes_back(keys);
    }
    value(bytes);
});

/// The file with the checksum that fits, if it is one that ends with its end.
fn mended(bytes: &[u8]) -> Vec<u8> {
    let mut file = bytes.to_vec();
    if let Some(end) = file.len().checked_sub(8)
        && end > 0
    {
        file[end - 1] = 0xff;
        let crc = crc64(&file[..end]);
        file[end..].copy_from_slice(&crc.to_le_bytes());
    }
    file
}

/// A value as a visitor sees it: an element, a field with its value, a member with the bits of its score.
#[derive(Clone, Debug, Default, PartialEq)]
struct Value {
    kind: Option<Kind>,
    elements: Vec<(Vec<u8>, Vec<u8>, u64)>,
}

impl Visitor for Value {
    fn begin(&mut self, kind: Kind) {
        *self = Value { kind: Some(kind), elements: Vec::new() };
    }

    fn string(&mut self, string: &[u8]) {
        self.element(string);
    }

    fn element(&mut self, element: &[u8]) {
        self.elements.push((element.to_vec(), Vec::new(), 0));
    }

    fn field(&mut self, field: &[u8], value: &[u8]) {
        self.elements.push((field.to_vec(), value.to_vec(), 0));
    }

    fn scored(&mut self, member: &[u8], score: f64) {
        assert!(!score.is_nan());
        self.elements.push((member.to_vec(), Vec::new(), score.to_bits()));
    }
}

impl Value {
    fn write<W: io::Write>(&self, mut out: tarn_rdb::ValueWriter<'_, W>) -> io::Result<()> {
        for (name, value, score) in &self.elements {
            match self.kind {
                Some(Kind::Hash) => out.field(name, value)?,
                Some(Kind::ZSet) => out.scored(name, f64::from_bits(*score))?,
                _ => out.element(name)?,
            }
        }
        out.finish();
        Ok(())
    }
}

/// A key, where it stands, its value.
type Key = (Vec<u8>, Head, Value);

/// All keys that hold something and what was left out, or what is wrong.
fn read(input: impl Read, unsupported: Unsupported) -> Result<(Vec<Key>, Skipped), String> {
    let shown = |error: tarn_rdb::ReadError| error.to_string();
    let mut reader = Reader::new(input, unsupported).map_err(shown)?;
    let mut keys = Vec::new();
    while let Some(head) = reader.next_key().map_err(shown)? {
        let name = reader.key().to_vec();
        let mut value = Value::default();
        let count = reader.read_value(&mut value).map_err(shown)?;
        assert_eq!((count, Some(head.kind)), (value.elements.len() as u64, value.kind));
        if count > 0 {
            keys.push((name, head, value));
        }
    }
    reader.expect_end().map_err(shown)?;
    Ok((keys, reader.skipped()))
}

fn assert_comes_back(keys: &[Key]) {
    let mut writer = Writer::new(Vec::new()).expect("a vector takes all");
    for (name, Head { database, kind, expiry_ms }, value) in keys {
        writer.begin_database(*database, 1, 0).expect("a vector takes all");
        let out = writer.begin_value(name, *expiry_ms, *kind, value.elements.len() as u64);
        value.write(out.expect("a vector takes all")).expect("a vector takes all");
    }
    let file = writer.finish().expect("a vector takes all");
    let (again, skipped) = read(&file[..], Unsupported::Refuse).expect("what was written is read");
    assert_eq!((&again[..], skipped), (keys, Skipped::default()));
}

/// Reads the bytes as a value with a footer that fits.
fn value(bytes: &[u8]) {
    let body = [bytes, &11_u16.to_le_bytes()].concat();
    let framed = [&body[..], &crc64(&body).to_le_bytes()].concat();
    let mut value = Value::default();
    let Ok(count) = payload::read(&framed, &mut value) else { return };
    if let Some(kind) = value.kind.filter(|_| count > 0) {
        let written = payload::write(kind, count, |out| value.write(out));
        let mut again = Value::default();
        payload::read(&written, &mut again).expect("what was written is read");
        assert_eq!(again, value);
    }
}

/// Gives so many bytes at once.
struct Pieces<'a> {
    rest: &'a [u8],
    len: usize,
}

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = self.len.min(buffer.len()).min(self.rest.len());
        buffer[..len].copy_from_slice(&self.rest[..len]);
        self.rest = &self.rest[len..];
        Ok(len)
    }
}
