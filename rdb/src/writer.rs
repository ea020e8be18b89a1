//! Writes a file of version 9: plain types only, and streams in the form of Redis 5, so that every Redis
//! since 5 and its descendants load it. One with functions is of version 10, that of Redis 7.0, and so are
//! its streams; one of hashes whose fields have times is of version 12, that of Redis 7.4. Who asks for it
//! gets version 10 to 12, or 80 for Valkey 9, which differ in the forms of streams and of such hashes.
//!
//! ```text
//!   REDIS0009 | AUX … | FUNCTION2 … | databases … | EOF | crc
//!   database:   SELECTDB n | RESIZEDB keys expiring | [EXPIRETIME_MS] type key value | …
//! ```

use crate::format::{
    Kind, MAGIC, VALKEY_MAGIC, VERSION_WITH_FUNCTIONS, VERSION_WRITTEN, VERSIONS_WRITTEN, is_of_valkey, op,
    written_timed_type, written_type,
};
use crate::sink::{Sink, ValueWriter};
use std::io::{self, Write};

/// Writes a file.
pub struct Writer<W> {
    sink: Sink<W>,
    version: u16,
}

impl<W: Write> Writer<W> {
    /// Begins a file without functions; `output` needs no buffer of its own.
    pub fn new(output: W) -> io::Result<Writer<W>> {
        Writer::begin(output, VERSION_WRITTEN)
    }

    /// Begins a file that will have functions; `output` needs no buffer of its own.
    pub fn with_functions(output: W) -> io::Result<Writer<W>> {
        Writer::begin(output, VERSION_WITH_FUNCTIONS)
    }

    /// Begins a file of this version, one of [`VERSIONS_WRITTEN`]; `output` needs no buffer of its own.
    ///
    /// Panics if the version is another one.
    pub fn of_version(output: W, version: u16) -> io::Result<Writer<W>> {
        assert!(VERSIONS_WRITTEN.contains(&version), "this version can be written");
        Writer::begin(output, version)
    }

    /// Compresses strings by LZF where that makes them shorter, as every Redis reads them. Those of more
    /// than 16 MiB are written as they are.
    pub fn compressing(mut self, compresses: bool) -> Writer<W> {
        self.sink.set_compression(compresses);
        self
    }

    fn begin(output: W, version: u16) -> io::Result<Writer<W>> {
        let mut sink = Sink::new(output);
        if is_of_valkey(version) {
            sink.bytes(VALKEY_MAGIC)?;
            sink.bytes(format!("{version:03}").as_bytes())?;
        } else {
            sink.bytes(MAGIC)?;
            sink.bytes(format!("{version:04}").as_bytes())?;
        }
        Ok(Writer { sink, version })
    }

    /// Whether fields of hashes have times in a file of this version.
    pub fn has_field_times(&self) -> bool {
        written_timed_type(self.version).is_some()
    }

    /// A library of functions: its source. Libraries come before the first key.
    ///
    /// Panics if the file is of version 9, which has none.
    pub fn function(&mut self, source: &[u8]) -> io::Result<()> {
        assert!(self.version >= VERSION_WITH_FUNCTIONS, "a file of this version has functions");
        self.sink.bytes(&[op::FUNCTION2])?;
        self.sink.string(source)
    }

    /// The fields about the file that every Redis writes: which version it says it is, when it is written, in
    /// seconds since the Unix epoch, and how much memory the data takes.
    pub fn about(&mut self, redis_version: &str, created_s: u64, memory_bytes: u64) -> io::Result<()> {
        self.field("redis-ver", redis_version)?;
        self.field("redis-bits", "64")?;
        self.field("ctime", &created_s.to_string())?;
        self.field("used-mem", &memory_bytes.to_string())
    }

    /// Another field about the file, which readers that do not know it pass over.
    pub fn field(&mut self, name: &str, value: &str) -> io::Result<()> {
        self.sink.bytes(&[op::AUX])?;
        self.sink.string(name.as_bytes())?;
        self.sink.string(value.as_bytes())
    }

    /// The keys that follow are of this database. The number of them, and the number of those that expire,
    /// are hints: a loader makes room for them.
    pub fn begin_database(&mut self, database: u64, keys: u64, expiring: u64) -> io::Result<()> {
        self.sink.bytes(&[op::SELECTDB])?;
        self.sink.number(database)?;
        self.sink.bytes(&[op::RESIZEDB])?;
        self.sink.number(keys)?;
        self.sink.number(expiring)
    }

    /// Begins a key with a value of `len` elements, 1 for a string; it has to be finished before the next. A
    /// stream counts 1 more than it has entries.
    ///
    /// Panics if `len` is 0: there are no empty collections.
    pub fn begin_value(
        &mut self,
        key: &[u8],
        expiry_ms: Option<u64>,
        kind: Kind,
        len: u64,
    ) -> io::Result<ValueWriter<'_, W>> {
        self.key(key, expiry_ms, written_type(kind, self.version))?;
        ValueWriter::begin(&mut self.sink, kind, self.version, len)
    }

    /// As `begin_value`, of a hash of `len` fields, some of which have times, none before `first`.
    ///
    /// Panics if `len` is 0, or fields have no times in a file of this version.
    pub fn begin_timed_hash(
        &mut self,
        key: &[u8],
        expiry_ms: Option<u64>,
        len: u64,
        first: u64,
    ) -> io::Result<ValueWriter<'_, W>> {
        let written = written_timed_type(self.version);
        let (number, form) = written.expect("fields have times in a file of this version");
        self.key(key, expiry_ms, number)?;
        ValueWriter::begin_timed_hash(&mut self.sink, form, self.version, len, first)
    }

    fn key(&mut self, key: &[u8], expiry_ms: Option<u64>, number: u8) -> io::Result<()> {
        if let Some(expiry_ms) = expiry_ms {
            self.sink.bytes(&[op::EXPIRETIME_MS])?;
            self.sink.bytes(&expiry_ms.to_le_bytes())?;
        }
        self.sink.bytes(&[number])?;
        self.sink.string(key)
    }

    /// Ends the file and writes everything out; making it durable is the caller's business.
    pub fn finish(mut self) -> io::Result<W> {
        self.sink.bytes(&[op::EOF])?;
        self.sink.finish()
    }
}
