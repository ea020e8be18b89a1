//! Zipmaps: small hashes of Redis up to 2.4.
//!
//! ```text
//!   | fields, u8 | length, field, length, free bytes u8, value, free … | 0xff |
//! ```
//!
//! A length is one byte, or 0xfe and u32, little-endian. From 254 fields on the first byte says nothing.
//! There is at least one field.

use super::{Cursor, Item, Stop, Take};
use crate::error::BlobError;

const END: u8 = 0xff;
const LONG: u8 = 0xfe;

pub(super) fn walk<'a>(blob: &'a [u8], take: &mut Take<'_, 'a>) -> Result<(), Stop> {
    let mut cursor = Cursor::new(blob);
    let count = cursor.byte()?;
    let mut fields = 0_usize;
    loop {
        let first = cursor.byte()?;
        if first == END {
            break;
        }
        let len = length(&mut cursor, first)?;
        let field = cursor.bytes(len)?;
        let (at, first) = (cursor.at, cursor.byte()?);
        if first == END {
            return Ok(BlobError::new(at, "a field has no value")?);
        }
        let len = length(&mut cursor, first)?;
        let free = usize::from(cursor.byte()?);
        let value = cursor.bytes(len)?;
        cursor.bytes(free)?;
        take(Item::Bytes(field)).map_err(Stop::Taker)?;
        take(Item::Bytes(value)).map_err(Stop::Taker)?;
        fields += 1;
    }
    if cursor.left() > 0 {
        return Ok(BlobError::new(cursor.at, "it goes on behind its end")?);
    }
    if fields == 0 || count < LONG && fields != usize::from(count) {
        return Ok(BlobError::new(0, "it has another number of fields than it says")?);
    }
    Ok(())
}

fn length(cursor: &mut Cursor<'_>, first: u8) -> Result<usize, BlobError> {
    Ok(if first == LONG { cursor.u32_le()? as usize } else { usize::from(first) })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{assert_only_whole, elements};
    use crate::format::Form::Zipmap;

    #[test]
    fn fields_and_values_are_read_and_what_is_free_is_not() {
        let long = [&b"\x01\x01f\xfe\x2c\x01\x00\x00\x00"[..], &[b'v'; 300], b"\xff"].concat();
        assert_eq!(elements(Zipmap, &long), Ok(vec!["f".to_owned(), "v".repeat(300)]));
        let blob = b"\x02\x03foo\x03\x00bar\x00\x01\x02v??\xff";
        assert_eq!(elements(Zipmap, blob), Ok(["foo", "bar", "", "v"].map(str::to_owned).to_vec()));
        assert_only_whole(Zipmap, blob);
    }

    #[test]
    fn many_fields_are_counted() {
        let mut blob = vec![254];
        (0..300).for_each(|number| blob.extend(format!("\x03{number:03}\x00\x00").into_bytes()));
        blob.push(0xff);
        assert_eq!(elements(Zipmap, &blob).map(|all| all.len()), Ok(600));
    }

    #[test]
    fn what_is_empty_unpaired_or_miscounted_is_refused() {
        for blob in [&b"\x00\xff"[..], b"\x01\x01f\xff", b"\x02\x01f\x01\x00v\xff", b"\x00\x01f\x01\x00v\xff"]
        {
            assert!(elements(Zipmap, blob).is_err(), "{blob:?}");
        }
    }
}
