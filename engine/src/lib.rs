//! The store of Tarn: logical databases of typed values, a log that makes acknowledged writes survive, and
//! recovery from it.
//!
//! It is a library without sockets, without RESP and without a wall clock of its own. A thread enters the
//! gate, latches the keys of one command, reads entries, and commits a batch of writes:
//!
//! ```text
//!   Engine::enter ──> Session::latch ──> Latched::get … ──> Latched::commit ──> Latched::release
//! ```
//!
//! Floors: a module imports modules of its own floor and below. `table` and `log` do not know each other.
//!
//! <!-- floors: engine -->
//! ```text
//!   12  engine
//!   11  backup  scrub  recovery  repair
//!   10  early  renewal  compactor  indexer  expirer
//!    9  session
//!    8  store
//!    7  checkpoint
//!    6  view  overlay  watch  rewrite_cursor
//!    5  index  gate  declared
//!    4  table | log
//!    3  value
//!    2  io  upheaval
//!    1  record  lock
//! ```
//! <!-- end of floors -->

// Tests damage files and wait as they like; the product goes through `io`.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

// Records and values, and sessions that read and write them.
pub mod record;
pub mod session;
pub mod value;
pub mod view;
// Files: open a store, checkpoint it, compact its log, back it up, check and repair it.
pub mod backup;
pub mod checkpoint;
pub mod compactor;
pub mod recovery;
pub mod repair;
pub mod scrub;
// Tables that analytics declare, kept with the data.
pub mod declared;
// What the engine takes from outside, and locks with a rank.
pub mod io;
pub mod lock;

// Parts that the tests and fuzz targets of this repository reach. Other programs must not depend on them.
#[doc(hidden)]
pub mod early;
#[doc(hidden)]
pub mod log;
#[doc(hidden)]
pub mod renewal;
#[doc(hidden)]
pub mod table;

mod engine;
mod expirer;
mod gate;
mod index;
mod indexer;
mod overlay;
mod rewrite_cursor;
mod store;
mod upheaval;
mod watch;

pub use engine::{Background, Engine};
pub use index::{
    Direction, Index, IndexRange, IndexScan, IndexStatus, IndexValue, Indexed, Pointer, TEXT_BYTES_MAX,
};
pub use indexer::IndexError;
pub use log::{
    Appender, DirectoryStatus, Durable, Group, Log, LogError, LogOptions, LogStatus, OpenError, Recovered,
    SyncMode,
};
pub use store::CommitError;
pub use table::{END, Entry, KeyHash, KeyRef, ScanBudget, VIEWS, Visitor};
pub use view::{View, ViewOptions};
pub use watch::Watch;

/// Whether a source file, as a panic names it, is one of the engine's.
pub fn is_its_source(file: &str) -> bool {
    file!().strip_suffix("lib.rs").is_some_and(|folder| file.starts_with(folder))
}
