//! The table of keys: entries, segments of entries behind latches, and the directory that grows by one
//! segment at a time.

pub mod directory;
pub mod entry;
pub(crate) mod latch;
pub mod remset;
pub mod segment;
pub mod visit;

pub use crate::value::Garbage;
pub use directory::{ScanBudget, Table};
pub(crate) use entry::Remains;
pub use entry::{Applied, Entry, Mismatch, Retired};
pub use remset::{Freed, Reader, Readers, RemsetSize, Retained, VIEWS, Waiting};
pub use segment::{Effect, KeyHash, Segment};
pub use visit::{END, Part, Visitor};
