//! Waits for locks: how long threads wait, and which thread held the lock.
//!
//! ```text
//!   free lock    it is taken, and nothing else happens
//!   held lock    clock ── wait ── clock: the time is added to a number of this thread, by rank
//! ```
//!
//! Locks of one rank that are several (segments, gates) belong to the data, and any thread may hold one. So
//! each thread notes in a slot of its own which of them it took last. A thread that has to wait looks for the
//! slot with the address of its lock. This is a hint: a thread that has given the lock back may be named
//! while nobody has taken another one.
//!
//! A checker of schedules (`--cfg shuttle`, `--cfg loom`) sees the waits alone.

use crate::lock::{Number, Rank, rank};
use std::time::Duration;

#[cfg(not(any(shuttle, loom)))]
pub(super) use measured::{note, note_only, taken, waited};
#[cfg(all(loom, not(shuttle)))]
pub(super) use unmeasured::waited;
#[cfg(any(shuttle, loom))]
pub(super) use unmeasured::{note, note_only, taken};

#[cfg(not(any(shuttle, loom)))]
pub use measured::take;
#[cfg(any(shuttle, loom))]
pub use unmeasured::take;

/// A number for all locks of a gate, each of which a thread holds that has closed it; else the lock itself.
#[inline(always)]
pub(super) fn of_all<R: Rank>(number: Number, lock: usize) -> usize {
    if R::PLACE == rank::Gate::PLACE { number.of_all() } else { lock }
}

/// The time that a thread has waited for locks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// For latches of segments.
    pub latches: Duration,
    /// For the gate.
    pub gate: Duration,
    /// For the log's appender.
    pub appender: Duration,
    /// For locks of other ranks.
    pub others: Duration,
    /// The thread that took the latch, gate or appender last that was waited for longest, and so probably
    /// held it; empty if none is known, or if another lock was waited for longer.
    pub holder: &'static str,
    /// The longest wait.
    pub longest: Duration,
}

#[cfg(any(shuttle, loom))]
mod unmeasured {
    use super::Waits;
    use crate::lock::Rank;

    #[inline(always)]
    pub(crate) fn taken<R: Rank, G>(_: usize, _: impl FnOnce() -> Option<G>, wait: impl FnOnce() -> G) -> G {
        wait()
    }

    #[cfg(not(shuttle))]
    #[inline(always)]
    pub(crate) fn waited<R: Rank, G>(_: usize, wait: impl FnOnce() -> G) -> G {
        wait()
    }

    #[inline(always)]
    pub(crate) fn note<R: Rank>(_: usize) {}

    #[inline(always)]
    pub(crate) fn note_only<R: Rank>() {}

    /// Nothing is measured.
    pub fn take() -> Option<Waits> {
        None
    }
}

#[cfg(not(any(shuttle, loom)))]
mod measured {
    use super::Waits;
    use crate::lock::{Rank, rank};
    use std::cell::Cell;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::time::{Duration, Instant};

    /// Threads that are known at one time; the latches of others have no known holder.
    const THREADS: usize = 256;
    /// Names of threads; those that come later have none. Each unit test is a thread with a name of its own.
    const NAMES_MAX: usize = if cfg!(test) { 4096 } else { 128 };
    /// The name of a thread that has none of its own.
    const UNNAMED: &str = "another-thread";

    /// The note of one thread for the others.
    #[repr(align(64))]
    struct Slot {
        used: AtomicBool,
        /// The address of the segment that it latched last.
        segment: AtomicUsize,
        /// The lock of the gate that it took last, or what stands for all of them if it closed the gate.
        gate: AtomicUsize,
        /// Its name, as an index into `NAMES`.
        name: AtomicUsize,
    }

    static SLOTS: [Slot; THREADS] = [const {
        Slot {
            used: AtomicBool::new(false),
            segment: AtomicUsize::new(0),
            gate: AtomicUsize::new(0),
            name: AtomicUsize::new(0),
        }
    }; THREADS];
    static NAMES: [OnceLock<String>; NAMES_MAX] = [const { OnceLock::new() }; NAMES_MAX];

    #[derive(Clone, Copy)]
    enum Mine {
        /// The thread has taken no such lock yet.
        Unknown,
        At(&'static Slot),
        /// All slots were in use.
        None,
    }

    /// The slot of the thread that took the log's appender last. A process has one log; where tests have
    /// several, this is a hint as well.
    static APPENDER: Shared = Shared(AtomicUsize::new(THREADS));

    #[repr(align(64))]
    struct Shared(AtomicUsize);

    thread_local! {
        static MINE: Cell<Mine> = const { Cell::new(Mine::Unknown) };
        static LEAVING: Leaving = const { Leaving };
        static WAITED: Cell<Option<Waits>> = const { Cell::new(None) };
    }

    /// Gives the slot back when the thread ends.
    struct Leaving;

    impl Drop for Leaving {
        fn drop(&mut self) {
            if let Mine::At(slot) = MINE.replace(Mine::None) {
                slot.segment.store(0, Ordering::Relaxed);
                slot.gate.store(0, Ordering::Relaxed);
                slot.used.store(false, Ordering::Release);
            }
        }
    }

    /// Takes a lock: at once if it is free, else by `wait`, whose time is noted.
    #[inline]
    pub(crate) fn taken<R: Rank, G>(
        lock: usize,
        at_once: impl FnOnce() -> Option<G>,
        wait: impl FnOnce() -> G,
    ) -> G {
        match at_once() {
            Some(guard) => guard,
            None => waited::<R, G>(lock, wait),
        }
    }

    /// Waits for a lock, and notes the time.
    #[cold]
    #[inline(never)]
    #[expect(clippy::disallowed_methods, reason = "it measures a wait, and nothing depends on it")]
    pub(crate) fn waited<R: Rank, G>(lock: usize, wait: impl FnOnce() -> G) -> G {
        let holder = match R::PLACE {
            rank::Appender::PLACE => SLOTS.get(APPENDER.0.load(Ordering::Relaxed)).map_or("", name_in),
            rank::Segment::PLACE => holder_of(|slot| &slot.segment, lock),
            rank::Gate::PLACE => holder_of(|slot| &slot.gate, lock),
            _ => "",
        };
        let began = Instant::now();
        let guard = wait();
        add(R::PLACE, began.elapsed(), holder);
        guard
    }

    fn add(place: usize, time: Duration, holder: &'static str) {
        let mut waits = WAITED.get().unwrap_or_default();
        let total = match place {
            rank::Segment::PLACE => &mut waits.latches,
            rank::Gate::PLACE => &mut waits.gate,
            rank::Appender::PLACE => &mut waits.appender,
            _ => &mut waits.others,
        };
        *total += time;
        if time > waits.longest {
            (waits.longest, waits.holder) = (time, holder);
        }
        WAITED.set(Some(waits));
    }

    /// The waits of this thread since it asked last; `None`: there were none.
    #[inline]
    pub fn take() -> Option<Waits> {
        WAITED.take()
    }

    /// Notes which lock this thread has taken, of those that are several.
    #[inline]
    pub(crate) fn note<R: Rank>(lock: usize) {
        let Some(slot) = mine() else { return };
        match R::PLACE {
            rank::Segment::PLACE => slot.segment.store(lock, Ordering::Relaxed),
            rank::Gate::PLACE => slot.gate.store(lock, Ordering::Relaxed),
            _ => {}
        }
    }

    /// The slot of this thread.
    #[inline]
    fn mine() -> Option<&'static Slot> {
        match MINE.get() {
            Mine::At(slot) => Some(slot),
            Mine::Unknown => enrol(),
            Mine::None => None,
        }
    }

    /// Notes that this thread has taken a lock of which there is one: the log's appender.
    #[inline]
    pub(crate) fn note_only<R: Rank>() {
        if R::PLACE == rank::Appender::PLACE
            && let Some(slot) = mine()
        {
            let index = slot.index();
            // A thread alone leaves the cache line as it is.
            if APPENDER.0.load(Ordering::Relaxed) != index {
                APPENDER.0.store(index, Ordering::Relaxed);
            }
        }
    }

    impl Slot {
        fn index(&'static self) -> usize {
            (std::ptr::from_ref(self).addr() - SLOTS.as_ptr().addr()) / size_of::<Slot>()
        }
    }

    #[cold]
    fn enrol() -> Option<&'static Slot> {
        let is_mine = |slot: &&Slot| !slot.used.swap(true, Ordering::Acquire);
        // A thread that ends keeps no slot.
        let found = LEAVING.try_with(|_| SLOTS.iter().find(is_mine)).ok().flatten();
        MINE.set(found.map_or(Mine::None, Mine::At));
        if let Some(slot) = found {
            slot.name.store(name_of_this(), Ordering::Relaxed);
        }
        found
    }

    /// Where the name of this thread stands.
    fn name_of_this() -> usize {
        let thread = std::thread::current();
        let name = thread.name().unwrap_or(UNNAMED);
        let is_it = |place: &OnceLock<String>| place.get_or_init(|| name.to_owned()) == name;
        NAMES.iter().position(is_it).unwrap_or(NAMES_MAX)
    }

    fn holder_of(noted: impl Fn(&Slot) -> &AtomicUsize, lock: usize) -> &'static str {
        let mine = match MINE.get() {
            Mine::At(slot) => std::ptr::from_ref(slot),
            Mine::Unknown | Mine::None => std::ptr::null(),
        };
        let has_it = |slot: &&Slot| {
            noted(slot).load(Ordering::Relaxed) == lock && !std::ptr::eq(std::ptr::from_ref(*slot), mine)
        };
        SLOTS.iter().find(has_it).map_or("", name_in)
    }

    fn name_in(slot: &Slot) -> &'static str {
        NAMES.get(slot.name.load(Ordering::Relaxed)).and_then(OnceLock::get).map_or(UNNAMED, String::as_str)
    }
}

#[cfg(all(test, not(any(shuttle, loom))))]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::lock::{Mutex, Number, RwLock, rank};
    use std::sync::mpsc::channel;

    #[test]
    fn a_free_lock_is_no_wait() {
        take();
        drop(Mutex::<u8>::default().lock());
        drop(RwLock::<u8, rank::Segment>::default().write());
        assert_eq!(take(), None);
    }

    /// Holds `lock` in a thread of that name until this one waits for it, and a moment longer.
    fn wait_behind<R: crate::lock::Rank>(name: &str, lock: &RwLock<u8, R>, number: usize) -> Waits {
        let (taken, was_taken) = channel();
        let (goes, is_to_go) = channel::<()>();
        std::thread::scope(|scope| {
            let hold = move || {
                let held = lock.write_as(Number::of(lock, number));
                taken.send(()).unwrap();
                is_to_go.recv().unwrap();
                // The other thread has begun to wait, or finds the lock held all the same.
                std::thread::sleep(Duration::from_millis(20));
                drop(held);
            };
            std::thread::Builder::new().name(name.to_owned()).spawn_scoped(scope, hold).unwrap();
            was_taken.recv().unwrap();
            take();
            goes.send(()).unwrap();
            drop(lock.read_as(Number::of(lock, number)));
        });
        take().unwrap()
    }

    #[test]
    fn a_wait_for_a_latch_names_the_thread_that_holds_it() {
        let segment = RwLock::<u8, rank::Segment>::default();
        let waits = wait_behind("holder-of-a-test", &segment, 3);
        assert!(waits.latches > Duration::ZERO, "{waits:?}");
        assert_eq!((waits.gate, waits.appender, waits.others), Default::default());
        assert_eq!(waits.holder, "holder-of-a-test");
        assert_eq!(take(), None, "what was taken is not there any more");
        let gate = RwLock::<u8, rank::Gate>::default();
        let waits = wait_behind("other-holder", &gate, 0);
        assert!(waits.gate > Duration::ZERO && waits.latches.is_zero(), "{waits:?}");
        assert_eq!(waits.holder, "other-holder");
    }

    #[test]
    fn a_wait_for_a_mutex_is_counted_by_its_rank() {
        let appender = Mutex::<u8, rank::Appender>::default();
        let held = appender.lock();
        let (begins, has_begun) = channel();
        let waits = std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                begins.send(()).unwrap();
                drop(appender.lock());
                take()
            });
            has_begun.recv().unwrap();
            std::thread::sleep(Duration::from_millis(20));
            drop(held);
            waiting.join().unwrap()
        });
        // A thread that got its turn late found the lock free.
        if let Some(waits) = waits {
            assert!(waits.appender > Duration::ZERO && waits.others.is_zero(), "{waits:?}");
        }
    }

    #[test]
    fn slots_are_given_back_by_threads_that_end() {
        let segment = RwLock::<u8, rank::Segment>::default();
        for _ in 0..1000 {
            std::thread::scope(|scope| {
                // A scope may end before its threads have given back what is theirs alone.
                scope.spawn(|| drop(segment.write_as(Number::of(&segment, 0)))).join().unwrap();
            });
        }
        assert_eq!(wait_behind("late-holder", &segment, 0).holder, "late-holder");
    }
}
