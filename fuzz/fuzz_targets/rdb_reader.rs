//! RDB files and payloads from any bytes: no panic, no more memory than the bytes are worth, and what is read
//! reads the same from any pieces, and again when it is written.
//!
//! ```text
//!  input:  | size of pieces | bit 0: leave modules out, bit 1: mend the checksum | a file, or a value |
//! ```
//!
//! What does not begin as a file is also tried as a value by itself, behind which a fitting footer is put.
#![no_main]
#![allow(clippy::unwrap_used, dead_code)]

#[path = "../../rdb/tests/model/mod.rs"]
mod model;

use std::io::{self, Read};

use cap::Cap;
use libfuzzer_sys::fuzz_target;
use model::{Collected, Value};
use tarn_rdb::{Head, Reader, Skipped, Unsupported, VERSIONS_WRITTEN, Writer, crc64, payload};

/// A length that a file only tells must not be allocated: beyond this the process is aborted. 4096 bytes
/// become at most 352 KiB, several times over; names that the entries of a stream share, 128 times that.
#[global_allocator]
static ALLOCATOR: Cap<std::alloc::System> = Cap::new(std::alloc::System, 512 << 20);

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
    [11, 13, 81].into_iter().for_each(|version| value(bytes, version));
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

/// A key, where it stands, its value.
type Key = (Vec<u8>, Head, Value);

/// All keys that hold something and what was left out, or what is wrong.
fn read(input: impl Read, unsupported: Unsupported) -> Result<(Vec<Key>, Skipped), String> {
    let shown = |error: tarn_rdb::ReadError| error.to_string();
    let mut reader = Reader::new(input, unsupported).map_err(shown)?;
    let mut keys = Vec::new();
    while let Some(head) = reader.next_key().map_err(shown)? {
        let name = reader.key().to_vec();
        let mut value = Collected::default();
        let count = reader.read_value(&mut value).map_err(shown)?;
        let value = value.0.expect("a value was read");
        assert_eq!((count, head.kind), (value.len(), value.kind()));
        if count > 0 {
            keys.push((name, head, value));
        }
    }
    reader.expect_end().map_err(shown)?;
    Ok((keys, reader.skipped()))
}

/// Keys come back from all versions that are written, but for what these do not say of streams and of times
/// of fields.
fn assert_comes_back(keys: &[Key]) {
    let as_written = |value: &Value, version: u16| value.clone().after_version(version);
    for version in VERSIONS_WRITTEN {
        let mut writer = Writer::of_version(Vec::new(), version).expect("a vector takes all");
        for (name, Head { database, expiry_ms, .. }, value) in keys {
            writer.begin_database(*database, 1, 0).expect("a vector takes all");
            let value = value.clone().for_file(writer.has_field_times());
            let out = value.begin(&mut writer, name, *expiry_ms);
            value.write(out.expect("a vector takes all")).expect("a vector takes all");
        }
        let file = writer.finish().expect("a vector takes all");
        let (again, skipped) = read(&file[..], Unsupported::Refuse).expect("what was written is read");
        assert_eq!((again.len(), skipped), (keys.len(), Skipped::default()));
        for ((name, head, value), (other_name, other_head, other)) in keys.iter().zip(&again) {
            assert_eq!((name, head), (other_name, other_head));
            assert_eq!(as_written(value, version), as_written(other, version));
        }
    }
}

/// Reads the bytes as a value with a footer of this version that fits.
fn value(bytes: &[u8], version: u16) {
    let body = [bytes, &version.to_le_bytes()].concat();
    let framed = [&body[..], &crc64(&body).to_le_bytes()].concat();
    let mut value = Collected::default();
    let Ok(count) = payload::read(&framed, &mut value) else { return };
    let value = value.0.expect("a value was read");
    if count > 0 {
        let mut again = Collected::default();
        payload::read(&value.payload(), &mut again).expect("what was written is read");
        assert_eq!(again.0, Some(value.after_payload()));
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
