//! Moves entries together where pages of the allocator are partly empty: `activedefrag`, and `MEMORY PURGE`.
//!
//! ```text
//!   ten times a second    the bytes of pages with objects, beside those of the objects: past the thresholds?
//!     └ yes ─ a walk over all entries, for a part of the time ─ empty pages go back to the system
//! ```
//!
//! A walk that could not give all back, as large values stay where they are, is repeated when there is more.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::thread::Thread;
use std::time::{Duration, Instant};

use tarn_engine::lock::Mutex;
use tarn_engine::{Engine, MovePlace};

use super::process::{self, Heap};

/// The time between two looks.
const PAUSE: Duration = Duration::from_millis(100);
/// The same where nobody asks for walks. Who does, wakes it.
const LONG_PAUSE: Duration = Duration::from_secs(1);
/// A walk rests after so much time.
const SLICE: Duration = Duration::from_micros(500);
/// The least that `MEMORY PURGE` makes a walk for: bytes, and percent of what is in objects.
const ASKED_BYTES: u64 = 10 << 20;
const ASKED_PERCENT: u64 = 10;
/// A walk is repeated when so much more is wasted than it left, as a part of that: an eighth.
const MORE: u64 = 8;

/// The settings of walks that begin by themselves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct DefragSettings {
    /// Whether there are any.
    pub is_on: bool,
    /// Fewer wasted bytes are left where they are.
    pub ignored_bytes: u64,
    /// Wasted bytes, in percent of those in objects, from which on there are walks, and from which on these
    /// take the most time.
    pub percent: [u32; 2],
    /// The percent of the time that they take there, 1 to 99.
    pub share: [u32; 2],
}

fn wasted(heap: Heap) -> u64 {
    heap.active.saturating_sub(heap.allocated)
}

impl DefragSettings {
    /// The percent of the time that a walk takes, 1 to 99; `None`: none is worth it.
    fn share(&self, heap: Heap, is_asked: bool) -> Option<u32> {
        let percent = wasted(heap).saturating_mul(100) / heap.allocated.max(1);
        let ([lower, upper], [least, most]) = (self.percent.map(u64::from), self.share);
        let most = most.max(least);
        if is_asked {
            return (wasted(heap) >= ASKED_BYTES && percent >= ASKED_PERCENT).then_some(most);
        }
        if !self.is_on || wasted(heap) < self.ignored_bytes || percent < lower {
            return None;
        }
        let reach = upper.saturating_sub(lower).max(1);
        let above = (percent - lower).min(reach);
        Some(least + (u64::from(most - least) * above / reach) as u32)
    }
}

/// Moves entries in a thread of its own.
#[derive(Debug, Default)]
pub(crate) struct Defrag {
    settings: Mutex<DefragSettings>,
    asked: AtomicBool,
    stop: AtomicBool,
    thread: OnceLock<Thread>,
    /// The percent of the time that the current walk takes; 0: there is none.
    share: AtomicU32,
    moved: AtomicU64,
    stayed: AtomicU64,
    /// Microseconds that walks took so far, and that the last one has.
    took_us: [AtomicU64; 2],
}

impl Defrag {
    /// Changes the settings from now on.
    pub(crate) fn set(&self, settings: DefragSettings) {
        *self.settings.lock() = settings;
        self.wake();
    }

    /// Asks for a walk, if much is wasted.
    pub(crate) fn ask(&self) {
        self.asked.store(true, Relaxed);
        self.wake();
    }

    /// Lets `run` end soon.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Relaxed);
        self.wake();
    }

    fn wake(&self) {
        self.thread.get().into_iter().for_each(Thread::unpark);
    }

    /// The percent of the time that the current walk takes; 0: there is none.
    pub(crate) fn running_percent(&self) -> u32 {
        self.share.load(Relaxed)
    }

    /// Entries that were moved, and that were not, so far.
    pub(crate) fn entries(&self) -> [u64; 2] {
        [&self.moved, &self.stayed].map(|count| count.load(Relaxed))
    }

    /// The time that walks have worked, in all and in the current one.
    pub(crate) fn took(&self) -> [Duration; 2] {
        let [all, last] = self.took_us.each_ref().map(|took| Duration::from_micros(took.load(Relaxed)));
        [all, if self.running_percent() > 0 { last } else { Duration::ZERO }]
    }

    /// Makes walks until it is stopped. They rest while a checkpoint `is_taken`: it has entries still to
    /// read, which stay where they are, or a child process, for which the system would copy each page.
    ///
    /// REQUIRES: it is called once.
    pub(crate) fn run(&self, engine: &Engine, is_taken: impl Fn() -> bool) {
        process::keep_no_freed_objects();
        let is_first = self.thread.set(std::thread::current()).is_ok();
        debug_assert!(is_first, "one thread moves entries");
        let mut left = 0;
        while !self.stop.load(Relaxed) {
            let is_asked = self.asked.swap(false, Relaxed);
            let settings = *self.settings.lock();
            if !is_asked && !settings.is_on {
                left = 0;
                std::thread::park_timeout(LONG_PAUSE);
                continue;
            }
            let heap = Heap::now();
            left = wasted(heap).min(left);
            let is_more = is_asked || wasted(heap) > left + left / MORE;
            let Some(share) = settings.share(heap, is_asked).filter(|_| is_more) else {
                std::thread::park_timeout(PAUSE);
                continue;
            };
            self.walk(engine, share, is_asked, &is_taken);
            process::purge_heap();
            left = wasted(Heap::now());
        }
    }

    /// Goes over all entries, for this percent of the time.
    fn walk(&self, engine: &Engine, share: u32, is_asked: bool, is_taken: &dyn Fn() -> bool) {
        let goes_on = || !self.stop.load(Relaxed) && (is_asked || self.settings.lock().is_on);
        self.took_us[1].store(0, Relaxed);
        self.share.store(share, Relaxed);
        let mut place = Some(MovePlace::default());
        while place.is_some() && goes_on() {
            if is_taken() {
                std::thread::park_timeout(PAUSE);
                continue;
            }
            let began = Instant::now();
            while let Some(from) = place.filter(|_| began.elapsed() < SLICE) {
                let step = engine.move_entries(from);
                self.moved.fetch_add(step.moved as u64, Relaxed);
                self.stayed.fetch_add(step.stayed as u64, Relaxed);
                place = step.next;
            }
            let took = began.elapsed();
            for us in &self.took_us {
                us.fetch_add(took.as_micros() as u64, Relaxed);
            }
            let share = share.clamp(1, 99);
            std::thread::park_timeout(took * (100 - share) / share);
        }
        self.share.store(0, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_is_wasted_the_more_time_walks_take() {
        let settings =
            |is_on| DefragSettings { is_on, ignored_bytes: 100 << 20, percent: [10, 100], share: [1, 25] };
        let heap = |wasted_percent: u64| Heap {
            allocated: 10 << 30,
            active: (10 << 30) / 100 * (100 + wasted_percent),
            resident: 0,
        };
        let share = |percent, is_asked| settings(true).share(heap(percent), is_asked);
        assert_eq!((share(5, false), share(11, false), share(400, false)), (None, Some(1), Some(25)));
        assert!((10..15).contains(&share(56, false).expect("there is a walk")));
        let off = |is_asked| settings(false).share(heap(400), is_asked);
        assert_eq!((off(false), off(true)), (None, Some(25)));
        let small = Heap { allocated: 1 << 20, active: 4 << 20, resident: 0 };
        assert_eq!((settings(true).share(small, false), settings(true).share(small, true)), (None, None));
    }
}
