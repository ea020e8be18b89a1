//! Listpacks: small lists, hashes and sorted sets since Redis 7.0, and sets since 7.2.
//!
//! ```text
//!   | all bytes, u32 | entries, u16 | entry … | 0xff |
//!
//!   entry: | form and length, or number | bytes | bytes of both, in 1 to 5, to be read backwards |
//! ```
//!
//! 65535 entries mean "count them". Everything is little-endian, but for the numbers within a form.

use super::{Cursor, Item, Stop, Take};
use crate::error::BlobError;

const END: u8 = 0xff;
const UNCOUNTED: u16 = u16::MAX;

pub(super) fn walk<'a>(blob: &'a [u8], take: &mut Take<'_, 'a>) -> Result<(), Stop> {
    let mut items = Items::new(blob)?;
    while !items.is_at_end()? {
        take(items.item()?).map_err(Stop::Taker)?;
    }
    Ok(())
}

/// The entries of a listpack that are not read yet.
#[derive(Clone)]
pub(crate) struct Items<'a> {
    cursor: Cursor<'a>,
    /// The number of entries as it stands at the front.
    count: u16,
    /// The number of those that were read.
    read: usize,
}

impl<'a> Items<'a> {
    pub(crate) fn new(blob: &'a [u8]) -> Result<Items<'a>, BlobError> {
        let mut cursor = Cursor::new(blob);
        if cursor.u32_le()? as usize != blob.len() {
            return BlobError::new(0, "its length is another than it says");
        }
        let count = cursor.u16_le()?;
        Ok(Items { cursor, count, read: 0 })
    }

    /// Where the next entry begins.
    pub(crate) fn at(&self) -> usize {
        self.cursor.at
    }

    /// True if nothing follows but the end, which has to be as it should.
    pub(crate) fn is_at_end(&self) -> Result<bool, BlobError> {
        let mut cursor = self.cursor;
        if cursor.byte()? != END {
            return Ok(false);
        }
        if cursor.left() > 0 {
            return BlobError::new(cursor.at, "it goes on behind its end");
        }
        if self.count != UNCOUNTED && self.read != usize::from(self.count) {
            return BlobError::new(4, "it has another number of entries than it says");
        }
        Ok(true)
    }

    /// The next entry.
    pub(crate) fn item(&mut self) -> Result<Item<'a>, BlobError> {
        let at = self.cursor.at;
        let form = self.cursor.byte()?;
        let item = item(&mut self.cursor, at, form)?;
        check_length_behind(&mut self.cursor, at)?;
        self.read += 1;
        Ok(item)
    }
}

/// Makes a listpack, entry by entry.
pub(crate) struct Builder {
    bytes: Vec<u8>,
    count: usize,
}

impl Builder {
    /// Where its first entry is.
    pub(crate) const FIRST: usize = 6;
    /// Longest string that is tried as a number: -9223372036854775808.
    const NUMBER_BYTES_MAX: usize = 20;

    pub(crate) fn new() -> Builder {
        Builder { bytes: vec![0; Builder::FIRST], count: 0 }
    }

    /// Its bytes so far.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() + 1
    }

    /// Adds a string; as a number where it is the decimal form of one.
    pub(crate) fn push(&mut self, string: &[u8]) {
        if let Some(number) = number_of(string) {
            return self.push_int(number);
        }
        let at = self.bytes.len();
        match string.len() {
            len @ 0..=0x3f => self.bytes.push(0x80 | len as u8),
            len @ 0x40..=0xfff => self.bytes.extend([0xe0 | (len >> 8) as u8, len as u8]),
            len => {
                let len = u32::try_from(len).expect("no string of a store is that long");
                self.bytes.push(0xf0);
                self.bytes.extend(len.to_le_bytes());
            }
        }
        self.bytes.extend_from_slice(string);
        self.end(at);
    }

    /// Adds a number.
    pub(crate) fn push_int(&mut self, number: i64) {
        let (at, bytes) = (self.bytes.len(), number.to_le_bytes());
        let mut wide = |form: u8, width: usize| {
            self.bytes.push(form);
            self.bytes.extend_from_slice(&bytes[..width]);
        };
        match number {
            0..=0x7f => self.bytes.push(number as u8),
            -0x1000..=0xfff => self.bytes.extend([0xc0 | (number >> 8 & 0x1f) as u8, number as u8]),
            -0x8000..=0x7fff => wide(0xf1, 2),
            -0x80_0000..=0x7f_ffff => wide(0xf2, 3),
            -0x8000_0000..=0x7fff_ffff => wide(0xf3, 4),
            _ => wide(0xf4, 8),
        }
        self.end(at);
    }

    /// Ends the entry that begins at `at`.
    fn end(&mut self, at: usize) {
        let (bytes, len) = length_behind(self.bytes.len() - at);
        self.bytes.extend_from_slice(&bytes[..len]);
        self.count += 1;
    }

    /// The listpack.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.bytes.push(END);
        let len = u32::try_from(self.bytes.len()).expect("no listpack of a store is that long");
        let count = u16::try_from(self.count).unwrap_or(UNCOUNTED);
        self.bytes[..4].copy_from_slice(&len.to_le_bytes());
        self.bytes[4..6].copy_from_slice(&count.to_le_bytes());
        self.bytes
    }
}

/// The number that a string is the only decimal form of.
fn number_of(string: &[u8]) -> Option<i64> {
    if string.len() > Builder::NUMBER_BYTES_MAX {
        return None;
    }
    let number = std::str::from_utf8(string).ok()?.parse().ok()?;
    (itoa::Buffer::new().format(number).as_bytes() == string).then_some(number)
}

fn item<'a>(cursor: &mut Cursor<'a>, at: usize, form: u8) -> Result<Item<'a>, BlobError> {
    let len = match form {
        0x00..=0x7f => return Ok(Item::Int(i64::from(form))),
        0x80..=0xbf => usize::from(form & 0x3f),
        0xc0..=0xdf => {
            // Thirteen bits with a sign.
            let bits = i64::from(form & 0x1f) << 8 | i64::from(cursor.byte()?);
            return Ok(Item::Int(if bits < 1 << 12 { bits } else { bits - (1 << 13) }));
        }
        0xe0..=0xef => usize::from(form & 0x0f) << 8 | usize::from(cursor.byte()?),
        0xf0 => cursor.u32_le()? as usize,
        0xf1 => return cursor.int_le::<2>().map(Item::Int),
        0xf2 => return cursor.int_le::<3>().map(Item::Int),
        0xf3 => return cursor.int_le::<4>().map(Item::Int),
        0xf4 => return cursor.int_le::<8>().map(Item::Int),
        _ => return BlobError::new(at, "no entry has such a form"),
    };
    cursor.bytes(len).map(Item::Bytes)
}

/// After an entry comes its length, so that a listpack can be read backwards as well.
fn check_length_behind(cursor: &mut Cursor<'_>, at: usize) -> Result<(), BlobError> {
    let (bytes, len) = length_behind(cursor.at - at);
    if cursor.bytes(len)? == &bytes[..len] {
        return Ok(());
    }
    BlobError::new(at, "behind the entry stands another length")
}

/// The length of an entry as it is written after it: the bytes, and the number of them.
fn length_behind(len: usize) -> ([u8; 5], usize) {
    let width = match len {
        0..=127 => 1,
        128..=16_382 => 2,
        16_383..=2_097_150 => 3,
        2_097_151..=268_435_454 => 4,
        _ => 5,
    };
    let mut bytes = [0; 5];
    for (index, byte) in bytes[..width].iter_mut().rev().enumerate() {
        *byte = (len >> (7 * index) & 0x7f) as u8 | 0x80;
    }
    bytes[0] &= 0x7f;
    (bytes, width)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::tests::{assert_only_whole, elements};
    use crate::format::Form::Listpack;

    /// A listpack of entries, each of which is given without the length after it.
    pub(crate) fn listpack(entries: &[&[u8]]) -> Vec<u8> {
        let mut body = Vec::new();
        for entry in entries {
            let (bytes, len) = super::length_behind(entry.len());
            body.extend(*entry);
            body.extend(&bytes[..len]);
        }
        let bytes = (body.len() as u32 + 7).to_le_bytes();
        [&bytes[..], &(entries.len() as u16).to_le_bytes(), &body, &[0xff]].concat()
    }

    #[test]
    fn lengths_behind_entries_are_those_of_redis() {
        for (len, bytes) in [
            (0, &[0][..]),
            (127, &[127]),
            (128, &[1, 0x80]),
            (16_382, &[127, 0xfe]),
            (16_383, &[0, 0xff, 0xff]),
            (2_097_151, &[0, 0xff, 0xff, 0xff]),
            (268_435_455, &[0, 0xff, 0xff, 0xff, 0xff]),
        ] {
            let (made, width) = super::length_behind(len);
            assert_eq!(&made[..width], bytes, "{len}");
        }
    }

    #[test]
    fn every_form_of_an_entry_is_read() {
        let medium = [&[0xe1, 0x2c][..], &[b'm'; 300]].concat();
        let large = [&[0xf0, 0x01, 0x50, 0, 0][..], &[b'l'; 0x5001]].concat();
        let blob = listpack(&[
            b"\x00",
            b"\x7f",
            b"\x83abc",
            b"\x80",
            b"\xcf\xff",
            b"\xd0\x00",
            b"\xdf\xff",
            &medium,
            &large,
            b"\xf1\x00\x80",
            b"\xf2\x00\x00\x80",
            b"\xf3\x00\x00\x00\x80",
            b"\xf4\x00\x00\x00\x00\x00\x00\x00\x80",
        ]);
        let expected = [
            "0".to_owned(),
            "127".into(),
            "abc".into(),
            String::new(),
            "4095".into(),
            "-4096".into(),
            "-1".into(),
            "m".repeat(300),
            "l".repeat(0x5001),
            "-32768".into(),
            "-8388608".into(),
            "-2147483648".into(),
            "-9223372036854775808".into(),
        ];
        assert_eq!(elements(Listpack, &blob), Ok(expected.to_vec()));
        assert_only_whole(Listpack, &listpack(&[b"\x83abc", b"\x07", b"\xf1\x00\x80"]));
        assert_only_whole(Listpack, &listpack(&[]));
    }

    #[test]
    fn what_is_built_is_read() {
        let numbers = (0..64).flat_map(|bits| [1_i64 << bits, (1_i64 << bits).wrapping_sub(1)]);
        let numbers: Vec<i64> = numbers.flat_map(|number| [number, number.wrapping_neg()]).collect();
        let strings = ["", "-0", "+1", "01", "9223372036854775808", "word"].map(str::to_owned);
        let long = [63, 64, 127, 128, 4095, 4096, 70_000].map(|len| "x".repeat(len));
        let mut builder = super::Builder::new();
        numbers.iter().for_each(|number| builder.push(number.to_string().as_bytes()));
        strings.iter().chain(&long).for_each(|string| builder.push(string.as_bytes()));
        let len = builder.len();
        let blob = builder.finish();
        assert_eq!(blob.len(), len);
        let expected = numbers.iter().map(i64::to_string).chain(strings).chain(long);
        assert_eq!(elements(Listpack, &blob), Ok(expected.collect()));
        // Numbers are not written as strings.
        let mut one = super::Builder::new();
        one.push(b"-4096");
        assert_eq!(one.finish(), listpack(&[b"\xd0\x00"]));
        let mut many = super::Builder::new();
        (0..70_000).for_each(|_| many.push_int(7));
        assert_eq!(elements(Listpack, &many.finish()).map(|all| all.len()), Ok(70_000));
    }

    #[test]
    fn many_entries_are_counted() {
        let mut blob = listpack(&vec![&b"\x07"[..]; 70_000]);
        blob[4..6].copy_from_slice(&[0xff; 2]);
        assert_eq!(elements(Listpack, &blob).map(|all| all.len()), Ok(70_000));
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        let blob = listpack(&[b"\x83abc", b"\x07"]);
        // All bytes, the count, the length after an entry, forms that do not exist, an end within.
        for (at, byte) in [(0, 1), (4, 3), (10, 5), (10, 0x84), (6, 0xf5), (6, 0xfe), (6, 0xff)] {
            let mut other = blob.clone();
            other[at] = byte;
            assert!(elements(Listpack, &other).is_err(), "byte {at}");
        }
    }
}
