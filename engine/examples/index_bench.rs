//! Prints what an index costs and gives: a write of a hash field without an index, with one that does not
//! cover the key, with one whose value stays and one whose value changes, without network and log; then how
//! long it takes to build one, to open a view that reads it, and to read it, and its memory.
//!
//! `cargo run --release -p tarn-engine --example index_bench [keys]`; a million unless said otherwise.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use tarn_engine::Engine;
use tarn_engine::io::SystemClock;
use tarn_engine::log::Group;
use tarn_engine::record::{Batch, Change, Write};
use tarn_engine::session::Access;
use tarn_engine::value::ValueRef;
use tarn_engine::{Direction, Entry, IndexRange, IndexValue, Indexed, KeyHash, ViewOptions};

const ROUNDS: u64 = 3;
const OPENINGS: usize = 2_000;
const POINTERS_AT_ONCE: usize = 256;

/// The number in a field of the hashes whose keys begin so.
struct ByNumber {
    prefix: &'static [u8],
    field: &'static [u8],
}

impl Indexed for ByNumber {
    fn covers(&self, key: &[u8]) -> bool {
        key.starts_with(self.prefix)
    }

    fn value_of(&self, entry: &Entry) -> Option<IndexValue> {
        let ValueRef::Hash(hash) = entry.value() else { return None };
        std::str::from_utf8(hash.get(self.field)?).ok()?.parse().ok().and_then(IndexValue::number)
    }
}

fn mixed(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The nanoseconds that a write of this field takes.
fn write_all(engine: &Engine, keys: u64, field: &'static [u8], round: u64) -> f64 {
    let mut group = Group::new();
    let began = Instant::now();
    for number in 0..keys {
        // Neither in the order of the inserts nor in that of the table.
        let key = format!("flight:{}", mixed(number) % keys).into_bytes();
        let hash = KeyHash::of(&key);
        let value = (mixed(number + round) % 100_000).to_string().into_bytes();
        let change = Change::HashPut { field: field.into(), value: value.into() };
        let batch = Batch::from_iter([Write::Key { db: 0, key: key.into(), change }]);
        let session = engine.enter(0);
        let mut latched = session.latch_places(&[(0, hash)], Access::Write, 0);
        latched.commit(&batch, &mut group).unwrap();
        latched.release();
    }
    began.elapsed().as_secs_f64() * 1e9 / keys as f64
}

fn build(engine: &Engine, name: &str, indexed: ByNumber) -> f64 {
    let began = Instant::now();
    let index = engine.create_index(0, name, Arc::new(indexed)).unwrap();
    while !index.is_ready() {
        std::thread::yield_now();
    }
    began.elapsed().as_secs_f64()
}

fn read(engine: &Engine) {
    let mut openings: Vec<f64> = (0..OPENINGS)
        .map(|_| {
            let began = Instant::now();
            let view = engine.open_view(ViewOptions::indexed_of(0, "bench")).unwrap();
            let opening = began.elapsed().as_secs_f64() * 1e6;
            drop(view);
            opening
        })
        .collect();
    openings.sort_by(f64::total_cmp);
    let view = engine.open_view(ViewOptions::indexed_of(0, "bench")).unwrap();
    for reads_entries in [false, true] {
        let mut scan = view.scan_index(0, "distance", &IndexRange::ALL, Direction::Ascending).unwrap();
        let (mut count, mut fields) = (0, 0);
        let began = Instant::now();
        loop {
            let pointers = view.next_pointers(&mut scan, POINTERS_AT_ONCE).unwrap();
            if pointers.is_empty() {
                break;
            }
            count += pointers.len();
            if reads_entries {
                let keys: Vec<&[u8]> = pointers.iter().map(|pointer| pointer.key()).collect();
                let look = |_, entry: &Entry| {
                    let ValueRef::Hash(hash) = entry.value() else { return };
                    fields += hash.len();
                };
                view.read_keys(0, &keys, usize::MAX, look).unwrap();
            }
        }
        let what = if reads_entries { "pointers with their entries" } else { "pointers" };
        println!("read {what}: {:.2} million a second", count as f64 / began.elapsed().as_secs_f64() / 1e6);
        black_box(fields);
    }
    println!(
        "view opened and all workers passed: {:.1} µs (median), {:.1} µs (99 %)",
        openings[OPENINGS / 2],
        openings[OPENINGS * 99 / 100],
    );
}

fn main() {
    let keys = std::env::args().nth(1).map_or(1_000_000, |keys| keys.parse().expect("a number of keys"));
    let (engine, _background) = Engine::unlogged(1, 1, Arc::new(SystemClock::new()));
    write_all(&engine, keys, b"distance", 0);
    write_all(&engine, keys, b"delay", 0);
    for round in 1..=ROUNDS {
        let none = write_all(&engine, keys, b"delay", round);
        build(&engine, "elsewhere", ByNumber { prefix: b"hotel:", field: b"price" });
        let elsewhere = write_all(&engine, keys, b"delay", round + 1);
        let built = build(&engine, "distance", ByNumber { prefix: b"flight:", field: b"distance" });
        let same = write_all(&engine, keys, b"delay", round + 2);
        let moved = write_all(&engine, keys, b"distance", round + 3);
        let view = engine.open_view(ViewOptions::indexed_of(0, "bench")).unwrap();
        let kept = write_all(&engine, keys, b"distance", round + 100);
        drop(view);
        println!(
            "round {round}: write without an index {none:.0} ns; of a key not covered {elsewhere:.0} ns; of \
             another field {same:.0} ns; of the indexed field {moved:.0} ns; so with a view open {kept:.0} \
             ns; built in {built:.2} s",
        );
        if round == ROUNDS {
            let status = engine.indexes().pop().unwrap();
            println!(
                "memory: {:.0} bytes a pointer, an estimate",
                status.bytes as f64 / status.pointers as f64
            );
            read(&engine);
        }
        engine.drop_index(0, "elsewhere");
        engine.drop_index(0, "distance");
    }
}
