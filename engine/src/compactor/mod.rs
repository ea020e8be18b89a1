//! Keeps the log short: chooses files with many obsolete records, and replaces them with copies of what is
//! still needed.
//!
//! ```text
//!   newest Lsn ── everyone has been out ──> reaper has marked what was discarded by then ──> the timestamp
//!   choose files ──> copy what is needed ──> in their place     (`log::compaction`)
//! ```
//!
//! - `thread`: the thread that does it, and what others see and ask of it;
//! - `estimates`, `stock`: how much of each file is obsolete;
//! - `choosing`: which files are next;
//! - `damaged`: files with damage, which a checkpoint makes good;
//! - `needs`: which of their records are left;
//! - `renewing`: entries that are written again, as they are made of too many records.
//!
//! paper: vtc §3.3, §3.4; `docs/design/0015`.

mod choosing;
mod damaged;
mod estimates;
#[cfg(test)]
mod estimates_tests;
mod lsns;
mod needs;
mod options;
mod renewing;
mod status;
mod stock;
mod thread;
#[cfg(test)]
mod thread_tests;

pub use damaged::DamagedFile;
pub use options::CompactionOptions;
pub use status::{CompactionStatus, FileStatus};
pub use thread::{Compactor, Scope};
