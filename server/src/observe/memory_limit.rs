//! The memory in use beside `maxmemory`: known at each command that writes, for the price of a load.
//!
//! ```text
//!   used = what the allocator told at the last sample (ten times a second, or when somebody must know)
//!        + what workers have allocated and freed since, which each tells of itself
//! ```
//!
//! To ask the allocator takes tens of microseconds, as it locks its arenas and adds them up. A thread's own
//! count is two loads. What other threads do between two samples is not known until the next one. The thread
//! that frees large values counts them; no sample counts as knowing what was freed behind it.

use std::cell::Cell;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicI64, AtomicU64};
use std::time::{Duration, Instant};

use tikv_jemalloc_ctl::thread::{self, ThreadLocal};

use super::process::Heap;

/// A thread tells of what it has allocated when it is so much, and at the end of its batch.
const TOLD_BYTES: i64 = 64 << 10;
/// A sample that is not older is good enough to refuse a command by, or to go on evicting.
const FRESH_US: u64 = 5000;
/// The same where other threads have freed large values since.
const FRESH_BEFORE_FREES_US: u64 = 500;
/// Bytes that a thread may allocate at most without making room while others free memory: else it would evict
/// once more what has been evicted already. It bounds how far memory may grow past the limit meanwhile.
const SPARED_BYTES: u64 = 1 << 20;
/// Nor more than such a part of the limit.
const SPARED_PART: u64 = 128;

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
    /// The net bytes of this thread up to which it is spared; `None`: there was room when it looked last.
    static SPARED_TO: Cell<Option<i64>> = const { Cell::new(None) };
}

/// Bytes that this thread has allocated, less those that it has freed; `None` if the allocator does not tell.
fn net_of_this_thread() -> Option<i64> {
    COUNTERS.with(|counters| counters.map(Counters::net))
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
    /// Large values that other threads had freed by then.
    seen_freed: AtomicU64,
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
            seen_freed: AtomicU64::new(0),
            exceeded_since_ms: AtomicU64::new(0),
            exceeded_ms: AtomicU64::new(0),
        };
        limit.set(bytes, 0);
        limit
    }

    /// Sets the limit, when other threads have freed so many large values.
    pub fn set(&self, bytes: u64, freed: u64) {
        if self.limit.swap(bytes, Relaxed) != bytes && bytes != 0 {
            self.setting.fetch_add(1, Relaxed);
            self.sample(freed);
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

    /// Asks the allocator, when other threads had freed so many large values.
    fn sample(&self, freed: u64) {
        // The sample has all that this thread has done so far.
        self.note_thread(true);
        self.used.store(i64::try_from(Heap::now().allocated).unwrap_or(i64::MAX), Relaxed);
        self.sampled_us.store(self.began.elapsed().as_micros() as u64, Relaxed);
        // Release: who finds that it has seen them finds the sample.
        self.seen_freed.store(freed, Release);
    }

    /// Whether the last sample was taken when other threads had freed so many large values.
    pub(crate) fn has_seen(&self, freed: u64) -> bool {
        self.seen_freed.load(Acquire) == freed
    }

    /// Brings the estimate up to date: asks the allocator, unless it was asked a moment ago. `freed`: so many
    /// large values other threads have freed.
    pub(crate) fn look(&self, freed: u64) {
        let fresh_us = if self.has_seen(freed) { FRESH_US } else { FRESH_BEFORE_FREES_US };
        self.look_behind(freed, fresh_us);
    }

    /// As `look`, but what is freed by now is seen in any case.
    pub(crate) fn look_behind_frees(&self, freed: u64) {
        let fresh_us = if self.has_seen(freed) { FRESH_US } else { 0 };
        self.look_behind(freed, fresh_us);
    }

    /// As `look`, before a command is refused. Once nothing `is_freeing`, the allocator is asked, and the
    /// refusal is by what is in use. While others go on freeing, it is by what was in use half a millisecond
    /// ago at most: if each of many refused commands asked, they would hold up those others.
    pub(crate) fn look_before_refusal(&self, freed: u64, is_freeing: bool) {
        if is_freeing { self.look(freed) } else { self.look_behind_frees(freed) }
    }

    fn look_behind(&self, freed: u64, fresh_us: u64) {
        let now = self.began.elapsed().as_micros() as u64;
        if now.saturating_sub(self.sampled_us.load(Relaxed)) >= fresh_us {
            self.sample(freed);
        } else {
            self.note_thread(true);
        }
    }

    /// Counts what this thread has allocated and freed since it told of it last, if that is much, or if it is
    /// to be told anyway.
    pub(crate) fn note_thread(&self, anyway: bool) {
        let Some(net) = net_of_this_thread() else { return };
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

    /// Notes that this thread has made room for so many bytes, of which another thread frees some. What that
    /// one gives back, the allocator tells: nothing counts as free by an estimate. But until then this thread
    /// may write half as much, as it evicts twice what it has written.
    pub(crate) fn note_room(&self, bytes: u64, behind: u64) {
        OWED.set(OWED.get().saturating_sub(i64::try_from(bytes).unwrap_or(i64::MAX)).max(0));
        if let (true, Some(net)) = (behind > 0, net_of_this_thread()) {
            self.spare(net, behind / 2);
        }
    }

    /// Spares a thread with so many net bytes for so many more at most.
    fn spare(&self, net: i64, more: u64) {
        SPARED_TO.set(Some(self.spared_most(net, more)));
    }

    fn spared_most(&self, net: i64, more: u64) -> i64 {
        net.saturating_add(more.min(SPARED_BYTES).min(self.bytes() / SPARED_PART) as i64)
    }

    /// Whether this thread need not make room while others free memory: it has allocated little since there
    /// was room, or since it has evicted large values.
    pub(crate) fn spares(&self) -> bool {
        net_of_this_thread().is_some_and(|net| self.spares_at(net))
    }

    /// As `spares`, for a thread with so many net bytes. A thread that has freed much may not write that
    /// again: others may have.
    fn spares_at(&self, net: i64) -> bool {
        let most = self.spared_most(net, u64::MAX);
        let to = SPARED_TO.get().map_or(most, |to| to.min(most));
        SPARED_TO.set(Some(to));
        net <= to
    }

    /// Notes that there is room, so that this thread may be spared again when there is none.
    pub(crate) fn end_sparing(&self) {
        SPARED_TO.set(None);
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
        limit.set(1000, 0);
        limit.used.store(900, Relaxed);
        assert_eq!(limit.excess(|| panic!("nobody asks below the limit")), 0);
        limit.used.store(1500, Relaxed);
        assert_eq!((limit.excess(|| 0), limit.excess(|| 100), limit.excess(|| 700)), (500, 400, 0));
        limit.note_room(600, 600);
        assert_eq!(limit.excess(|| 0), 500, "nothing is free until the allocator says so");
    }

    #[test]
    fn a_thread_is_spared_for_a_while_and_again_when_there_is_room_or_by_what_it_has_evicted() {
        let limit = MemoryLimit::new(1 << 30);
        let net = |parts: i64| 7 + parts * SPARED_BYTES as i64;
        assert!(limit.spares_at(net(0)) && limit.spares_at(net(1)) && !limit.spares_at(net(1) + 1));
        limit.note_room(1, 0);
        assert!(!limit.spares_at(net(2)));
        limit.spare(net(2), 50);
        assert!(limit.spares_at(net(2) + 50) && !limit.spares_at(net(2) + 51), "half of what it evicts");
        limit.spare(net(2), u64::MAX);
        assert!(limit.spares_at(net(3)) && !limit.spares_at(net(4)), "an estimate does not count for more");
        limit.end_sparing();
        assert!(limit.spares_at(net(4)) && limit.spares_at(net(5)) && !limit.spares_at(net(6)));
        assert!(limit.spares_at(net(1)) && limit.spares_at(net(2)), "it has freed much");
        assert!(!limit.spares_at(net(3)), "others may have written that");
        limit.end_sparing();
        limit.set(128 * 10, 0);
        assert!(limit.spares_at(0) && limit.spares_at(10) && !limit.spares_at(11), "a part of the limit");
    }

    #[test]
    fn what_others_have_freed_is_asked_for() {
        let limit = MemoryLimit::new(1);
        limit.look_behind_frees(7);
        assert!(limit.has_seen(7) && !limit.has_seen(8));
        limit.used.store(i64::MIN / 2, Relaxed);
        limit.look_behind_frees(8);
        assert!(limit.has_seen(8) && limit.used.load(Relaxed) >= 0, "it was asked at once");
    }

    #[test]
    fn refusals_ask_seldom_while_others_free_and_once_more_behind_that() {
        let limit = MemoryLimit::new(1);
        limit.used.store(i64::MIN / 2, Relaxed);
        // A sample that was taken a moment ago, however slow this thread is.
        limit.sampled_us.store(u64::MAX, Relaxed);
        (1..1000).for_each(|freed| limit.look_before_refusal(freed, true));
        assert!(limit.used.load(Relaxed) < 0 && !limit.has_seen(999), "nobody was asked");
        limit.sampled_us.store(0, Relaxed);
        while (limit.began.elapsed().as_micros() as u64) < FRESH_BEFORE_FREES_US {
            std::thread::yield_now();
        }
        limit.look_before_refusal(999, true);
        assert!(limit.used.load(Relaxed) >= 0 && limit.has_seen(999), "the sample was old");
        limit.used.store(i64::MIN / 2, Relaxed);
        limit.sampled_us.store(u64::MAX, Relaxed);
        limit.look_before_refusal(1000, false);
        assert!(limit.used.load(Relaxed) >= 0 && limit.has_seen(1000), "all is freed");
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
