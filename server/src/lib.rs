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

// Start a server: a configuration, and the protocols that share its data.
pub mod analytics;
pub mod config;
pub mod net;
pub mod serve;
// Work on a data directory without a server: import and export.
pub mod persist;

// Parts that the tests and fuzz targets of this repository reach. Other programs must not depend on them.
#[doc(hidden)]
pub mod commands;
#[doc(hidden)]
pub mod execute;
#[doc(hidden)]
pub mod glob;
#[doc(hidden)]
pub mod json;
#[doc(hidden)]
pub mod store;

mod apply;
mod error;
mod metrics;
mod observe;
mod shared;
mod version;

pub use execute::services::Services;
