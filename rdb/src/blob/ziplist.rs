//! Ziplists: lists, hashes and sorted sets of Redis up to 6.2.
//!
//! ```text
//!   | all bytes, u32 | where the last entry begins, u32 | entries, u16 | entry … | 0xff |
//!
//!   entry: | bytes of the entry before: 1, or 0xfe and u32 | form and length, or number | bytes |
//! ```
//!
//! 65535 entries mean "count them". Numbers are little-endian, but for the lengths of strings.

use super::{Cursor, Item, Stop, Take};
use crate::error::BlobError;

const END: u8 = 0xff;
const LONG_PREVIOUS: u8 = 0xfe;
const UNCOUNTED: u16 = u16::MAX;

pub(super) fn walk<'a>(blob: &'a [u8], take: &mut Take<'_, 'a>) -> Result<(), Stop> {
    let mut cursor = Cursor::new(blob);
    if cursor.u32_le()? as usize != blob.len() {
        return Ok(BlobError::new(0, "its length is another than it says")?);
    }
    let (tail, count) = (cursor.u32_le()?, cursor.u16_le()?);
    let (mut entries, mut last, mut previous_len) = (0_usize, cursor.at, 0);
    loop {
        let at = cursor.at;
        let first = cursor.byte()?;
        if first == END {
            break;
        }
        let previous = if first == LONG_PREVIOUS { cursor.u32_le()? as usize } else { usize::from(first) };
        if previous != previous_len {
            return Ok(BlobError::new(at, "the entry before it has another length")?);
        }
        take(item(&mut cursor)?).map_err(Stop::Taker)?;
        (last, previous_len) = (at, cursor.at - at);
        entries += 1;
    }
    if cursor.left() > 0 {
        return Ok(BlobError::new(cursor.at, "it goes on behind its end")?);
    }
    if count != UNCOUNTED && entries != usize::from(count) {
        return Ok(BlobError::new(8, "it has another number of entries than it says")?);
    }
    if entries > 0 && tail as usize != last {
        return Ok(BlobError::new(4, "its last entry stands elsewhere than it says")?);
    }
    Ok(())
}

fn item<'a>(cursor: &mut Cursor<'a>) -> Result<Item<'a>, BlobError> {
    let at = cursor.at;
    let form = cursor.byte()?;
    let len = match form {
        0x00..=0x3f => usize::from(form),
        0x40..=0x7f => usize::from(form & 0x3f) << 8 | usize::from(cursor.byte()?),
        0x80 => u32::from_be_bytes(cursor.array()?) as usize,
        0xc0 => return cursor.int_le::<2>().map(Item::Int),
        0xd0 => return cursor.int_le::<4>().map(Item::Int),
        0xe0 => return cursor.int_le::<8>().map(Item::Int),
        0xf0 => return cursor.int_le::<3>().map(Item::Int),
        0xfe => return cursor.int_le::<1>().map(Item::Int),
        0xf1..=0xfd => return Ok(Item::Int(i64::from(form & 0x0f) - 1)),
        _ => return BlobError::new(at, "no entry has such a form"),
    };
    cursor.bytes(len).map(Item::Bytes)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::tests::{assert_only_whole, elements};
    use crate::format::Form::Ziplist;

    /// A ziplist of entries that each are given without the length of the one before.
    pub(crate) fn ziplist(entries: &[&[u8]]) -> Vec<u8> {
        let (mut body, mut previous, mut last) = (Vec::new(), 0_usize, 10);
        for entry in entries {
            last = 10 + body.len();
            let start = body.len();
            if previous < 254 {
                body.push(previous as u8);
            } else {
                body.push(0xfe);
                body.extend((previous as u32).to_le_bytes());
            }
            body.extend(*entry);
            previous = body.len() - start;
        }
        let bytes = (body.len() as u32 + 11).to_le_bytes();
        let count = (entries.len() as u16).to_le_bytes();
        [&bytes[..], &(last as u32).to_le_bytes(), &count, &body, &[0xff]].concat()
    }

    #[test]
    fn every_form_of_an_entry_is_read() {
        let medium = [&[0x41, 0x2c][..], &[b'm'; 300]].concat();
        let large = [&[0x80, 0, 0, 0x40, 0x01][..], &[b'l'; 0x4001]].concat();
        let blob = ziplist(&[
            b"\x03abc",
            b"\x00",
            &medium,
            b"\x01x",
            &large,
            b"\xc0\x00\x80",
            b"\xd0\x00\x00\x00\x80",
            b"\xe0\x00\x00\x00\x00\x00\x00\x00\x80",
            b"\xf0\xff\xff\xff",
            b"\xfe\x80",
            b"\xf1",
            b"\xfd",
        ]);
        let expected = [
            "abc".to_owned(),
            String::new(),
            "m".repeat(300),
            "x".into(),
            "l".repeat(0x4001),
            "-32768".into(),
            "-2147483648".into(),
            "-9223372036854775808".into(),
            "-1".into(),
            "-128".into(),
            "0".into(),
            "12".into(),
        ];
        assert_eq!(elements(Ziplist, &blob), Ok(expected.to_vec()));
        assert_only_whole(Ziplist, &ziplist(&[b"\x03abc", b"\xfe\x80", b"\xf1"]));
        assert_only_whole(Ziplist, &ziplist(&[]));
    }

    #[test]
    fn many_entries_are_counted() {
        let mut blob = ziplist(&vec![&b"\xf2"[..]; 70_000]);
        blob[8..10].copy_from_slice(&[0xff; 2]);
        assert_eq!(elements(Ziplist, &blob).map(|all| all.len()), Ok(70_000));
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        let blob = ziplist(&[b"\x03abc", b"\xfe\x80"]);
        // All bytes, the last entry, the count, the length of the entry before, two forms that there are not.
        for (at, byte) in [(0, 1), (4, 10), (8, 3), (15, 9), (11, 0xff), (11, 0x81)] {
            let mut other = blob.clone();
            other[at] = byte;
            assert!(elements(Ziplist, &other).is_err(), "byte {at}");
        }
    }
}
