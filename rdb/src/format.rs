//! The numbers of the format: opcodes, types of values, limits. `docs/format/rdb.md` has them in words.

use std::ops::RangeInclusive;

/// Every file begins so; four digits with the version follow.
pub(crate) const MAGIC: &[u8; 5] = b"REDIS";
/// Versions that are read.
pub(crate) const VERSIONS: RangeInclusive<u16> = 1..=VERSION_READ_MAX;
/// The newest version that is read: that of Redis 7.2 and Valkey 8.
pub const VERSION_READ_MAX: u16 = 11;
/// The version that is written: every Redis since 5 loads it, as do Valkey, KeyDB and Dragonfly.
pub const VERSION_WRITTEN: u16 = 9;
/// The version of a file with functions: that of Redis 7.0, which brought them.
pub const VERSION_WITH_FUNCTIONS: u16 = 10;
/// From this version on a checksum is at the end.
pub(crate) const VERSION_WITH_CHECKSUM: u16 = 5;

/// Longest string, decompressed: the limit of a Tarn key.
pub const STRING_BYTES_MAX: u64 = 512 << 20;

/// Longest node of a stream, decompressed: a listpack says its length in so many bits.
pub(crate) const NODE_BYTES_MAX: u64 = u32::MAX as u64;

/// Opcodes: they come before a key, or instead of one.
pub(crate) mod op {
    /// Valkey, in clusters: a slot's number, keys and expiries.
    pub(crate) const SLOT_INFO: u8 = 244;
    /// A library of functions: its source.
    pub(crate) const FUNCTION2: u8 = 245;
    /// The same in the release candidates of Redis 7.0: name, engine, perhaps a description, source.
    pub(crate) const FUNCTION: u8 = 246;
    /// Data of a module that belongs to no key.
    pub(crate) const MODULE_AUX: u8 = 247;
    /// The time since the next key was used, in seconds.
    pub(crate) const IDLE: u8 = 248;
    /// The frequency of use of the next key, one byte.
    pub(crate) const FREQ: u8 = 249;
    /// A field about the file: name and value.
    pub(crate) const AUX: u8 = 250;
    /// The number of keys of the database, and the number of those that expire.
    pub(crate) const RESIZEDB: u8 = 251;
    /// The expiry of the next key, in milliseconds.
    pub(crate) const EXPIRETIME_MS: u8 = 252;
    /// The expiry of the next key, in seconds.
    pub(crate) const EXPIRETIME: u8 = 253;
    /// The database of the keys that follow.
    pub(crate) const SELECTDB: u8 = 254;
    /// The end; the checksum follows.
    pub(crate) const EOF: u8 = 255;
}

/// The opcode before each value in the data of a module.
pub(crate) mod module_op {
    pub(crate) const EOF: u64 = 0;
    pub(crate) const SINT: u64 = 1;
    pub(crate) const UINT: u64 = 2;
    pub(crate) const FLOAT: u64 = 3;
    pub(crate) const DOUBLE: u64 = 4;
    pub(crate) const STRING: u64 = 5;
}

/// The kind of a key's value, among those that Tarn has too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A byte string.
    String,
    /// A list of byte strings.
    List,
    /// A set of byte strings.
    Set,
    /// Byte strings with scores.
    ZSet,
    /// Fields with values.
    Hash,
    /// Entries with IDs, and groups that read them.
    Stream,
    /// The text of a JSON document, which Redis holds by its module RedisJSON 2 alone.
    Json,
}

impl Kind {
    /// True if a value is one string, by itself or inside the data of a module.
    pub const fn is_string(self) -> bool {
        matches!(self, Kind::String | Kind::Json)
    }
}

/// The encoding of a value in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// One string.
    String,
    /// A count, then strings: elements, members, fields and values in turn.
    Plain(Kind),
    /// A count, then members each with a score in decimal digits.
    ZSetAscii,
    /// A count, then members each with a score of eight bytes.
    ZSetBinary,
    /// One string that holds the whole collection in the form that it has in Redis's memory.
    Blob(Kind, Form),
    /// A count, then strings, each of which is a ziplist.
    Quicklist,
    /// A count, then nodes: a number for the kind, then a string that is an element or a listpack.
    Quicklist2,
    /// Nodes with entries, a head, groups; in the form of Redis 5 (1), 7.0 (2), 7.2 (3) or, with messages of
    /// producers, 8.6 (4).
    Stream(u8),
    /// The number of RedisJSON's type; then, as the parts of a module's data, one string and the end.
    Json,
}

/// A form of small collections in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Zipmap,
    Ziplist,
    Intset,
    Listpack,
}

/// Values that Tarn cannot hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Foreign {
    /// A value of a module that only the module can read.
    Module,
    /// A value of a module, of the type with this number, whose parts name their kinds.
    Module2(u64),
}

/// The meaning of a type's number.
pub(crate) enum Type {
    Held(Encoding),
    Foreign(Foreign),
    /// A value of a module whose parts name their kinds; the number of its type comes first.
    Module2,
}

/// The number of RedisJSON's type `ReJSON-RL`, of version 3: the text, in one string.
pub(crate) const REJSON: u64 = module_id(b"ReJSON-RL", 3);

const CHARACTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// The number of a module's type: nine characters of six bits, then ten bits with a version.
const fn module_id(name: &[u8; 9], version: u64) -> u64 {
    let (mut id, mut at) = (0, 0);
    while at < name.len() {
        let mut six = 0;
        while CHARACTERS[six] != name[at] {
            six += 1;
        }
        id = id << 6 | six as u64;
        at += 1;
    }
    id << 10 | version
}

/// The name of a module's type with this number.
pub(crate) fn module_name(id: u64) -> String {
    (0..9).map(|index| char::from(CHARACTERS[(id >> (58 - 6 * index) & 0x3f) as usize])).collect()
}

/// The types in which values are written: 0 … 5, 7, and for streams 15, or 19 where a version has it.
pub(crate) const fn written_type(kind: Kind, version: u16) -> u8 {
    match kind {
        Kind::String => 0,
        Kind::List => 1,
        Kind::Set => 2,
        Kind::Hash => 4,
        Kind::ZSet => 5,
        Kind::Json => 7,
        Kind::Stream if version >= VERSION_WITH_FUNCTIONS => 19,
        Kind::Stream => 15,
    }
}

impl Type {
    pub(crate) fn of(number: u8) -> Option<Type> {
        Some(Type::Held(match number {
            0 => Encoding::String,
            1 => Encoding::Plain(Kind::List),
            2 => Encoding::Plain(Kind::Set),
            3 => Encoding::ZSetAscii,
            4 => Encoding::Plain(Kind::Hash),
            5 => Encoding::ZSetBinary,
            6 => return Some(Type::Foreign(Foreign::Module)),
            7 => return Some(Type::Module2),
            9 => Encoding::Blob(Kind::Hash, Form::Zipmap),
            10 => Encoding::Blob(Kind::List, Form::Ziplist),
            11 => Encoding::Blob(Kind::Set, Form::Intset),
            12 => Encoding::Blob(Kind::ZSet, Form::Ziplist),
            13 => Encoding::Blob(Kind::Hash, Form::Ziplist),
            14 => Encoding::Quicklist,
            15 => Encoding::Stream(1),
            16 => Encoding::Blob(Kind::Hash, Form::Listpack),
            17 => Encoding::Blob(Kind::ZSet, Form::Listpack),
            18 => Encoding::Quicklist2,
            19 => Encoding::Stream(2),
            20 => Encoding::Blob(Kind::Set, Form::Listpack),
            21 => Encoding::Stream(3),
            26 => Encoding::Stream(4),
            _ => return None,
        }))
    }
}

impl Encoding {
    pub(crate) fn kind(self) -> Kind {
        match self {
            Encoding::String => Kind::String,
            Encoding::Plain(kind) | Encoding::Blob(kind, _) => kind,
            Encoding::ZSetAscii | Encoding::ZSetBinary => Kind::ZSet,
            Encoding::Quicklist | Encoding::Quicklist2 => Kind::List,
            Encoding::Stream(_) => Kind::Stream,
            Encoding::Json => Kind::Json,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_module_is_in_its_number() {
        // 'A' is 0, 'b' 27, '_' 63; version 7.
        let id = [0, 27, 63, 0, 0, 0, 0, 0, 27].iter().fold(0_u64, |id, six| id << 6 | six) << 10 | 7;
        assert_eq!(module_name(id), "Ab_AAAAAb");
        assert_eq!(id, module_id(b"Ab_AAAAAb", 7));
        assert_eq!(module_name(REJSON), "ReJSON-RL");
    }
}
