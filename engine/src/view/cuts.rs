//! The cuts of open views. A writer learns with one load that no view is open.
//!
//! A view sees what was written up to its *cut*, the newest `Lsn` at the moment it was opened. The rule that
//! everything rests on: **a writer whose `Lsn` is after a cut knows of that cut**, and so keeps what it
//! replaces; a writer whose `Lsn` is not after it holds its latches until it has applied, and so is seen.
//!
//! ```text
//!   opener   pending |= bit ──> active |= bit ──> at[bit] = PENDING ──> at[bit] = newest Lsn, by the
//!            first to come ──> newest cut = max ──> pending &= !bit
//!   writer   Lsn = next Lsn ──> active? ──> pending? settle at[bit] ──> at[bit], for an entry that is not
//!            newer than the newest cut
//! ```
//!
//! A thread that finds a cut pending reads the newest `Lsn` after the bit was set, and all take the value of
//! the first. Numbering is one critical section, or one atomic counter, for all. So a writer that gets a
//! number after the one that became the cut was numbered after that look, and sees the bit. It needs no lock
//! that writers share beyond the one that numbers them, and nobody waits for an opener that was put to
//! sleep.
//!
//! With many views a list of their cuts at each write cost more than the write (a tenth of its time, with an
//! allocation). So a writer takes three words, of which only the newest cut has to be known: cuts that are
//! settled stay where they are until their view is closed, and a view that takes its bit then has a cut that
//! is not before the write.

use crate::record::Lsn;
use crate::table::latch::{AtomicU64, Ordering};
use crate::table::{Readers, VIEWS};

/// There is no view of this number.
const CLOSED: u64 = u64::MAX;
/// The cut is not settled yet. The bits below are the number of the opening, then that of the view whose cut
/// all views of this opening take.
const PENDING: u64 = 1 << 63;
/// Bits of a view's number.
const VIEW_BITS: u32 = VIEWS.trailing_zeros();

/// The cuts in force.
pub(super) struct Cuts {
    /// The bits of the open views.
    active: AtomicU64,
    /// Of those, the bits whose cut may not be settled yet.
    pending: AtomicU64,
    /// The newest cut of those that are settled, and of those that were before.
    newest: AtomicU64,
    /// The cut of each view.
    at: Box<[AtomicU64]>,
    /// Openings so far: so nobody takes a cut that is pending now for one that was pending before.
    openings: AtomicU64,
}

impl Cuts {
    pub(super) fn new() -> Cuts {
        Cuts::of_views(VIEWS)
    }

    fn of_views(views: usize) -> Cuts {
        let at = (0..views).map(|_| AtomicU64::new(CLOSED)).collect();
        let zero = || AtomicU64::new(0);
        Cuts { active: zero(), pending: zero(), newest: zero(), at, openings: zero() }
    }

    /// Takes a cut for these views, one for all. `newest` is asked for the newest `Lsn` given out.
    ///
    /// REQUIRES: they are closed; nobody else opens or closes them.
    pub(super) fn open(&self, bits: &[u8], newest: impl Fn() -> Lsn) -> Lsn {
        let Some(leader) = bits.first() else { return newest() };
        let mask = bits.iter().fold(0, |mask, bit| mask | 1 << bit);
        self.pending.fetch_or(mask, Ordering::AcqRel);
        // In this order, so that a thread that sees a bit as active sees it as pending until its cut is
        // settled.
        self.active.fetch_or(mask, Ordering::AcqRel);
        let opening = self.openings.fetch_add(1, Ordering::Relaxed);
        let pending = PENDING | opening << VIEW_BITS | u64::from(*leader);
        // The leader last: once it can be settled, all of them must be known to be pending.
        for bit in bits.iter().rev() {
            // Release: who finds it pending, sees the bit set before it asks for the newest `Lsn`.
            self.at[*bit as usize].store(pending, Ordering::Release);
        }
        let cuts = bits.iter().map(|bit| self.settled(*bit, &newest)).collect::<Vec<_>>();
        let cut = cuts[0].expect("nobody else closes a view");
        self.newest.fetch_max(cut.0, Ordering::AcqRel);
        // Release: who sees none of them as pending, sees their cuts, and the newest.
        self.pending.fetch_and(!mask, Ordering::AcqRel);
        cut
    }

    /// Ends a view; writers take no notice of it from now on, once they have taken a latch.
    pub(super) fn close(&self, bit: u8) {
        self.active.fetch_and(!(1 << bit), Ordering::AcqRel);
        self.at[bit as usize].store(CLOSED, Ordering::Release);
    }

    /// The views that see what was there before the write that has got `lsn`.
    ///
    /// REQUIRES: the caller holds the latches of what it is going to write.
    #[inline]
    pub(super) fn before(&self, lsn: Lsn, newest: impl Fn() -> Lsn) -> Readers<'_> {
        // Acquire, and the numbering before: see the head of this file.
        let active = self.active.load(Ordering::Acquire);
        if active == 0 {
            return Readers::NONE;
        }
        let pending = self.pending.load(Ordering::Acquire) & active;
        let settled = Lsn(self.newest.load(Ordering::Acquire));
        let newest = if pending == 0 { settled } else { settled.max(self.settle(pending, newest)) };
        Readers { active, newest, lsn, cuts: &self.at }
    }

    /// Settles the cuts of these views and returns the newest.
    #[cold]
    fn settle(&self, mut pending: u64, newest: impl Fn() -> Lsn) -> Lsn {
        let mut cut = Lsn::ZERO;
        while pending != 0 {
            cut = cut.max(self.settled(pending.trailing_zeros() as u8, &newest).unwrap_or(Lsn::ZERO));
            pending &= pending - 1;
        }
        cut
    }

    /// The cut of a view; `None` if it is closed, or will be after every `Lsn` that has been given out yet.
    fn settled(&self, bit: u8, newest: &impl Fn() -> Lsn) -> Option<Lsn> {
        let place = &self.at[bit as usize];
        let found = place.load(Ordering::Acquire);
        if found < PENDING {
            return Some(Lsn(found));
        }
        if found == CLOSED {
            return None;
        }
        let leader = (found & (VIEWS as u64 - 1)) as u8;
        let settled = if leader == bit { Some(newest()) } else { self.settled(leader, newest) };
        let Some(settled) = settled else {
            // The leader is closed already, so its opening is over, and all of its cuts were settled.
            let now = place.load(Ordering::Acquire);
            return (now < PENDING).then_some(Lsn(now));
        };
        match place.compare_exchange(found, settled.0, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Some(settled),
            // Somebody else was first.
            Err(now) if now < PENDING => Some(Lsn(now)),
            Err(_) => None,
        }
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    /// The counter that numbers writes where there is no log, as the engine uses it.
    struct Store {
        cuts: Cuts,
        newest: AtomicU64,
    }

    impl Store {
        /// Whether a write keeps what a view of this bit saw, and its number.
        fn write(&self, bit: u8) -> (Lsn, Option<Lsn>) {
            let lsn = Lsn(self.newest.fetch_add(1, Ordering::AcqRel) + 1);
            let readers = self.cuts.before(lsn, || self.newest());
            // What it replaces is older than all cuts.
            let seen = readers.seeing(Lsn(1)).find(|reader| reader.bit == bit).map(|reader| reader.cut);
            assert!(seen <= Some(readers.newest), "{seen:?} is behind the newest cut, {}", readers.newest);
            (lsn, seen)
        }

        fn newest(&self) -> Lsn {
            Lsn(self.newest.fetch_add(0, Ordering::AcqRel))
        }

        fn open(&self, bits: &[u8]) -> Lsn {
            self.cuts.open(bits, || self.newest())
        }
    }

    fn few_views() -> Arc<Store> {
        Arc::new(Store { cuts: Cuts::of_views(3), newest: AtomicU64::new(5) })
    }

    fn assert_right(cut: Lsn, (lsn, seen): (Lsn, Option<Lsn>)) {
        assert_eq!(seen, (lsn > cut).then_some(cut), "{lsn} knows of {cut} exactly if it is after it");
    }

    /// All interleavings with at most so many preemptions; without a bound they take many minutes.
    fn check(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(preemptions);
        builder.check(model);
    }

    #[test]
    fn a_writer_knows_of_a_cut_exactly_if_it_is_after_it() {
        check(3, || {
            let store = few_views();
            let writers = [(); 2].map(|()| {
                let store = store.clone();
                thread::spawn(move || store.write(1))
            });
            let cut = store.open(&[1]);
            for writer in writers {
                assert_right(cut, writer.join().expect("a writer does not panic"));
            }
        });
    }

    #[test]
    fn views_that_are_opened_together_have_one_cut() {
        check(3, || {
            let store = few_views();
            let writer = {
                let store = store.clone();
                thread::spawn(move || [0, 1, 0, 1].map(|bit| store.write(bit)))
            };
            let cut = store.open(&[1, 0]);
            let writes = writer.join().expect("a writer does not panic");
            writes.into_iter().for_each(|write| assert_right(cut, write));
            assert_eq!(store.cuts.settled(0, &|| store.newest()), Some(cut));
        });
    }

    #[test]
    fn a_bit_that_is_used_again_has_its_own_cut() {
        check(2, || {
            let store = few_views();
            let writers = [(); 2].map(|()| {
                let store = store.clone();
                thread::spawn(move || store.write(1))
            });
            let first = store.open(&[1]);
            store.cuts.close(1);
            let second = store.open(&[1]);
            for writer in writers {
                let (lsn, seen) = writer.join().expect("a writer does not panic");
                match seen {
                    // What is kept for the first view hurts nobody: the second does not see it.
                    Some(cut) if cut == first && lsn <= second => {}
                    seen => assert_eq!(seen, (lsn > second).then_some(second)),
                }
            }
        });
    }
}
