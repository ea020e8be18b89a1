//! Channels, their subscribers, and the messages on their way to them.
//!
//! ```text
//!   PUBLISH ──> PubSub: who reads the channel? ──> mailbox of each worker that has such a client
//!                                                       │  at the end of its turn
//!                                                       └──> replies of the clients, on their sockets
//! ```
//!
//! A message is encoded once. All mailboxes get it under one lock, so that all clients that read the same
//! channels read the same order. A mailbox is bounded: while it is full, commands that may publish wait, but
//! one command or transaction is not divided.
//! What a client does not read is bounded by `client-output-buffer-limit pubsub`.

mod mailbox;
mod message;
pub(crate) mod monitors;
mod readers;
mod registry;
mod subscriptions;

pub(crate) use message::{Delivery, Publication};
pub(crate) use registry::PubSub;
pub(crate) use subscriptions::{Kind, Subscriptions};
