//! Settings and counts of eviction: the deletion of keys that are used least, to give memory back.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};

use crate::lock::Mutex;
use crate::record::Lsn;
use crate::table::KeyHash;

/// Candidates that are kept from one look to the next: the best of more keys than one look finds.
const POOL: usize = 16;

/// The order in which keys are evicted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Victims {
    /// None is.
    #[default]
    None,
    /// Any first.
    Random,
    /// Those first that have not been used, or changed, for the longest time; see `value::usage`.
    Idle,
    /// Those first that are used least often.
    Rare,
    /// Those first that expire first.
    Soonest,
}

impl Victims {
    const ALL: [Victims; 5] =
        [Victims::None, Victims::Random, Victims::Idle, Victims::Rare, Victims::Soonest];
}

/// The settings of eviction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EvictionOptions {
    /// The order.
    pub victims: Victims,
    /// Only keys with an expiry.
    pub only_expiring: bool,
    /// Keys that are looked at for each that is evicted, at least 1.
    pub samples: usize,
}

/// The outcome of an attempt to make room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Room {
    /// As much was given back as was asked for.
    #[default]
    Enough,
    /// The time was over before, or the log or a latch was in the way: there may be more to evict.
    Unfinished,
    /// Other threads are still freeing what was evicted, or deleted or flushed before. Whether that is enough
    /// will be seen then; there may be nothing more to evict.
    Freeing,
    /// There is nothing more that may be evicted.
    Nothing,
}

/// The keys that were evicted at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Evicted {
    /// Whether that was enough.
    pub room: Room,
    /// Keys.
    pub keys: u64,
    /// Bytes that they took and nobody else has, about.
    pub bytes: u64,
    /// Those of them that another thread frees, as they are large values. They are in use until it has done
    /// so; and what a view still has to read is not freed at all.
    pub bytes_behind: u64,
}

/// Knows how much memory is in use, and is told of each key that was evicted.
pub trait Listener: Send + Sync {
    /// Bytes in use beyond the limit, as the thread that evicts sees it; 0 if there are none, or no limit.
    /// What other threads have freed up to now is not among them.
    fn excess_bytes(&self) -> u64;
    /// A key of a database was evicted as `lsn`. Its segment is latched.
    fn was_evicted(&self, db: u8, key: &[u8], lsn: Lsn);
    /// Whether keys are to be left where they are until those who are told have kept up.
    fn is_behind(&self) -> bool;
}

/// A key that may be evicted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// The greater, the sooner it is evicted.
    pub(crate) score: u64,
    pub(crate) db: u8,
    pub(crate) hash: KeyHash,
    pub(crate) key: Box<[u8]>,
}

/// The best candidates of the last looks. It may have keys that are gone, or have been used since.
///
/// Invariant: at most `POOL`, by rising score.
#[derive(Debug, Default)]
pub(crate) struct Pool(Vec<Candidate>);

impl Pool {
    /// Whether a candidate with this score would be put in.
    pub(crate) fn admits(&self, score: u64) -> bool {
        self.0.len() < POOL || self.0.first().is_some_and(|worst| worst.score < score)
    }

    /// Puts a candidate in, unless its key is there or all that are there are better.
    pub(crate) fn offer(&mut self, candidate: Candidate) {
        let is_same = |other: &Candidate| other.hash == candidate.hash && other.db == candidate.db;
        if !self.admits(candidate.score) || self.0.iter().any(is_same) {
            return;
        }
        if self.0.len() == POOL {
            self.0.remove(0);
        }
        let at = self.0.partition_point(|other| other.score <= candidate.score);
        self.0.insert(at, candidate);
    }

    /// Takes the best one out.
    pub(crate) fn take_best(&mut self) -> Option<Candidate> {
        self.0.pop()
    }
}

/// The settings and the counter of eviction.
pub struct Eviction {
    listener: OnceLock<Box<dyn Listener>>,
    victims: AtomicU8,
    only_expiring: AtomicBool,
    samples: AtomicUsize,
    evicted: AtomicU64,
    /// Up to when keys were gone over for the notes of their use, in milliseconds of the monotonic clock.
    settled_ms: AtomicU64,
    pool: Mutex<Pool>,
}

impl Default for Eviction {
    fn default() -> Eviction {
        Eviction {
            listener: OnceLock::new(),
            victims: AtomicU8::new(Victims::None as u8),
            only_expiring: AtomicBool::new(false),
            samples: AtomicUsize::new(1),
            evicted: AtomicU64::new(0),
            settled_ms: AtomicU64::new(0),
            pool: Mutex::default(),
        }
    }
}

impl fmt::Debug for Eviction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (options, evicted) = (self.options(), self.evicted_keys());
        f.debug_struct("Eviction").field("options", &options).field("evicted", &evicted).finish()
    }
}

impl Eviction {
    /// Has `listener` asked for the use of memory, and told of each key that was evicted.
    ///
    /// REQUIRES: it is called once. The listener takes no lock that comes before the segments.
    pub fn tell(&self, listener: Box<dyn Listener>) {
        let is_first = self.listener.set(listener).is_ok();
        debug_assert!(is_first, "one is told of evicted keys");
    }

    pub(crate) fn listener(&self) -> Option<&dyn Listener> {
        self.listener.get().map(|listener| &**listener)
    }

    /// Sets how keys are evicted from now on.
    pub fn set_options(&self, options: EvictionOptions) {
        let EvictionOptions { victims, only_expiring, samples } = options;
        if victims != self.options().victims {
            // Scores of one order mean nothing in another.
            self.take_pool();
        }
        self.only_expiring.store(only_expiring, Ordering::Relaxed);
        self.samples.store(samples.max(1), Ordering::Relaxed);
        self.victims.store(victims as u8, Ordering::Relaxed);
    }

    /// The settings.
    pub fn options(&self) -> EvictionOptions {
        let victims = usize::from(self.victims.load(Ordering::Relaxed));
        EvictionOptions {
            victims: Victims::ALL[victims % Victims::ALL.len()],
            only_expiring: self.only_expiring.load(Ordering::Relaxed),
            samples: self.samples.load(Ordering::Relaxed),
        }
    }

    /// Keys that were evicted.
    pub fn evicted_keys(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }

    /// Notes that a key was evicted as `lsn`.
    pub(crate) fn note_evicted(&self, db: u8, key: &[u8], lsn: Lsn) {
        self.evicted.fetch_add(1, Ordering::Relaxed);
        if let Some(listener) = self.listener.get() {
            listener.was_evicted(db, key, lsn);
        }
    }

    /// Whether keys are left where they are until the listener has kept up.
    pub(crate) fn is_behind(&self) -> bool {
        self.listener.get().is_some_and(|listener| listener.is_behind())
    }

    /// Takes the candidates that were kept. Another thread finds none meanwhile, and looks for its own.
    pub(crate) fn take_pool(&self) -> Pool {
        std::mem::take(&mut *self.pool.lock())
    }

    /// Keeps the candidates that are left for the next look.
    pub(crate) fn keep_pool(&self, pool: Pool) {
        *self.pool.lock() = pool;
    }

    /// Notes that keys are gone over for their notes of use up to now; returns up to when they were before.
    pub(crate) fn settle_up_to(&self, now_ms: u64) -> u64 {
        self.settled_ms.swap(now_ms, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(score: u64, key: &str) -> Candidate {
        Candidate { score, db: 0, hash: KeyHash::of(key.as_bytes()), key: key.as_bytes().into() }
    }

    #[test]
    fn a_pool_keeps_the_best_of_all_that_it_was_offered() {
        let mut pool = Pool::default();
        for number in 0..100u64 {
            let score = number * 37 % 100;
            pool.offer(candidate(score, &format!("key{score}")));
            pool.offer(candidate(score, &format!("key{score}")));
        }
        let scores: Vec<u64> = std::iter::from_fn(|| pool.take_best()).map(|best| best.score).collect();
        assert_eq!(scores, (84..100).rev().collect::<Vec<_>>());
        assert!(pool.admits(0));
    }
}
