//! The latency ledger of a server: its slow turns, and the time of the slowest requests by their causes.
//!
//! ```text
//!   generator ─► slowest requests: due ──────────── reply ┐
//!   server ─► LATENCY LEDGER: slow turns  [ turn ][ turn ] ├─► blame: latch 3 ms, command 1 ms, outside 2 ms
//!                             of workers, each with causes ┘
//! ```
//!
//! Both sides tell times by the system's clock, so they can be laid over each other.

mod blame;
mod collect;
mod turn;

pub use blame::Blame;
pub use collect::{Ledger, collect};
pub use turn::{Cause, Turn};
