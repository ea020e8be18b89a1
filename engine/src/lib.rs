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
//! As an embedded library: open a store, write, read, read a view, take a checkpoint, close.
//!
//! ```
//! use std::sync::Arc;
//! use tarn_engine::checkpoint::{CheckpointMode, Checkpoints, Pace, TakeOptions};
//! use tarn_engine::io::{Clock, OsDisk, SystemClock};
//! use tarn_engine::record::{Batch, Change, Write};
//! use tarn_engine::recovery::{self, Progress};
//! use tarn_engine::session::Access;
//! use tarn_engine::value::ValueRef;
//! use tarn_engine::{Engine, Group, KeyRef, LogOptions, ViewOptions};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let folder = tempfile::tempdir()?;
//! let (disk, clock): (_, Arc<dyn Clock>) = (Arc::new(OsDisk), Arc::new(SystemClock::new()));
//!
//! // Open: load the newest checkpoint and replay the log. One database, one thread that loads.
//! let checkpoints = Checkpoints::open(disk.clone(), &folder.path().join("checkpoints"))?;
//! let options = LogOptions::new(vec![folder.path().join("log")]);
//! let opened = recovery::open(disk, options, Some(&checkpoints), 1, 1, &Progress::default())?;
//! let appender = Some(opened.log.appender());
//! let (engine, background) = Engine::new(opened.tables, 1, appender, opened.validity, clock.clone());
//!
//! // Write: latch the key, then append to the log and change the table in one step.
//! let (key, now) = ([KeyRef::of(0, b"greeting")], clock.unix_ms());
//! let session = engine.enter(0);
//! let mut latched = session.latch(&key, Access::Write, now);
//! let change = Change::Put { value: b"hello".into(), expiry: None };
//! let lsn = latched.commit(
//!     &Batch::from_iter([Write::Key { db: 0, key: b"greeting".into(), change }]),
//!     &mut Group::default(),
//! )?;
//!
//! // Read under the same latch.
//! let bytes = match latched.get(0, b"greeting").map(|entry| entry.value()) {
//!     Some(ValueRef::String(value)) => value.to_vec(),
//!     _ => return Err("the key has no string".into()),
//! };
//! assert_eq!((lsn.0, &bytes[..]), (1, &b"hello"[..]));
//! latched.release();
//! drop(session);
//!
//! // A view shows the store as of one instant, whatever is written meanwhile.
//! let view = engine.open_view(ViewOptions::once("example"))?;
//! view.for_each(|db, entry| assert_eq!((db, entry.key()), (0, &b"greeting"[..])))?;
//!
//! // A checkpoint is a view on the disk. Close: stop the threads, then write and sync the rest of the log.
//! checkpoints.take(&*engine, CheckpointMode::Full, TakeOptions { pace: Pace::Fast, writers: 1 }, now)?;
//! drop((engine, background));
//! opened.log.close()?;
//! # Ok(())
//! # }
//! ```
//!
//! Floors: a module imports modules of its own floor and below. `table` and `log` do not know each other.
//!
//! <!-- floors: engine -->
//! ```text
//!   12  engine
//!   11  backup  scrub  recovery  repair
//!   10  early  renewal  compactor  indexer  expirer  evictor  mover
//!    9  session
//!    8  store
//!    7  checkpoint
//!    6  view  overlay  watch  rewrite_cursor
//!    5  index  gate  declared
//!    4  table | log
//!    3  value
//!    2  io  upheaval  throttle
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
// How background work gives way to clients.
pub mod throttle;

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
mod evictor;
mod expirer;
mod gate;
mod index;
mod indexer;
mod mover;
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
    Appender, Compression, DirectoryStatus, Durable, Group, Log, LogError, LogOptions, LogStatus, OpenError,
    Recovered, SyncMode,
};
pub use mover::{MovePlace, Moved};
pub use store::{
    CommitError, Evicted, EvictionListener, EvictionOptions, ExpiryListener, IndexMemory, Preparation, Room,
    Victims,
};
pub use table::{END, Entry, KeyCounts, KeyHash, KeyRef, LatchTimeout, ScanBudget, VIEWS, Visitor};
pub use view::{View, ViewOptions};
pub use watch::Watch;

/// Whether a source file, as a panic names it, is one of the engine's.
pub fn is_its_source(file: &str) -> bool {
    file!().strip_suffix("lib.rs").is_some_and(|folder| file.starts_with(folder))
}
