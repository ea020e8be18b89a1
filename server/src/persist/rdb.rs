//! Between the store and Redis's RDB format: what an entry is written as, and what a value that was read
//! becomes.
//!
//! ```text
//!   Entry ──write_value──> tarn_rdb::ValueWriter
//!   tarn_rdb::Reader ──elements──> ChangeBuilder ──finish──> Change
//! ```

use std::io::{self, Write};

use tarn_engine::record::{Change, Kind, UnixMs};
use tarn_engine::value::{ImageBuilder, ValueRef};
use tarn_rdb::{ValueWriter, Visitor};

use crate::json::document;

/// The format's word for a kind.
pub const fn rdb_kind(kind: Kind) -> tarn_rdb::Kind {
    match kind {
        Kind::String => tarn_rdb::Kind::String,
        Kind::List => tarn_rdb::Kind::List,
        Kind::Set => tarn_rdb::Kind::Set,
        Kind::ZSet => tarn_rdb::Kind::ZSet,
        Kind::Hash => tarn_rdb::Kind::Hash,
        Kind::Json => tarn_rdb::Kind::Json,
        Kind::Stream => unimplemented!(),
    }
}

const fn engine_kind(kind: tarn_rdb::Kind) -> Kind {
    match kind {
        tarn_rdb::Kind::String => Kind::String,
        tarn_rdb::Kind::List => Kind::List,
        tarn_rdb::Kind::Set => Kind::Set,
        tarn_rdb::Kind::ZSet => Kind::ZSet,
        tarn_rdb::Kind::Hash => Kind::Hash,
        tarn_rdb::Kind::Json => Kind::Json,
    }
}

/// How many elements a value is written with.
pub fn value_len(value: ValueRef<'_>) -> u64 {
    let len = match value {
        ValueRef::String(_) | ValueRef::Json(_) => 1,
        ValueRef::List(list) => list.len(),
        ValueRef::Set(set) => set.len(),
        ValueRef::ZSet(zset) => zset.len(),
        ValueRef::Hash(hash) => hash.len(),
        ValueRef::Stream(stream) => stream.len(),
    };
    len as u64
}

/// Writes a value that was begun with its kind and length.
pub fn write_value<W: Write>(value: ValueRef<'_>, mut out: ValueWriter<'_, W>) -> io::Result<()> {
    match value {
        ValueRef::String(string) | ValueRef::Json(string) => match string.whole() {
            Some(bytes) => out.element(bytes)?,
            None => out.long_element(string.len(), string.pieces(0..string.len()))?,
        },
        ValueRef::List(list) => list.iter_from(0).try_for_each(|element| out.element(element))?,
        ValueRef::Set(set) => set.iter().try_for_each(|member| out.element(member))?,
        ValueRef::ZSet(zset) => {
            zset.iter_from(0).try_for_each(|(member, score)| out.scored(member, score))?
        }
        ValueRef::Hash(hash) => hash.iter().try_for_each(|(field, value)| out.field(field, value))?,
        ValueRef::Stream(_) => unimplemented!(),
    }
    out.finish();
    Ok(())
}

/// The text of a document is no JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotJson;

/// Makes a change of a value while it is read: a string, or the image of a collection, each in the memory in
/// which the change carries it; or a document.
#[derive(Default)]
pub struct ChangeBuilder {
    built: Option<Built>,
}

enum Built {
    String(Vec<u8>),
    /// The text, as it is kept.
    Document(Result<Vec<u8>, NotJson>),
    Collection(Kind, ImageBuilder),
}

impl ChangeBuilder {
    /// The change that puts the value, with this expiry; `None` for an empty collection, which is no value.
    pub fn finish(self, expiry: Option<UnixMs>) -> Result<Option<Change<'static>>, NotJson> {
        let (kind, elements) = match self.built {
            Some(Built::String(value)) => return Ok(Some(Change::Put { value: value.into(), expiry })),
            Some(Built::Document(text)) => (Kind::Json, text?),
            Some(Built::Collection(kind, image)) if !image.is_empty() => (kind, image.finish()),
            _ => return Ok(None),
        };
        Ok(Some(Change::Image { kind, elements: elements.into(), expiry, sticky: false }))
    }

    /// The image to which elements of the value that was begun are added.
    fn image(&mut self) -> &mut ImageBuilder {
        match &mut self.built {
            Some(Built::Collection(_, image)) => image,
            _ => unreachable!("a reader hands out elements of collections that it has begun"),
        }
    }
}

impl Visitor for ChangeBuilder {
    fn begin(&mut self, kind: tarn_rdb::Kind) {
        let kind = engine_kind(kind);
        self.built = Some(match kind {
            Kind::String => Built::String(Vec::new()),
            Kind::Json => Built::Document(Err(NotJson)),
            kind => Built::Collection(kind, ImageBuilder::new(kind)),
        });
    }

    fn string(&mut self, string: &[u8]) {
        self.built = Some(match self.built {
            Some(Built::Document(_)) => Built::Document(document::kept(string).ok_or(NotJson)),
            _ => Built::String(string.to_vec()),
        });
    }

    fn element(&mut self, element: &[u8]) {
        self.image().push_element(element);
    }

    fn field(&mut self, field: &[u8], value: &[u8]) {
        self.image().push_field(field, value);
    }

    fn scored(&mut self, member: &[u8], score: f64) {
        self.image().push_scored(member, score);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use tarn_engine::Entry;
    use tarn_engine::record::Lsn;
    use tarn_engine::value::elements_of;
    use tarn_rdb::payload;

    fn image(kind: Kind, len: usize) -> Change<'static> {
        let mut image = ImageBuilder::new(kind);
        for number in 0..len {
            let name = format!("name {number}");
            match kind {
                Kind::Hash => image.push_field(name.as_bytes(), b"value"),
                Kind::ZSet => image.push_scored(name.as_bytes(), number as f64 / 8.0),
                _ => image.push_element(name.as_bytes()),
            }
        }
        Change::Image { kind, elements: image.finish().into(), expiry: Some(7), sticky: false }
    }

    #[test]
    fn an_entry_comes_back_through_the_format_as_it_was() {
        let string = |value: &[u8]| Change::Put { value: value.to_vec().into(), expiry: Some(7) };
        let strings = [string(b"text"), string(&[b'x'; 100_000])];
        let document = |text: Vec<u8>| {
            let elements = text.into();
            Change::Image { kind: Kind::Json, elements, expiry: Some(7), sticky: false }
        };
        let long = format!("[\"{}\"]", "x".repeat(100_000)).into_bytes();
        let documents = [document(b"42".to_vec()), document(b"{\"a\":[]}".to_vec()), document(long)];
        let kinds = [Kind::List, Kind::Set, Kind::ZSet, Kind::Hash];
        let collections = kinds.into_iter().flat_map(|kind| [1, 20, 3000].map(|len| image(kind, len)));
        for change in collections.chain(strings).chain(documents) {
            let entry = Entry::create(b"key", &change, Lsn(1)).unwrap();
            let value = entry.value();
            let bytes =
                payload::write(rdb_kind(entry.kind()), value_len(value), |out| write_value(value, out));
            let mut builder = ChangeBuilder::default();
            assert_eq!(payload::read(&bytes, &mut builder).unwrap(), value_len(value));
            let read = Entry::create(b"key", &builder.finish(Some(7)).unwrap().unwrap(), Lsn(1)).unwrap();
            assert_eq!((read.kind(), read.expiry()), (entry.kind(), Some(7)));
            assert_eq!(elements_of(read.value()), elements_of(value));
            if let (ValueRef::String(read), ValueRef::String(was)) = (read.value(), value) {
                assert_eq!(read.to_bytes(), was.to_bytes());
            }
        }
    }

    #[test]
    fn nothing_and_an_empty_collection_are_no_change() {
        assert_eq!(ChangeBuilder::default().finish(None), Ok(None));
        let mut empty = ChangeBuilder::default();
        empty.begin(tarn_rdb::Kind::Set);
        assert_eq!(empty.finish(None), Ok(None));
    }

    #[test]
    fn a_document_that_is_none_is_refused_and_blanks_are_not_kept() {
        let read = |text: &[u8]| {
            let bytes = payload::write(tarn_rdb::Kind::Json, 1, |mut out| {
                out.element(text)?;
                out.finish();
                Ok(())
            });
            let mut builder = ChangeBuilder::default();
            assert_eq!(payload::read(&bytes, &mut builder).unwrap(), 1);
            builder.finish(None).map(|change| match change {
                Some(Change::Image { kind: Kind::Json, elements, .. }) => elements.into_owned(),
                other => panic!("{other:?}"),
            })
        };
        assert_eq!(read(b" [ 1, 2 ] ").as_deref(), Ok(&b"[1,2]"[..]));
        for text in [&b""[..], b"{", b"\xff", "[".repeat(1_000_000).as_bytes()] {
            assert_eq!(read(text), Err(NotJson));
        }
    }
}
