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
//! Invalidations of client-side caching go the same way (`tracking.rs`).
//! What a client does not read is bounded by `client-output-buffer-limit pubsub`.

mod mailbox;
mod message;
pub(crate) mod monitors;
mod prefixes;
mod readers;
mod registry;
mod subscriptions;
mod tracked;
mod tracking;

pub(crate) use message::{Delivery, Publication, Staged};
pub(crate) use prefixes::{Overlap, OwnPrefixes, overlap};
pub(crate) use registry::PubSub;
pub(crate) use subscriptions::{Kind, Subscriptions};
pub(crate) use tracking::{Post, Tracking};
