//! Tests of damaged files: each byte changed, each length cut. The result is an error, or the original
//! content; never a panic, never more memory than there are bytes.
#![allow(clippy::unwrap_used)]

use crate::blob::{intset, listpack, ziplist};
use crate::error::ReadError;
use crate::fixtures::{file, read, string};
use crate::reader::Unsupported;
use crate::stream::tests::stream;
use std::io::{self, Read};

/// A small file with a value of every encoding.
fn every_encoding() -> Vec<u8> {
    let zip = string(&ziplist::tests::ziplist(&[b"\x01a", b"\xf8", b"\x01b", b"\xf9"]));
    let pack = string(&listpack::tests::listpack(&[b"\x81a", b"\x07", b"\x81b", b"\x08"]));
    let ints = string(&intset::tests::intset(4, &[-5, 1, 7]));
    let times =
        string(&listpack::tests::listpack(&[b"\x81a", b"\x07", b"\xc2\xbc", b"\x81b", b"\x08", b"\x00"]));
    let values: Vec<(u8, Vec<u8>)> = vec![
        (0, b"\xc3\x05\x0b\x00a\xe0\x01\x00".to_vec()),
        (0, b"\xc1\x34\x12".to_vec()),
        (1, b"\x02\x01a\x01b".to_vec()),
        (2, b"\x02\x01a\x01b".to_vec()),
        (3, b"\x02\x01a\x031.5\x01b\xff".to_vec()),
        (4, b"\x01\x01a\x01b".to_vec()),
        (5, [&b"\x01\x01a"[..], &2.5_f64.to_le_bytes()].concat()),
        (9, string(b"\x02\x01a\x01\x00v\x01b\x00\x01?\xff")),
        (10, zip.clone()),
        (11, ints),
        (12, zip.clone()),
        (13, zip.clone()),
        (14, [&[1][..], &zip].concat()),
        (16, pack.clone()),
        (17, pack.clone()),
        (18, [&[2, 1, 1, b'x', 2][..], &pack].concat()),
        (20, pack),
        (15, stream(1)),
        (19, stream(2)),
        (21, stream(3)),
        (26, stream(4)),
        (24, [&700_u64.to_le_bytes()[..], b"\x02\x01\x01a\x01v\x00\x01b\x01w"].concat()),
        (25, [&700_u64.to_le_bytes()[..], &times].concat()),
    ];
    let mut body =
        b"\xfa\x09redis-ver\x067.0.15\xfe\x00\xfb\x11\x01\xfc\x10\x27\x00\x00\x00\x00\x00\x00".to_vec();
    for (index, (number, value)) in values.iter().enumerate() {
        body.extend([&[*number][..], &string(format!("k{index}").as_bytes()), value].concat());
    }
    file(13, &body)
}

#[test]
fn every_cut_is_refused_where_it_is() {
    let whole = every_encoding();
    assert_eq!(read(&whole, Unsupported::Refuse).unwrap().0.len(), 23);
    for len in 0..whole.len() {
        match read(&whole[..len], Unsupported::Refuse) {
            Err(ReadError::Foreign) => assert!(len < 9),
            Err(ReadError::Truncated { offset, .. }) => assert_eq!(offset, len as u64),
            other => panic!("cut to {len}: {other:?}"),
        }
    }
}

#[test]
fn every_turned_byte_is_noticed_by_the_checksum_or_before() {
    let whole = every_encoding();
    for at in 0..whole.len() {
        for mask in [1, 0x40, 0x80, 0xff] {
            let mut turned = whole.clone();
            turned[at] ^= mask;
            assert!(read(&turned, Unsupported::Refuse).is_err(), "byte {at} turned by {mask:#x}");
            assert!(read(&turned, Unsupported::Skip).is_err(), "byte {at} turned by {mask:#x}");
        }
    }
}

#[test]
fn without_a_checksum_a_turned_byte_changes_no_more_than_it_says() {
    let mut whole = every_encoding();
    let end = whole.len();
    whole[end - 8..].fill(0);
    let mut understood = 0;
    for at in 9..end {
        for mask in 1..=255 {
            let mut turned = whole.clone();
            turned[at] ^= mask;
            // It may be read, as another value or another key; it ends all the same.
            understood += u32::from(read(&turned, Unsupported::Skip).is_ok());
        }
    }
    assert!(understood > 0, "letters of a key are turned, too");
}

/// Gives this number of bytes at a time, and stops now and then.
struct Pieces<'a> {
    rest: &'a [u8],
    len: usize,
    interrupts: bool,
}

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.interrupts = !self.interrupts;
        if self.interrupts {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let len = self.len.min(buffer.len()).min(self.rest.len());
        buffer[..len].copy_from_slice(&self.rest[..len]);
        self.rest = &self.rest[len..];
        Ok(len)
    }
}

#[test]
fn a_file_in_any_pieces_is_the_file() {
    let whole = every_encoding();
    for len in [1, 2, 7, 100] {
        let pieces = Pieces { rest: &whole, len, interrupts: false };
        let mut reader = crate::Reader::new(pieces, Unsupported::Refuse).unwrap();
        let mut keys = 0;
        while reader.next_key().unwrap().is_some() {
            keys += 1;
        }
        assert_eq!((keys, reader.offset()), (23, whole.len() as u64));
    }
}

#[test]
fn what_cannot_be_read_is_told_with_its_place() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("the disk is gone"))
        }
    }
    let whole = every_encoding();
    let mut reader = crate::Reader::new((&whole[..20]).chain(Broken), Unsupported::Refuse).unwrap();
    let error = reader.next_key().unwrap_err();
    assert_eq!(error.to_string(), "cannot read on at byte 20: the disk is gone");
}

#[test]
fn lengths_are_believed_as_far_as_there_are_bytes() {
    // Half a gigabyte is said, and 2^63 elements; three bytes are there.
    let long = [&[0, 1, b'k', 0x80][..], &(512_u32 << 20).to_be_bytes(), b"abc"].concat();
    let many = [&[1, 1, b'k', 0x81][..], &(1_u64 << 63).to_be_bytes(), b"\x01a\x01"].concat();
    let packed = [
        &[0, 1, b'k', 0xc3, 0x80][..],
        &(512_u32 << 20).to_be_bytes(),
        &[0x80],
        &(512_u32 << 20).to_be_bytes(),
        b"abc",
    ]
    .concat();
    for body in [long, many, packed] {
        let bytes = [b"REDIS0009", &body[..]].concat();
        let error = read(&bytes, Unsupported::Refuse).unwrap_err();
        assert!(
            matches!(error, ReadError::Truncated { offset, .. } if offset == bytes.len() as u64),
            "{error}"
        );
    }
}
