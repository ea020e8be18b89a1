//! Sessions that clients may resume: so many, and for so long.

use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use rustls::server::{ServerSessionMemoryCache, StoresServerSessions};

/// The most sessions that are kept.
const SESSIONS_MAX: usize = 1 << 17;
/// Bytes of the stamp in front of a session.
const STAMP: usize = 8;

/// A cache of sessions that end after a time. The oldest goes first.
#[derive(Debug)]
pub(super) struct Sessions {
    /// None, once they have ended.
    cache: ArcSwapOption<ServerSessionMemoryCache>,
    lifetime: Duration,
    began: Instant,
}

impl Sessions {
    /// So many sessions, 0 for as many as there may be, each for that time.
    pub(super) fn new(size: usize, lifetime: Duration) -> Sessions {
        let size = if size == 0 { SESSIONS_MAX } else { size.min(SESSIONS_MAX) };
        let cache = ArcSwapOption::new(Some(ServerSessionMemoryCache::new(size)));
        Sessions { cache, lifetime, began: Instant::now() }
    }

    /// Forgets them all: there are other certificates. Connections that began with these may last, and hold
    /// on to this.
    pub(super) fn end(&self) {
        self.cache.store(None);
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// The session behind its stamp, if its time is not over.
    fn unless_old(&self, stamped: Vec<u8>) -> Option<Vec<u8>> {
        let (stamp, session) = stamped.split_first_chunk::<STAMP>()?;
        let age_ms = self.now_ms().saturating_sub(u64::from_be_bytes(*stamp));
        (Duration::from_millis(age_ms) <= self.lifetime).then(|| session.to_vec())
    }
}

impl StoresServerSessions for Sessions {
    fn put(&self, key: Vec<u8>, session: Vec<u8>) -> bool {
        let stamped = [&self.now_ms().to_be_bytes()[..], &session].concat();
        self.cache.load().as_ref().is_some_and(|cache| cache.put(key, stamped))
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.unless_old(self.cache.load().as_ref()?.get(key)?)
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.unless_old(self.cache.load().as_ref()?.take(key)?)
    }

    fn can_cache(&self) -> bool {
        self.cache.load().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_there_once_and_until_its_time_is_over() {
        let sessions = Sessions::new(2, Duration::from_secs(3600));
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
}
