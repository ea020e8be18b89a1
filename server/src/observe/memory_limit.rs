//! The memory in use beside `maxmemory`: known at each command that writes, for the price of a load.
//!
//! ```text
//!   used = what the allocator told at the last sample (ten times a second, or when somebody must know)
//!        + what workers have allocated and freed since, which each tells of itself
//! ```
//!
//! To ask the allocator takes tens of microseconds, as it locks its arenas and adds them up. A thread's own
//! count is two loads. What other threads do between two samples is not known until the next one.

use std::cell::Cell;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use tikv_jemalloc_ctl::thread::{self, ThreadLocal};

use super::process::Heap;

/// A thread tells of what it has allocated when it is so much, and at the end of its batch.
const TOLD_BYTES: i64 = 64 << 10;
/// A sample that is not older is good enough to refuse a command by, or to go on evicting.
const FRESH_US: u64 = 5000;

/// The bytes that a thread has allocated, and freed, since it began.
#[derive(Clone, Copy)]
struct Counters {
    allocated: ThreadLocal<u64>,
    freed: ThreadLocal<u64>,
}

impl Counters {
    /// Those of this thread; `None` if the allocator does not tell.
    fn of_this_thread() -> Option<Counters> {
        let (allocated, freed) = (thread::allocatedp::read().ok()?, thread::deallocatedp::read().ok()?);
        Some(Counters { allocated, freed })
    }

    /// Bytes allocated, less those freed: objects that other threads free are counted there.
    fn net(self) -> i64 {
        self.allocated.get().wrapping_sub(self.freed.get()) as i64
    }
}

thread_local! {
    static COUNTERS: Option<Counters> = Counters::of_this_thread();
    /// The net bytes of this thread that it has told of, and since which setting of the limit.
    static TOLD: Cell<(u64, i64)> = const { Cell::new((0, 0)) };
    /// Bytes that this thread has allocated since it made room.
    static OWED: Cell<i64> = const { Cell::new(0) };
}

/// The limit, and what is in use.
#[derive(Debug)]
pub struct MemoryLimit {
    /// `maxmemory`; 0: none.
    limit: AtomicU64,
    /// Goes up when the limit is set: what threads have told before means nothing then.
    setting: AtomicU64,
    used: AtomicI64,
    began: Instant,
    /// Microseconds after `began` of the last sample.
    sampled_us: AtomicU64,
    /// Milliseconds after `began`, and one, since when too much is in use; 0: it is not.
    exceeded_since_ms: AtomicU64,
    /// Milliseconds for which it was before.
    exceeded_ms: AtomicU64,
}

impl MemoryLimit {
    /// A limit of so many bytes; 0: none.
    pub fn new(bytes: u64) -> MemoryLimit {
        let limit = MemoryLimit {
            limit: AtomicU64::new(0),
            setting: AtomicU64::new(0),
            used: AtomicI64::new(0),
            began: Instant::now(),
            sampled_us: AtomicU64::new(0),
            exceeded_since_ms: AtomicU64::new(0),
            exceeded_ms: AtomicU64::new(0),
        };
        limit.set(bytes);
        limit
    }

    /// Sets the limit.
    pub fn set(&self, bytes: u64) {
        if self.limit.swap(bytes, Relaxed) != bytes && bytes != 0 {
            self.setting.fetch_add(1, Relaxed);
            self.sample();
        }
        if bytes == 0 {
            self.note_excess(0);
        }
    }

    /// The limit; 0: none.
    pub fn bytes(&self) -> u64 {
        self.limit.load(Relaxed)
    }

    /// Whether there is one.
    #[inline]
    pub fn is_set(&self) -> bool {
        self.limit.load(Relaxed) != 0
    }

    /// Asks the allocator.
    fn sample(&self) {
        // The sample has all that this thread has done so far.
        self.note_thread(true);
        self.used.store(i64::try_from(Heap::now().allocated).unwrap_or(i64::MAX), Relaxed);
        self.sampled_us.store(self.began.elapsed().as_micros() as u64, Relaxed);
    }

    /// Brings the estimate up to date: asks the allocator, unless it was asked a moment ago.
    pub(crate) fn look(&self) {
        let now = self.began.elapsed().as_micros() as u64;
        if now.saturating_sub(self.sampled_us.load(Relaxed)) >= FRESH_US {
            self.sample();
        } else {
            self.note_thread(true);
        }
    }

    /// Counts what this thread has allocated and freed since it told of it last, if that is much, or if it is
    /// to be told anyway.
    pub(crate) fn note_thread(&self, anyway: bool) {
        let Some(net) = COUNTERS.with(|counters| counters.map(Counters::net)) else { return };
        let setting = self.setting.load(Relaxed);
        let (told_setting, told) = TOLD.get();
        if told_setting != setting {
            // The sample that was taken then has it.
            TOLD.set((setting, net));
            OWED.set(0);
            return;
        }
        let grown = net.wrapping_sub(told);
        if grown != 0 && (anyway || grown.abs() >= TOLD_BYTES) {
            TOLD.set((setting, net));
            OWED.set(OWED.get().saturating_add(grown).max(0));
            self.used.fetch_add(grown, Relaxed);
        }
    }

    /// Bytes that this thread has allocated and not made room for.
    pub(crate) fn owed(&self) -> u64 {
        OWED.get().max(0) as u64
    }

    /// Notes that this thread has made room for so many bytes; some of them another thread frees.
    pub(crate) fn note_room(&self, bytes: u64, behind: u64) {
        let signed = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
        OWED.set(OWED.get().saturating_sub(signed(bytes)).max(0));
        self.used.fetch_sub(signed(behind), Relaxed);
    }

    /// Bytes in use beyond the limit, where some are not counted; 0 if there is none.
    pub(crate) fn excess(&self, not_counted: impl FnOnce() -> u64) -> u64 {
        let (limit, used) = (self.limit.load(Relaxed), self.used.load(Relaxed).max(0) as u64);
        if limit == 0 || used <= limit {
            return 0;
        }
        used.saturating_sub(limit).saturating_sub(not_counted())
    }

    /// Notes how much is in use beyond the limit.
    pub(crate) fn note_excess(&self, excess: u64) {
        let since = self.exceeded_since_ms.load(Relaxed);
        if (excess > 0) == (since > 0) {
            return;
        }
        let now = 1 + self.began.elapsed().as_millis() as u64;
        let next = if excess > 0 { now } else { 0 };
        // Of several threads that see the same, one counts.
        let is_first = self.exceeded_since_ms.compare_exchange(since, next, Relaxed, Relaxed).is_ok();
        if is_first && since > 0 {
            self.exceeded_ms.fetch_add(now.saturating_sub(since), Relaxed);
        }
    }

    /// For how long too much has been in use, in all and this time.
    pub(crate) fn exceeded(&self) -> [Duration; 2] {
        let since = self.exceeded_since_ms.load(Relaxed);
        let now = 1 + self.began.elapsed().as_millis() as u64;
        let current = if since > 0 { now.saturating_sub(since) } else { 0 };
        [self.exceeded_ms.load(Relaxed) + current, current].map(Duration::from_millis)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_beyond_the_limit_and_counted_is_too_much() {
        let limit = MemoryLimit::new(0);
        assert!(!limit.is_set() && limit.excess(|| 0) == 0);
        limit.set(1000);
        limit.used.store(900, Relaxed);
        assert_eq!(limit.excess(|| panic!("nobody asks below the limit")), 0);
        limit.used.store(1500, Relaxed);
        assert_eq!((limit.excess(|| 0), limit.excess(|| 100), limit.excess(|| 700)), (500, 400, 0));
        limit.note_room(0, 600);
        assert_eq!(limit.excess(|| 0), 0);
    }

    #[test]
    fn the_time_beyond_the_limit_adds_up() {
        let limit = MemoryLimit::new(1);
        assert_eq!(limit.exceeded(), [Duration::ZERO; 2]);
        limit.note_excess(5);
        limit.exceeded_since_ms.store(1, Relaxed);
        while limit.exceeded()[1] < Duration::from_millis(2) {
            std::thread::yield_now();
        }
        limit.note_excess(0);
        let [total, current] = limit.exceeded();
        assert!(total >= Duration::from_millis(2) && current.is_zero());
    }
}
