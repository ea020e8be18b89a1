//! The numbers of the format: opcodes, types of values, limits. `docs/format/rdb.md` has them in words.

use std::ops::RangeInclusive;

/// Files of Redis, and of Valkey up to 8, begin so; four digits with the version follow.
pub(crate) const MAGIC: &[u8; 5] = b"REDIS";
/// Files of Valkey since 9 begin so; three digits with the version follow.
pub(crate) const VALKEY_MAGIC: &[u8; 6] = b"VALKEY";
/// The versions of Redis that are read; 11 is that of Redis 7.2 and Valkey 8, 12 that of 7.4, 13 that of 8.6.
pub(crate) const VERSIONS: RangeInclusive<u16> = 1..=13;
/// The versions of Valkey that are read, which are its own since 9. 12 to 79 are no versions of Valkey.
pub(crate) const VALKEY_VERSIONS: RangeInclusive<u16> = 80..=81;
/// From this version on fields of hashes may have times: that of Redis 7.4.
pub const VERSION_WITH_FIELD_TIMES: u16 = 12;
/// From this version on a stream may know what its producers have added: that of Redis 8.6.
const VERSION_WITH_PRODUCERS: u16 = 13;
/// The version that is written unless another is asked for: every Redis since 5 loads it, as do Valkey, KeyDB
/// and Dragonfly.
pub const VERSION_WRITTEN: u16 = 9;
/// The version of a file with functions: that of Redis 7.0, which brought them.
pub const VERSION_WITH_FUNCTIONS: u16 = 10;
/// From this version on a stream loses the messages of its producers alone: that of Redis 7.2 and Valkey 8.
pub(crate) const VERSION_WITH_ACTIVE: u16 = 11;
/// The newest version of Redis that is written: that of Redis 7.4, in which as little is lost as in any.
pub const VERSION_WRITTEN_MAX: u16 = VERSION_WITH_FIELD_TIMES;
/// The version that is written for Valkey 9.
pub const VERSION_OF_VALKEY: u16 = 80;
/// All versions that are written.
pub const VERSIONS_WRITTEN: [u16; 5] =
    [VERSION_WRITTEN, VERSION_WITH_FUNCTIONS, VERSION_WITH_ACTIVE, VERSION_WRITTEN_MAX, VERSION_OF_VALKEY];
/// From this version on a checksum is at the end.
pub(crate) const VERSION_WITH_CHECKSUM: u16 = 5;

/// Longest string, decompressed: the limit of a Tarn key.
pub const STRING_BYTES_MAX: u64 = 512 << 20;

/// The latest time of a field in files and payloads of Redis, which refuses later ones.
pub(crate) const FIELD_TIME_MAX: u64 = (1 << 48) - 1;

/// Longest node of a stream, decompressed: a listpack says its length in so many bits.
pub(crate) const NODE_BYTES_MAX: u64 = u32::MAX as u64;

/// Opcodes: they come before a key, or instead of one.
pub(crate) mod op {
    /// Valkey: a command that was served while the file was written.
    pub(crate) const UPDATE: u8 = 242;
    /// Redis: what modules know of the next key. Valkey: slots of a cluster that were being imported.
    pub(crate) const KEY_META: u8 = 243;
    /// In clusters: a slot's number, keys and expiries.
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
    /// Fields with values, of which some have times.
    TimedHash(TimedForm),
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

/// A form of hashes whose fields have times, in milliseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimedForm {
    /// Redis: the first time in eight bytes; a count, then for each field by how much its time is later plus
    /// 1, or 0 if it has none; the field, its value.
    Since,
    /// Redis: the first time in eight bytes, and a listpack of fields each with its value and its time, 0 if
    /// it has none.
    Listpack,
    /// Valkey: a count, then fields each with its value and its time in eight bytes, -1 if it has none.
    Behind,
}

/// Values that Tarn cannot hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Foreign {
    /// A value of a module that only the module can read.
    Module,
    /// A value of a module, of the type with this number, whose parts name their kinds.
    Module2(u64),
    /// A hash whose fields have times, in a form that came before Redis 7.4.0.
    EarlyTimes,
    /// Paths with fields, of Valkey 9.2.
    Paths,
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

/// The types in which values are written: 0 … 5, 7, and for streams 15, or 19 or 21 where a version has it.
pub(crate) const fn written_type(kind: Kind, version: u16) -> u8 {
    match kind {
        Kind::String => 0,
        Kind::List => 1,
        Kind::Set => 2,
        Kind::Hash => 4,
        Kind::ZSet => 5,
        Kind::Json => 7,
        Kind::Stream if version >= VERSION_WITH_ACTIVE => 21,
        Kind::Stream if version >= VERSION_WITH_FUNCTIONS => 19,
        Kind::Stream => 15,
    }
}

/// The type in which a hash whose fields have times is written, and its form; `None` where a version has
/// none.
pub(crate) fn written_timed_type(version: u16) -> Option<(u8, TimedForm)> {
    match version {
        _ if is_of_valkey(version) => Some((22, TimedForm::Behind)),
        VERSION_WITH_FIELD_TIMES.. => Some((24, TimedForm::Since)),
        _ => None,
    }
}

/// Whether files and payloads of this version are those of Valkey, which gives numbers another meaning.
pub(crate) fn is_of_valkey(version: u16) -> bool {
    version >= *VALKEY_VERSIONS.start()
}

impl Type {
    /// The type with this number in a file or payload of this version.
    pub(crate) fn of(number: u8, version: u16) -> Option<Type> {
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
            22 if is_of_valkey(version) => Encoding::TimedHash(TimedForm::Behind),
            23 if is_of_valkey(version) => return Some(Type::Foreign(Foreign::Paths)),
            _ if is_of_valkey(version) => return None,
            22 | 23 if version >= VERSION_WITH_FIELD_TIMES => {
                return Some(Type::Foreign(Foreign::EarlyTimes));
            }
            24 if version >= VERSION_WITH_FIELD_TIMES => Encoding::TimedHash(TimedForm::Since),
            25 if version >= VERSION_WITH_FIELD_TIMES => Encoding::TimedHash(TimedForm::Listpack),
            26 if version >= VERSION_WITH_PRODUCERS => Encoding::Stream(4),
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
            Encoding::TimedHash(_) => Kind::Hash,
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
