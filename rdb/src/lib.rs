//! Redis's RDB format: reading every version of Redis from 1 to 13, and 80 and 81 of Valkey, writing versions
//! 9 to 12, and 80.
//!
//! ```text
//!   dump.rdb ──> Reader ──next_key──> Head: database, expiry, kind     key, then
//!                       └─read_value─> Visitor: string, elements, fields, scored members, parts of a stream
//!
//!   Writer ──begin_database, begin_value──> ValueWriter ──element by element──> finish ──> dump.rdb
//! ```
//!
//! A value by itself, in the form of `DUMP` and `RESTORE`, is in `payload`. `docs/format/rdb.md` says byte by
//! byte which forms are read, written and refused.
//!
//! No file makes the reader panic, wait for ever, or hold more than the bytes that have arrived: a length is
//! believed only as far as there are bytes for it. Only decompression makes more of them, at most 88 times as
//! much of one string. Names that parts of a stream share are told in no more than 128 times its bytes,
//! beside two megabytes.
//!
//! ```
//! use tarn_rdb::{Head, Kind, Reader, Unsupported, Visitor, Writer};
//!
//! struct Elements(Vec<Vec<u8>>);
//! impl Visitor for Elements {
//!     fn element(&mut self, element: &[u8]) {
//!         self.0.push(element.to_vec());
//!     }
//! }
//!
//! let mut writer = Writer::new(Vec::new())?;
//! writer.begin_database(0, 1, 0)?;
//! let mut list = writer.begin_value(b"colors", None, Kind::List, 2)?;
//! list.element(b"red")?;
//! list.element(b"green")?;
//! list.finish();
//! let file = writer.finish()?;
//!
//! let mut reader = Reader::new(&file[..], Unsupported::Refuse)?;
//! let mut elements = Elements(Vec::new());
//! assert_eq!(reader.next_key()?, Some(Head { database: 0, kind: Kind::List, expiry_ms: None }));
//! assert_eq!(reader.key(), b"colors");
//! reader.read_value(&mut elements)?;
//! assert_eq!(elements.0, [b"red".to_vec(), b"green".to_vec()]);
//! assert_eq!(reader.next_key()?, None);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod blob;
mod crc;
mod error;
mod format;
pub mod functions;
mod lzf;
mod names;
pub mod payload;
mod reader;
mod sink;
mod skip;
mod source;
pub mod stream;
mod value;
mod visitor;
mod writer;

pub use crc::crc64;
pub use error::{BlobError, Damage, ReadError};
pub use format::{
    Kind, STRING_BYTES_MAX, VERSION_OF_VALKEY, VERSION_WITH_FIELD_TIMES, VERSION_WITH_FUNCTIONS,
    VERSION_WRITTEN, VERSION_WRITTEN_MAX, VERSIONS_WRITTEN,
};
pub use reader::{Head, Reader, Skipped, Unsupported};
pub use sink::ValueWriter;
pub use visitor::Visitor;
pub use writer::Writer;

#[cfg(test)]
mod damage_tests;
#[cfg(test)]
mod fixtures;
