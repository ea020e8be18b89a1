//! A multi-version store: each record is a chain of versions, newest first, and a scan reads of each chain
//! the version of its timestamp. It is the usual way to have consistent scans beside writers, and here the
//! baseline of [`vls`](crate::vls).
//!
//! ```text
//!   scan at 7          record        newest           older versions
//!     │                  key 1       from 3 ✔
//!     │                  key 2       from 9           3 … 9 ✔    1 … 3
//!     ▼                  key 4       removed at 8     2 … 8 ✔
//! ```
//!
//! Writers and scans draw timestamps from one clock. A version belongs to the scans from its beginning up to
//! its end, which is the timestamp of the write that replaced it. A writer that replaces a row keeps the old
//! one in the chain if a scan may need it ([`Keep`]); the scan that ends as the oldest one frees the versions
//! that ended before all others began.
//!
//! The design follows the stores of Hekaton and of HyPer; `docs/algorithms/version-chains.md` has the
//! sources, the costs, and the differences of this implementation.
//!
//! ```
//! use tarn_study::mvcc::{Every, Store};
//! use tarn_study::{RecordScan, Records, Shape};
//!
//! // About 1000 records of three fields, indexed by the second one.
//! let store = Store::<Every>::new(Shape::new(1000, 24)?, Some(1))?;
//! store.write(1, &[10, 400, 0])?;
//! let mut near = store.index_scan(0, 450)?;
//! store.write_field(1, 1, 700)?;
//! assert_eq!(store.kept().versions, 1);
//! assert_eq!(near.next_row(), Some((1, &[10, 400, 0][..])));
//! assert_eq!(near.next_row(), None);
//! assert_eq!(store.kept().versions, 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod batch;
mod clock;
mod garbage;
mod keep;
#[cfg(all(test, loom))]
mod model;
#[cfg(test)]
mod mutants;
mod parts;
mod record;
mod scan;
mod store;

pub use batch::Batch;
pub use keep::{Every, Keep, Seen};
pub use scan::Scan;
pub use store::Store;
