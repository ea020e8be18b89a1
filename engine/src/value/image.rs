//! Whole collections in one run of bytes, as `Change::Image` carries them.
//!
//! ```text
//! list, set:   [varint length][element] …
//! hash:        [varint length][field][varint length][value] …
//!              of a field with a time:  [varint length + 2^30][field][varint length][value]
//!                                       [Unix milliseconds, 8 bytes little-endian]
//! stream:      as a hash: the names of its elements, and their values
//! sorted set:  [varint length][member][score, 8 bytes little-endian] …
//! ```

use super::ValueRef;
use super::packed::{Varint, lsn_bytes};
use super::run::{checked_length, checked_run};
use super::stream::element;
use crate::record::{BYTES_MAX, FIELD_TIME_MAX, Kind, Lsn, UnixMs};

/// Added to the length of a field where a time follows the value.
const TIMED: usize = 1 << 30;

const _: () = assert!(BYTES_MAX < TIMED, "no field is so long");

/// Builds an image element by element.
pub struct ImageBuilder {
    kind: Kind,
    bytes: Vec<u8>,
    len: usize,
}

impl ImageBuilder {
    /// An empty image of a collection of this kind.
    pub fn new(kind: Kind) -> ImageBuilder {
        ImageBuilder { kind, bytes: Vec::new(), len: 0 }
    }

    /// Adds an element of a list or a set.
    pub fn push_element(&mut self, element: &[u8]) {
        debug_assert!(matches!(self.kind, Kind::List | Kind::Set));
        self.push_run(element);
        self.len += 1;
    }

    /// Adds a field of a hash, or an element of a stream.
    pub fn push_field(&mut self, field: &[u8], value: &[u8]) {
        debug_assert!(matches!(self.kind, Kind::Hash | Kind::Stream));
        self.push_run(field);
        self.push_run(value);
        self.len += 1;
    }

    /// Adds a field of a hash, and its time if it has one. REQUIRES: that is at most [`FIELD_TIME_MAX`].
    pub fn push_timed(&mut self, field: &[u8], value: &[u8], time: Option<UnixMs>) {
        let Some(time) = time else { return self.push_field(field, value) };
        debug_assert_eq!(self.kind, Kind::Hash);
        self.bytes.extend_from_slice(Varint::new(field.len() + TIMED).as_slice());
        self.bytes.extend_from_slice(field);
        self.push_run(value);
        self.bytes.extend_from_slice(&time.to_le_bytes());
        self.len += 1;
    }

    /// Adds a member of a sorted set.
    pub fn push_scored(&mut self, member: &[u8], score: f64) {
        debug_assert_eq!(self.kind, Kind::ZSet);
        self.push_run(member);
        self.bytes.extend_from_slice(&score.to_le_bytes());
        self.len += 1;
    }

    /// How many elements were added.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether none was.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of the image so far.
    pub fn bytes_len(&self) -> usize {
        self.bytes.len()
    }

    /// The image.
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }

    fn push_run(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(Varint::new(bytes.len()).as_slice());
        self.bytes.extend_from_slice(bytes);
    }
}

/// The image of a collection, or the text of a document; a string's is empty, for it has none.
pub fn elements_of(value: ValueRef<'_>) -> Vec<u8> {
    let (mut list, mut set) = (ImageBuilder::new(Kind::List), ImageBuilder::new(Kind::Set));
    let (mut hash, mut zset) = (ImageBuilder::new(Kind::Hash), ImageBuilder::new(Kind::ZSet));
    match value {
        ValueRef::String(_) => Vec::new(),
        ValueRef::Json(text) => text.to_vec(),
        ValueRef::List(elements) => {
            elements.iter_from(0).for_each(|element| list.push_element(element));
            list.finish()
        }
        ValueRef::Set(members) => {
            members.iter().for_each(|member| set.push_element(member));
            set.finish()
        }
        ValueRef::Hash(fields) => {
            fields.iter_timed().for_each(|(field, value, time)| hash.push_timed(field, value, time));
            hash.finish()
        }
        ValueRef::Stream(elements) => {
            let mut stream = ImageBuilder::new(Kind::Stream);
            elements.elements().for_each(|(name, value)| stream.push_field(&name, value));
            stream.finish()
        }
        ValueRef::ZSet(members) => {
            members.iter_from(0).for_each(|(member, score)| zset.push_scored(member, score));
            zset.finish()
        }
    }
}

/// Bytes that are no image of their kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no image of a {}: damage at byte {at}", kind.name())]
pub struct ImageError {
    /// The kind that was expected.
    pub kind: Kind,
    /// Where the element begins that cannot be read.
    pub at: usize,
}

/// An element of an image.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ImageItem<'a> {
    /// Element, member or field.
    pub name: &'a [u8],
    /// The value of a field of a hash or an element of a stream; empty for other kinds.
    pub value: &'a [u8],
    /// A sorted set's score, never NaN; 0 for other kinds.
    pub score: f64,
    /// The time of a field of a hash, if it has one, at most [`FIELD_TIME_MAX`].
    pub time: Option<UnixMs>,
}

/// The packed elements that an image stands for, in its order, how many they are, and whether any has a
/// time; a name may be there twice.
pub(crate) fn pack(kind: Kind, bytes: &[u8], lsn: Lsn) -> Result<(usize, Vec<u8>, bool), ImageError> {
    let (mut packed, mut count, mut has_times) = (Vec::new(), 0, false);
    let lsn = lsn_bytes(lsn);
    let mut push = |parts: &[&[u8]]| parts.iter().for_each(|part| packed.extend_from_slice(part));
    for item in decode(kind, bytes) {
        let item = item?;
        let (name_len, value_len) = (Varint::new(item.name.len()), Varint::new(item.value.len()));
        let name = [name_len.as_slice(), item.name];
        match kind {
            Kind::String | Kind::List | Kind::Json => {}
            Kind::Set | Kind::Hash | Kind::Stream => push(&[&lsn]),
            Kind::ZSet => push(&[&lsn, &item.score.to_le_bytes()]),
        }
        push(&name);
        if matches!(kind, Kind::Hash | Kind::Stream) {
            push(&[value_len.as_slice(), item.value]);
        }
        has_times |= item.time.is_some();
        count += 1;
    }
    Ok((count, packed, has_times))
}

/// Reads an image that may be anything; stops behind the first error.
pub struct ImageItems<'a> {
    kind: Kind,
    bytes: &'a [u8],
    at: usize,
}

/// The elements of an image.
pub fn decode(kind: Kind, bytes: &[u8]) -> ImageItems<'_> {
    ImageItems { kind, bytes, at: 0 }
}

impl<'a> ImageItems<'a> {
    fn item(&mut self) -> Option<ImageItem<'a>> {
        if self.kind == Kind::Hash {
            return self.field();
        }
        let mut item = ImageItem { name: self.run()?, value: &[], score: 0.0, time: None };
        match self.kind {
            Kind::String | Kind::Json | Kind::Hash => return None,
            Kind::List | Kind::Set => {}
            Kind::Stream => {
                item.value = self.run()?;
                return element::is_sound(item.name, item.value).then_some(item);
            }
            Kind::ZSet => {
                let score = self.bytes.get(self.at..)?.first_chunk()?;
                self.at += score.len();
                item.score = f64::from_le_bytes(*score);
            }
        }
        (!item.score.is_nan()).then_some(item)
    }

    /// A field of a hash.
    fn field(&mut self) -> Option<ImageItem<'a>> {
        let (length, start) = checked_length(self.bytes, self.at)?;
        let (is_timed, length) = (length & TIMED != 0, length & !TIMED);
        let name = self.bytes.get(start..)?.get(..length).filter(|name| name.len() <= BYTES_MAX)?;
        self.at = start + length;
        let mut item = ImageItem { name, value: self.run()?, score: 0.0, time: None };
        if is_timed {
            let time: &[u8; 8] = self.bytes.get(self.at..)?.first_chunk()?;
            self.at += time.len();
            item.time = Some(UnixMs::from_le_bytes(*time)).filter(|time| *time <= FIELD_TIME_MAX);
            item.time?;
        }
        Some(item)
    }

    fn run(&mut self) -> Option<&'a [u8]> {
        let (run, end) = checked_run(self.bytes, self.at)?;
        self.at = end;
        (run.len() <= BYTES_MAX).then_some(run)
    }
}

impl<'a> Iterator for ImageItems<'a> {
    type Item = Result<ImageItem<'a>, ImageError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.bytes.len() {
            return None;
        }
        let at = self.at;
        let item = self.item().ok_or(ImageError { kind: self.kind, at });
        if item.is_err() {
            self.at = self.bytes.len();
        }
        Some(item)
    }
}
