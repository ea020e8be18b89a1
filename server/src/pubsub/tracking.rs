//! Client-side caching: clients are told which keys have changed (`CLIENT TRACKING`, `docs/design/0040`).
//!
//! ```text
//!   a client reads a key ── latched ──> table: key, client
//!   a key is changed     ── latched ──> taken out of the table ──> mailboxes ──> replies of its clients
//! ```
//!
//! Invariant: who has read a key, and has not been told of a change since, is in the table, or has an
//! invalidation on its way. A key is noted while it is latched for the read, and taken out when the change is
//! in force: so a change that the read has not seen finds the reader.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tarn_engine::lock::{Mutex, rank};
use tarn_engine::record::Lsn;

use crate::net::clients::Clients;
use crate::net::handle::ClientHandle;
use crate::net::tracks::TrackFlags;
use crate::pubsub::message::{Delivery, Message, Via};
use crate::pubsub::prefixes::{OwnPrefixes, Prefixes};
use crate::pubsub::readers::Ids;
use crate::pubsub::registry::PubSub;
use crate::pubsub::tracked::TrackedKeys;

/// Keys that are taken out for each that comes into a table that is too large.
const EVICTED_EACH: usize = 2;
/// Keys that are taken out at once after `tracking-table-max-keys` was made smaller.
const EVICTED_A_ROUND: usize = 10_000;

/// The clients that track keys, and the keys that they have read.
#[derive(Debug, Default)]
pub struct Tracking {
    /// Clients that track. Nobody looks further for none.
    clients: AtomicUsize,
    keys: TrackedKeys,
    /// Held also while a client begins or ends to track, so that the table is emptied for the last.
    prefixes: Mutex<Prefixes, rank::Tracking>,
    prefix_count: AtomicUsize,
}

/// The way of messages to clients.
#[derive(Clone, Copy)]
pub struct Post<'p> {
    /// The mailboxes.
    pub pubsub: &'p PubSub,
    /// All clients.
    pub clients: &'p Clients,
    /// The worker that calls, which needs no wake-up; `None` for another thread.
    pub worker: Option<usize>,
}

impl Tracking {
    /// Whether some client tracks.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.clients.load(Ordering::Relaxed) > 0
    }

    /// Lets a client track from now on, or otherwise than before. `new` prefixes join `own` ones.
    pub fn begin(
        &self,
        client: &Arc<ClientHandle>,
        flags: TrackFlags,
        redirect: u64,
        own: &mut OwnPrefixes,
        new: &[&[u8]],
    ) {
        let mut prefixes = self.prefixes.lock();
        if !client.tracks.is_on() {
            self.clients.fetch_add(1, Ordering::SeqCst);
        }
        client.tracks.set(flags.with(TrackFlags::ON), redirect);
        for prefix in new {
            prefixes.add(prefix, client);
            own.insert((*prefix).into());
        }
        self.prefix_count.store(prefixes.len(), Ordering::SeqCst);
    }

    /// Ends the tracking of a client.
    pub fn end(&self, client: &ClientHandle, own: &mut OwnPrefixes) {
        if !client.tracks.is_on() {
            return;
        }
        let mut prefixes = self.prefixes.lock();
        for prefix in std::mem::take(own) {
            prefixes.remove(&prefix, client.id);
        }
        self.prefix_count.store(prefixes.len(), Ordering::SeqCst);
        client.tracks.set(TrackFlags::default(), 0);
        if self.clients.fetch_sub(1, Ordering::SeqCst) == 1 {
            // Under the lock: who begins to track comes behind this.
            self.keys.clear();
        }
    }

    /// Notes that a client has read a key. A table with more than `keys_max` keys (0: as many as there are)
    /// gives up others: their clients are told as if they had changed.
    ///
    /// REQUIRES: the key is latched, still from the read on, or the gate is closed.
    pub fn note_read(&self, client: &Arc<ClientHandle>, key: &[u8], keys_max: usize, post: Post<'_>) {
        self.keys.add(client, key);
        if keys_max > 0 && self.keys.room() > keys_max {
            self.evict(EVICTED_EACH, key, keys_max, post);
        }
    }

    /// Gives up keys of a table that has more than `keys_max`.
    pub fn limit(&self, keys_max: usize, post: Post<'_>) {
        if keys_max > 0 && self.keys.room() > keys_max && !post.pubsub.is_full() {
            self.evict(EVICTED_A_ROUND, b"", keys_max, post);
        }
    }

    #[cold]
    fn evict(&self, keys: usize, spared: &[u8], keys_max: usize, post: Post<'_>) {
        for _ in 0..keys {
            if self.keys.room() <= keys_max {
                break;
            }
            let Some((key, trackers)) = self.keys.take_any(spared) else { break };
            let message = Message::of_keys([&*key].into_iter(), Lsn::ZERO);
            tell(trackers.iter(), None, message, post);
        }
    }

    /// Tells the clients that have read one of these keys that they have changed, the last as `lsn`. `by` is
    /// the client that has changed them, unless they have expired.
    ///
    /// REQUIRES: the changes are in force, and the keys are latched still, or the gate is closed. Else two
    /// changes of a key would come in the wrong order.
    pub fn tell_readers(&self, keys: &[&[u8]], lsn: Lsn, by: Option<u64>, post: Post<'_>) {
        for key in keys {
            let trackers = self.keys.take(key);
            if !trackers.is_empty() {
                tell(trackers.iter().filter(|client| is_told(client, false)), by, one(key, lsn), post);
            }
        }
    }

    /// The same for the clients that have prefixes of the keys: one message for each prefix.
    pub fn tell_by_prefix(&self, keys: &[&[u8]], lsn: Lsn, by: Option<u64>, post: Post<'_>) {
        if self.prefix_count.load(Ordering::SeqCst) == 0 {
            return;
        }
        let prefixes = self.prefixes.lock();
        for (prefix, keys) in prefixes.of_keys(keys) {
            let message = Message::of_keys(keys.into_iter(), lsn);
            tell(prefixes.clients(prefix), by, message, post);
        }
    }

    /// Tells all clients that track that everything may have changed, as `lsn`.
    ///
    /// REQUIRES: the gate is closed.
    pub fn tell_all(&self, lsn: Lsn, post: Post<'_>) {
        self.keys.clear();
        let all = post.clients.all();
        tell(all.iter().filter(|client| client.tracks.is_on()), None, Message::of_all_keys(lsn), post);
    }

    /// Clients that track.
    pub fn clients(&self) -> usize {
        self.clients.load(Ordering::Relaxed)
    }

    /// Keys that are tracked.
    pub fn keys(&self) -> usize {
        self.keys.len()
    }

    /// Clients of all keys that are tracked.
    pub fn items(&self) -> usize {
        self.keys.items()
    }

    /// Prefixes that clients are told of.
    pub fn prefixes(&self) -> usize {
        self.prefix_count.load(Ordering::Relaxed)
    }
}

fn one(key: &[u8], lsn: Lsn) -> Message {
    Message::of_keys([key].into_iter(), lsn)
}

/// Whether a client is told of keys in the table, or of those with its prefixes.
fn is_told(client: &ClientHandle, by_prefix: bool) -> bool {
    let flags = client.tracks.flags();
    flags.has(TrackFlags::ON) && flags.has(TrackFlags::BCAST) == by_prefix
}

/// Puts a message into the mailboxes of the workers of these clients, or of those that are told in their
/// stead.
fn tell<'c>(
    trackers: impl Iterator<Item = &'c Arc<ClientHandle>>,
    by: Option<u64>,
    message: Message,
    post: Post<'_>,
) {
    let mut told = HashMap::<(usize, bool), Ids>::new();
    let message = Arc::new(message);
    let put = |worker: usize, to: Ids, via: Via| {
        let delivery = Delivery { to: Arc::new(to), via, message: message.clone() };
        post.pubsub.put(worker, delivery, post.worker);
    };
    for client in trackers {
        if by == Some(client.id) && client.tracks.flags().has(TrackFlags::NOLOOP) {
            continue;
        }
        let redirect = client.tracks.redirect();
        if redirect == 0 {
            told.entry((client.worker, false)).or_default().insert(client.id);
        } else if let Some(other) = post.clients.get(redirect) {
            told.entry((other.worker, true)).or_default().insert(redirect);
        } else {
            client.tracks.set_flag(TrackFlags::BROKEN, true);
            put(client.worker, Ids::from_iter([client.id]), Via::BrokenRedirect(redirect));
        }
    }
    for ((worker, is_redirected), to) in told {
        put(worker, to, Via::Invalidation { is_redirected });
    }
}
