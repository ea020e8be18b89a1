//! Which records a newer one has replaced: a bitmap over the `Lsn` space, in sparse pages.
//!
//! ```text
//!  Lsn 0 ........ 32767 | 32768 ....... 65535 | 65536 … never touched … | 4,000,000,256 …
//!      page 0: 4 KiB    | page 1: 4 KiB       | no page: all valid      | page 122,070
//! ```
//!
//! - A bit is set once and never cleared; so who sees it set may drop the record, and who does not will see
//!   it next time.
//! - Pages are found through shards of hash maps, so that those of a range can be given back
//!   ([`Validity::forget`]) and a range of which nothing was replaced costs nothing: about one bit for a
//!   record that the log still holds, however old the oldest is.
//! - Setting and asking take a shared lock of one shard of 64; only a page's first bit takes it exclusively.
//!
//! paper: vtc §3.2, where the place of a bit is (file, ordinal) and moves with each compaction. Here it is
//! the `Lsn` and never moves.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use parking_lot::RwLock;

use crate::record::Lsn;

const PAGE_BITS: u64 = 1 << 15;
const WORDS: usize = (PAGE_BITS / 64) as usize;
const SHARDS: u64 = 64;

/// The invalid records of a log.
pub struct Validity {
    shards: Vec<Shard>,
}

/// The pages whose numbers are the same modulo [`SHARDS`]; on a cache line of its own.
#[repr(align(64))]
#[derive(Default)]
struct Shard {
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
        Validity { shards: (0..SHARDS).map(|_| Shard::default()).collect() }
    }

    /// Notes that a record has been replaced; says whether that is news. Harmless for [`Lsn::ZERO`], which no
    /// record has.
    pub fn invalidate(&self, lsn: Lsn) -> bool {
        let number = lsn.0 / PAGE_BITS;
        let shard = self.shard(number);
        if let Some(page) = shard.pages.read().get(&number) {
            return page.set(lsn);
        }
        shard.pages.write().entry(number).or_default().set(lsn)
    }

    /// Whether the record is the newest of its unit, as far as has been noted.
    pub fn is_valid(&self, lsn: Lsn) -> bool {
        let number = lsn.0 / PAGE_BITS;
        match self.shard(number).pages.read().get(&number) {
            Some(page) => {
                let (word, mask) = place(lsn);
                page.words[word].load(Ordering::Relaxed) & mask == 0
            }
            None => true,
        }
    }

    /// How many records of a range have been replaced. Exact if nobody sets bits of the range meanwhile.
    pub fn invalid_in(&self, range: RangeInclusive<Lsn>) -> u64 {
        let (first, last) = (range.start().0, range.end().0);
        if first > last {
            return 0;
        }
        let mut count = 0;
        for number in first / PAGE_BITS..=last / PAGE_BITS {
            if let Some(page) = self.shard(number).pages.read().get(&number) {
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
        for shard in &self.shards {
            shard.pages.write().retain(|number, _| !(first..end).contains(number));
        }
    }

    /// Memory that the pages take.
    pub fn bytes(&self) -> usize {
        let pages: usize = self.shards.iter().map(|shard| shard.pages.read().len()).sum();
        pages * size_of::<Page>()
    }

    fn shard(&self, page_number: u64) -> &Shard {
        &self.shards[(page_number % SHARDS) as usize]
    }
}

impl Default for Validity {
    fn default() -> Validity {
        Validity::new()
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
    fn set(&self, lsn: Lsn) -> bool {
        let (word, mask) = place(lsn);
        // Nothing else is published with a bit, so no ordering: whoever drops a record first makes the newer
        // one durable.
        let news = self.words[word].fetch_or(mask, Ordering::Relaxed) & mask == 0;
        if news {
            self.invalid.fetch_add(1, Ordering::Relaxed);
        }
        news
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
            let mut model = BTreeSet::new();
            for lsn in &lsns {
                prop_assert_eq!(validity.invalidate(Lsn(*lsn)), model.insert(*lsn));
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
            validity.invalidate(Lsn(lsn));
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
    fn threads_that_set_the_same_bits_agree_on_who_was_first() {
        let validity = Validity::new();
        let news: u64 = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| (0..100_000).filter(|lsn| validity.invalidate(Lsn(*lsn))).count() as u64)
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(news, 100_000);
        assert_eq!(validity.invalid_in(Lsn(0)..=Lsn(99_999)), 100_000);
    }
}
