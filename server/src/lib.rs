//! The server of Tarn: connections, commands and configuration over the engine.
//!
//! ```text
//!   acceptor ──deals──> worker: connection ──request──> executor ──latched keys──> command
//!                                  ^                        │
//!                                  └── outbox <── reply ────┘── batch of writes ──> engine
//! ```
//!
//! The folders are layers. A file imports only its own folder and lower layers, from the ground up: `error`,
//! `glob` and `version`; `config` and `json`; `net`; `analytics` and `observe`; `store`; `shared`, the state
//! of all threads; `persist`; `execute`, which runs requests; `metrics` and `apply`; `commands`; and `serve`,
//! the threads. `cargo xtask tidy` checks it.

pub mod analytics;
mod apply;
pub mod commands;
pub mod config;
mod error;
pub mod execute;
pub mod glob;
pub mod json;
mod metrics;
pub mod net;
mod observe;
pub mod persist;
pub mod serve;
pub mod shared;
pub mod store;
mod version;
