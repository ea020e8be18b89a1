//! The server of Tarn: connections, commands and configuration over the engine.
//!
//! ```text
//!   acceptor ──deals──> worker: connection ──request──> executor ──latched keys──> command
//!                                  ^                        │
//!                                  └── outbox <── reply ────┘── batch of writes ──> engine
//! ```
//!
//! The folders are layers. A file imports its own folder and lower layers only; `cargo xtask tidy` checks it.
//! `shared` is the state of all threads, `execute` runs requests, and `serve` has the threads.
//!
//! <!-- floors: server -->
//! ```text
//!   11  serve
//!   10  commands
//!    9  metrics | apply
//!    8  execute
//!    7  persist
//!    6  shared
//!    5  store
//!    4  analytics | observe
//!    3  net
//!    2  json | config
//!    1  error | glob | version
//! ```
//! <!-- end of floors -->

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
