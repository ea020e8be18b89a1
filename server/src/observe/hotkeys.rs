//! Hot keys: the keys on which the requests of a while have spent most time, or most bytes of the network.
//!
//! Memory is bounded: each metric has so many counters, and a key that has none takes that of the least
//! (space-saving, Metwally, Agrawal and El Abbadi 2005). So a count may be too large by what the least had,
//! and a key with more than its share of all is never missed.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tarn_engine::lock::Mutex;

use crate::observe::process::{CpuTime, cpu_times};

/// Keys that are counted, by each metric.
const COUNTERS: usize = 1024;
/// Bytes of a key that is counted.
const KEY_BYTES_MAX: usize = 4 << 10;

/// A metric, of each key and of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Metric {
    /// Microseconds of requests.
    Time,
    /// Bytes of requests and replies.
    Bytes,
}

/// Which keys are counted, and how.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// By time, and by bytes.
    pub metrics: [bool; 2],
    /// Keys that are told of.
    pub count: usize,
    /// It ends after so long; `None`: when it is stopped.
    pub duration: Option<Duration>,
    /// One request of so many is looked at.
    pub sample: u64,
}

/// A finding.
#[derive(Clone, Debug)]
pub struct Told {
    /// How it was asked for.
    pub wanted: Wanted,
    /// Whether it goes on.
    pub is_active: bool,
    /// When it began, as Unix time.
    pub began_unix_ms: u64,
    /// How long it has taken.
    pub took: Duration,
    /// Microseconds of all requests, and their bytes with those of the replies.
    pub all: [u64; 2],
    /// Processor time of the process meanwhile, in milliseconds: in the program, and in the system.
    pub cpu_ms: [u64; 2],
    /// The keys with most, by metric.
    pub keys: [Vec<(Box<[u8]>, u64)>; 2],
}

/// The hot keys of a server.
#[derive(Debug, Default)]
pub struct HotKeys {
    active: AtomicBool,
    session: Mutex<Option<Session>>,
}

#[derive(Debug)]
struct Session {
    wanted: Wanted,
    began: Instant,
    began_unix_ms: u64,
    cpu: CpuTime,
    /// How long it took, and the processor time, when it has ended.
    ended: Option<(Duration, CpuTime)>,
    requests: u64,
    all: [u64; 2],
    counters: [HashMap<Box<[u8]>, u64>; 2],
}

impl Session {
    fn is_over(&self) -> bool {
        self.wanted.duration.is_some_and(|duration| self.began.elapsed() >= duration)
    }

    fn end(&mut self) {
        let took = self.began.elapsed();
        let took = self.wanted.duration.map_or(took, |duration| took.min(duration));
        self.ended.get_or_insert_with(|| (took, since(self.cpu)));
    }

    fn count(&mut self, metric: Metric, key: &[u8], amount: u64) {
        if amount == 0 || key.len() > KEY_BYTES_MAX {
            return;
        }
        let counters = &mut self.counters[metric as usize];
        if let Some(counter) = counters.get_mut(key) {
            *counter += amount;
            return;
        }
        let mut least = 0;
        if counters.len() >= COUNTERS
            && let Some((key, count)) = counters.iter().min_by_key(|(_, count)| **count)
        {
            least = *count;
            let key = key.clone();
            counters.remove(&key);
        }
        counters.insert(key.into(), least + amount);
    }
}

fn since(before: CpuTime) -> CpuTime {
    let now = cpu_times().0;
    CpuTime { user_s: now.user_s - before.user_s, system_s: now.system_s - before.system_s }
}

impl HotKeys {
    /// Whether keys are counted.
    #[inline]
    pub fn is_active(&self) -> bool {
        self.active.load(Ordering::Relaxed)
    }

    /// Begins to count; what was counted before is forgotten. `false`: it is going on.
    pub fn start(&self, wanted: Wanted, unix_ms: u64) -> bool {
        let mut session = self.session.lock();
        if session.as_ref().is_some_and(|session| session.ended.is_none() && !session.is_over()) {
            return false;
        }
        *session = Some(Session {
            wanted,
            began: Instant::now(),
            began_unix_ms: unix_ms,
            cpu: cpu_times().0,
            ended: None,
            requests: 0,
            all: [0; 2],
            counters: Default::default(),
        });
        self.active.store(true, Ordering::Relaxed);
        true
    }

    /// Ends the counting. `false`: it was not going on.
    pub fn stop(&self) -> bool {
        self.active.store(false, Ordering::Relaxed);
        let mut session = self.session.lock();
        let Some(session) = session.as_mut().filter(|session| session.ended.is_none()) else { return false };
        let was_over = session.is_over();
        session.end();
        !was_over
    }

    /// Forgets what was counted. `false`: it is going on.
    pub fn reset(&self) -> bool {
        let mut session = self.session.lock();
        if session.as_ref().is_some_and(|session| session.ended.is_none() && !session.is_over()) {
            return false;
        }
        self.active.store(false, Ordering::Relaxed);
        *session = None;
        true
    }

    /// Notes a request that has run, and what it took in all; its keys share that.
    pub fn note<'k>(&self, keys: impl ExactSizeIterator<Item = &'k [u8]>, took: Duration, bytes: usize) {
        let mut session = self.session.lock();
        let Some(session) = session.as_mut().filter(|session| session.ended.is_none()) else { return };
        if session.is_over() {
            session.end();
            self.active.store(false, Ordering::Relaxed);
            return;
        }
        // Of many short requests none shall count for nothing.
        let amounts = [(took.as_nanos() as u64).div_ceil(1000), bytes as u64];
        session.all[0] += amounts[0];
        session.all[1] += amounts[1];
        session.requests += 1;
        if !session.requests.is_multiple_of(session.wanted.sample) {
            return;
        }
        let shares = keys.len().max(1) as u64;
        for key in keys {
            for metric in [Metric::Time, Metric::Bytes] {
                if session.wanted.metrics[metric as usize] {
                    session.count(metric, key, amounts[metric as usize].div_ceil(shares));
                }
            }
        }
    }

    /// The findings; `None`: there are none.
    pub fn told(&self) -> Option<Told> {
        let mut session = self.session.lock();
        let session = session.as_mut()?;
        if session.is_over() {
            session.end();
            self.active.store(false, Ordering::Relaxed);
        }
        let (took, cpu) = session.ended.unwrap_or_else(|| (session.began.elapsed(), since(session.cpu)));
        let keys = session.counters.each_ref().map(|counters| {
            let mut keys: Vec<(Box<[u8]>, u64)> =
                counters.iter().map(|(key, count)| (key.clone(), *count)).collect();
            keys.sort_unstable_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
            keys.truncate(session.wanted.count);
            keys
        });
        Some(Told {
            wanted: session.wanted.clone(),
            is_active: session.ended.is_none(),
            began_unix_ms: session.began_unix_ms,
            took,
            all: session.all,
            cpu_ms: [cpu.user_s, cpu.system_s].map(|seconds| (seconds * 1000.0) as u64),
            keys,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn wanted(count: usize, sample: u64) -> Wanted {
        Wanted { metrics: [true; 2], count, duration: None, sample }
    }

    fn note(hot: &HotKeys, keys: &[&[u8]], us: u64, bytes: usize) {
        hot.note(keys.iter().copied(), Duration::from_micros(us), bytes);
    }

    #[test]
    fn the_keys_with_most_are_found_among_many_and_memory_is_bounded() {
        let hot = HotKeys::default();
        assert!(hot.start(wanted(2, 1), 7) && !hot.start(wanted(2, 1), 8) && !hot.reset());
        for number in 0..5000 {
            note(&hot, &[format!("cold{number}").as_bytes()], 1, 10);
            note(&hot, &[b"slow"], 100, 1);
            note(&hot, &[b"large", b"large2"], 2, 100_000);
            note(&hot, &[&[b'x'; 5000]], 1, 1);
        }
        let told = hot.told().unwrap();
        assert!(told.is_active && told.began_unix_ms == 7);
        assert_eq!(told.all[0], 5000 * 104);
        assert_eq!(told.keys[0][0].0[..], *b"slow");
        assert!(told.keys[0][0].1 >= 500_000);
        let names: Vec<&[u8]> = told.keys[1].iter().map(|(key, _)| &**key).collect();
        assert_eq!(names, [&b"large"[..], b"large2"]);
        assert!(hot.session.lock().as_ref().unwrap().counters.iter().all(|one| one.len() <= COUNTERS));
        assert!(hot.stop() && !hot.stop() && !hot.is_active());
        note(&hot, &[b"slow"], 100, 1);
        assert_eq!(hot.told().unwrap().all, told.all);
        assert!(hot.reset() && hot.told().is_none());
    }

    #[test]
    fn one_of_so_many_requests_is_looked_at_until_the_time_is_over() {
        let hot = HotKeys::default();
        assert!(hot.start(wanted(10, 4), 0));
        for _ in 0..100 {
            note(&hot, &[b"k"], 1, 1);
        }
        assert_eq!(hot.told().unwrap().keys[1], [(b"k"[..].into(), 25)]);
        assert!(hot.stop());
        assert!(hot.start(Wanted { duration: Some(Duration::ZERO), ..wanted(10, 1) }, 0));
        note(&hot, &[b"k"], 1, 1);
        let told = hot.told().unwrap();
        assert!(!told.is_active && told.took.is_zero() && told.keys[0].is_empty() && !hot.is_active());
        assert!(hot.reset());
    }
}
