//! Records and requests of YCSB, as its binding for Redis makes them: hashes `user<number>` with ten fields
//! of 100 bytes, and a sorted set with all of their keys.
//!
//! ```text
//!   insert   HMSET user… field0 … field9, then ZADD _indices <hash of the key> user…
//!   update   HMSET user… field<drawn>
//!   read     HGETALL user…                                  readallfields=true, the default
//! ```
//!
//! Unlike YCSB's, numbers in keys have 19 digits always (`zeropadding=19`), and the two commands of an insert
//! are sent together.

use crate::load::{Arg, KeyChoice, Keys, Mix, Request, key_text};

named! {
    /// The requests that an experiment makes. A cell has them among its parameters: figures of other requests
    /// cannot be compared with its own.
    pub enum Requests {
        /// As YCSB's binding has them. Before, one field was read, and there was no sorted set.
        WholeRecords = "whole-records",
    }
}

named! {
    /// The content of values.
    #[derive(Default)]
    pub enum Values {
        /// Random letters.
        #[default]
        Random = "random",
        /// One letter over and over, which any algorithm compresses.
        Repeated = "repeated",
    }
}

/// Fields of a record.
pub const FIELDS: u64 = 10;
/// Bytes of each.
pub const FIELD_BYTES: usize = 100;
/// Bytes of a key: `user` and the scattered number in 19 digits.
pub const KEY_BYTES: u64 = 23;
/// Bytes of the values of a record.
pub const VALUE_BYTES: u64 = FIELDS * FIELD_BYTES as u64;
/// Bytes of a record with key and field names (`field0` …).
pub const RECORD_BYTES: u64 = KEY_BYTES + FIELDS * 6 + VALUE_BYTES;
/// Bytes that a server needs around the values of a record at most: redis-server's allocator has classes of
/// 1,280 and 1,536 bytes, and a member of a sorted set of 23 bytes takes it 200.
pub const OVERHEAD_BYTES: u64 = 700;
/// The sorted set of all keys.
pub const INDEX: &str = "_indices";

/// Memory that a server needs for so many records at most, before any checkpoint.
pub const fn need_bytes(records: u64) -> u64 {
    records * (VALUE_BYTES + OVERHEAD_BYTES) + (128 << 20)
}

/// The key of a record.
pub const KEY: Arg = Arg::Key { prefix: "user", digits: 19, scattered: true };
/// A field, drawn.
pub const FIELD: Arg = Arg::Number { prefix: "field", digits: 1, below: FIELDS };
const REPEATED: &str = {
    const LETTERS: [u8; FIELD_BYTES] = [b'x'; FIELD_BYTES];
    match str::from_utf8(&LETTERS) {
        Ok(text) => text,
        Err(_) => panic!("letters are text"),
    }
};
const FIELD_NAMES: [&str; FIELDS as usize] =
    ["field0", "field1", "field2", "field3", "field4", "field5", "field6", "field7", "field8", "field9"];

/// The key of one record, as text.
pub fn key(number: u64) -> String {
    key_text("user", 19, true, number)
}

/// The score of a record in the sorted set: the hash of its key, as Java has it for a string.
pub fn score(number: u64) -> i32 {
    key(number).bytes().fold(0, |hash: i32, byte| hash.wrapping_mul(31).wrapping_add(i32::from(byte)))
}

/// Writes a whole record, as an insert does, without the sorted set.
pub fn write() -> Request {
    write_of(Values::Random)
}

fn write_of(values: Values) -> Request {
    let value = match values {
        Values::Random => Arg::Value(FIELD_BYTES),
        Values::Repeated => Arg::Text(REPEATED),
    };
    let mut arguments = vec![Arg::Text("HMSET"), KEY];
    for name in FIELD_NAMES {
        arguments.extend([Arg::Text(name), value]);
    }
    Request::new(&arguments)
}

/// Inserts a record.
pub fn insert() -> Request {
    insert_of(Values::Random)
}

/// Inserts a record with values of some content.
pub fn insert_of(values: Values) -> Request {
    let indexed = Request::new(&[Arg::Text("ZADD"), Arg::Text(INDEX), Arg::Signed(score), KEY]);
    Request::joined(&[write_of(values), indexed])
}

/// Writes one field, drawn.
pub fn update() -> Request {
    Request::new(&[Arg::Text("HMSET"), KEY, FIELD, Arg::Value(FIELD_BYTES)])
}

/// Reads a whole record.
pub fn read() -> Request {
    Request::new(&[Arg::Text("HGETALL"), KEY])
}

/// Updates of a field and reads of one of so many records, the updates with this share in percent.
pub fn updates(percent: u32, choice: KeyChoice, records: u64) -> Mix {
    let percent = u64::from(percent);
    let parts = [(percent, update()), (100 - percent, read())];
    Mix::weighted(&parts, Keys::new(choice, records))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_those_of_java() {
        // Printed by `String.hashCode` of Java 17.
        let scores = [(0, -594_971_599), (1, -314_243_905), (17, 2_081_188_090), (999_999, 960_995_045)];
        for (number, hash) in scores {
            assert_eq!(score(number), hash, "{}", key(number));
        }
    }
}
