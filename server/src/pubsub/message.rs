//! A published message, and its way to clients.

use std::sync::Arc;

use tarn_engine::record::Lsn;
use tarn_resp::{Protocol, Writer};

use crate::pubsub::readers::Ids;
use crate::pubsub::subscriptions::Kind;

/// A message, encoded for all that read it.
#[derive(Debug)]
pub struct Message {
    /// The channel and the message as two bulk strings; of an invalidation an array of keys, or nothing for
    /// all keys; of who monitors, the line.
    tail: Vec<u8>,
    /// The newest change that the message reveals: it leaves when this may be revealed.
    pub lsn: Lsn,
}

impl Message {
    /// A message to a channel.
    pub fn new(channel: &[u8], payload: &[u8], lsn: Lsn) -> Message {
        let mut tail = Vec::with_capacity(channel.len() + payload.len() + 32);
        let mut writer = Writer::new(&mut tail, Protocol::Resp2);
        writer.bulk(channel);
        writer.bulk(payload);
        Message { tail, lsn }
    }

    /// A line for those who monitor. It shows a request, and no change.
    pub fn line(line: Vec<u8>) -> Message {
        Message { tail: line, lsn: Lsn::ZERO }
    }

    /// The invalidation of keys.
    pub fn of_keys<'k>(keys: impl ExactSizeIterator<Item = &'k [u8]>, lsn: Lsn) -> Message {
        let mut tail = Vec::new();
        let mut writer = Writer::new(&mut tail, Protocol::Resp2);
        writer.array(keys.len());
        keys.for_each(|key| writer.bulk(key));
        Message { tail, lsn }
    }

    /// The invalidation of all keys.
    pub fn of_all_keys(lsn: Lsn) -> Message {
        Message { tail: Vec::new(), lsn }
    }
}

/// The step that is taken when the transaction that it belongs to has happened.
#[derive(Debug)]
pub enum Staged {
    /// A message is published.
    Message(Publication),
    /// A client has read these keys, which it tracks.
    Read(Vec<Box<[u8]>>),
    /// These keys have changed.
    Written(Vec<Box<[u8]>>),
    /// All keys may have changed.
    AllWritten,
}

/// A message to a channel.
#[derive(Debug)]
pub struct Publication {
    /// Of channels or of channels of shards.
    pub kind: Kind,
    /// The channel.
    pub channel: Box<[u8]>,
    /// The message.
    pub payload: Box<[u8]>,
}

/// How a message comes to a client.
#[derive(Clone, Debug)]
pub enum Via {
    /// By a subscription to its channel.
    Channel,
    /// By a subscription to its channel of shards.
    Shard,
    /// By this pattern.
    Pattern(Arc<[u8]>),
    /// By `MONITOR`.
    Monitor,
    /// It tells which keys are not to be cached any longer.
    Invalidation {
        /// In the stead of another client.
        is_redirected: bool,
    },
    /// Who was to be told in its stead has gone, this one.
    BrokenRedirect(u64),
}

/// The channel of invalidations for clients of RESP2.
const INVALIDATIONS: &[u8] = b"__redis__:invalidate";

/// A message on its way to clients of one worker.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// The ids of the clients.
    pub to: Arc<Ids>,
    /// How it comes to them.
    pub via: Via,
    /// The message.
    pub message: Arc<Message>,
}

impl Delivery {
    /// Whether a client with so many subscriptions of each kind, which monitors or not, is sent it. One that
    /// has none any more would take it for a reply.
    pub fn is_for(&self, protocol: Protocol, subscriptions: [usize; 3], monitors: bool) -> bool {
        let has = |kind: Kind| subscriptions[kind as usize] > 0;
        match self.via {
            Via::Channel => has(Kind::Channel),
            Via::Shard => has(Kind::Shard),
            Via::Pattern(_) => has(Kind::Pattern),
            Via::Invalidation { is_redirected } => {
                protocol == Protocol::Resp3 || is_redirected && subscriptions != [0; 3]
            }
            Via::Monitor => monitors,
            Via::BrokenRedirect(_) => protocol == Protocol::Resp3,
        }
    }

    /// Whether it comes without a subscription.
    pub fn is_of_tracking(&self) -> bool {
        matches!(self.via, Via::Invalidation { .. } | Via::BrokenRedirect(_))
    }

    /// About how many bytes a client is sent.
    pub fn len(&self) -> usize {
        let pattern = if let Via::Pattern(pattern) = &self.via { pattern.len() + 16 } else { 0 };
        let head = if self.is_of_tracking() { 64 } else { 24 };
        self.message.tail.len() + pattern + head
    }

    /// Appends what a client reads.
    pub fn write(&self, out: &mut Vec<u8>, protocol: Protocol) {
        let mut writer = Writer::new(out, protocol);
        match &self.via {
            Via::Channel => {
                writer.push(3);
                writer.raw(b"$7\r\nmessage\r\n");
            }
            Via::Shard => {
                writer.push(3);
                writer.raw(b"$8\r\nsmessage\r\n");
            }
            Via::Pattern(pattern) => {
                writer.push(4);
                writer.raw(b"$8\r\npmessage\r\n");
                writer.bulk(pattern);
            }
            Via::Monitor => {}
            Via::Invalidation { .. } if protocol == Protocol::Resp3 => {
                writer.push(2);
                writer.raw(b"$10\r\ninvalidate\r\n");
            }
            Via::Invalidation { .. } => {
                writer.push(3);
                writer.raw(b"$7\r\nmessage\r\n");
                writer.bulk(INVALIDATIONS);
            }
            Via::BrokenRedirect(id) => {
                writer.push(2);
                writer.bulk(b"tracking-redir-broken");
                writer.integer(*id as i64);
                return;
            }
        }
        if self.message.tail.is_empty() {
            writer.null();
        }
        writer.raw(&self.message.tail);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalidation_is_a_push_or_a_message_of_its_channel() {
        let written = |message: &Arc<Message>, via, protocol| {
            let delivery = Delivery { to: Arc::default(), via, message: message.clone() };
            let mut out = Vec::new();
            delivery.write(&mut out, protocol);
            assert!(out.len() <= delivery.len());
            String::from_utf8(out).expect("it is text")
        };
        let keys = Arc::new(Message::of_keys([&b"a"[..], b"bc"].into_iter(), Lsn::ZERO));
        let all = Arc::new(Message::of_all_keys(Lsn::ZERO));
        let (own, other) =
            (Via::Invalidation { is_redirected: false }, Via::Invalidation { is_redirected: true });
        let tail = "*2\r\n$1\r\na\r\n$2\r\nbc\r\n";
        let (push, channel) =
            (">2\r\n$10\r\ninvalidate\r\n", "*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n");
        assert_eq!(written(&keys, own.clone(), Protocol::Resp3), format!("{push}{tail}"));
        assert_eq!(written(&keys, other.clone(), Protocol::Resp2), format!("{channel}{tail}"));
        assert_eq!(written(&all, own.clone(), Protocol::Resp3), format!("{push}_\r\n"));
        assert_eq!(written(&all, other.clone(), Protocol::Resp2), format!("{channel}$-1\r\n"));
        let broken = Via::BrokenRedirect(u64::MAX >> 1);
        let expected = format!(">2\r\n$21\r\ntracking-redir-broken\r\n:{}\r\n", u64::MAX >> 1);
        assert_eq!(written(&keys, broken.clone(), Protocol::Resp3), expected);
        let sent = |via: &Via, protocol, subscriptions| {
            let delivery = Delivery { to: Arc::default(), via: via.clone(), message: keys.clone() };
            delivery.is_for(protocol, subscriptions, false)
        };
        assert!(sent(&own, Protocol::Resp3, [0; 3]) && !sent(&own, Protocol::Resp2, [1; 3]));
        assert!(sent(&other, Protocol::Resp2, [1, 0, 0]) && !sent(&other, Protocol::Resp2, [0; 3]));
        assert!(!sent(&broken, Protocol::Resp2, [1; 3]));
    }

    #[test]
    fn a_message_is_a_push_for_who_speaks_resp3_and_an_array_for_others() {
        let message = Arc::new(Message::new(b"news", b"a\r\nb", Lsn::ZERO));
        let delivery = |via| Delivery { to: Arc::default(), via, message: message.clone() };
        let written = |via, protocol| {
            let (mut out, delivery) = (Vec::new(), delivery(via));
            delivery.write(&mut out, protocol);
            assert!(out.len() <= delivery.len());
            String::from_utf8(out).expect("it is text")
        };
        let tail = "$4\r\nnews\r\n$4\r\na\r\nb\r\n";
        assert_eq!(written(Via::Channel, Protocol::Resp2), format!("*3\r\n$7\r\nmessage\r\n{tail}"));
        assert_eq!(written(Via::Shard, Protocol::Resp3), format!(">3\r\n$8\r\nsmessage\r\n{tail}"));
        let pattern = Via::Pattern(b"n*"[..].into());
        assert_eq!(written(pattern, Protocol::Resp3), format!(">4\r\n$8\r\npmessage\r\n$2\r\nn*\r\n{tail}"));
    }
}
