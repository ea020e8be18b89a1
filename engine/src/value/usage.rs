//! Notes of when a key was used last, or how often, in 16 bits: what eviction goes by.
//!
//! ```text
//!   time of use      0 ……………………… 49151   seconds, modulo 49152 (13.6 hours)
//!                    49152 …… 65535       1024 seconds, modulo 16384 (194 days)
//!   uses             [counter 8][when it shrank last 8, in minutes or longer ticks, modulo 256]
//! ```
//!
//! A time is noted in seconds. `settled` writes times that are half a round old in the coarser unit, so that
//! no two times that differ by days look the same: somebody has to go over all keys once an hour or so. The
//! counter is that of Redis: it grows with the logarithm of the uses, by chance, and shrinks by one each
//! `lfu-decay-time` minutes.
//!
//! The clock and the settings are those of the process: keys are used on the hottest paths, which have no
//! room for more than one load. A note may be lost where two threads make one at the same moment.

use std::cell::Cell;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use super::scale;

/// Codes of times in seconds.
const FINE: u64 = 0xC000;
/// Codes of times in the coarser unit, behind them.
const COARSE: u64 = 0x1_0000 - FINE;
/// Seconds of the coarser unit.
const COARSE_S: u64 = 1024;
/// Seconds after which a time is written in the coarser unit.
const SETTLED_S: u64 = FINE / 2;
/// The longest time without use that can be told, in the coarser unit: some are left for who is late.
const COARSE_IDLE_MAX: u64 = COARSE - 1024;
/// The counter of a new key, as in Redis: it has some time to be used again.
const COUNTER_NEW: u8 = 5;
/// A period of decay has so many ticks at most, so that 256 of these are four periods.
const TICKS_MAX: u32 = 64;
/// Seconds by which a note may be ahead of the clock that a thread sees: another one may see it go on first.
const AHEAD_S: u64 = 60;
/// The same in ticks.
const AHEAD_TICKS: u8 = 2;
/// An odd factor that spreads the bits of a number: 2^64 by the golden ratio.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

/// The notes that are made about the use of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tracked {
    /// The time when it was read or written last.
    Access,
    /// The time when it was written last.
    Change,
    /// The number of times that it was read or written.
    Frequency,
}

impl Tracked {
    const ALL: [Tracked; 3] = [Tracked::Access, Tracked::Change, Tracked::Frequency];
}

const ACCESS: u32 = Tracked::Access as u32;
const CHANGE: u32 = Tracked::Change as u32;
const FREQUENCY: u32 = Tracked::Frequency as u32;

/// The note of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use(pub(super) u16);

/// The note of a key that is used now, and before it, in the upper half, what is noted.
static NOW: AtomicU32 = AtomicU32::new(ACCESS << 16);
static TRACKED: AtomicU8 = AtomicU8::new(ACCESS as u8);
static SECONDS: AtomicU64 = AtomicU64::new(0);
static LOG_FACTOR: AtomicU32 = AtomicU32::new(10);
static DECAY_MINUTES: AtomicU32 = AtomicU32::new(1);
static THREADS: AtomicU64 = AtomicU64::new(1);

thread_local! {
    /// The state of this thread's generator; 0 before its first number.
    static RANDOM: Cell<u64> = const { Cell::new(0) };
}

/// A number of a sequence of this thread.
pub(crate) fn random() -> u64 {
    RANDOM.with(|state| {
        let last = match state.get() {
            0 => THREADS.fetch_add(1, Relaxed).wrapping_mul(SPREAD),
            last => last,
        };
        let next = last.wrapping_add(SPREAD);
        state.set(next);
        // The finalizer of splitmix64 (Steele, Lea, Flood, 2014).
        let mixed = (next ^ (next >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    })
}

/// Says what is noted from now on, and the settings of the counter: `lfu-log-factor` and `lfu-decay-time`.
/// Notes that were made before mean something else until their keys are used again, as in Redis.
pub fn track(tracked: Tracked, log_factor: u32, decay_minutes: u32) {
    LOG_FACTOR.store(log_factor, Relaxed);
    DECAY_MINUTES.store(decay_minutes, Relaxed);
    TRACKED.store(tracked as u8, Relaxed);
    renew();
}

/// The notes that are made now.
pub fn tracked() -> Tracked {
    Tracked::ALL[usize::from(TRACKED.load(Relaxed)) % Tracked::ALL.len()]
}

/// Sets the clock: the time since some moment, which never runs backwards.
pub fn set_time(now: Duration) {
    if SECONDS.swap(now.as_secs(), Relaxed) != now.as_secs() {
        renew();
    }
}

/// Makes the note of a key that is used now.
fn renew() {
    let (tracked, seconds) = (tracked(), SECONDS.load(Relaxed));
    let note = match tracked {
        Tracked::Access | Tracked::Change => (seconds % FINE) as u16,
        Tracked::Frequency => of_counter(COUNTER_NEW, Counting::now(seconds).tick),
    };
    NOW.store((tracked as u32) << 16 | u32::from(note), Relaxed);
}

/// The note of a key that is new.
#[inline]
pub(super) fn of_new() -> Use {
    Use(NOW.load(Relaxed) as u16)
}

/// The note of a key that was looked at.
#[inline]
pub(crate) fn after_look(used: Use) -> Use {
    let now = NOW.load(Relaxed);
    match now >> 16 {
        ACCESS => Use(now as u16),
        CHANGE => used,
        _ => counted(used, tick_of(now), random()),
    }
}

/// The note of a key that was changed. Uses are counted when it is looked at for that.
#[inline]
pub(crate) fn after_change(used: Use) -> Use {
    let now = NOW.load(Relaxed);
    if now >> 16 == FREQUENCY { used } else { Use(now as u16) }
}

/// The settings of counters, and their time.
#[derive(Clone, Copy)]
struct Counting {
    /// Minutes of a tick.
    tick_minutes: u32,
    /// Minutes in which a counter shrinks by one; 0: it does not.
    decay_minutes: u32,
    /// The tick of now.
    tick: u8,
}

impl Counting {
    fn now(seconds: u64) -> Counting {
        let counting = Counting::at(0);
        Counting { tick: (seconds / 60 / u64::from(counting.tick_minutes)) as u8, ..counting }
    }

    fn at(tick: u8) -> Counting {
        let decay_minutes = DECAY_MINUTES.load(Relaxed);
        Counting { tick_minutes: decay_minutes.div_ceil(TICKS_MAX).max(1), decay_minutes, tick }
    }

    /// The times that a counter has to shrink which did so last at `tick`.
    fn periods(&self, tick: u8) -> u32 {
        let since = self.tick.wrapping_sub(tick);
        let ticks = if since > u8::MAX - AHEAD_TICKS { 0 } else { u32::from(since) };
        let minutes = ticks.saturating_mul(self.tick_minutes);
        minutes.checked_div(self.decay_minutes).unwrap_or(0)
    }
}

fn of_counter(counter: u8, tick: u8) -> u16 {
    u16::from_be_bytes([counter, tick])
}

fn shrunk(counter: u8, periods: u32) -> u8 {
    counter.saturating_sub(u8::try_from(periods).unwrap_or(u8::MAX))
}

/// The tick of now, from `NOW`: it is in the note of a new key.
fn tick_of(now: u32) -> u8 {
    now as u8
}

/// The note of a key that is used once more, in tick `now`.
fn counted(used: Use, now: u8, random: u64) -> Use {
    let [counter, tick] = used.0.to_be_bytes();
    // Nearly all uses come in the tick of the one before, and need no division.
    let counter = if tick == now { counter } else { shrunk(counter, Counting::at(now).periods(tick)) };
    let above = usize::from(counter.saturating_sub(COUNTER_NEW));
    let one_of = above.saturating_mul(LOG_FACTOR.load(Relaxed) as usize).saturating_add(1);
    let grows = scale(random, one_of) == 0;
    Use(of_counter(counter.saturating_add(u8::from(grows)), now))
}

/// The seconds for which a key has not been used.
fn idle_s(used: Use, seconds: u64) -> u64 {
    match u64::from(used.0) {
        fine if fine < FINE => {
            let idle = (seconds % FINE + FINE - fine) % FINE;
            if idle < FINE - AHEAD_S { idle } else { 0 }
        }
        coarse => (seconds / COARSE_S % COARSE + COARSE - (coarse - FINE)) % COARSE * COARSE_S,
    }
}

/// The note of a key that was used last so many seconds ago.
fn of_idle(idle_s: u64, seconds: u64) -> Use {
    if idle_s < SETTLED_S {
        return Use(((seconds % FINE + FINE - idle_s) % FINE) as u16);
    }
    of_coarse_idle(idle_s.div_ceil(COARSE_S), seconds)
}

/// The same, in the coarser unit.
fn of_coarse_idle(idle: u64, seconds: u64) -> Use {
    let idle = idle.min(COARSE_IDLE_MAX);
    Use((FINE + (seconds / COARSE_S % COARSE + COARSE - idle) % COARSE) as u16)
}

/// The counter of a key, as it is now.
fn frequency(used: Use, seconds: u64) -> u8 {
    let [counter, tick] = used.0.to_be_bytes();
    shrunk(counter, Counting::now(seconds).periods(tick))
}

/// The note that takes the place of one that would be misunderstood later; `None`: it may stay.
fn settled_at(used: Use, tracked: Tracked, seconds: u64) -> Option<Use> {
    if tracked == Tracked::Frequency {
        let counting = Counting::now(seconds);
        let [counter, tick] = used.0.to_be_bytes();
        let periods = counting.periods(tick);
        let ticks = periods.saturating_mul(counting.decay_minutes) / counting.tick_minutes;
        return (periods > 0)
            .then(|| Use(of_counter(shrunk(counter, periods), tick.wrapping_add(ticks as u8))));
    }
    let idle = idle_s(used, seconds);
    let is_fine = u64::from(used.0) < FINE;
    let coarse_idle = if is_fine { idle.div_ceil(COARSE_S) } else { idle / COARSE_S };
    let is_to_change = if is_fine { idle >= SETTLED_S } else { coarse_idle > COARSE_IDLE_MAX };
    is_to_change.then(|| of_coarse_idle(coarse_idle, seconds))
}

/// As `settled_at`, now.
pub(crate) fn settled(used: Use) -> Option<Use> {
    settled_at(used, tracked(), SECONDS.load(Relaxed))
}

impl Use {
    /// That of a key which has not been used for so many seconds; `None` where no times are noted.
    pub fn of_idle_s(idle_s: u64) -> Option<Use> {
        (tracked() != Tracked::Frequency).then(|| of_idle(idle_s, SECONDS.load(Relaxed)))
    }

    /// That of a key whose uses have this counter; `None` where uses are not counted.
    pub fn of_frequency(counter: u8) -> Option<Use> {
        let tick = Counting::now(SECONDS.load(Relaxed)).tick;
        (tracked() == Tracked::Frequency).then(|| Use(of_counter(counter, tick)))
    }

    /// The seconds for which the key has not been used, where times are noted.
    pub fn idle_s(self) -> u64 {
        idle_s(self, SECONDS.load(Relaxed))
    }

    /// The counter of its uses, where they are counted.
    pub fn frequency(self) -> u8 {
        frequency(self, SECONDS.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The note of a key that was used then.
    fn used_at(seconds: u64) -> Use {
        Use((seconds % FINE) as u16)
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// A walk over the notes each hour keeps the time without use: to the second for some hours, and to
        /// some quarters of an hour for months.
        #[test]
        fn a_time_without_use_is_told_for_months(
            begin in 0..1u64 << 32, hours in 0..4000u64, rest in 0..3600u64
        ) {
            let mut used = used_at(begin);
            for hour in 1..=hours {
                used = settled_at(used, Tracked::Access, begin + hour * 3600).unwrap_or(used);
            }
            let idle = hours * 3600 + rest;
            let told = idle_s(used, begin + idle);
            let error = told.abs_diff(idle);
            let exact = idle < SETTLED_S;
            prop_assert!(if exact { error == 0 } else { error <= 2 * COARSE_S }, "{} for {}", told, idle);
        }
    }

    #[test]
    fn a_time_without_use_does_not_begin_again_after_years() {
        let mut used = used_at(7);
        for hour in 1..=24 * 800 {
            used = settled_at(used, Tracked::Change, 7 + hour * 3600).unwrap_or(used);
            assert!(
                idle_s(used, 7 + hour * 3600) + 2 * COARSE_S >= (hour * 3600).min(170 * 86_400),
                "{hour}"
            );
        }
    }

    #[test]
    fn a_note_that_is_made_for_a_time_without_use_tells_that_time() {
        for seconds in [0, 5, 100_000, 1 << 40] {
            for idle in [0, 1, 6000, SETTLED_S - 1] {
                assert_eq!(idle_s(of_idle(idle, seconds), seconds), idle);
            }
            for idle in [SETTLED_S, 1_000_000, 15_000_000] {
                let told = idle_s(of_idle(idle, seconds), seconds);
                assert!(told >= idle && told < idle + COARSE_S, "{told} for {idle}");
            }
            assert_eq!(idle_s(of_idle(u64::MAX, seconds), seconds), COARSE_IDLE_MAX * COARSE_S);
        }
    }

    #[test]
    fn a_counter_grows_with_the_logarithm_of_the_uses() {
        // The table of redis.conf: factor 10 reaches 10 after 100 hits, 18 after 1000, 142 after 100,000.
        let (mut used, mut state) = (Use(of_counter(COUNTER_NEW, 0)), 1u64);
        let mut counters = Vec::new();
        for hit in 1..=100_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            used = counted(used, 0, state);
            if [100, 1000, 100_000].contains(&hit) {
                counters.push(frequency(used, 0));
            }
        }
        let near = |counter: u8, told: u8| counter.abs_diff(told) <= told / 5 + 3;
        assert!(near(counters[0], 10) && near(counters[1], 18) && near(counters[2], 142), "{counters:?}");
    }

    #[test]
    fn a_use_shrinks_the_counter_up_to_the_tick_that_is_noted_for_new_keys() {
        let now = tick_of(FREQUENCY << 16 | u32::from(of_counter(COUNTER_NEW, 254)));
        for (tick, counter) in [(254, 19), (253, 18), (250, 15), (100, 1)] {
            // By this chance a counter below that of a new key grows, and no other.
            let used = counted(Use(of_counter(19, tick)), now, u64::MAX);
            assert_eq!(used, Use(of_counter(counter, 254)), "used last in tick {tick}");
        }
    }

    #[test]
    fn a_counter_shrinks_by_one_a_minute_and_not_below_0() {
        let used = Use(of_counter(9, 250));
        for (minutes, counter) in [(0, 9), (1, 8), (4, 5), (9, 0), (100, 0)] {
            assert_eq!(frequency(used, (250 + minutes) * 60), counter, "after {minutes} minutes");
        }
        let later = settled_at(used, Tracked::Frequency, (250 + 4) * 60);
        assert_eq!(later, Some(Use(of_counter(5, 254))));
        assert_eq!(settled_at(used, Tracked::Frequency, 250 * 60 + 59), None);
        // Those that are gone over each hour shrink as fast as those that are not.
        let mut used = Use(of_counter(255, 0));
        for hour in 1..=3 {
            used = settled_at(used, Tracked::Frequency, hour * 3600).unwrap_or(used);
        }
        assert_eq!(frequency(used, 3 * 3600), 255 - 180);
    }

    #[test]
    fn a_note_that_is_ahead_of_the_clock_counts_as_one_of_now() {
        for used in [7, FINE] {
            assert_eq!(idle_s(used_at(used), used - 1), 0);
            assert_eq!(settled_at(used_at(used), Tracked::Access, used - 1), None);
        }
        let used = Use(of_counter(9, 0));
        assert_eq!(frequency(used, 255 * 60), 9, "the next minute is the first of a round");
        assert_eq!(frequency(used, 250 * 60), 0);
    }

    #[test]
    fn numbers_of_a_thread_are_spread() {
        let mut seen = [0u32; 16];
        (0..16_000).for_each(|_| seen[(random() >> 60) as usize] += 1);
        assert!(seen.iter().all(|times| (800..1200).contains(times)), "{seen:?}");
    }
}
