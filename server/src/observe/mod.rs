//! Counters, timers and messages: what the server records about itself while it runs.
//!
//! Each worker writes counters of its own (`stats`), and readers add them up. May import `config` and `net`.
//! The figures of `INFO` and of the metrics port, which also need the services, are in `metrics`.

pub(crate) mod counter;
pub(crate) mod defrag;
pub(crate) mod hotkeys;
pub(crate) mod keyspace;
pub(crate) mod latency;
pub(crate) mod ledger;
pub(crate) mod logging;
pub(crate) mod memory_limit;
pub(crate) mod process;
pub(crate) mod pulse;
pub(crate) mod rates;
pub(crate) mod seldom;
pub(crate) mod slowlog;
pub(crate) mod stats;
pub(crate) mod stopwatch;
pub(crate) mod thread;
