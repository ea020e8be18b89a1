//! Intsets: small sets of numbers.
//!
//! ```text
//!   | bytes of a number, u32: 2, 4 or 8 | numbers, u32 | number … |
//! ```
//!
//! Everything is little-endian; the numbers rise, so none is there twice. There is at least one: Redis
//! never writes an empty one and refuses it.

use super::{Cursor, Item, Stop, Take};
use crate::error::BlobError;

pub(super) fn walk<'a>(blob: &'a [u8], take: &mut Take<'_, 'a>) -> Result<(), Stop> {
    let mut cursor = Cursor::new(blob);
    let (width, count) = (cursor.u32_le()?, cursor.u32_le()?);
    if ![2, 4, 8].contains(&width) {
        return Ok(BlobError::new(0, "a number has 2, 4 or 8 bytes")?);
    }
    if count == 0 || u64::from(width) * u64::from(count) != cursor.left() as u64 {
        return Ok(BlobError::new(4, "it has another number of members than it says")?);
    }
    let mut previous = None;
    while cursor.left() > 0 {
        let at = cursor.at;
        let number = match width {
            2 => cursor.int_le::<2>()?,
            4 => cursor.int_le::<4>()?,
            _ => cursor.int_le::<8>()?,
        };
        if previous.is_some_and(|previous| previous >= number) {
            return Ok(BlobError::new(at, "the members are not in order")?);
        }
        previous = Some(number);
        take(Item::Int(number)).map_err(Stop::Taker)?;
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::tests::{assert_only_whole, elements};
    use crate::format::Form::Intset;

    pub(crate) fn intset(width: u32, numbers: &[i64]) -> Vec<u8> {
        let mut blob = [width.to_le_bytes(), (numbers.len() as u32).to_le_bytes()].concat();
        numbers.iter().for_each(|number| blob.extend(&number.to_le_bytes()[..width as usize]));
        blob
    }

    #[test]
    fn numbers_of_every_width_are_read() {
        for (width, low, high) in
            [(2, -32_768, 32_767), (4, -2_147_483_648, 2_147_483_647), (8, i64::MIN, i64::MAX)]
        {
            let blob = intset(width, &[low, -1, 0, high]);
            assert_eq!(elements(Intset, &blob), Ok([low, -1, 0, high].map(|one| one.to_string()).to_vec()));
            assert_only_whole(Intset, &blob);
        }
    }

    #[test]
    fn what_is_empty_out_of_order_double_or_of_another_width_is_refused() {
        for blob in [intset(2, &[]), intset(2, &[2, 1]), intset(4, &[1, 1]), intset(3, &[1, 2])] {
            assert!(elements(Intset, &blob).is_err(), "{blob:?}");
        }
        // This many members, so that their bytes overflow 32 bits.
        assert!(elements(Intset, &[8, 0, 0, 0, 0, 0, 0, 0x20]).is_err());
    }
}
