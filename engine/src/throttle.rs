//! Background work gives way to clients: it rests while they wait for what it uses.
//!
//! ```text
//!   workers ──note: a turn waited so long for a processor or a lock──> ClientLatency
//!                                                                          │ slow turns
//!   checkpoint, compaction, index: part ──> Throttle::rest ──> rest ──> part …
//! ```
//!
//! Each checkpoint at the quiet pace, each compaction and each index that is built has a throttle. Behind
//! each part of the work the throttle looks whether a turn of a worker waited for longer than the target
//! since it looked last. If one did, the thread rests longer behind each part from then on; while none does,
//! it rests less and less, and at last not at all. Queries do not rest, as a client waits for them: they give
//! way between parts, and scans are divided among threads only while clients do not wait.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::io::Clock;

/// A thread rests so many times as long as it worked, by the level of its throttle.
const RESTS: [u32; 4] = [0, 1, 3, 7];
/// It begins at this level. While clients wait for the disk it does not go below.
const CAREFUL: usize = 2;
/// Shorter work is not followed by a rest, but counts with the next: a timer is not more exact.
const WORK: Duration = Duration::from_micros(100);
/// A longer part counts as this: it may have waited for its processor, or for the disk.
const WORK_MAX: Duration = Duration::from_millis(20);
/// A slow turn is noticed up to a tick of the system later. Those of the same time count once.
const REACTION: Duration = Duration::from_millis(10);
/// A throttle that has met no slow turn yet goes down by a level after so long.
const FIRST_CALM: Duration = Duration::from_millis(100);
/// One that has met some goes down after so long without one: to try costs the clients a slow turn.
const CALM: Duration = Duration::from_secs(1);
/// A thread that had to wait for its processor may then keep it for this share of the time that it waited.
const SHARE: u32 = 8;
/// But no longer than this.
const TURN_MAX: Duration = Duration::from_micros(500);

/// The waits of clients beside background work; one for each store.
#[derive(Debug)]
pub struct ClientLatency {
    /// Nanoseconds; 0: nothing is slow.
    target_ns: AtomicU64,
    slow_turns: AtomicU64,
    /// When the last of them ended, in milliseconds of the store's clock; 0: there was none.
    slow_ms: AtomicU64,
    disk_waits: AtomicU64,
    rested_us: AtomicU64,
}

impl Default for ClientLatency {
    fn default() -> ClientLatency {
        ClientLatency {
            target_ns: 500_000.into(),
            slow_turns: 0.into(),
            slow_ms: 0.into(),
            disk_waits: 0.into(),
            rested_us: 0.into(),
        }
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

    /// A worker's turn waited so long for what other threads had, and ended `now`.
    pub(crate) fn note(&self, waited: Duration, now: impl FnOnce() -> Duration) {
        let target = self.target_ns.load(Ordering::Relaxed);
        if target > 0 && waited.as_nanos() > u128::from(target) {
            self.slow_ms.store(millis(now()).max(1), Ordering::Relaxed);
            self.slow_turns.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether a turn was slow less than a second before `now`.
    pub(crate) fn were_slow(&self, now: Duration) -> bool {
        let last = self.slow_ms.load(Ordering::Relaxed);
        last > 0 && millis(now) < last + millis(CALM)
    }

    /// Clients waited for the disk, or for room in the log.
    pub fn note_disk(&self) {
        self.disk_waits.fetch_add(1, Ordering::Relaxed);
    }

    /// The slow turns so far.
    pub fn slow_turns(&self) -> u64 {
        self.slow_turns.load(Ordering::Relaxed)
    }

    /// How long background work has rested so far, all of it together.
    pub fn rested(&self) -> Duration {
        Duration::from_micros(self.rested_us.load(Ordering::Relaxed))
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The throttle of one piece of background work.
#[derive(Debug)]
pub(crate) struct Throttle {
    level: usize,
    /// Since then the level is as it is.
    changed: Duration,
    /// The slow turns when it looked last; `None`: it has not looked.
    seen: Option<u64>,
    /// The waits for the disk when it looked last.
    disk_waits: u64,
    /// When it met slow turns last; `None`: it has met none.
    slow: Option<Duration>,
    /// When the work behind the last rest began.
    began: Duration,
}

impl Throttle {
    /// The throttle of work that begins `now`, by a clock that does not go back.
    pub(crate) const fn new(now: Duration) -> Throttle {
        Throttle { level: CAREFUL, changed: now, seen: None, disk_waits: 0, slow: None, began: now }
    }

    /// To be asked behind each part of the work, at `now`: how long to rest. Zero is no rest. Where one is
    /// made, [`go_on`](Throttle::go_on) is to be called behind it.
    pub(crate) fn rest(&mut self, clients: &ClientLatency, now: Duration) -> Duration {
        let worked = now.saturating_sub(self.began);
        let slow_turns = clients.slow_turns();
        let unchanged = now.saturating_sub(self.changed);
        if self.seen.replace(slow_turns).is_some_and(|seen| seen != slow_turns) {
            if self.slow.is_none() || unchanged >= REACTION {
                self.set_level((self.level + 1).min(RESTS.len() - 1), clients, now);
            }
            self.slow = Some(now);
        } else {
            let (since, calm) = match self.slow {
                None => (unchanged, FIRST_CALM),
                Some(slow) => (unchanged.min(now.saturating_sub(slow)), CALM),
            };
            if since >= calm {
                let waits_for_disk = clients.disk_waits.load(Ordering::Relaxed) != self.disk_waits;
                let least = if waits_for_disk { CAREFUL } else { 0 };
                self.set_level(self.level.saturating_sub(1).max(least), clients, now);
            }
        }
        if worked < WORK || !clients.has_target() {
            return Duration::ZERO;
        }
        self.began = now;
        worked.min(WORK_MAX) * RESTS[self.level]
    }

    fn set_level(&mut self, level: usize, clients: &ClientLatency, now: Duration) {
        (self.level, self.changed) = (level, now);
        self.disk_waits = clients.disk_waits.load(Ordering::Relaxed);
    }

    /// Work goes on at `now`, behind a rest that was so long.
    pub(crate) fn go_on(&mut self, clients: &ClientLatency, rested: Duration, now: Duration) {
        let us = u64::try_from(rested.as_micros()).unwrap_or(u64::MAX);
        clients.rested_us.fetch_add(us, Ordering::Relaxed);
        self.began = now;
    }
}

thread_local! {
    /// Until then this thread does not give way.
    static KEEPS_UNTIL: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Lets threads run that wait for this processor. The system would let them wait for the end of its tick, up
/// to 4 ms, as a thread that reads the store works without a pause. To be called while nothing is held.
pub(crate) fn give_way(clock: &dyn Clock) {
    let began = clock.monotonic();
    if began < KEEPS_UNTIL.get() {
        return;
    }
    std::thread::yield_now();
    let now = clock.monotonic();
    KEEPS_UNTIL.set(now + (now.saturating_sub(began) / SHARE).min(TURN_MAX));
}

#[cfg(test)]
mod tests {
    use super::*;

    const PART: Duration = Duration::from_micros(200);
    const NEVER: Duration = Duration::from_secs(1 << 30);
    const SECOND: Duration = Duration::from_secs(1);

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
                clients.note(Duration::from_millis(1), || next);
                next += slow;
            }
            let rest = throttle.rest(clients, *now);
            if !rest.is_zero() {
                *now += rest;
                throttle.go_on(clients, rest, *now);
            }
        }
        worked.as_secs_f64() / time.as_secs_f64()
    }

    #[test]
    fn work_rests_while_clients_wait_and_works_without_a_rest_while_they_do_not() {
        let (clients, mut now) = (ClientLatency::default(), 100 * SECOND);
        let mut throttle = Throttle::new(now);
        let first = share(&mut throttle, &clients, &mut now, Duration::from_millis(90), NEVER);
        assert!((0.24..0.27).contains(&first), "it begins with care: {first}");
        let idle = share(&mut throttle, &clients, &mut now, SECOND, NEVER);
        assert!(idle > 0.8, "nobody waits: {idle}");
        share(&mut throttle, &clients, &mut now, Duration::from_millis(100), Duration::from_millis(5));
        let busy = share(&mut throttle, &clients, &mut now, SECOND, Duration::from_millis(5));
        assert!((0.12..0.14).contains(&busy), "clients wait: {busy}");
        share(&mut throttle, &clients, &mut now, 4 * SECOND, NEVER);
        let calm = share(&mut throttle, &clients, &mut now, SECOND, NEVER);
        assert!(calm > 0.99, "nobody waits any more: {calm}");
    }

    #[test]
    fn work_goes_on_with_care_while_clients_wait_for_the_disk() {
        let (clients, mut now) = (ClientLatency::default(), SECOND);
        let mut throttle = Throttle::new(now);
        for _ in 0..20 {
            clients.note_disk();
            let busy = share(&mut throttle, &clients, &mut now, Duration::from_millis(90), NEVER);
            assert!((0.24..0.27).contains(&busy), "{busy}");
        }
        share(&mut throttle, &clients, &mut now, SECOND, NEVER);
        let calm = share(&mut throttle, &clients, &mut now, SECOND, NEVER);
        assert!(calm > 0.99, "nobody waits any more: {calm}");
    }

    #[test]
    fn a_turn_is_slow_if_it_waited_for_longer_than_the_target() {
        let clients = ClientLatency::default();
        clients.note(Duration::from_micros(500), || SECOND);
        assert_eq!(clients.slow_turns(), 0);
        clients.note(Duration::from_micros(501), || SECOND);
        clients.set_target(Duration::from_micros(100));
        clients.note(Duration::from_micros(101), || SECOND);
        assert_eq!(clients.slow_turns(), 2);
        clients.set_target(Duration::ZERO);
        clients.note(Duration::MAX, || SECOND);
        assert_eq!(clients.slow_turns(), 2);
        let mut throttle = Throttle::new(Duration::ZERO);
        assert_eq!(throttle.rest(&clients, 10 * WORK), Duration::ZERO, "nobody rests without a target");
    }

    #[test]
    fn clients_wait_until_a_second_behind_the_last_slow_turn() {
        let clients = ClientLatency::default();
        assert!(!clients.were_slow(Duration::ZERO));
        clients.note(Duration::from_micros(501), || Duration::from_millis(200));
        clients.note(Duration::from_micros(499), || Duration::from_millis(700));
        assert!(clients.were_slow(Duration::from_millis(1199)));
        assert!(!clients.were_slow(Duration::from_millis(1200)));
    }

    #[test]
    fn short_parts_count_together_and_one_long_part_is_followed_by_a_bounded_rest() {
        let (clients, mut throttle) = (ClientLatency::default(), Throttle::new(Duration::ZERO));
        assert_eq!(throttle.rest(&clients, WORK * 3 / 5), Duration::ZERO);
        assert_eq!(throttle.rest(&clients, WORK * 6 / 5), 3 * (WORK * 6 / 5));
        throttle.go_on(&clients, WORK * 3, WORK * 4);
        assert_eq!(clients.rested(), 3 * WORK);
        assert_eq!(throttle.rest(&clients, Duration::from_millis(90)), 3 * WORK_MAX);
    }
}
