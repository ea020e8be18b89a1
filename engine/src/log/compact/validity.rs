//! The validity bitmap over the `Lsn` space, in sparse pages: which records a newer one has replaced.
//!
//! ```text
//!  Lsn 0 ........ 32767 | 32768 ....... 65535 | 65536 … never touched … | 4,000,000,256 …
//!      page 0: 4 KiB    | page 1: 4 KiB       | no page: all valid      | page 122,070
//! ```
//!
//! - A bit is set once, and cleared when the record has left the log. So a thread that sees it set may drop
//!   the record, and one that does not will see it next time. The bits of a range count the replaced records
//!   that the log has.
//! - Pages are found through a hash map, and given back with their last bit ([`Validity::forget`]), so that a
//!   range of which nothing was replaced costs nothing: about one bit for a record that the log still holds,
//!   however old the oldest is.
//! - Setting and asking share the map's lock; only a page's first bit takes it alone. Bits are set several at
//!   a time: old records are anywhere, each bit is a cache miss, and a processor waits for sixteen misses as
//!   long as for one if no atomic instruction stands between them.
//!
//! paper: vtc §3.2, where the place of a bit is (file, ordinal) and moves with each compaction. Here it is
//! the `Lsn` and never moves.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::lock::{Mutex, RwLock};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use smallvec::SmallVec;

use crate::record::{Lsn, Write};
use crate::upheaval::Upheavals;

const PAGE_BITS: u64 = 1 << 15;
const WORDS: usize = (PAGE_BITS / 64) as usize;
/// Bits set under one lock: as many cache misses as a core can have under way.
const AT_ONCE: usize = 16;
/// The most words of bits that are looked at together.
const LOOK_WORDS_MAX: u64 = 1 << 20;
/// Bits cleared under one lock.
const FORGOTTEN_AT_ONCE: usize = 1024;

/// The invalid records of a log.
#[derive(Default)]
pub struct Validity {
    pages: RwLock<HashMap<u64, Box<Page>, FixedState>>,
    /// The flushes and swaps of whole databases, which set no bits for the records concerned.
    upheavals: Mutex<Upheavals>,
    /// Bits of records up to here may be missing.
    complete_after: AtomicU64,
}

/// The result of [`Validity::look`].
#[derive(Debug, Default)]
pub struct Look {
    /// The number of the first word, of 64 bits each.
    first: u64,
    words: Vec<u64>,
    /// Whether anything happened to whole databases after the first record.
    pub has_upheavals: bool,
}

impl Look {
    /// Whether a record was the newest of its unit; `None` if it is not among those that were looked at.
    pub fn is_valid(&self, lsn: Lsn) -> Option<bool> {
        let word = self.words.get(usize::try_from((lsn.0 / 64).checked_sub(self.first)?).ok()?)?;
        Some(word & 1 << (lsn.0 % 64) == 0)
    }
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

    /// Forgets that records were replaced, which are in the log no more.
    pub fn forget(&self, lsns: &[Lsn]) {
        for lsns in lsns.chunks(FORGOTTEN_AT_ONCE) {
            let pages = self.pages.read();
            let emptied = |lsn: &Lsn| pages.get(&(lsn.0 / PAGE_BITS)).is_some_and(|page| page.clear(*lsn));
            let emptied: Vec<u64> =
                lsns.iter().filter(|lsn| emptied(lsn)).map(|lsn| lsn.0 / PAGE_BITS).collect();
            drop(pages);
            if !emptied.is_empty() {
                let is_empty = |page: &Page| page.invalid.load(Ordering::Relaxed) == 0;
                let mut pages = self.pages.write();
                for number in emptied {
                    if pages.get(&number).is_some_and(|page| is_empty(page)) {
                        pages.remove(&number);
                    }
                }
            }
        }
    }

    /// Notes a write that concerns whole databases. REQUIRES: they come in the order of their `Lsn`s.
    pub fn note_upheaval(&self, lsn: Lsn, write: &Write<'_>) {
        self.upheavals.lock().note(lsn, write);
    }

    /// Where the keys are now that were in database `db` right after the record `lsn`; `None` if they were
    /// flushed.
    pub fn place_now(&self, db: u8, lsn: Lsn) -> Option<u8> {
        self.upheavals.lock().place_now(db, lsn)
    }

    /// Begins with these upheavals; bits of records up to `complete_after` may be missing.
    pub(crate) fn begin(&self, upheavals: Upheavals, complete_after: Lsn) {
        *self.upheavals.lock() = upheavals;
        self.complete_after.store(complete_after.0, Ordering::Relaxed);
    }

    /// Forgets everything: there is no log any more.
    pub(crate) fn clear(&self) {
        self.pages.write().clear();
        *self.upheavals.lock() = Upheavals::default();
    }

    /// Of records up to here, it may not be known that they were replaced.
    pub fn complete_after(&self) -> Lsn {
        Lsn(self.complete_after.load(Ordering::Relaxed))
    }

    /// The bits of a range as they are now, or of its first part if it is long; with many of them to look at,
    /// cheaper than to ask for each.
    pub fn look(&self, range: RangeInclusive<Lsn>, bits: &mut Look) {
        let first = range.start().0 / 64;
        let last = (range.end().0 / 64).min(first + LOOK_WORDS_MAX);
        bits.first = first;
        bits.words.clear();
        let pages = self.pages.read();
        let mut at = first;
        while at <= last {
            let page = pages.get(&(at * 64 / PAGE_BITS));
            let end = (at + WORDS as u64 - at % WORDS as u64).min(last + 1);
            let word =
                |at: u64| page.map_or(0, |page| page.words[at as usize % WORDS].load(Ordering::Relaxed));
            bits.words.extend((at..end).map(word));
            at = end;
        }
        drop(pages);
        bits.has_upheavals = self.upheavals.lock().is_later(*range.start());
    }

    /// How many records of a range have been replaced. Exact if nobody sets bits of the range meanwhile.
    pub fn invalid_in(&self, range: RangeInclusive<Lsn>) -> u64 {
        let (first, last) = (range.start().0, range.end().0);
        if first > last {
            return 0;
        }
        let numbers = first / PAGE_BITS..=last / PAGE_BITS;
        let count = |number: u64, page: &Page| {
            let start = number * PAGE_BITS;
            page.count(first.saturating_sub(start), (last - start).min(PAGE_BITS - 1))
        };
        let pages = self.pages.read();
        if numbers.end() - numbers.start() < pages.len() as u64 {
            return numbers.filter_map(|number| Some(count(number, pages.get(&number)?))).sum();
        }
        // Old files go over many records of which few are left.
        let in_range = pages.iter().filter(|(number, _)| numbers.contains(number));
        in_range.map(|(number, page)| count(*number, page)).sum()
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
        // Nothing else is published with a bit, so no ordering: the thread that drops a record first makes
        // the newer one durable.
        if self.words[word].fetch_or(mask, Ordering::Relaxed) & mask == 0 {
            self.invalid.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Clears a bit; says whether it was the last one.
    fn clear(&self, lsn: Lsn) -> bool {
        let (word, mask) = place(lsn);
        let was_set = self.words[word].fetch_and(!mask, Ordering::Relaxed) & mask != 0;
        was_set && self.invalid.fetch_sub(1, Ordering::Relaxed) == 1
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
            let mut look = Look::default();
            for (first, last) in ranges.iter().copied().filter(|(first, last)| first <= last) {
                validity.look(Lsn(first)..=Lsn(last), &mut look);
                for lsn in [first, last].into_iter().chain(model.range(first..=last).copied()) {
                    prop_assert_eq!(look.is_valid(Lsn(lsn)), Some(!model.contains(&lsn)));
                }
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
        let lsns: Vec<Lsn> = (0..10 * PAGE_BITS).step_by(100).map(Lsn).collect();
        validity.invalidate(&lsns);
        let before = validity.bytes();
        let (gone, rest) = lsns.split_at(lsns.len() / 2);
        validity.forget(&gone[1..]);
        // Page 0 still has a bit, and a page lies in both halves.
        assert_eq!(validity.bytes(), before / 10 * 7);
        assert!(!validity.is_valid(gone[0]) && gone[1..].iter().all(|lsn| validity.is_valid(*lsn)));
        assert!(rest.iter().all(|lsn| !validity.is_valid(*lsn)));
        assert_eq!(validity.invalid_in(gone[0]..=*lsns.last().unwrap()), 1 + rest.len() as u64);
    }

    #[test]
    fn of_a_range_there_are_as_many_bits_as_there_are_on_its_pages() {
        let validity = Validity::new();
        // Page 0, the last of page 2 and the first of page 3, which has another; none on page 1, and the next
        // so far off that nobody would come to the end who asked for each page before it.
        let far = 1 << 62;
        let set = [7, 3 * PAGE_BITS - 1, 3 * PAGE_BITS, 3 * PAGE_BITS + 100, far, far + PAGE_BITS, u64::MAX];
        validity.invalidate(&set.map(Lsn));
        let counts = [
            (0, 6, 0),
            (0, 7, 1),
            (8, 3 * PAGE_BITS - 2, 0),
            (7, 3 * PAGE_BITS - 1, 2),
            (3 * PAGE_BITS - 1, 3 * PAGE_BITS, 2),
            (PAGE_BITS, 2 * PAGE_BITS - 1, 0),
            (PAGE_BITS, 4 * PAGE_BITS, 3),
            (3 * PAGE_BITS + 1, far - 1, 1),
            (3 * PAGE_BITS, far, 3),
            (8, far + PAGE_BITS - 1, 4),
            (far + 1, u64::MAX - 1, 1),
            (0, u64::MAX, 7),
            (far, 7, 0),
        ];
        for (first, last, count) in counts {
            assert_eq!(validity.invalid_in(Lsn(first)..=Lsn(last)), count, "{first} to {last}");
        }
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
