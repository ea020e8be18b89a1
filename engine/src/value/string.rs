//! Strings: their bytes in one allocation while they are small, in chunks when they are giant.

use std::borrow::Cow;
use std::ops::Range;

use super::chunks::Chunks;
use super::left::ARC_BYTES;

/// Longest string that is kept in one allocation, which a write during a view copies.
pub(crate) const WHOLE_BYTES_MAX: usize = (16 << 10) - ARC_BYTES;

/// A string, borrowed from its entry. The default is the empty one.
#[derive(Clone, Copy)]
pub struct StringRef<'a>(Form<'a>);

#[derive(Clone, Copy)]
enum Form<'a> {
    Whole(&'a [u8]),
    Chunks(&'a Chunks),
}

impl<'a> StringRef<'a> {
    pub(crate) fn of_chunks(chunks: &'a Chunks) -> StringRef<'a> {
        StringRef(Form::Chunks(chunks))
    }

    /// Number of bytes.
    #[inline]
    pub fn len(&self) -> usize {
        match self.0 {
            Form::Whole(bytes) => bytes.len(),
            Form::Chunks(chunks) => chunks.len(),
        }
    }

    /// Whether there is no byte.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes, if they stand in one place, as those of all but giant strings do.
    #[inline]
    pub fn whole(&self) -> Option<&'a [u8]> {
        match self.0 {
            Form::Whole(bytes) => Some(bytes),
            Form::Chunks(_) => None,
        }
    }

    /// The byte at `at`, if there is one.
    pub fn get(&self, at: usize) -> Option<u8> {
        match self.0 {
            Form::Whole(bytes) => bytes.get(at).copied(),
            Form::Chunks(chunks) => (at < chunks.len()).then(|| chunks.piece(at)[0]),
        }
    }

    /// The bytes of a range in order, some thousands in one piece; no piece is empty.
    ///
    /// Panics if the range does not end in the string.
    pub fn pieces(&self, range: Range<usize>) -> impl Iterator<Item = &'a [u8]> + Clone + use<'a> {
        assert!(range.start <= range.end && range.end <= self.len(), "{range:?} of {} bytes", self.len());
        let (whole, chunks) = match self.0 {
            Form::Whole(bytes) => (Some(&bytes[range]).filter(|bytes| !bytes.is_empty()), None),
            Form::Chunks(chunks) => (None, Some(chunks.pieces(range))),
        };
        whole.into_iter().chain(chunks.into_iter().flatten())
    }

    /// All bytes; a copy of a giant string's.
    pub fn to_bytes(&self) -> Cow<'a, [u8]> {
        match self.0 {
            Form::Whole(bytes) => Cow::Borrowed(bytes),
            Form::Chunks(_) => Cow::Owned(self.to_vec()),
        }
    }

    /// A copy of all bytes.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len());
        self.pieces(0..self.len()).for_each(|piece| bytes.extend_from_slice(piece));
        bytes
    }
}

impl Default for StringRef<'_> {
    fn default() -> Self {
        StringRef(Form::Whole(&[]))
    }
}

impl<'a> From<&'a [u8]> for StringRef<'a> {
    #[inline]
    fn from(bytes: &'a [u8]) -> Self {
        StringRef(Form::Whole(bytes))
    }
}
