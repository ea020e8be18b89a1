//! Small collections in one string, in the forms that they have in Redis's memory.
//!
//! Each form is one function that walks a blob from its first byte to its last and hands over the elements in
//! turn. All that a form says twice (lengths, counts, distances back) has to agree: a blob that Redis's
//! own thorough check would refuse is refused here as well.

pub(crate) mod intset;
pub(crate) mod listpack;
pub(crate) mod ziplist;
pub(crate) mod zipmap;

use crate::error::{BlobError, Damage};
use crate::format::Form;

/// An element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Item<'a> {
    /// A number in place of its decimal digits.
    Int(i64),
    /// A string.
    Bytes(&'a [u8]),
}

impl<'a> Item<'a> {
    /// The element as a string; `digits` is where a number is written down.
    pub(crate) fn text<'t>(self, digits: &'t mut itoa::Buffer) -> &'t [u8]
    where
        'a: 't,
    {
        match self {
            Item::Int(number) => digits.format(number).as_bytes(),
            Item::Bytes(bytes) => bytes,
        }
    }
}

/// The reason why a walk ends early: damage in the blob, or an error of the callback that takes the elements.
pub(crate) enum Stop {
    Blob(BlobError),
    Taker(Damage),
}

impl From<BlobError> for Stop {
    fn from(error: BlobError) -> Stop {
        Stop::Blob(error)
    }
}

/// The callback that takes the elements.
pub(crate) type Take<'t, 'a> = dyn FnMut(Item<'a>) -> Result<(), Damage> + 't;

/// Hands all elements of a blob to `take`.
pub(crate) fn walk<'a>(form: Form, blob: &'a [u8], take: &mut Take<'_, 'a>) -> Result<(), Damage> {
    let (name, walked) = match form {
        Form::Zipmap => ("zipmap", zipmap::walk(blob, take)),
        Form::Ziplist => ("ziplist", ziplist::walk(blob, take)),
        Form::Intset => ("intset", intset::walk(blob, take)),
        Form::Listpack => ("listpack", listpack::walk(blob, take)),
    };
    walked.map_err(|stop| match stop {
        Stop::Blob(BlobError { at, problem }) => Damage::Blob { form: name, at, problem },
        Stop::Taker(damage) => damage,
    })
}

/// A place in a blob, which never leaves it.
#[derive(Clone, Copy)]
pub(crate) struct Cursor<'a> {
    blob: &'a [u8],
    pub(crate) at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(blob: &'a [u8]) -> Cursor<'a> {
        Cursor { blob, at: 0 }
    }

    /// The number of bytes left.
    pub(crate) fn left(&self) -> usize {
        self.blob.len() - self.at
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Result<&'a [u8], BlobError> {
        match self.blob[self.at..].get(..len) {
            Some(bytes) => {
                self.at += len;
                Ok(bytes)
            }
            None => BlobError::new(self.at, "it ends too soon"),
        }
    }

    pub(crate) fn byte(&mut self) -> Result<u8, BlobError> {
        Ok(self.bytes(1)?[0])
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], BlobError> {
        let bytes = self.bytes(N)?;
        Ok(bytes.try_into().expect("so many bytes were asked for"))
    }

    pub(crate) fn u16_le(&mut self) -> Result<u16, BlobError> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(crate) fn u32_le(&mut self) -> Result<u32, BlobError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// A signed number of `N` bytes, at most 8, lowest first.
    pub(crate) fn int_le<const N: usize>(&mut self) -> Result<i64, BlobError> {
        let bytes: [u8; N] = self.array()?;
        let mut wide = [0; 8];
        wide[8 - N..].copy_from_slice(&bytes);
        Ok(i64::from_le_bytes(wide) >> (64 - 8 * N))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The elements of a blob as text, or its fault.
    pub(crate) fn elements(form: Form, blob: &[u8]) -> Result<Vec<String>, Damage> {
        let mut elements = Vec::new();
        walk(form, blob, &mut |item| {
            elements.push(String::from_utf8_lossy(item.text(&mut itoa::Buffer::new())).into_owned());
            Ok(())
        })?;
        Ok(elements)
    }

    /// Every prefix of a blob is refused, and so is the blob with a byte more.
    pub(crate) fn assert_only_whole(form: Form, blob: &[u8]) {
        elements(form, blob).expect("the whole is read");
        for len in 0..blob.len() {
            assert!(elements(form, &blob[..len]).is_err(), "{form:?} cut to {len} bytes");
        }
        for more in [0, 0xff] {
            assert!(elements(form, &[blob, &[more]].concat()).is_err(), "{form:?} with {more} behind");
        }
    }

    #[test]
    fn numbers_of_any_width_keep_their_sign() {
        for (bytes, number) in [(&[0xff][..], -1), (&[0x7f], 127), (&[0x80], -128)] {
            assert_eq!(Cursor::new(bytes).int_le::<1>(), Ok(number));
        }
        assert_eq!(Cursor::new(&[0, 0, 0x80]).int_le::<3>(), Ok(-8_388_608));
        assert_eq!(Cursor::new(&[0xff, 0xff, 0x7f]).int_le::<3>(), Ok(8_388_607));
        assert_eq!(Cursor::new(&[0xff; 8]).int_le::<8>(), Ok(-1));
    }
}
