//! The section `keysizes` of `INFO`, of Redis 8: how many keys have strings, or collections, of about which
//! size.
//!
//! Redis counts at each write. Here a sample is counted when somebody asks: some thousand keys, and all of
//! them if there are no more. What is counted of a larger database is scaled to its number of keys.

use rand::random_range;
use tarn_engine::record::{Kind, UnixMs};
use tarn_engine::value::ValueRef;
use tarn_engine::{END, Entry, ScanBudget};

use crate::error::CommandError;
use crate::execute::context::Context;

/// Keys that are looked at, of all databases together.
const SAMPLE: usize = 4096;
/// Keys that are looked at in each database beyond its share, so that a small one beside a large one is told
/// of.
const OF_EACH: usize = 16;
/// Sizes by their powers of two, and 0.
const BINS: usize = 65;

/// The lines, in the order of Redis's types.
const LINES: [(Kind, &str); 6] = [
    (Kind::String, "strings_sizes"),
    (Kind::List, "lists_items"),
    (Kind::Set, "sets_items"),
    (Kind::ZSet, "zsets_items"),
    (Kind::Hash, "hashes_items"),
    (Kind::Stream, "streams_items"),
];

/// Keys of a database that were looked at.
struct Counted {
    /// The counts for each of `LINES`.
    bins: [[usize; BINS]; LINES.len()],
    seen: usize,
}

impl Counted {
    /// Counts an entry as it is at `now`.
    fn add(&mut self, entry: &Entry, now: UnixMs) {
        let size = match entry.value() {
            ValueRef::String(string) => string.len(),
            ValueRef::Stream(stream) => stream.len(),
            ValueRef::Hash(hash) => hash.at(now).len(),
            _ => entry.count(),
        };
        if let Some(line) = LINES.iter().position(|(kind, _)| *kind == entry.kind()) {
            self.bins[line][bin_of(size)] += 1;
        }
    }

    /// The lines of a database that has so many keys.
    fn lines(&self, db: u8, keys: usize) -> impl Iterator<Item = (String, String)> {
        let scaled = move |count: usize| match self.seen {
            seen if seen < keys => ((count as u128 * keys as u128 + seen as u128 / 2) / seen as u128).max(1),
            _ => count as u128,
        };
        LINES.iter().zip(&self.bins).filter_map(move |((_, name), bins)| {
            let filled = bins.iter().enumerate().filter(|(_, count)| **count > 0);
            let counts: Vec<String> =
                filled.map(|(bin, count)| format!("{}={}", label(bin), scaled(*count))).collect();
            (!counts.is_empty()).then(|| (format!("db{db}_distrib_{name}"), counts.join(",")))
        })
    }
}

/// The bin of a size: 0 for 0, else one more than the power of two that it reaches.
fn bin_of(size: usize) -> usize {
    size.checked_ilog2().map_or(0, |power| 1 + power as usize)
}

/// The smallest size of a bin, as Redis writes it: `512`, `1K`, `2K`.
fn label(bin: usize) -> String {
    const UNITS: [&str; 7] = ["", "K", "M", "G", "T", "P", "E"];
    match bin.checked_sub(1) {
        None => "0".into(),
        Some(power) => format!("{}{}", 1u64 << (power % 10), UNITS[power / 10]),
    }
}

/// The names and values of the lines. The reply shows changes of this moment: under `appendfsync always` it
/// waits for the disk.
pub(super) fn lines(cx: &Context<'_, '_>) -> Result<Vec<(String, String)>, CommandError> {
    let keys: Vec<usize> = (0..cx.keys.databases()).map(|db| cx.keys.keys(db as u8)).collect();
    let all: usize = keys.iter().sum();
    let mut lines = Vec::new();
    for (db, keys) in keys.into_iter().enumerate().filter(|(_, keys)| *keys > 0) {
        let share = OF_EACH + (SAMPLE as u128 * keys as u128 / all.max(SAMPLE) as u128) as usize;
        lines.extend(count(cx, db as u8, keys, share)?.lines(db as u8, keys));
    }
    cx.keys.see_all();
    Ok(lines)
}

/// Looks at so many keys of a database: at all of them if there are no more, else from some position on, as
/// the order of positions has nothing to do with the values.
fn count(cx: &Context<'_, '_>, db: u8, keys: usize, share: usize) -> Result<Counted, CommandError> {
    let mut counted = Counted { bins: [[0; BINS]; LINES.len()], seen: 0 };
    let begin = if keys > share { random_range(0..END) } else { 0 };
    // A table that has just lost most of its keys has many segments with few.
    let mut budget = ScanBudget { entries: share, segments: 64 + share / 8 };
    let now = cx.now();
    let mut visit = |entry: &Entry| {
        counted.seen += 1;
        if !entry.is_expired(now) {
            counted.add(entry, now);
        }
    };
    let next = cx.keys.scan(db, begin, &mut budget, &mut visit)?;
    if next == 0 && begin > 0 && budget.entries > 0 {
        cx.keys.scan(db, 0, &mut budget, &mut visit)?;
    }
    Ok(counted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_are_named_by_their_smallest_size() {
        let cases = [
            (0, "0"),
            (1, "1"),
            (3, "2"),
            (4, "4"),
            (1023, "512"),
            (1024, "1K"),
            (2047, "1K"),
            (65_536, "64K"),
            (1 << 20, "1M"),
            ((1 << 30) - 1, "512M"),
            (1 << 40, "1T"),
            (usize::MAX, "8E"),
        ];
        for (size, name) in cases {
            assert_eq!(label(bin_of(size)), name, "{size}");
        }
    }

    #[test]
    fn a_sample_is_scaled_to_all_keys() {
        let mut counted = Counted { bins: [[0; BINS]; LINES.len()], seen: 1000 };
        counted.bins[0][bin_of(5)] = 600;
        counted.bins[0][bin_of(2000)] = 1;
        counted.bins[4][bin_of(3)] = 399;
        let lines = |keys| counted.lines(3, keys).collect::<Vec<_>>();
        let line = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(
            lines(1000),
            [line("db3_distrib_strings_sizes", "4=600,1K=1"), line("db3_distrib_hashes_items", "2=399")]
        );
        assert_eq!(
            lines(5_000_000),
            [
                line("db3_distrib_strings_sizes", "4=3000000,1K=5000"),
                line("db3_distrib_hashes_items", "2=1995000")
            ]
        );
    }
}
