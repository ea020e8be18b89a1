//! Reads a file: key after key, each with the attributes before it.
//!
//! ```text
//!   REDIS0011 | AUX … | SELECTDB 0 | EXPIRETIME_MS | type key value | type key value | … | EOF | crc
//!   └───────────────── next_key ────────────────────────────┘ └ read_value
//! ```
//!
//! A file of Valkey begins with `VALKEY080`. What a number above 21 means depends on the version.
//!
//! The checksum comes last: until `next_key` has returned `None`, the data may still be damaged.

use crate::error::{Damage, ReadError};
use crate::format::{
    Encoding, Foreign, Kind, MAGIC, Type, VALKEY_MAGIC, VALKEY_VERSIONS, VERSION_WITH_CHECKSUM, VERSIONS,
    is_of_valkey, module_name, op,
};
use crate::skip;
use crate::source::{BUFFER_BYTES, Source, damaged};
use crate::value::{self, Scratch};
use crate::visitor::Visitor;
use std::io::Read;

/// The number of bytes of a key that an error shows.
const KEY_SHOWN_BYTES: usize = 64;

/// The treatment of keys that Tarn cannot hold: values of modules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsupported {
    /// The file is refused at the first one.
    Refuse,
    /// They are left out and counted. Modules of Redis before 4.0 are refused still: only the module knows
    /// where its value ends.
    Skip,
}

/// A key that is there, but for its name and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The logical database. Any number; whether there is such a database only the caller knows.
    pub database: u64,
    /// The kind of its value.
    pub kind: Kind,
    /// Its expiry, in milliseconds since the Unix epoch; 0 for times before. It may be long past.
    pub expiry_ms: Option<u64>,
}

/// The number of keys and other parts that were left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Keys that hold an empty collection, which no Redis means to write and every Redis leaves out.
    pub empty: u64,
    /// Values of modules.
    pub modules: u64,
    /// Data of modules that belongs to no key, or that they have beside a key's value.
    pub module_fields: u64,
    /// Libraries of functions, in the form of the release candidates of Redis 7.0.
    pub functions: u64,
}

/// Reads a file.
///
/// After an error there is nothing more to be had of it.
pub struct Reader<R> {
    source: Source<R>,
    unsupported: Unsupported,
    version: u16,
    database: u64,
    key: Vec<u8>,
    /// The encoding of the last key's value, until it is read.
    unread: Option<Encoding>,
    scratch: Scratch,
    made_by: Option<String>,
    functions: Vec<Vec<u8>>,
    skipped: Skipped,
    ended: bool,
}

impl<R: Read> Reader<R> {
    /// Begins to read; `input` needs no buffer of its own.
    pub fn new(input: R, unsupported: Unsupported) -> Result<Reader<R>, ReadError> {
        let mut source = Source::new(input, BUFFER_BYTES);
        let version = read_version(&mut source)?;
        Ok(Reader {
            source,
            unsupported,
            version,
            database: 0,
            key: Vec::new(),
            unread: None,
            scratch: Scratch::default(),
            made_by: None,
            functions: Vec::new(),
            skipped: Skipped::default(),
            ended: false,
        })
    }

    /// The version of the format.
    pub fn version(&self) -> u16 {
        self.version
    }

    /// The version of the server that wrote the file, once its first key is there; at most 64 bytes of it.
    pub fn made_by(&self) -> Option<&str> {
        self.made_by.as_deref()
    }

    /// The number of bytes that were read.
    pub fn offset(&self) -> u64 {
        self.source.offset()
    }

    /// The sources of the libraries of functions so far; they come before the first key.
    pub fn functions(&self) -> &[Vec<u8>] {
        &self.functions
    }

    /// The parts left out so far.
    pub fn skipped(&self) -> Skipped {
        self.skipped
    }

    /// The name of the key that `next_key` found last.
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// Continues with the next key; `None` after the last one, if the checksum is right. A value that was not
    /// read is skipped.
    pub fn next_key(&mut self) -> Result<Option<Head>, ReadError> {
        if self.unread.is_some() {
            self.read_value(&mut ())?;
        }
        let mut expiry_ms = None;
        while !self.ended {
            let offset = self.source.offset();
            let number = self.source.byte("the type of a key")?;
            match number {
                op::EOF => self.end()?,
                op::EXPIRETIME => {
                    let seconds = i32::from_le_bytes(self.source.array("an expiry")?);
                    expiry_ms = Some(u64::try_from(seconds).unwrap_or(0) * 1000);
                }
                op::EXPIRETIME_MS => {
                    let ms = i64::from_le_bytes(self.source.array("an expiry")?);
                    expiry_ms = Some(u64::try_from(ms).unwrap_or(0));
                }
                op::SLOT_INFO..=op::SELECTDB => self.read_opcode(number)?,
                op::UPDATE | op::KEY_META => self.read_late_opcode(number, offset)?,
                _ => {
                    let unknown = || damaged(offset, Damage::Type(number));
                    let found = Type::of(number, self.version).ok_or_else(unknown)?;
                    self.source.string(&mut self.key)?;
                    match value::held(found, &mut self.source)? {
                        Ok(encoding) => {
                            self.unread = Some(encoding);
                            let (database, kind) = (self.database, encoding.kind());
                            return Ok(Some(Head { database, kind, expiry_ms }));
                        }
                        Err(foreign) => self.skip_foreign(foreign, offset, number)?,
                    }
                    expiry_ms = None;
                }
            }
        }
        Ok(None)
    }

    /// Reads the value of the key that `next_key` found last; how many elements it has, 1 for a string. A
    /// stream counts 1 more than it has entries.
    ///
    /// 0 says that the key is to be left out: the collection is empty, which is counted. So is a value that
    /// was read before.
    pub fn read_value(&mut self, visitor: &mut dyn Visitor) -> Result<u64, ReadError> {
        let Some(encoding) = self.unread.take() else { return Ok(0) };
        let count = value::read(encoding, &mut self.source, &mut self.scratch, visitor)?;
        self.skipped.empty += u64::from(count == 0);
        Ok(count)
    }

    /// Refuses bytes after the end, as there are where an append-only file continues with commands. Waits for
    /// a stream that stays open.
    pub fn expect_end(&mut self) -> Result<(), ReadError> {
        if self.source.is_at_end()? {
            return Ok(());
        }
        Err(ReadError::Trailing { offset: self.source.offset() })
    }

    /// Reads an entry between keys that is neither an expiry nor the end.
    fn read_opcode(&mut self, number: u8) -> Result<(), ReadError> {
        let source = &mut self.source;
        match number {
            op::SELECTDB => self.database = source.number()?,
            op::RESIZEDB => skip::numbers(source, 2)?,
            op::AUX => self.read_field()?,
            op::FREQ => _ = source.byte("how often a key is used")?,
            op::IDLE => skip::numbers(source, 1)?,
            op::SLOT_INFO => skip::numbers(source, 3)?,
            op::MODULE_AUX => {
                // The module, then the mark of a number, then the number, which says whether this comes
                // before or after the keys.
                skip::numbers(source, 3)?;
                skip::module_parts(source)?;
                self.skipped.module_fields += 1;
            }
            op::FUNCTION => {
                skip::early_function(source)?;
                self.skipped.functions += 1;
            }
            op::FUNCTION2 => {
                let mut library = Vec::new();
                source.string(&mut library)?;
                self.functions.push(library);
            }
            _ => unreachable!("expiries and the end are read where keys are looked for"),
        }
        Ok(())
    }

    /// Reads an entry between keys whose number means something since Redis 8.6 and Valkey 9 alone.
    fn read_late_opcode(&mut self, number: u8, offset: u64) -> Result<(), ReadError> {
        let (what, remedy) = match number {
            op::KEY_META if !is_of_valkey(self.version) => {
                for _ in 0..self.source.number()? {
                    // Which module it is, and in which form its data are.
                    self.source.skip(4, "what a module knows of a key")?;
                    skip::module_parts(&mut self.source)?;
                    self.skipped.module_fields += 1;
                }
                return Ok(());
            }
            // Keys of such slots are in the file, and belong to another server still.
            op::KEY_META => (
                "the state of slots that a cluster was moving to this server",
                "let the migration end or cancel it, and save again",
            ),
            op::UPDATE if is_of_valkey(self.version) => {
                ("a command that was served while the file was written", "save again, by SAVE")
            }
            _ => return Err(damaged(offset, Damage::Type(number))),
        };
        Err(ReadError::UnsupportedPart { offset, what, number, remedy })
    }

    /// A field about the file. None changes the meaning of keys.
    fn read_field(&mut self) -> Result<(), ReadError> {
        self.source.string(&mut self.key)?;
        if self.key != b"redis-ver" {
            return self.source.skip_string();
        }
        self.source.string(&mut self.key)?;
        self.made_by = Some(shown(&self.key));
        Ok(())
    }

    fn skip_foreign(&mut self, foreign: Foreign, offset: u64, number: u8) -> Result<(), ReadError> {
        match (foreign, self.unsupported) {
            (Foreign::Module2(_), Unsupported::Skip) => {
                skip::module_parts(&mut self.source)?;
                self.skipped.modules += 1;
            }
            _ => return Err(refuse(&mut self.source, foreign, offset, number, &self.key)),
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), ReadError> {
        self.ended = true;
        if self.version < VERSION_WITH_CHECKSUM {
            return Ok(());
        }
        let (computed, offset) = (self.source.crc(), self.source.offset());
        let stored = u64::from_le_bytes(self.source.array("the checksum")?);
        // 0 says that the writer was configured to compute none.
        if stored == 0 || stored == computed {
            return Ok(());
        }
        Err(ReadError::Checksum { offset, stored, computed })
    }
}

fn read_version<R: Read>(source: &mut Source<R>) -> Result<u16, ReadError> {
    let foreign = |error| match error {
        ReadError::Truncated { .. } => ReadError::Foreign,
        error => error,
    };
    let start: [u8; 9] = source.array("the version").map_err(foreign)?;
    let (digits, versions) = match (start.strip_prefix(MAGIC), start.strip_prefix(VALKEY_MAGIC)) {
        (Some(digits), _) => (digits, VERSIONS),
        (None, Some(digits)) => (digits, VALKEY_VERSIONS),
        (None, None) => return Err(ReadError::Foreign),
    };
    if !digits.iter().all(u8::is_ascii_digit) {
        return Err(ReadError::Foreign);
    }
    let version = digits.iter().fold(0, |version, digit| version * 10 + u16::from(digit - b'0'));
    if versions.contains(&version) { Ok(version) } else { Err(ReadError::Version(version)) }
}

/// The error for a value that Tarn cannot hold, after its type and key have been read.
pub(crate) fn refuse<R: Read>(
    source: &mut Source<R>,
    foreign: Foreign,
    offset: u64,
    number: u8,
    key: &[u8],
) -> ReadError {
    let of_module = |id| format!("a value of the module type {}", module_name(id));
    let what = match foreign {
        Foreign::Module2(id) => of_module(id),
        Foreign::Module => match source.number() {
            Ok(id) => of_module(id),
            Err(error) => return error,
        },
        Foreign::EarlyTimes => "a hash whose fields expire, as before Redis 7.4.0,".to_owned(),
        Foreign::Paths => "a value of the type path-hash".to_owned(),
    };
    let remedy = match foreign {
        Foreign::Module | Foreign::Paths => "delete the key and save again",
        Foreign::Module2(_) => "delete the key and save again, or have such keys left out",
        Foreign::EarlyTimes => "have a later Redis load it, and save again",
    };
    ReadError::Unsupported { offset, key: shown(key), what, number, remedy }
}

/// The beginning of some bytes, printable.
fn shown(bytes: &[u8]) -> String {
    bytes[..bytes.len().min(KEY_SHOWN_BYTES)].escape_ascii().to_string()
}
