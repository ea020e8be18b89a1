//! Tarn's way: the position of a record is its LSN, a number that is given once and never moves.
//!
//! A compaction copies records with their LSNs. So no entry is corrected, and a record that is replaced gets
//! its bit at once, whether its file is under compaction or not: if it was copied already, the next
//! compaction drops it. The bitmap goes over the LSN space, in pages that exist while they have a bit.
//!
//! `engine/src/log/compact/validity.rs` is the same with atomics and without the lock of the log.

use std::collections::HashMap;
use std::marker::PhantomData;

use super::form::{Form, Repaired};
use super::ordinals::may_drop_delete;
use super::positions::{Met, Position, Positions};

const PAGE_BITS: u64 = 1 << 15;
const WORDS: usize = (PAGE_BITS / 64) as usize;

/// Positions by LSN.
#[derive(Debug)]
pub struct Lsns<F = Repaired> {
    last: u64,
    pages: HashMap<u64, Page>,
    form: PhantomData<fn() -> F>,
}

#[derive(Debug)]
struct Page {
    words: Box<[u64; WORDS]>,
    /// Bits that are set.
    set: u64,
}

impl<F: Form> Positions for Lsns<F> {
    const NAME: &'static str = "lsns";
    const NUMBERED: bool = true;
    const WALKS: bool = false;
    type InShard = ();
    type Job = ();

    fn new(_files: usize) -> Lsns<F> {
        Lsns { last: 0, pages: HashMap::new(), form: PhantomData }
    }

    fn next(&mut self, _file: usize) -> u64 {
        self.last += 1;
        self.last
    }

    fn found(&mut self, _file: usize, lsn: u64) -> u64 {
        self.last = self.last.max(lsn);
        lsn
    }

    fn supersede(&mut self, old: Position, (): &mut ()) -> bool {
        self.mark(old)
    }

    fn mark(&mut self, position: Position) -> bool {
        let (page, word, mask) = place(position.number());
        let none = || Page { words: Box::new([0; WORDS]), set: 0 };
        let page = self.pages.entry(page).or_insert_with(none);
        let is_new = page.words[word] & mask == 0;
        page.words[word] |= mask;
        page.set += u64::from(is_new);
        is_new
    }

    fn begin(&mut self, _file: usize, _records: u64) {}

    fn is_superseded(&self, met: Met) -> bool {
        let (page, word, mask) = place(met.lsn);
        self.pages.get(&page).is_some_and(|page| page.words[word] & mask != 0)
    }

    fn note(&mut self, (): &mut (), met: Met, is_kept: bool) {
        if !is_kept {
            self.clear(met.lsn);
        }
    }

    fn copied(&mut self, (): &mut ()) {
        if !F::KEEPS_BITS {
            self.pages.clear();
        }
    }

    fn remap<'e>(_: &mut (), (): &mut (), _: impl Iterator<Item = &'e mut Position>) -> Vec<Position> {
        Vec::new()
    }

    fn finish(&mut self, (): ()) {}

    fn sweep((): &mut ()) {}

    fn needs_durable(began: u64, now: u64) -> u64 {
        // A record that was replaced while the file was read may be missing in the copy.
        if F::WAITS_UNTIL_DURABLE { now - 1 } else { began - 1 }
    }

    fn may_drop_delete(timestamp: u64, least: u64, began: u64) -> bool {
        may_drop_delete::<F>(timestamp, least, began)
    }

    fn bitmap_bytes(&self) -> usize {
        self.pages.len() * WORDS * 8 + self.pages.capacity() * size_of::<(u64, Page)>()
    }

    fn job_bytes((): &()) -> usize {
        0
    }
}

impl<F: Form> Lsns<F> {
    fn clear(&mut self, lsn: u64) {
        let (number, word, mask) = place(lsn);
        let Some(page) = self.pages.get_mut(&number) else { return };
        page.set -= u64::from(page.words[word] & mask != 0);
        page.words[word] &= !mask;
        if page.set == 0 {
            self.pages.remove(&number);
        }
    }
}

/// The page, the word in it and the bit in that.
fn place(lsn: u64) -> (u64, usize, u64) {
    (lsn / PAGE_BITS, (lsn % PAGE_BITS / 64) as usize, 1 << (lsn % 64))
}
