//! Prints what the values cost: nanoseconds an operation and bytes an element, small and large. Nanoseconds
//! are the processor's where the system tells them (Linux), so that other load on the machine counts little.
//!
//! `cargo run --release -p tarn-engine --example values_bench [elements [part]]`; the large collections have
//! a million elements unless said otherwise.

#![allow(clippy::disallowed_methods, clippy::type_complexity)]

use std::borrow::Cow;
use std::collections::HashMap;
use std::hint::black_box;
use std::time::Instant;

use tarn_engine::record::{Change, Lsn, Side};
use tarn_engine::table::{Entry, Retired};
use tarn_engine::value::ValueRef;

/// A cheap sequence of numbers that look random.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 ^ (self.0 >> 33)
    }

    fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }
}

fn cow(bytes: &[u8]) -> Cow<'_, [u8]> {
    Cow::Borrowed(bytes)
}

fn apply(entry: &mut Option<Entry>, change: &Change<'_>, lsn: &mut u64) {
    *lsn += 1;
    match entry {
        Some(entry) => {
            let applied = entry.apply(change, Lsn(*lsn), &mut Retired::default());
            black_box(applied.is_ok());
        }
        None => *entry = Entry::create(b"key", change, Lsn(*lsn)),
    }
}

/// Names of 16 bytes, made before the clock runs.
fn names(len: usize) -> Vec<[u8; 16]> {
    (0..len as u64).map(|i| format!("{:016x}", i.wrapping_mul(0x9e37_79b9_7f4a_7c15))).map(to_name).collect()
}

fn to_name(text: String) -> [u8; 16] {
    text.into_bytes().try_into().expect("16 digits are 16 bytes")
}

fn measure(what: &str, times: usize, mut run: impl FnMut(&mut Numbers)) {
    let mut numbers = Numbers(1);
    let (start, busy) = (Instant::now(), busy_ns());
    (0..times).for_each(|_| run(&mut numbers));
    let elapsed = match (busy, busy_ns()) {
        (Some(before), Some(after)) => after - before,
        _ => start.elapsed().as_nanos() as f64,
    };
    println!("{what:<52} {:>8.0} ns", elapsed / times as f64);
}

/// The median of some runs by the clock, for what takes long or is done once.
fn measure_each(what: &str, mut run: impl FnMut(&mut Numbers)) {
    let mut numbers = Numbers(1);
    let mut times: Vec<_> = (0..25)
        .map(|_| {
            let start = Instant::now();
            run(&mut numbers);
            start.elapsed()
        })
        .collect();
    times.sort_unstable();
    println!("{what:<52} {:>8} ns", times[times.len() / 2].as_nanos());
}

/// Nanoseconds that this thread was on a processor.
fn busy_ns() -> Option<f64> {
    std::fs::read_to_string("/proc/thread-self/schedstat").ok()?.split(' ').next()?.parse().ok()
}

fn main() {
    let len = std::env::args().nth(1).and_then(|arg| arg.parse().ok()).unwrap_or(1_000_000);
    let part = std::env::args().nth(2).unwrap_or_default();
    let names = names(len);
    let parts: [(&str, fn(&[[u8; 16]])); 7] = [
        ("yardstick", yardstick),
        ("strings", strings),
        ("giants", giants),
        ("packed", packed),
        ("hashes", hashes),
        ("zsets", zsets),
        ("lists", lists),
    ];
    parts.iter().filter(|(name, _)| name.contains(&part)).for_each(|(_, run)| run(&names));
}

/// The cost of the standard library's map here, boxed names and values as in a server: to judge the other
/// figures by.
fn yardstick(names: &[[u8; 16]]) {
    let map: HashMap<Box<[u8]>, Box<[u8]>> =
        names.iter().map(|name| (Box::from(&name[..]), Box::from([1; 32]))).collect();
    measure("std HashMap of boxes, get", names.len(), |numbers| {
        assert!(black_box(&map[&names[numbers.below(names.len())][..]])[0] == 1);
    });
}

fn strings(_: &[[u8; 16]]) {
    let (mut entry, mut lsn) = (None, 0);
    let put = Change::Put { value: cow(&[1; 32]), expiry: None };
    measure("string create and drop, 16 B key, 32 B value", 2_000_000, |_| {
        black_box(Entry::create(b"0123456789abcdef", &put, Lsn(1)));
    });
    measure("string put, same length", 2_000_000, |_| apply(&mut entry, &put, &mut lsn));
    measure("string put, other length", 2_000_000, |numbers| {
        let value = [1; 64];
        let put = Change::Put { value: cow(&value[..numbers.below(64)]), expiry: None };
        apply(&mut entry, &put, &mut lsn);
    });
}

/// Strings of 500 MB, alone and while somebody keeps a clone, as a view does.
fn giants(_: &[[u8; 16]]) {
    const BYTES: usize = 500 << 20;
    let (mut entry, mut lsn) = (None, 0);
    let value = vec![1; BYTES];
    measure("string of 500 MB, create", 4, |_| {
        entry = None;
        apply(&mut entry, &Change::Put { value: cow(&value), expiry: None }, &mut lsn);
    });
    let patch = |numbers: &mut Numbers| {
        let offset = numbers.below(BYTES - 100) as u64;
        Change::Patch { offset, bytes: cow(&[2; 100]) }
    };
    measure_each("string of 500 MB, 100 B overwritten", |numbers| {
        apply(&mut entry, &patch(numbers), &mut lsn);
    });
    measure_each("string of 500 MB, the first 100 B beside a clone", |numbers| {
        let kept = entry.clone();
        apply(&mut entry, &patch(numbers), &mut lsn);
        black_box(kept);
    });
    let mut end = BYTES as u64;
    measure_each("string of 500 MB, 10 B appended", |_| {
        apply(&mut entry, &Change::Patch { offset: end, bytes: cow(&[2; 10]) }, &mut lsn);
        end += 10;
    });
    measure_each("a byte 500 MB behind a short string", |_| {
        let mut entry = None;
        apply(&mut entry, &Change::Patch { offset: BYTES as u64, bytes: cow(&[2]) }, &mut lsn);
        black_box(entry);
    });
}

fn packed(names: &[[u8; 16]]) {
    let (mut hash, mut zset, mut lsn) = (None, None, 0);
    for name in &names[..10] {
        apply(&mut hash, &Change::HashPut { field: cow(name), value: cow(&[1; 100]) }, &mut lsn);
    }
    for name in &names[..60] {
        apply(&mut zset, &Change::ZSetPut { member: cow(name), score: 0.0 }, &mut lsn);
    }
    let hash_bytes = hash.as_ref().map_or(0, Entry::bytes);
    println!("packed hash of 10 x (16 + 100) B: {hash_bytes} bytes for {}", 3 + 10 * 116);
    measure("packed hash of 10 fields, get", 2_000_000, |numbers| {
        let Some(ValueRef::Hash(fields)) = hash.as_ref().map(Entry::value) else { return };
        black_box(fields.get(&names[numbers.below(10)]));
    });
    measure("packed hash of 10 fields, put, same length", 2_000_000, |numbers| {
        let field = cow(&names[numbers.below(10)]);
        apply(&mut hash, &Change::HashPut { field, value: cow(&[2; 100]) }, &mut lsn);
    });
    measure("packed hash of 10 fields, put, other length", 2_000_000, |numbers| {
        let value = [1; 100];
        let change = Change::HashPut {
            field: cow(&names[numbers.below(10)]),
            value: cow(&value[..90 + numbers.below(10)]),
        };
        apply(&mut hash, &change, &mut lsn);
    });
    measure("packed zset of 60 members, put", 1_000_000, |numbers| {
        let member = cow(&names[numbers.below(60)]);
        apply(&mut zset, &Change::ZSetPut { member, score: numbers.below(1000) as f64 }, &mut lsn);
    });
}

fn hashes(names: &[[u8; 16]]) {
    let (mut entry, mut lsn, mut next, len) = (None, 0, 0, names.len());
    measure("large hash, insert, 16 + 32 B", len, |_| {
        apply(&mut entry, &Change::HashPut { field: cow(&names[next]), value: cow(&[1; 32]) }, &mut lsn);
        next += 1;
    });
    let bytes = entry.as_ref().map_or(0, Entry::bytes);
    println!("large hash: {:.1} bytes an element of 48", bytes as f64 / len as f64);
    measure("large hash, get", len, |numbers| {
        let Some(ValueRef::Hash(fields)) = entry.as_ref().map(Entry::value) else { return };
        assert!(black_box(fields.get(&names[numbers.below(len)])).is_some());
    });
    measure("large hash, put, same length", len, |numbers| {
        let field = cow(&names[numbers.below(len)]);
        apply(&mut entry, &Change::HashPut { field, value: cow(&[2; 32]) }, &mut lsn);
    });
    measure("large hash, put, other length", len, |numbers| {
        let change = Change::HashPut {
            field: cow(&names[numbers.below(len)]),
            value: cow(&[1; 64][..numbers.below(64)]),
        };
        apply(&mut entry, &change, &mut lsn);
    });
    measure("large hash, put beside a fresh clone", len / 10, |numbers| {
        let clone = entry.clone();
        let field = cow(&names[numbers.below(len)]);
        apply(&mut entry, &Change::HashPut { field, value: cow(&[2; 32]) }, &mut lsn);
        black_box(clone);
    });
    next = 0;
    measure("large hash, remove", len - 1, |_| {
        apply(&mut entry, &Change::HashRemove { field: cow(&names[next]) }, &mut lsn);
        next += 1;
    });
}

fn zsets(names: &[[u8; 16]]) {
    let (mut entry, mut lsn, mut next, len) = (None, 0, 0, names.len());
    measure("large zset, insert, 16 B", len, |numbers| {
        let score = numbers.below(len) as f64;
        apply(&mut entry, &Change::ZSetPut { member: cow(&names[next]), score }, &mut lsn);
        next += 1;
    });
    let bytes = entry.as_ref().map_or(0, Entry::bytes);
    println!("large zset: {:.1} bytes an element of 16 + 8", bytes as f64 / len as f64);
    measure("large zset, put another score", len, |numbers| {
        let score = numbers.below(len) as f64;
        let member = cow(&names[numbers.below(len)]);
        apply(&mut entry, &Change::ZSetPut { member, score }, &mut lsn);
    });
    let Some(ValueRef::ZSet(zset)) = entry.as_ref().map(Entry::value) else { return };
    measure("large zset, score", len, |numbers| {
        black_box(zset.score(&names[numbers.below(len)]));
    });
    measure("large zset, rank", len, |numbers| {
        black_box(zset.rank(&names[numbers.below(len)]));
    });
    measure("large zset, 10 from a score", len, |numbers| {
        let index = zset.lower_bound_score(numbers.below(len) as f64, false);
        black_box(zset.iter_from(index).take(10).count());
    });
}

fn lists(names: &[[u8; 16]]) {
    let (mut entry, mut lsn, mut next, len) = (None, 0, 0, names.len());
    measure("large list, push back, 16 B", len, |_| {
        apply(&mut entry, &Change::ListPush { side: Side::Back, element: cow(&names[next]) }, &mut lsn);
        next += 1;
    });
    let bytes = entry.as_ref().map_or(0, Entry::bytes);
    println!("large list: {:.1} bytes an element of 16", bytes as f64 / len as f64);
    if let Some(ValueRef::List(list)) = entry.as_ref().map(Entry::value) {
        measure("large list, get by index", len, |numbers| {
            black_box(list.get(numbers.below(len)));
        });
    }
    measure("large list, insert by index", len / 10, |numbers| {
        let index = numbers.below(len) as u64;
        apply(&mut entry, &Change::ListInsert { index, element: cow(b"0123456789abcdef") }, &mut lsn);
    });
    measure("large list, pop front", len - 1, |_| {
        apply(&mut entry, &Change::ListPop { side: Side::Front, count: 1 }, &mut lsn);
    });
}
