//! The reasons why bytes are refused: the place, and the fault.

use std::io;

/// A file, or a value by itself, that is not read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It cannot be read at all.
    #[error("cannot read on at byte {offset}: {source}")]
    Io {
        /// The number of bytes that were read.
        offset: u64,
        /// The error of the system.
        source: io::Error,
    },
    /// It ends too soon.
    #[error("ends at byte {offset}, within {part}")]
    Truncated {
        /// Where it ends.
        offset: u64,
        /// The part that is expected there.
        part: &'static str,
    },
    /// It is something else.
    #[error("is no RDB file: it begins neither with REDIS and four digits nor with VALKEY and three")]
    Foreign,
    /// It is of the future, or of no version at all.
    #[error("is an RDB file of version {0}; versions 1 to 13 of Redis, and 80 and 81 of Valkey, are read")]
    Version(u16),
    /// It makes no sense.
    #[error("is damaged at byte {offset}: {damage}")]
    Damaged {
        /// Where the damaged part begins; for a whole collection in one string, where the string does.
        offset: u64,
        /// The damage.
        damage: Damage,
    },
    /// It holds something that Tarn cannot hold, and the caller did not ask to leave that out, or it cannot
    /// be left out.
    #[error("holds {what} at byte {offset} (type {number}), key \"{key}\", which Tarn cannot hold; {remedy}")]
    Unsupported {
        /// The place of its type.
        offset: u64,
        /// Its key, escaped and cut where it is long; empty for a value by itself.
        key: String,
        /// The name of the unsupported thing.
        what: String,
        /// The number of its type.
        number: u8,
        /// The remedy.
        remedy: &'static str,
    },
    /// It holds, beside the keys, something that changes what they mean.
    #[error("holds {what} at byte {offset} (opcode {number}), which Tarn cannot hold; {remedy}")]
    UnsupportedPart {
        /// The place of its opcode.
        offset: u64,
        /// The name of the unsupported thing.
        what: &'static str,
        /// The number of its opcode.
        number: u8,
        /// The remedy.
        remedy: &'static str,
    },
    /// All of it can be read, but it is not the content that was written.
    #[error(
        "is damaged somewhere before byte {offset}: its checksum is {computed:#018x}, not {stored:#018x}"
    )]
    Checksum {
        /// The place of the checksum.
        offset: u64,
        /// The checksum in the file.
        stored: u64,
        /// That of the bytes before.
        computed: u64,
    },
    /// Bytes follow its end.
    #[error("goes on behind its end, at byte {offset}")]
    Trailing {
        /// Where it should end.
        offset: u64,
    },
}

/// The kinds of damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// A length begins with another byte.
    #[error("no length begins with {0:#04x}")]
    Length(u8),
    /// In the place of a count or a number there is a mark for strings in another form.
    #[error("{0:#04x} stands for a string, not for a number")]
    NoNumber(u8),
    /// A string has another form.
    #[error("no string begins with {0:#04x}")]
    StringForm(u8),
    /// A string, or an entry of a stream, is longer than a key or an element can be.
    #[error("a string of {0} bytes is longer than 512 MiB")]
    StringTooLong(u64),
    /// A compressed string does not unpack to the right length.
    #[error("a compressed string does not become the {0} bytes that it says")]
    Compressed(u64),
    /// There is no such type, nor such an opcode.
    #[error("there is no type {0}")]
    Type(u8),
    /// A collection in one string makes no sense.
    #[error("a {form} makes no sense at its byte {at}: {problem}")]
    Blob {
        /// The form of the collection.
        form: &'static str,
        /// Where in the string, decompressed.
        at: usize,
        /// The fault.
        problem: &'static str,
    },
    /// A member or a field is there twice.
    #[error("the same member or field stands there twice")]
    Duplicate,
    /// A field is there without a value or a time, or a member without a score.
    #[error("the last field or member has no value, score or time")]
    Unpaired,
    /// The time of a field is none.
    #[error("the time of a field is none: it is before 1970, or too late")]
    FieldTime,
    /// A score is none.
    #[error("a score is not a number")]
    Score,
    /// A node of a list is neither an element nor a listpack.
    #[error("a node of a list is of kind {0}, not 1 or 2")]
    Node(u64),
    /// A node of a list has no bytes.
    #[error("a node of a list is empty")]
    EmptyNode,
    /// A stream contradicts itself.
    #[error("a stream makes no sense: {0}")]
    Stream(&'static str),
    /// The names that entries of a stream share, or what is pending in a group, would take more memory than
    /// the bytes in the file are worth.
    #[error("a stream repeats its names in more than {0} times its bytes")]
    Repeats(u64),
    /// A document is not one string.
    #[error("a part of a JSON document is of kind {0}: it is one string, 5, and the end, 0")]
    Document(u64),
    /// A part of a module's data is of an unknown kind.
    #[error("a part of a module's data is of kind {0}, not 0 to 5")]
    Module(u64),
}

/// Where and why a collection in one string makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlobError {
    /// Where in the string.
    pub at: usize,
    /// The fault.
    pub problem: &'static str,
}

impl BlobError {
    pub(crate) fn new<T>(at: usize, problem: &'static str) -> Result<T, BlobError> {
        Err(BlobError { at, problem })
    }
}
