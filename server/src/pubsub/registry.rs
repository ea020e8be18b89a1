//! The clients that read each channel, and the mailboxes of the workers.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tarn_engine::lock::{Mutex, rank};
use tarn_engine::record::Lsn;

use crate::glob;
use crate::net::handle::ClientHandle;
use crate::pubsub::mailbox::Mailbox;
use crate::pubsub::message::{Delivery, Message, Via};
use crate::pubsub::monitors::{self, Monitors};
use crate::pubsub::readers::Readers;
use crate::pubsub::subscriptions::{Kind, Subscriptions};

type ByName = HashMap<Arc<[u8]>, Readers>;

/// The clients that read each channel, and the mailboxes of the workers.
#[derive(Debug)]
pub struct PubSub {
    /// By kind.
    readers: Mutex<[ByName; 3], rank::Channels>,
    /// Channels and patterns that are read, by kind: nobody takes the lock for none.
    counts: [AtomicUsize; 3],
    mailboxes: Vec<Mailbox>,
    monitors: Monitors,
}

impl PubSub {
    /// No channels, and empty mailboxes of so many workers.
    pub fn new(workers: usize) -> PubSub {
        let mailboxes = (0..workers).map(|_| Mailbox::default()).collect();
        PubSub {
            readers: Mutex::default(),
            counts: Default::default(),
            mailboxes,
            monitors: Monitors::default(),
        }
    }

    /// The mailbox of a worker.
    pub fn mailbox(&self, worker: usize) -> &Mailbox {
        &self.mailboxes[worker]
    }

    /// Whether a worker does not keep up with the messages to its clients: who publishes is to try again.
    pub fn is_full(&self) -> bool {
        self.mailboxes.iter().any(Mailbox::is_full)
    }

    /// Whether a client monitors.
    #[inline]
    pub fn is_monitored(&self) -> bool {
        self.monitors.is_any()
    }

    /// Shows a client from now on what others send.
    pub fn monitor(&self, client: &ClientHandle) {
        self.monitors.add(client);
    }

    /// Shows it to a client no longer.
    pub fn end_monitoring(&self, client: &ClientHandle) {
        self.monitors.remove(client);
    }

    /// Puts lines into the mailboxes of the workers whose clients monitor. `worker` is the one that calls.
    /// Returns the clients that are to be closed, as what they have not been sent is too much.
    pub fn show(&self, lines: Vec<Vec<u8>>, worker: usize) -> Vec<u64> {
        let lines: Vec<Arc<Message>> = lines.into_iter().map(|line| Arc::new(Message::line(line))).collect();
        let mut late = Vec::new();
        self.monitors.each(|to_worker, clients| {
            let mailbox = &self.mailboxes[to_worker];
            for message in &lines {
                if mailbox.is_over_full() {
                    late.extend(clients.iter().copied());
                    break;
                }
                let (to, via, message) = (clients.clone(), Via::Monitor, message.clone());
                mailbox.put(Delivery { to, via, message }, worker == to_worker);
            }
        });
        late
    }

    /// Whether a request with so many bytes of arguments can be shown.
    pub fn can_show(&self, args_bytes: usize) -> bool {
        args_bytes <= monitors::ARGS_BYTES_MAX
    }

    /// All clients that monitor.
    pub fn monitoring(&self) -> Vec<u64> {
        let mut all = Vec::new();
        self.monitors.each(|_, clients| all.extend(clients.iter().copied()));
        all
    }

    /// Puts a message into the mailbox of a worker. `caller` is the worker that calls, if it is one.
    pub(super) fn put(&self, worker: usize, delivery: Delivery, caller: Option<usize>) {
        self.mailboxes[worker].put(delivery, caller == Some(worker));
    }

    /// Whether a worker does not keep up that has readers of this channel.
    pub fn is_full_for(&self, kind: Kind, channel: &[u8]) -> bool {
        if !self.is_full() || self.is_unread(kind) {
            return false;
        }
        let readers = self.readers.lock();
        let own = readers[kind as usize].get(channel);
        let all = own.into_iter().chain(matching(&readers, kind, channel).map(|(_, readers)| readers));
        all.flat_map(Readers::by_worker).any(|(worker, _)| self.mailboxes[worker].is_full())
    }

    /// Subscribes a client. `false` if it is subscribed already.
    pub fn subscribe(
        &self,
        client: &ClientHandle,
        subscriptions: &mut Subscriptions,
        kind: Kind,
        name: &[u8],
    ) -> bool {
        if !subscriptions.add(kind, name) {
            return false;
        }
        let mut readers = self.readers.lock();
        let of_kind = &mut readers[kind as usize];
        match of_kind.get_mut(name) {
            Some(of_name) => of_name.add(client.worker, client.id),
            None => of_kind.entry(name.into()).or_default().add(client.worker, client.id),
        }
        self.note(&readers, client, subscriptions);
        true
    }

    /// Notes how much is read, by all and by a client, for those who look without the lock.
    fn note(&self, readers: &[ByName; 3], client: &ClientHandle, subscriptions: &Subscriptions) {
        for (count, of_kind) in self.counts.iter().zip(readers) {
            count.store(of_kind.len(), Ordering::SeqCst);
        }
        client.note_subscriptions(Kind::ALL.map(|kind| subscriptions.count(kind)));
    }

    /// Ends a subscription of a client. `false` if it is not subscribed.
    pub fn unsubscribe(
        &self,
        client: &ClientHandle,
        subscriptions: &mut Subscriptions,
        kind: Kind,
        name: &[u8],
    ) -> bool {
        if !subscriptions.remove(kind, name) {
            return false;
        }
        let mut readers = self.readers.lock();
        let of_kind = &mut readers[kind as usize];
        if let Some(of_name) = of_kind.get_mut(name) {
            of_name.remove(client.worker, client.id);
            if of_name.count() == 0 {
                of_kind.remove(name);
            }
        }
        self.note(&readers, client, subscriptions);
        true
    }

    /// Ends all subscriptions of a client.
    pub fn unsubscribe_all(&self, client: &ClientHandle, subscriptions: &mut Subscriptions) {
        for kind in Kind::ALL {
            let names: Vec<Box<[u8]>> = subscriptions.names(kind).map(Box::from).collect();
            for name in names {
                self.unsubscribe(client, subscriptions, kind, &name);
            }
        }
    }

    /// How many subscriptions a message to a channel meets.
    pub fn receivers(&self, kind: Kind, channel: &[u8]) -> usize {
        if self.is_unread(kind) {
            return 0;
        }
        let readers = self.readers.lock();
        let of_channel = readers[kind as usize].get(channel).map_or(0, Readers::count);
        of_channel + matching(&readers, kind, channel).map(|(_, readers)| readers.count()).sum::<usize>()
    }

    /// Puts a message, which reveals changes up to `lsn`, into the mailboxes of all workers whose clients
    /// read the channel, and wakes these. `worker` is the one that calls, which needs no wake-up; `None` for
    /// another thread. Returns how many subscriptions the message meets.
    pub fn publish(
        &self,
        kind: Kind,
        channel: &[u8],
        payload: &[u8],
        lsn: Lsn,
        worker: Option<usize>,
    ) -> usize {
        if self.is_unread(kind) {
            return 0;
        }
        let message = Arc::new(Message::new(channel, payload, lsn));
        let send = |readers: &Readers, via: &Via| {
            for (to_worker, clients) in readers.by_worker() {
                let delivery = Delivery { to: clients.clone(), via: via.clone(), message: message.clone() };
                self.mailboxes[to_worker].put(delivery, worker == Some(to_worker));
            }
            readers.count()
        };
        let readers = self.readers.lock();
        let via = if kind == Kind::Shard { Via::Shard } else { Via::Channel };
        let mut receivers = readers[kind as usize].get(channel).map_or(0, |readers| send(readers, &via));
        for (pattern, of_pattern) in matching(&readers, kind, channel) {
            receivers += send(of_pattern, &Via::Pattern(pattern.clone()));
        }
        receivers
    }

    /// Whether nobody reads any channel that messages of this kind come to.
    fn is_unread(&self, kind: Kind) -> bool {
        let count = |kind: Kind| self.counts[kind as usize].load(Ordering::SeqCst);
        count(kind) == 0 && (kind == Kind::Shard || count(Kind::Pattern) == 0)
    }

    /// How many channels or patterns of a kind are read.
    pub fn count(&self, kind: Kind) -> usize {
        self.counts[kind as usize].load(Ordering::SeqCst)
    }

    /// The channels of a kind that are read and match the pattern, all without one.
    pub fn channels(&self, kind: Kind, pattern: Option<&[u8]>) -> Vec<Arc<[u8]>> {
        let readers = self.readers.lock();
        let matches = |name: &&Arc<[u8]>| pattern.is_none_or(|pattern| glob::matches(pattern, name));
        readers[kind as usize].keys().filter(matches).cloned().collect()
    }

    /// How many clients read a channel, without those that do by a pattern.
    pub fn readers(&self, kind: Kind, channel: &[u8]) -> usize {
        self.readers.lock()[kind as usize].get(channel).map_or(0, Readers::count)
    }
}

/// The patterns that match a channel, none for one of shards.
fn matching<'r>(
    readers: &'r [ByName; 3],
    kind: Kind,
    channel: &[u8],
) -> impl Iterator<Item = (&'r Arc<[u8]>, &'r Readers)> {
    let patterns = (kind != Kind::Shard).then(|| readers[Kind::Pattern as usize].iter());
    patterns.into_iter().flatten().filter(move |(pattern, _)| glob::matches(pattern, channel))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::address::Address;

    fn client(id: u64, worker: usize) -> (ClientHandle, Subscriptions) {
        let address = Address::Unix("test".into());
        (ClientHandle::new(id, address.clone(), address, worker), Subscriptions::default())
    }

    #[test]
    fn a_message_comes_to_the_workers_whose_clients_read_it_and_to_no_other() {
        let pubsub = PubSub::new(3);
        let (first, mut of_first) = client(1, 0);
        let (second, mut of_second) = client(2, 2);
        assert_eq!(pubsub.publish(Kind::Channel, b"news", b"unread", Lsn::ZERO, None), 0);
        assert!(pubsub.subscribe(&first, &mut of_first, Kind::Channel, b"news"));
        assert!(!pubsub.subscribe(&first, &mut of_first, Kind::Channel, b"news"));
        assert!(pubsub.subscribe(&first, &mut of_first, Kind::Pattern, b"n*"));
        assert!(pubsub.subscribe(&second, &mut of_second, Kind::Pattern, b"n*"));
        assert!(pubsub.subscribe(&second, &mut of_second, Kind::Shard, b"news"));
        assert_eq!(pubsub.receivers(Kind::Channel, b"news"), 3);
        assert_eq!(pubsub.publish(Kind::Channel, b"news", b"read", Lsn(7), None), 3);
        assert_eq!(pubsub.publish(Kind::Shard, b"news", b"read", Lsn(7), None), 1);
        let taken = [0, 1, 2].map(|worker| pubsub.mailbox(worker).take(usize::MAX));
        assert_eq!(taken.each_ref().map(Vec::len), [2, 0, 2]);
        assert!(matches!(taken[0][0].via, Via::Channel), "the channel comes before the patterns");
        assert!(matches!(taken[2][1].via, Via::Shard));
        assert!(taken[2][0].to.contains(&2) && taken[2][0].message.lsn == Lsn(7));
        pubsub.unsubscribe_all(&first, &mut of_first);
        pubsub.unsubscribe_all(&second, &mut of_second);
        assert!(of_first.is_empty() && of_second.is_empty());
        assert_eq!(Kind::ALL.map(|kind| pubsub.count(kind)), [0; 3]);
        assert!(pubsub.readers.lock().iter().all(HashMap::is_empty));
    }

    #[test]
    fn a_long_message_to_many_clients_is_taken_alone() {
        let pubsub = PubSub::new(1);
        let mut readers: Vec<_> = (0..100).map(|id| client(id, 0)).collect();
        for (client, subscriptions) in &mut readers {
            pubsub.subscribe(client, subscriptions, Kind::Channel, b"c");
        }
        for _ in 0..3 {
            pubsub.publish(Kind::Channel, b"c", &[0; 100 << 10], Lsn::ZERO, None);
        }
        assert_eq!(pubsub.mailbox(0).take(usize::MAX).len(), 1);
        assert_eq!(pubsub.mailbox(0).messages(), 2);
    }

    #[test]
    fn who_publishes_to_others_does_not_wait_for_a_full_mailbox() {
        let pubsub = PubSub::new(2);
        let (slow, mut of_slow) = client(1, 0);
        let (quick, mut of_quick) = client(2, 1);
        pubsub.subscribe(&slow, &mut of_slow, Kind::Pattern, b"slow*");
        pubsub.subscribe(&quick, &mut of_quick, Kind::Channel, b"quick");
        while !pubsub.is_full() {
            pubsub.publish(Kind::Channel, b"slow", &[0; 1 << 20], Lsn::ZERO, None);
        }
        assert!(pubsub.is_full_for(Kind::Channel, b"slow:2"));
        assert!(!pubsub.is_full_for(Kind::Channel, b"quick"));
        assert!(!pubsub.is_full_for(Kind::Shard, b"slow"));
    }

    #[test]
    fn who_publishes_is_to_try_again_while_a_mailbox_is_full() {
        let pubsub = PubSub::new(2);
        let (first, mut of_first) = client(1, 1);
        pubsub.subscribe(&first, &mut of_first, Kind::Channel, b"c");
        let payload = vec![0; 1 << 20];
        let published = (0..100)
            .take_while(|_| {
                let is_full = pubsub.is_full();
                if !is_full {
                    pubsub.publish(Kind::Channel, b"c", &payload, Lsn::ZERO, Some(0));
                }
                !is_full
            })
            .count();
        assert_eq!(published, 32);
        let mailbox = pubsub.mailbox(1);
        assert_eq!(mailbox.take(1).len(), 1, "so many clients");
        assert!(mailbox.has_mail() && !pubsub.is_full());
        assert_eq!(mailbox.take(usize::MAX).len(), 1, "so many bytes");
        let taken: usize =
            std::iter::from_fn(|| mailbox.has_mail().then(|| mailbox.take(usize::MAX).len())).sum();
        assert_eq!(taken, 30);
        assert_eq!(mailbox.bytes(), 0);
    }
}
