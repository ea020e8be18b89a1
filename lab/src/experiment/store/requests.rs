//! The requests that fill a store, and those of the clients of each part.

use super::cell::{Data, Kind};
use crate::error::Result;
use crate::load::{Arg, KeyChoice, Keys, Mix, Request};
use crate::ycsb;
use tarn_resp::client::Client;

/// Elements of a list.
const ELEMENTS: usize = 250;
/// Bytes of each, and of each write into the giant string.
const ELEMENT_BYTES: usize = 200;
/// Bytes of a field of a giant hash.
const FIELD_BYTES: usize = 100;
/// Fields that one request writes when a hash is filled.
const FILL_FIELDS: u64 = 10;
/// Bytes that one request writes when the string is filled.
const FILL_BYTES: usize = 1 << 20;

const LIST: Arg = Arg::Key { prefix: "list:", digits: 6, scattered: false };
const VALUE: Arg = Arg::Value(FIELD_BYTES);
/// Indexes must not begin with zeros: from 100 to 199.
const INDEX: Arg = Arg::Number { prefix: "1", digits: 2, below: 100 };

/// The hash that has a field, of those with `FIELDS` fields, where `BATCH` fields have a number together.
const fn hash<const FIELDS: u64, const BATCH: u64>(number: u64) -> u64 {
    number / (FIELDS / BATCH)
}

/// Field `AT` of a batch.
const fn field<const FIELDS: u64, const BATCH: u64, const AT: u64>(number: u64) -> u64 {
    number % (FIELDS / BATCH) * BATCH + AT
}

const fn key(of: fn(u64) -> u64) -> Arg {
    Arg::Derived { prefix: "hash:", digits: 6, of }
}

const fn name(of: fn(u64) -> u64) -> Arg {
    Arg::Derived { prefix: "field:", digits: 7, of }
}

/// Writes ten fields of a hash.
fn fill_hash<const FIELDS: u64>() -> Request {
    let fields: [fn(u64) -> u64; FILL_FIELDS as usize] = [
        field::<FIELDS, FILL_FIELDS, 0>,
        field::<FIELDS, FILL_FIELDS, 1>,
        field::<FIELDS, FILL_FIELDS, 2>,
        field::<FIELDS, FILL_FIELDS, 3>,
        field::<FIELDS, FILL_FIELDS, 4>,
        field::<FIELDS, FILL_FIELDS, 5>,
        field::<FIELDS, FILL_FIELDS, 6>,
        field::<FIELDS, FILL_FIELDS, 7>,
        field::<FIELDS, FILL_FIELDS, 8>,
        field::<FIELDS, FILL_FIELDS, 9>,
    ];
    let mut arguments = vec![Arg::Text("HSET"), key(hash::<FIELDS, FILL_FIELDS>)];
    fields.into_iter().for_each(|of| arguments.extend([name(of), VALUE]));
    Request::new(&arguments)
}

/// Writes a field that is there.
fn update_hash<const FIELDS: u64>() -> Request {
    Request::new(&[Arg::Text("HSET"), key(hash::<FIELDS, 1>), name(field::<FIELDS, 1, 0>), VALUE])
}

/// The fields of a hash of a kind.
const fn fields(kind: Kind) -> u64 {
    match kind {
        Kind::Hash500 => 500,
        Kind::Hash10k => 10_000,
        _ => 1,
    }
}

/// The requests that fill a store, and how many; not for the string.
pub(super) fn fill(data: Data) -> (Mix, u64) {
    let hash = |request| (request, data.count * fields(data.kind) / FILL_FIELDS);
    let (request, count) = match data.kind {
        Kind::Records => (ycsb::insert(), data.count),
        Kind::Lists => {
            let mut arguments = vec![Arg::Text("RPUSH"), LIST];
            arguments.extend(std::iter::repeat_n(Arg::Value(ELEMENT_BYTES), ELEMENTS));
            (Request::new(&arguments), data.count)
        }
        Kind::Hash500 => hash(fill_hash::<500>()),
        Kind::Hash10k => hash(fill_hash::<10_000>()),
        Kind::Hash5m => hash(fill_hash::<5_000_000>()),
        Kind::String => unreachable!("the string is filled by `fill_string`"),
    };
    (Mix::in_order(request, count), count)
}

/// Fills the giant string.
pub(super) fn fill_string(client: &mut Client, megabytes: u64) -> Result<()> {
    for megabyte in 0..megabytes {
        let bytes: Vec<u8> =
            (0..FILL_BYTES as u64).map(|at| b'a' + ((megabyte + at * at) % 26) as u8).collect();
        let offset = (megabyte << 20).to_string();
        client.call(&[&b"SETRANGE"[..], b"giant", offset.as_bytes(), &bytes])?;
    }
    Ok(())
}

/// Writes a field of each record, one record after the other.
pub(super) fn overwrite(data: Data) -> Mix {
    Mix::in_order(ycsb::update(), data.count)
}

/// Writes that hit giants.
pub(super) fn writes(data: Data) -> Mix {
    let element = || Arg::Value(ELEMENT_BYTES);
    let uniform = |count| Keys::new(KeyChoice::Uniform, count);
    let fields = || uniform(data.count * fields(data.kind));
    match data.kind {
        Kind::Records => ycsb::updates(100, KeyChoice::Uniform, data.count),
        Kind::Lists => {
            let set = Request::new(&[Arg::Text("LSET"), LIST, INDEX, element()]);
            let push = Request::new(&[Arg::Text("RPUSH"), LIST, element()]);
            let pop = Request::new(&[Arg::Text("LPOP"), LIST]);
            // More are pushed than popped: by chance alone a list could become too short for the indexes.
            Mix::weighted(&[(5, set), (3, push), (2, pop)], uniform(data.count))
        }
        Kind::Hash500 => Mix::of(update_hash::<500>(), fields()),
        Kind::Hash10k => Mix::of(update_hash::<10_000>(), fields()),
        Kind::Hash5m => Mix::of(update_hash::<5_000_000>(), fields()),
        Kind::String => {
            // Offsets must not begin with zeros: from 10^n to 2·10^n, the most that the string has.
            let digits = (data.count << 19).ilog10() as usize;
            let offset = Arg::Number { prefix: "1", digits, below: 10u64.pow(digits as u32) };
            Mix::of(Request::new(&[Arg::Text("SETRANGE"), Arg::Text("giant"), offset, element()]), uniform(1))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filling_and_updating_name_the_same_fields() {
        for number in [0, 7, 499, 500, 12_345] {
            let batch = number / FILL_FIELDS;
            assert_eq!(hash::<500, FILL_FIELDS>(batch), hash::<500, 1>(number));
            let first = field::<500, FILL_FIELDS, 0>(batch);
            assert_eq!(first + number % FILL_FIELDS, field::<500, 1, 0>(number));
        }
    }

    #[test]
    fn writes_stay_within_the_string() {
        for megabytes in [1_u64, 5, 512] {
            let digits = (megabytes << 19).ilog10();
            assert!(2 * 10_u64.pow(digits) <= megabytes << 20, "{megabytes} MB");
        }
    }
}
