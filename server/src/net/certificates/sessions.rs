//! Sessions that clients may resume: so many, each so large at most, and for so long.
//!
//! A handshake that resumes one checks no certificate of the client again. So there are none where clients
//! are asked for certificates.

use std::array;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustls::server::StoresServerSessions;
use tarn_engine::lock::Mutex;

/// The most sessions that are kept.
const SESSIONS_MAX: usize = 1 << 17;
/// Bytes of a session, at most: the name of the server is the longest part.
const SESSION_BYTES_MAX: usize = 4 << 10;
/// Parts of the cache, so that handshakes do not wait for each other.
const SHARDS: usize = 16;

/// A cache of sessions that end after a time. The oldest goes first.
#[derive(Debug)]
pub(super) struct Sessions {
    shards: [Mutex<Shard>; SHARDS],
    /// Sessions that a shard may have given out, used or not.
    most: usize,
    lifetime: Duration,
    has_ended: AtomicBool,
}

/// The sessions of some keys.
#[derive(Debug, Default)]
struct Shard {
    by_key: HashMap<Vec<u8>, (Instant, Vec<u8>)>,
    /// The keys since they were put, the oldest first. Some may have been taken since.
    order: VecDeque<Vec<u8>>,
}

impl Shard {
    /// Forgets the oldest key.
    fn forget_oldest(&mut self) {
        if let Some(oldest) = self.order.pop_front() {
            self.by_key.remove(&oldest);
        }
    }

    /// Whether the time of the oldest key is over, or it was taken.
    fn oldest_is_over(&self, lifetime: Duration) -> bool {
        let Some(oldest) = self.order.front() else { return false };
        self.by_key.get(oldest).is_none_or(|(since, _)| since.elapsed() > lifetime)
    }
}

impl Sessions {
    /// So many sessions, about, 0 for as many as there may be, each for that time.
    pub(super) fn new(size: usize, lifetime: Duration) -> Sessions {
        let size = if size == 0 { SESSIONS_MAX } else { size.min(SESSIONS_MAX) };
        let shards = array::from_fn(|_| Mutex::new(Shard::default()));
        Sessions { shards, most: size.div_ceil(SHARDS), lifetime, has_ended: AtomicBool::new(false) }
    }

    /// Forgets them all: there are other certificates. Connections that began with these may last, and hold
    /// on to this.
    pub(super) fn end(&self) {
        // One that is put meanwhile is refused, or forgotten here: `put` looks under the lock.
        self.has_ended.store(true, Ordering::Relaxed);
        for shard in &self.shards {
            *shard.lock() = Shard::default();
        }
    }

    /// Keys are random.
    fn shard(&self, key: &[u8]) -> &Mutex<Shard> {
        &self.shards[usize::from(key.last().copied().unwrap_or_default()) % SHARDS]
    }
}

impl StoresServerSessions for Sessions {
    fn put(&self, key: Vec<u8>, session: Vec<u8>) -> bool {
        if session.len() > SESSION_BYTES_MAX {
            return false;
        }
        let mut shard = self.shard(&key).lock();
        if self.has_ended.load(Ordering::Relaxed) {
            return false;
        }
        while shard.order.len() >= self.most || shard.oldest_is_over(self.lifetime) {
            shard.forget_oldest();
        }
        if shard.by_key.insert(key.clone(), (Instant::now(), session)).is_none() {
            shard.order.push_back(key);
        }
        true
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        let shard = self.shard(key).lock();
        let (since, session) = shard.by_key.get(key)?;
        (since.elapsed() <= self.lifetime).then(|| session.clone())
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        let (since, session) = self.shard(key).lock().by_key.remove(key)?;
        (since.elapsed() <= self.lifetime).then_some(session)
    }

    fn can_cache(&self) -> bool {
        !self.has_ended.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_there_once_and_until_its_time_is_over() {
        let sessions = Sessions::new(32, Duration::from_secs(3600));
        assert!(sessions.put(vec![1], vec![7, 8]));
        assert_eq!(sessions.get(&[1]), Some(vec![7, 8]));
        assert_eq!(sessions.take(&[1]), Some(vec![7, 8]));
        assert_eq!(sessions.take(&[1]), None);
        sessions.put(vec![2], vec![9]);
        sessions.end();
        assert!(!sessions.can_cache() && !sessions.put(vec![3], vec![9]));
        assert_eq!((sessions.get(&[2]), sessions.take(&[2])), (None, None));
        let short = Sessions::new(0, Duration::ZERO);
        short.put(vec![1], vec![7]);
        std::thread::sleep(Duration::from_millis(5));
        assert_eq!((short.get(&[1]), short.take(&[1])), (None, None));
    }

    #[test]
    fn the_oldest_sessions_go_first_and_long_ones_are_not_kept() {
        let sessions = Sessions::new(3 * SHARDS, Duration::from_secs(3600));
        assert!(!sessions.put(vec![0], vec![0; SESSION_BYTES_MAX + 1]));
        assert_eq!(sessions.get(&[0]), None);
        // All of one shard.
        for number in 0..5 {
            assert!(sessions.put(vec![number, 0], vec![number; SESSION_BYTES_MAX]));
        }
        let kept: Vec<u8> = (0..5).filter(|number| sessions.get(&[*number, 0]).is_some()).collect();
        assert_eq!(kept, [2, 3, 4]);
        // However many are put and taken, no trace of them stays.
        for round in 0..1000u16 {
            let key = [round.to_be_bytes().to_vec(), vec![7, 0]].concat();
            assert!(sessions.put(key.clone(), vec![1]));
            assert_eq!(sessions.take(&key), Some(vec![1]));
        }
        let shard = sessions.shard(&[0]).lock();
        assert!(shard.order.len() <= 3 && shard.by_key.len() <= 3, "{:?}", *shard);
    }

    #[test]
    fn sessions_whose_time_is_over_are_forgotten_by_the_next() {
        let sessions = Sessions::new(0, Duration::from_millis(20));
        for number in 0..100 {
            assert!(sessions.put(vec![number, 0], vec![1]));
        }
        std::thread::sleep(Duration::from_millis(40));
        assert!(sessions.put(vec![0], vec![1]));
        assert_eq!(sessions.shard(&[0]).lock().by_key.len(), 1);
    }
}
