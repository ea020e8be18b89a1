//! Running requests: what a command is, what it sees, and the executor that runs it.
//!
//! ```text
//!   spec <── transaction <── client <── context <── command <── table <── executor
//!     services: the parts of the server that act, which a context and the executor reach
//!     blocking: the queues of clients that wait
//! ```
//!
//! May import `persist`, `analytics` and the folders below them. The commands themselves are in `commands`,
//! above: the executor gets their table from the worker.

pub(crate) mod blocking;
pub(crate) mod call;
pub mod client;
pub mod command;
pub(crate) mod context;
pub(crate) mod events;
pub mod executor;
pub(crate) mod extended;
pub(crate) mod identity;
pub(crate) mod parse;
pub(crate) mod preparing;
pub(crate) mod rights;
pub mod services;
pub(crate) mod showing;
pub mod spec;
pub(crate) mod steps;
pub(crate) mod storing;
pub mod table;
pub(crate) mod tracking;
pub(crate) mod transaction;
