//! Memory is not allocated for sizes that a file only claims: a few bytes that claim gigabytes are read in a
//! few megabytes.

#![allow(clippy::unwrap_used)]

use cap::Cap;
use tarn_rdb::{Kind, ReadError, Reader, Unsupported, Writer, crc64, payload};

/// Beyond this an allocation fails, which ends the test.
#[global_allocator]
static ALLOCATOR: Cap<std::alloc::System> = Cap::new(std::alloc::System, 24 << 20);

/// A key of this type with a value that begins so.
fn begun(number: u8, value: &[u8]) -> Vec<u8> {
    [&b"REDIS0013"[..], &[number, 1, b'k'], value].concat()
}

#[test]
fn lengths_and_counts_are_believed_as_far_as_there_are_bytes() {
    let half_gigabyte = [&[0x80][..], &(512_u32 << 20).to_be_bytes()].concat();
    let endless = [&[0x81][..], &u64::MAX.to_be_bytes()].concat();
    let strings = [half_gigabyte.clone(), [&[0xc3][..], &half_gigabyte, &half_gigabyte].concat()];
    let files = (0..=26)
        .filter(|number| *number != 8)
        .flat_map(|number| {
            let counted = [&endless[..], b"\x01a\x01"].concat();
            let bodies = strings.iter().cloned().chain([counted]);
            bodies.map(move |body| begun(number, &[&body[..], b"abc"].concat()))
        })
        .chain(strings.iter().map(|string| [&b"REDIS0011\xfa"[..], &string[..], b"abc"].concat()))
        .chain([[&b"REDIS0011\xfb"[..], &endless[..], &endless].concat()]);
    for file in files {
        let mut reader = Reader::new(&file[..], Unsupported::Skip).unwrap();
        let error = loop {
            match reader.next_key() {
                Ok(found) => assert!(found.is_some(), "{file:?} has no end"),
                Err(error) => break error,
            }
        };
        assert!(!matches!(error, ReadError::Io { .. }), "{error}");
        let framed = [&file[9..10], &file[12..], &13_u16.to_le_bytes()].concat();
        let framed = [&framed[..], &crc64(&framed).to_le_bytes()].concat();
        assert!(payload::read(&framed, &mut ()).is_err());
    }
}

#[test]
fn a_long_file_is_read_and_written_piece_by_piece() {
    /// Writes nowhere, and counts.
    struct Nowhere(u64);
    impl std::io::Write for Nowhere {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len() as u64;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let element = [b'x'; 1000];
    let mut writer = Writer::new(Nowhere(0)).unwrap();
    let mut list = writer.begin_value(b"k", None, Kind::List, 100_000).unwrap();
    (0..100_000).for_each(|_| list.element(&element).unwrap());
    list.finish();
    assert!(writer.finish().unwrap().0 > 100_000_000);

    let header = begun(1, &[&[0x80][..], &100_000_u32.to_be_bytes()].concat());
    let body = std::iter::repeat_n([&[0x43, 0xe8][..], &element].concat(), 100_000);
    let pieces = Chained {
        pieces: [header].into_iter().chain(body).chain([vec![255; 1], vec![0; 8]]),
        rest: Vec::new(),
    };
    let mut reader = Reader::new(pieces, Unsupported::Refuse).unwrap();
    reader.next_key().unwrap().unwrap();
    assert_eq!(reader.read_value(&mut ()).unwrap(), 100_000);
    assert_eq!(reader.next_key().unwrap(), None);
    reader.expect_end().unwrap();
}

/// One piece after the other.
struct Chained<I> {
    pieces: I,
    rest: Vec<u8>,
}

impl<I: Iterator<Item = Vec<u8>>> std::io::Read for Chained<I> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.rest.is_empty() {
            self.rest = self.pieces.next().unwrap_or_default();
        }
        let len = self.rest.len().min(buffer.len());
        buffer[..len].copy_from_slice(&self.rest[..len]);
        self.rest.drain(..len);
        Ok(len)
    }
}
