//! Virtual lightweight snapshots (VLS): scans of a keyed store, each of which shows the records as they were
//! when it began, while any number of threads continue to write.
//!
//! ```text
//!   scan at bit 1       record  status  row           remset: old version   unread   (0: to be read by)
//!     ▼                    0      0 1    …
//!   read, bit 1 flipped    1      0 1    …
//!                          2      0 1    new  ◀──────── 2, old               1 0      the scan at bit 1
//!                          4      0 0    …   unread
//! ```
//!
//! Each scan owns a bit of every mask, so as many scans run at once as a mask has bits. A record's `status`
//! says for each scan whether the record is *stable*: unchanged since the scan began, and not read by it yet.
//! A writer that meets a record that is stable for some scan puts the old version into the *remset*, once for
//! all scans that need it. The scan that reads the version last frees it. A scan reads the stable records,
//! then its versions. At its end the value of its bit that means *stable* is inverted, so that the bits of
//! records need not be reset.
//!
//! The algorithm is from the paper *Virtual Lightweight Snapshots for Consistent Analytics in NoSQL Stores*;
//! `docs/algorithms/vls.md` has the idea, its costs, and the differences of this implementation.
//!
//! ```
//! use tarn_study::Shape;
//! use tarn_study::vls::{Keep, Store, StoreError};
//!
//! // About 1000 records of three fields, indexed by the second one; at most 64 scans at once.
//! let store = Store::<u64>::new(Shape::new(1000, 24)?, Some(1), Keep::Shared)?;
//! store.write(1, &[10, 400, 0])?;
//! store.write(2, &[20, 500, 0])?;
//!
//! let mut near = store.index_scan(0, 450)?;
//! let mut all = store.scan()?;
//! // Both scans show what was there when they began.
//! store.write_field(1, 1, 700)?;
//! store.remove(2);
//! assert_eq!(near.next_row(), Some((1, &[10, 400, 0][..])));
//! assert_eq!(near.next_row(), None);
//!
//! let mut sum = 0;
//! while let Some((_key, row)) = all.next_row() {
//!     sum += row[1];
//! }
//! assert_eq!(sum, 900);
//! assert_eq!(store.remset_size().versions, 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod batch;
pub(crate) mod buffer;
pub(crate) mod draft;
mod error;
pub(crate) mod index;
mod keep;
mod mask;
#[cfg(all(test, loom))]
mod model;
pub(crate) mod parts;
mod remset;
mod reset;
mod scan;
mod scans;
mod store;
pub(crate) mod table;
mod view;

pub use batch::Batch;
pub use error::StoreError;
pub use keep::Keep;
pub use mask::{Mask, Wide};
pub use scan::Scan;
pub use store::Store;
