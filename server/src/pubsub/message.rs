//! A published message, and its way to clients.

use std::sync::Arc;

use tarn_engine::record::Lsn;
use tarn_resp::{Protocol, Writer};

use crate::net::handle::ClientHandle;
use crate::pubsub::readers::Ids;
use crate::pubsub::subscriptions::Kind;

/// A message, encoded for all that read it.
#[derive(Debug)]
pub struct Message {
    /// The channel and the message as two bulk strings; of who monitors, the line.
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
}

/// A message that is sent when the transaction that it belongs to has happened.
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
}

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
    /// Whether a client, which was one of the readers, reads it still.
    pub fn is_read_by(&self, client: &ClientHandle) -> bool {
        let kind = match self.via {
            Via::Channel => Kind::Channel,
            Via::Shard => Kind::Shard,
            Via::Pattern(_) => Kind::Pattern,
            Via::Monitor => return client.is_monitoring(),
        };
        client.subscriptions()[kind as usize] > 0
    }

    /// About how many bytes a client is sent.
    pub fn len(&self) -> usize {
        let pattern = if let Via::Pattern(pattern) = &self.via { pattern.len() + 16 } else { 0 };
        self.message.tail.len() + pattern + 24
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
        }
        writer.raw(&self.message.tail);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
