//! The server of Tarn: connections, commands and configuration over the engine.
//!
//! ```text
//!   acceptor ──deals──> worker: connection ──request──> dispatch ──latched keys──> command
//!                                  ^                        │
//!                                  └── outbox <── reply ────┘── batch of writes ──> engine
//! ```

pub mod accept;
pub mod address;
pub mod apply;
pub mod attempts;
pub mod backup_place;
pub mod backups;
mod blocking;
pub mod call;
pub mod client;
pub mod clients;
pub mod command;
pub mod commands;
pub mod config;
pub mod connection;
pub mod context;
pub mod decided;
pub mod digest;
pub mod dispatch;
mod early;
pub mod error;
pub mod exec;
pub mod extended;
pub mod figures;
pub mod glob;
pub mod json;
mod keeping;
pub mod keyspace;
pub mod latency;
pub mod listen;
pub mod live;
pub mod log_switch;
mod logging;
pub mod lookahead;
pub mod metrics;
pub mod outbox;
pub mod output;
pub mod panics;
pub mod parse;
pub mod pause;
pub mod pidfile;
pub mod process;
pub mod rates;
pub mod rdb;
pub mod rdb_file;
mod redis_files;
pub mod rewriter;
pub mod rounds;
pub mod saver;
pub mod search;
pub mod serve;
pub mod shared;
pub mod shutdown;
pub mod signals;
pub mod slowlog;
pub mod sql;
pub mod stats;
pub mod stopwatch;
pub mod stream;
pub mod supervisor;
pub mod transaction;
pub mod transfer;
pub mod worker;
