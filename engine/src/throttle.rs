//! Background work gives way to clients: it rests while they wait for what it uses.
//!
//! ```text
//!   workers ──note: a turn waited so long for a processor or a lock──> ClientLatency
//!                                                                          │ slow turns
//!   checkpoint, query, compaction: part ──> Throttle::rest ──> rest ──> part …
//! ```
//!
//! Each thread that works in the background has a [`Throttle`]. Behind each part of its work the throttle
//! looks whether a turn of a worker waited for longer than the target since it looked last. If one did, the
//! thread rests longer behind each part from then on; while none does, it rests less and less, and at last
//! not at all.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A thread rests so many times as long as it worked, by the level of its throttle.
const RESTS: [u32; 5] = [0, 1, 3, 7, 15];
/// Shorter work is not followed by a rest, but counts with the next: a timer is not more exact.
const WORK: Duration = Duration::from_micros(100);
/// A longer part counts as this: it may have waited for its processor, or for the disk.
const WORK_MAX: Duration = Duration::from_millis(5);
/// A thread that did not ask for so long did something else meanwhile.
const PAUSE: Duration = Duration::from_secs(1);
/// A slow turn is noticed up to a tick of the system later. Those of the same time count once.
const REACTION: Duration = Duration::from_millis(10);
/// A throttle that has met no slow turn yet goes down by a level after so long.
const FIRST_CALM: Duration = Duration::from_millis(100);
/// One that has met some goes down after so long without one: to try costs the clients a slow turn.
const CALM: Duration = Duration::from_secs(1);

/// The waits of clients beside background work; one for each store.
#[derive(Debug)]
pub struct ClientLatency {
    /// Nanoseconds; 0: nothing is slow.
    target_ns: AtomicU64,
    slow_turns: AtomicU64,
    rested_us: AtomicU64,
}

impl Default for ClientLatency {
    fn default() -> ClientLatency {
        ClientLatency { target_ns: 500_000.into(), slow_turns: 0.into(), rested_us: 0.into() }
    }
}

impl ClientLatency {
    /// Turns that waited for longer are slow; zero: none is.
    pub fn set_target(&self, target: Duration) {
        let ns = u64::try_from(target.as_nanos()).unwrap_or(u64::MAX);
        self.target_ns.store(ns, Ordering::Relaxed);
    }

    fn has_target(&self) -> bool {
        self.target_ns.load(Ordering::Relaxed) > 0
    }

    /// A worker's turn waited so long for what other threads had.
    pub fn note(&self, waited: Duration) {
        let target = self.target_ns.load(Ordering::Relaxed);
        if target > 0 && waited.as_nanos() > u128::from(target) {
            self.slow_turns.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The slow turns so far.
    pub fn slow_turns(&self) -> u64 {
        self.slow_turns.load(Ordering::Relaxed)
    }

    /// How long background threads have rested so far, all together.
    pub fn rested(&self) -> Duration {
        Duration::from_micros(self.rested_us.load(Ordering::Relaxed))
    }
}

/// The kind of background work: how much it rests at the beginning and at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Nobody waits for its end.
    Patient,
    /// A client waits for it.
    Query,
}

impl Work {
    const fn levels(self) -> (usize, usize) {
        match self {
            Work::Patient => (2, 4),
            Work::Query => (0, 2),
        }
    }
}

/// The throttle of one thread that works in the background.
#[derive(Debug)]
pub(crate) struct Throttle {
    work: Work,
    level: usize,
    /// Since then the level is as it is.
    changed: Duration,
    /// The slow turns when it looked last; `None`: it has not looked.
    seen: Option<u64>,
    /// When it met slow turns last; `None`: it has met none.
    slow: Option<Duration>,
    /// When the work behind the last rest began.
    began: Duration,
}

impl Default for Throttle {
    /// That of a thread of queries.
    fn default() -> Throttle {
        Throttle::new(Work::Query, Duration::ZERO)
    }
}

impl Throttle {
    /// The throttle of work that begins `now`, by a clock that does not go back.
    pub(crate) const fn new(work: Work, now: Duration) -> Throttle {
        Throttle { work, level: work.levels().0, changed: now, seen: None, slow: None, began: now }
    }

    /// To be asked behind each part of the work, at `now`: how long to rest. Zero is no rest. Where one is
    /// made, [`go_on`](Throttle::go_on) is to be called behind it.
    pub(crate) fn rest(&mut self, clients: &ClientLatency, now: Duration) -> Duration {
        let worked = now.saturating_sub(self.began);
        if worked >= PAUSE {
            *self = Throttle::new(self.work, now);
        }
        let slow_turns = clients.slow_turns();
        let unchanged = now.saturating_sub(self.changed);
        if self.seen.replace(slow_turns).is_some_and(|seen| seen != slow_turns) {
            if self.slow.is_none() || unchanged >= REACTION {
                self.set_level((self.level + 1).min(self.work.levels().1), now);
            }
            self.slow = Some(now);
        } else {
            let (since, calm) = match self.slow {
                None => (unchanged, FIRST_CALM),
                Some(slow) => (unchanged.min(now.saturating_sub(slow)), CALM),
            };
            if since >= calm {
                self.set_level(self.level.saturating_sub(1), now);
            }
        }
        if worked < WORK || worked >= PAUSE || !clients.has_target() {
            return Duration::ZERO;
        }
        self.began = now;
        let rest = worked.min(WORK_MAX) * RESTS[self.level];
        clients.rested_us.fetch_add(u64::try_from(rest.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
        rest
    }

    fn set_level(&mut self, level: usize, now: Duration) {
        (self.level, self.changed) = (level, now);
    }

    /// Work goes on at `now`, behind a rest.
    pub(crate) fn go_on(&mut self, now: Duration) {
        self.began = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PART: Duration = Duration::from_micros(200);

    /// Works and rests for `time`, with a slow turn after each `slow`. Returns the share of the time that was
    /// work.
    fn share(
        throttle: &mut Throttle,
        clients: &ClientLatency,
        now: &mut Duration,
        time: Duration,
        slow: Duration,
    ) -> f64 {
        let (until, mut next, mut worked) = (*now + time, *now + slow, Duration::ZERO);
        while *now < until {
            (*now, worked) = (*now + PART, worked + PART);
            while next <= *now {
                clients.note(Duration::from_millis(1));
                next += slow;
            }
            let rest = throttle.rest(clients, *now);
            if !rest.is_zero() {
                *now += rest;
                throttle.go_on(*now);
            }
        }
        worked.as_secs_f64() / time.as_secs_f64()
    }

    #[test]
    fn work_rests_while_clients_wait_and_works_without_a_rest_while_they_do_not() {
        let (clients, mut now, never) =
            (ClientLatency::default(), Duration::from_secs(100), Duration::MAX / 4);
        let second = Duration::from_secs(1);
        let mut throttle = Throttle::new(Work::Patient, now);
        let first = share(&mut throttle, &clients, &mut now, Duration::from_millis(90), never);
        assert!((0.24..0.27).contains(&first), "it begins with care: {first}");
        let idle = share(&mut throttle, &clients, &mut now, second, never);
        assert!(idle > 0.8, "nobody waits: {idle}");
        share(&mut throttle, &clients, &mut now, Duration::from_millis(100), Duration::from_millis(5));
        let busy = share(&mut throttle, &clients, &mut now, second, Duration::from_millis(5));
        assert!((0.06..0.07).contains(&busy), "clients wait: {busy}");
        share(&mut throttle, &clients, &mut now, 4 * second, never);
        let calm = share(&mut throttle, &clients, &mut now, second, never);
        assert!(calm > 0.99, "nobody waits any more: {calm}");
    }

    #[test]
    fn a_query_rests_three_quarters_of_the_time_at_most() {
        let (clients, mut now, slow) = (ClientLatency::default(), Duration::ZERO, Duration::from_millis(5));
        let mut throttle = Throttle::new(Work::Query, now);
        let begun = share(&mut throttle, &clients, &mut now, Duration::from_millis(4), slow);
        assert!(begun > 0.99, "it begins at once: {begun}");
        share(&mut throttle, &clients, &mut now, Duration::from_millis(100), slow);
        let busy = share(&mut throttle, &clients, &mut now, Duration::from_secs(1), slow);
        assert!((0.24..0.27).contains(&busy), "{busy}");
        // The thread had nothing to do for a while.
        now += Duration::from_secs(3600);
        assert_eq!(throttle.rest(&clients, now), Duration::ZERO);
        assert_eq!(throttle.level, 0, "it begins again");
    }

    #[test]
    fn a_turn_is_slow_if_it_waited_for_longer_than_the_target() {
        let clients = ClientLatency::default();
        clients.note(Duration::from_micros(500));
        assert_eq!(clients.slow_turns(), 0);
        clients.note(Duration::from_micros(501));
        clients.set_target(Duration::from_micros(100));
        clients.note(Duration::from_micros(101));
        assert_eq!(clients.slow_turns(), 2);
        clients.set_target(Duration::ZERO);
        clients.note(Duration::MAX);
        assert_eq!(clients.slow_turns(), 2);
        let mut throttle = Throttle::new(Work::Patient, Duration::ZERO);
        assert_eq!(throttle.rest(&clients, 10 * WORK), Duration::ZERO, "nobody rests without a target");
    }

    #[test]
    fn one_long_part_is_followed_by_a_rest_of_bounded_length() {
        let clients = ClientLatency::default();
        let mut throttle = Throttle::new(Work::Patient, Duration::ZERO);
        assert_eq!(throttle.rest(&clients, Duration::from_millis(90)), 3 * WORK_MAX);
        assert_eq!(clients.rested(), 3 * WORK_MAX);
        assert_eq!(throttle.rest(&clients, Duration::from_millis(90) + WORK / 2), Duration::ZERO);
    }
}
