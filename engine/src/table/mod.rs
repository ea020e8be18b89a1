//! The table of keys: entries, segments of entries behind latches, and the directory that grows by one
//! segment at a time.

pub mod directory;
pub mod entry;
pub mod hash;
pub(crate) mod latch;
mod left;
mod pinned;
pub mod readers;
pub mod remset;
pub mod segment;
mod slots;
mod untimed;
pub mod visit;

pub use crate::value::Garbage;
pub use directory::{KeyCounts, LatchTimeout, ScanBudget, Table};
pub(crate) use entry::ElementCursor;
pub use entry::{Applied, Entry, Mismatch, Retired};
pub(crate) use entry::{Built, Over, Remains, touch_all};
pub(crate) use hash::Placed;
pub use hash::{END, KeyHash, KeyRef};
pub use readers::{Reader, Readers, Retained, VIEWS, Waiting};
pub use remset::{Freed, RemsetSize};
pub(crate) use segment::Due;
pub use segment::{Effect, Segment};
pub use visit::Visitor;
