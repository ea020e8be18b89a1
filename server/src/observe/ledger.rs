//! The latency ledger: where requests waited, by cause.
//!
//! ```text
//!   turn of a worker:  run the ready requests ──> write their replies
//!                        latch, gate, appender, lock: measured where a lock was held
//!                        scheduler, page fault: what the system tells of the thread
//!                        output: the writes
//!                        command: the rest
//!   between turns:     disk, log space: from when a request was held back until it goes on
//! ```
//!
//! A turn is all that a worker's event loop does for the connections that are ready at once. Every request of
//! it waits for the others, so the ledger counts a turn once for each request that ran in it, and a wait for
//! the disk once for each connection. Each worker
//! writes a ledger of its own; readers add them up. Turns of [`SLOW`] and more are also kept one by one.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tarn_engine::lock::Mutex;

use crate::observe::counter;
use crate::observe::latency::{Counts, Histogram};

/// Turns and waits of this length are kept one by one.
pub(crate) const SLOW: Duration = Duration::from_micros(500);
/// As many of them are kept for each worker.
const KEPT_MAX: usize = 4096;
/// As many seconds with events are kept for each cause, as in Redis.
const EVENTS_MAX: usize = 160;

/// The cause of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Running commands, and what no other cause explains.
    Command,
    /// A latch of a segment that another thread held.
    Latch,
    /// The gate, which another thread had closed, or which others kept open.
    Gate,
    /// The log's appender.
    Appender,
    /// Another lock.
    Lock,
    /// A processor that other threads used.
    Scheduler,
    /// Memory that the system had to map.
    PageFault,
    /// Writing to sockets.
    Output,
    /// Room in the log.
    LogSpace,
    /// The disk, under `appendfsync always`.
    Disk,
}

/// The number of causes.
pub(crate) const CAUSES: usize = 10;

impl Cause {
    /// All causes.
    pub(crate) const ALL: [Cause; CAUSES] = [
        Cause::Command,
        Cause::Latch,
        Cause::Gate,
        Cause::Appender,
        Cause::Lock,
        Cause::Scheduler,
        Cause::PageFault,
        Cause::Output,
        Cause::LogSpace,
        Cause::Disk,
    ];

    /// Its name in replies and metrics.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Cause::Command => "command",
            Cause::Latch => "latch",
            Cause::Gate => "gate",
            Cause::Appender => "appender",
            Cause::Lock => "lock",
            Cause::Scheduler => "scheduler",
            Cause::PageFault => "page-fault",
            Cause::Output => "output",
            Cause::LogSpace => "log-space",
            Cause::Disk => "disk",
        }
    }

    /// The cause of a name, in any case.
    pub(crate) fn of_name(name: &[u8]) -> Option<Cause> {
        Cause::ALL.into_iter().find(|cause| cause.name().as_bytes().eq_ignore_ascii_case(name))
    }
}

/// Times by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spent([Duration; CAUSES]);

impl Spent {
    /// Nothing but this.
    pub(crate) fn only(cause: Cause, time: Duration) -> Spent {
        let mut spent = Spent::default();
        spent.add(cause, time);
        spent
    }

    /// Adds to the time of a cause.
    pub(crate) fn add(&mut self, cause: Cause, time: Duration) {
        self.0[cause as usize] += time;
    }

    /// The time of a cause.
    pub(crate) fn of(&self, cause: Cause) -> Duration {
        self.0[cause as usize]
    }

    /// That for what other threads had: locks and the processor.
    pub(crate) fn for_others(&self) -> Duration {
        let causes = [Cause::Latch, Cause::Gate, Cause::Appender, Cause::Lock, Cause::Scheduler];
        causes.into_iter().map(|cause| self.of(cause)).sum()
    }

    /// All of it.
    pub(crate) fn total(&self) -> Duration {
        self.0.iter().sum()
    }

    /// The causes that took time, the longest first.
    pub(crate) fn by_length(&self) -> Vec<(Cause, Duration)> {
        let mut causes: Vec<_> = Cause::ALL.map(|cause| (cause, self.of(cause))).to_vec();
        causes.retain(|(_, time)| !time.is_zero());
        causes.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
        causes
    }
}

/// A slow turn, or a slow wait between turns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slow {
    /// When it began, in microseconds since the Unix epoch.
    pub at_unix_us: u64,
    /// How long it took, by cause.
    pub spent: Spent,
    /// The requests that it held up.
    pub requests: u64,
    /// The thread that held the latch or the gate that was waited for longest; empty if none is known.
    pub holder: &'static str,
}

/// The seconds in which a cause took `latency-monitor-threshold` or more.
#[derive(Clone, Debug, Default)]
pub(crate) struct Events {
    /// Seconds since the Unix epoch and the most milliseconds in each, oldest first.
    pub newest: VecDeque<(u64, u64)>,
    /// The most milliseconds since the start, or since they were forgotten.
    pub max_ms: u64,
}

impl Events {
    fn note(&mut self, unix_s: u64, ms: u64) {
        self.max_ms = self.max_ms.max(ms);
        if let Some((second, most)) = self.newest.back_mut()
            && *second >= unix_s
        {
            *most = ms.max(*most);
            return;
        }
        if self.newest.len() == EVENTS_MAX {
            self.newest.pop_front();
        }
        self.newest.push_back((unix_s, ms));
    }
}

/// The ledger of one worker.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    causes: [CauseCounter; CAUSES],
    kept: Mutex<VecDeque<Slow>>,
}

#[derive(Debug, Default)]
struct CauseCounter {
    waits: Histogram,
    requests: AtomicU64,
    /// Microseconds: nanoseconds of all requests would not fit for years.
    us: AtomicU64,
}

impl Ledger {
    /// Counts how long a turn or a wait took, for so many requests. A turn without any, in which replies were
    /// sent or a request was held back again, held up nobody. REQUIRES: it is called by the worker.
    pub(crate) fn count(&self, spent: &Spent, requests: u64) {
        for (counter, time) in self.causes.iter().zip(spent.0) {
            if !time.is_zero() && requests > 0 {
                let nanos = time.as_nanos() as u64;
                counter.waits.note(nanos, requests);
                counter::add(&counter.requests, requests);
                counter::add(&counter.us, nanos.saturating_mul(requests) / 1000);
            }
        }
    }

    fn push(&self, slow: Slow) {
        let mut kept = self.kept.lock();
        if kept.len() == KEPT_MAX {
            kept.pop_front();
        }
        kept.push_back(slow);
    }
}

/// How long requests waited for one cause.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waited {
    /// Requests that waited for it.
    pub requests: u64,
    /// How many microseconds they did, together.
    pub us: u64,
    /// They, by how long each did.
    pub counts: Counts,
}

impl Waited {
    fn since(mut self, then: &Waited) -> Waited {
        self.requests = self.requests.saturating_sub(then.requests);
        self.us = self.us.saturating_sub(then.us);
        for (count, then) in self.counts.iter_mut().zip(&then.counts) {
            *count = count.saturating_sub(*then);
        }
        self
    }
}

/// The ledgers of all workers.
#[derive(Debug)]
pub(crate) struct Ledgers {
    workers: Box<[Ledger]>,
    events: Mutex<[Events; CAUSES]>,
    /// The counters at the last reset: a worker's counters are written by that worker alone.
    baseline: Mutex<Vec<Waited>>,
}

impl Ledgers {
    /// Empty ledgers of so many workers.
    pub(crate) fn new(workers: usize) -> Ledgers {
        Ledgers {
            workers: (0..workers).map(|_| Ledger::default()).collect(),
            events: Mutex::default(),
            baseline: Mutex::default(),
        }
    }

    /// That of a worker.
    pub(crate) fn of(&self, worker: usize) -> &Ledger {
        &self.workers[worker]
    }

    /// Keeps a slow turn of a worker, or a wait, that has just ended. A time of `threshold` and more is an
    /// event; `None`: there are no events.
    #[cold]
    pub(crate) fn keep(
        &self,
        worker: usize,
        spent: &Spent,
        requests: u64,
        holder: &'static str,
        threshold: Option<Duration>,
    ) {
        let total = spent.total();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let at_unix_us = now.saturating_sub(total).as_micros() as u64;
        self.of(worker).push(Slow { at_unix_us, spent: *spent, requests, holder });
        if let Some(threshold) = threshold.filter(|threshold| total >= *threshold) {
            let mut events = self.events.lock();
            for (cause, time) in spent.by_length() {
                if time >= threshold {
                    events[cause as usize].note(now.as_secs(), time.as_millis() as u64);
                }
            }
        }
    }

    /// How long requests waited for a cause, since the last [`reset`](Ledgers::reset).
    pub(crate) fn waited(&self, cause: Cause) -> Waited {
        let now = self.waited_ever(cause);
        match self.baseline.lock().get(cause as usize) {
            Some(then) => now.since(then),
            None => now,
        }
    }

    fn waited_ever(&self, cause: Cause) -> Waited {
        let mut waited = Waited::default();
        for worker in &self.workers {
            let counter = &worker.causes[cause as usize];
            counter.waits.add_to(&mut waited.counts);
            waited.requests += counter.requests.load(Ordering::Relaxed);
            waited.us += counter.us.load(Ordering::Relaxed);
        }
        waited
    }

    /// Counts from zero again.
    pub(crate) fn reset(&self) {
        *self.baseline.lock() = Cause::ALL.map(|cause| self.waited_ever(cause)).to_vec();
    }

    /// The newest `count` slow turns and waits, the newest last.
    pub(crate) fn slow(&self, count: usize) -> Vec<Slow> {
        let newest = |worker: &Ledger| -> Vec<Slow> {
            let kept = worker.kept.lock();
            kept.range(kept.len().saturating_sub(count)..).copied().collect()
        };
        let mut all: Vec<Slow> = self.workers.iter().flat_map(newest).collect();
        all.sort_by_key(|slow| slow.at_unix_us);
        all.split_off(all.len().saturating_sub(count))
    }

    /// Forgets the slow turns and waits.
    pub(crate) fn forget_slow(&self) {
        self.workers.iter().for_each(|worker| worker.kept.lock().clear());
    }

    /// The causes that have events, with them.
    pub(crate) fn events(&self) -> Vec<(Cause, Events)> {
        let events = self.events.lock();
        let of = |cause: Cause| (cause, events[cause as usize].clone());
        Cause::ALL.into_iter().map(of).filter(|(_, events)| !events.newest.is_empty()).collect()
    }

    /// Forgets the events of a cause. `false`: there were none.
    pub(crate) fn forget_events(&self, cause: Cause) -> bool {
        !std::mem::take(&mut self.events.lock()[cause as usize]).newest.is_empty()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::observe::latency::percentile;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn causes_are_counted_once_for_each_request() {
        let ledgers = Ledgers::new(2);
        let mut spent = Spent::only(Cause::Latch, ms(3));
        spent.add(Cause::Command, ms(1));
        ledgers.of(0).count(&spent, 10);
        ledgers.of(1).count(&Spent::only(Cause::Command, ms(5)), 1);
        let command = ledgers.waited(Cause::Command);
        assert_eq!((command.requests, command.us), (11, 15_000));
        let median = percentile(&command.counts, 50.0).unwrap();
        assert!((1_000_000..1_125_000).contains(&median), "{median}");
        assert_eq!(ledgers.waited(Cause::Disk).requests, 0);
        ledgers.reset();
        assert_eq!(ledgers.waited(Cause::Command).requests, 0);
        assert_eq!(percentile(&ledgers.waited(Cause::Latch).counts, 50.0), None);
        ledgers.of(0).count(&Spent::only(Cause::Latch, ms(1)), 0);
        assert_eq!(ledgers.waited(Cause::Latch).requests, 0, "a turn without requests held up nobody");
    }

    #[test]
    fn slow_turns_are_kept_up_to_a_number_and_told_in_their_order() {
        let ledgers = Ledgers::new(2);
        for round in 0..KEPT_MAX + 10 {
            ledgers.keep(round % 2, &Spent::only(Cause::Gate, SLOW), round as u64 + 1, "", None);
        }
        for _ in 0..KEPT_MAX {
            ledgers.keep(1, &Spent::only(Cause::Gate, SLOW), 1, "", None);
        }
        let all = ledgers.slow(usize::MAX);
        assert_eq!(all.len(), KEPT_MAX / 2 + 5 + KEPT_MAX);
        assert!(all.is_sorted_by_key(|slow| slow.at_unix_us));
        assert_eq!(ledgers.slow(3).len(), 3);
        ledgers.forget_slow();
        assert!(ledgers.slow(3).is_empty());
    }

    #[test]
    fn events_are_the_seconds_with_times_above_the_threshold() {
        let ledgers = Ledgers::new(1);
        let mut spent = Spent::only(Cause::Latch, ms(30));
        spent.add(Cause::Output, ms(9));
        ledgers.keep(0, &spent, 1, "", Some(ms(10)));
        ledgers.keep(0, &spent, 1, "", None);
        let [(Cause::Latch, events)] = &ledgers.events()[..] else { panic!("{:?}", ledgers.events()) };
        assert_eq!((events.newest.len(), events.max_ms), (1, 30));
        assert!(ledgers.forget_events(Cause::Latch));
        assert!(!ledgers.forget_events(Cause::Latch));
        let mut events = Events::default();
        (0..1000).for_each(|second| events.note(second, 5 + second % 2));
        events.note(999, 50);
        assert_eq!(events.newest.len(), EVENTS_MAX);
        assert_eq!(events.newest.back(), Some(&(999, 50)));
        // The clock was set back: the event belongs to the newest second.
        events.note(3, 60);
        assert_eq!((events.newest.len(), events.newest.back()), (EVENTS_MAX, Some(&(999, 60))));
    }

    #[test]
    fn names_are_those_of_all_causes() {
        for (place, cause) in Cause::ALL.into_iter().enumerate() {
            assert_eq!((cause as usize, Cause::of_name(cause.name().as_bytes())), (place, Some(cause)));
        }
        assert_eq!(Cause::of_name(b"PAGE-FAULT"), Some(Cause::PageFault));
        assert_eq!(Cause::of_name(b"fork"), None);
    }
}
