//! Records and requests of the YCSB kind: hashes `user<number>` with ten fields of 100 bytes.

use crate::load::{Arg, KeyChoice, Keys, Mix, Request, key_text};

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

/// Memory that a server needs for so many records at most, before any checkpoint: redis-server's allocator
/// has classes of 1,280 and 1,536 bytes.
pub const fn need_bytes(records: u64) -> u64 {
    records * 1500 + (128 << 20)
}

/// The key of a record.
pub const KEY: Arg = Arg::Key { prefix: "user", digits: 19, scattered: true };
const FIELD: Arg = Arg::Number { prefix: "field", digits: 1, below: FIELDS };
const FIELD_NAMES: [&str; FIELDS as usize] =
    ["field0", "field1", "field2", "field3", "field4", "field5", "field6", "field7", "field8", "field9"];

/// The key of one record, as text.
pub fn key(number: u64) -> String {
    key_text("user", 19, true, number)
}

/// Writes a whole record.
pub fn insert() -> Request {
    let mut arguments = vec![Arg::Text("HSET"), KEY];
    for name in FIELD_NAMES {
        arguments.extend([Arg::Text(name), Arg::Value(FIELD_BYTES)]);
    }
    Request::new(&arguments)
}

/// Writes one field, drawn.
pub fn update() -> Request {
    Request::new(&[Arg::Text("HSET"), KEY, FIELD, Arg::Value(FIELD_BYTES)])
}

/// Reads one field, drawn.
pub fn read_field() -> Request {
    Request::new(&[Arg::Text("HGET"), KEY, FIELD])
}

/// Reads a whole record.
pub fn read() -> Request {
    Request::new(&[Arg::Text("HGETALL"), KEY])
}

/// Updates and reads of a field of one of so many records, the updates with this share in percent.
pub fn updates(percent: u32, choice: KeyChoice, records: u64) -> Mix {
    let percent = u64::from(percent);
    let parts = [(percent, update()), (100 - percent, read_field())];
    Mix::weighted(&parts, Keys::new(choice, records))
}
