//! Streams: entries in the order of their IDs, and the groups of consumers that read them.
//!
//! ```text
//!   nodes        count, then for each two strings: 16 bytes with an ID, a listpack with entries (node.rs)
//!   head         entries, last ID | since type 19: first ID, greatest removed ID, entries added
//!   groups       count, then for each: name, last ID, [since type 19: entries read]
//!     pending    count, then for each: ID in 16 bytes, time in 8, deliveries
//!     consumers  count, then for each: name, seen in 8 bytes, [since type 21: active in 8 bytes],
//!                count of what is pending for it, the IDs in 16 bytes each
//!   producers    in type 26: seconds and number for which messages are remembered, count, for each: name
//!     messages   count, then for each: name, ID of its entry
//!                behind all of them: messages added, messages that came again
//! ```
//!
//! IDs of 16 bytes are big-endian, times are little-endian milliseconds; all else are lengths and strings.

mod node;
mod parts;
mod reader;
mod repeats;
#[cfg(test)]
pub(crate) mod tests;
mod writer;

pub use node::Fields;
pub use parts::{Consumer, Group, Idempotence, Message, Pending, StreamHead, StreamId};
pub(crate) use reader::read;
