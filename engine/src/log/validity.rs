//! Which records a newer one has replaced: a bitmap over the `Lsn` space, in sparse pages.
//!
//! ```text
//!  Lsn 0 ........ 32767 | 32768 ....... 65535 | 65536 … never touched … | 4,000,000,256 …
//!      page 0: 4 KiB    | page 1: 4 KiB       | no page: all valid      | page 122,070
//! ```
//!
//! - A bit is set once and never cleared; so who sees it set may drop the record, and who does not will see
//!   it next time.
//! - Pages are found through a hash map, so that those of a range can be given back ([`Validity::forget`])
//!   and a range of which nothing was replaced costs nothing: about one bit for a record that the log still
//!   holds, however old the oldest is.
//! - Setting and asking share the map's lock; only a page's first bit takes it alone. Bits are set several at
//!   a time: old records are anywhere, each bit is a cache miss, and a processor waits for sixteen misses as
//!   long as for one if no atomic instruction stands between them.
//!
//! paper: vtc §3.2, where the place of a bit is (file, ordinal) and moves with each compaction. Here it is
//! the `Lsn` and never moves.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use parking_lot::RwLock;
use smallvec::SmallVec;

use crate::record::Lsn;

const PAGE_BITS: u64 = 1 << 15;
const WORDS: usize = (PAGE_BITS / 64) as usize;
/// Bits set under one lock: as many cache misses as a core can have under way.
const AT_ONCE: usize = 16;

/// The invalid records of a log.
#[derive(Default)]
pub struct Validity {
    pages: RwLock<HashMap<u64, Box<Page>, FixedState>>,
}

struct Page {
    words: [AtomicU64; WORDS],
    /// How many bits are set.
    invalid: AtomicU32,
}

impl Validity {
    /// All records are valid.
    pub fn new() -> Validity {
        Validity::default()
    }

    /// Notes that records have been replaced. Harmless for [`Lsn::ZERO`], which no record has.
    pub fn invalidate(&self, lsns: &[Lsn]) {
        for lsns in lsns.chunks(AT_ONCE) {
            let pages = self.pages.read();
            let found: SmallVec<[_; AT_ONCE]> =
                lsns.iter().map(|lsn| (pages.get(&(lsn.0 / PAGE_BITS)), *lsn)).collect();
            let fetch = |(page, lsn): &(Option<&Box<Page>>, Lsn)| page.map_or(0, |page| page.word(*lsn));
            std::hint::black_box(found.iter().map(fetch).fold(0, u64::wrapping_add));
            let mut missing = false;
            for (page, lsn) in found {
                match page {
                    Some(page) => page.set(lsn),
                    None => missing = true,
                }
            }
            drop(pages);
            if missing {
                let mut pages = self.pages.write();
                lsns.iter().for_each(|lsn| pages.entry(lsn.0 / PAGE_BITS).or_default().set(*lsn));
            }
        }
    }

    /// Whether the record is the newest of its unit, as far as has been noted.
    pub fn is_valid(&self, lsn: Lsn) -> bool {
        let pages = self.pages.read();
        pages.get(&(lsn.0 / PAGE_BITS)).is_none_or(|page| page.word(lsn) & place(lsn).1 == 0)
    }

    /// How many records of a range have been replaced. Exact if nobody sets bits of the range meanwhile.
    pub fn invalid_in(&self, range: RangeInclusive<Lsn>) -> u64 {
        let (first, last) = (range.start().0, range.end().0);
        if first > last {
            return 0;
        }
        let mut count = 0;
        let pages = self.pages.read();
        for number in first / PAGE_BITS..=last / PAGE_BITS {
            if let Some(page) = pages.get(&number) {
                let start = number * PAGE_BITS;
                count += page.count(first.saturating_sub(start), (last - start).min(PAGE_BITS - 1));
            }
        }
        count
    }

    /// Gives back the pages that lie wholly in a range. REQUIRES: the log holds no record of the range any
    /// more.
    pub fn forget(&self, range: RangeInclusive<Lsn>) {
        let (first, end) = (range.start().0.div_ceil(PAGE_BITS), range.end().0.saturating_add(1) / PAGE_BITS);
        self.pages.write().retain(|number, _| !(first..end).contains(number));
    }

    /// Memory that the pages take.
    pub fn bytes(&self) -> usize {
        self.pages.read().len() * size_of::<Page>()
    }
}

impl fmt::Debug for Validity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Validity").field("bytes", &self.bytes()).finish_non_exhaustive()
    }
}

impl Default for Page {
    fn default() -> Page {
        Page { words: [const { AtomicU64::new(0) }; WORDS], invalid: AtomicU32::new(0) }
    }
}

impl Page {
    fn word(&self, lsn: Lsn) -> u64 {
        self.words[place(lsn).0].load(Ordering::Relaxed)
    }

    fn set(&self, lsn: Lsn) {
        let (word, mask) = place(lsn);
        // Nothing else is published with a bit, so no ordering: whoever drops a record first makes the newer
        // one durable.
        if self.words[word].fetch_or(mask, Ordering::Relaxed) & mask == 0 {
            self.invalid.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts the bits from `first` to `last`, both included.
    fn count(&self, first: u64, last: u64) -> u64 {
        if (first, last) == (0, PAGE_BITS - 1) {
            return u64::from(self.invalid.load(Ordering::Relaxed));
        }
        let mut count = 0;
        for word in first / 64..=last / 64 {
            let mut bits = self.words[word as usize].load(Ordering::Relaxed);
            if word == first / 64 {
                bits &= u64::MAX << (first % 64);
            }
            if word == last / 64 {
                bits &= u64::MAX >> (63 - last % 64);
            }
            count += u64::from(bits.count_ones());
        }
        count
    }
}

fn place(lsn: Lsn) -> (usize, u64) {
    let bit = lsn.0 % PAGE_BITS;
    ((bit / 64) as usize, 1 << (bit % 64))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_agrees_with_a_set(
            lsns in prop::collection::vec(prop_oneof![0..200_000_u64, any::<u64>()], 0..300),
            ranges in prop::collection::vec((0..250_000_u64, 0..250_000_u64), 0..20),
        ) {
            let validity = Validity::new();
            let mut model: BTreeSet<u64> = BTreeSet::new();
            let (one, rest) = lsns.split_at(lsns.len().min(1));
            for lsns in [one, rest] {
                validity.invalidate(&lsns.iter().copied().map(Lsn).collect::<Vec<_>>());
                model.extend(lsns);
            }
            for lsn in lsns.iter().flat_map(|lsn| [*lsn, lsn ^ 1]) {
                prop_assert_eq!(validity.is_valid(Lsn(lsn)), !model.contains(&lsn));
            }
            for (first, last) in ranges {
                let expected = if first > last { 0 } else { model.range(first..=last).count() as u64 };
                prop_assert_eq!(validity.invalid_in(Lsn(first)..=Lsn(last)), expected);
            }
        }
    }

    #[test]
    fn what_is_forgotten_takes_no_memory_and_the_rest_stays() {
        let validity = Validity::new();
        for lsn in (0..10 * PAGE_BITS).step_by(100) {
            validity.invalidate(&[Lsn(lsn)]);
        }
        let before = validity.bytes();
        validity.forget(Lsn(1)..=Lsn(5 * PAGE_BITS - 1));
        // Page 0 has Lsn 0, which is not in the range.
        assert_eq!(validity.bytes(), before / 10 * 6);
        assert!(!validity.is_valid(Lsn(100)));
        assert!(validity.is_valid(Lsn(2 * PAGE_BITS + 64)));
        assert!(
            (5 * PAGE_BITS..6 * PAGE_BITS)
                .filter(|lsn| lsn % 100 == 0)
                .all(|lsn| !validity.is_valid(Lsn(lsn)))
        );
    }

    #[test]
    fn bits_that_several_threads_set_count_once() {
        let validity = Validity::new();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for first in (0..100_000).step_by(50) {
                        validity.invalidate(&(first..first + 50).map(Lsn).collect::<Vec<_>>());
                    }
                });
            }
        });
        assert_eq!(validity.invalid_in(Lsn(0)..=Lsn(99_999)), 100_000);
    }
}
