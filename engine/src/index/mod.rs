//! Secondary indexes: map values back to keys, in order, as of any instant that is still read.
//!
//! ```text
//!   writer   latch ── value before ── apply ── value behind ── (old value, key) removed, (new, key) inserted
//!   scan     (value, key), inserted <= cut < removed, in order ── the entries of these keys as of the cut
//! ```
//!
//! An index is of one logical database. What is indexed, and under which value, says an [`Indexed`] of its
//! owner. Pointers carry the `Lsn`s of the writes that inserted and removed them, where the paper has masks;
//! so a scan passes over none that it should follow and follows none that it should not, and there are no
//! spurious versions to be filtered. A removed pointer stays as long as a view is open that sees it
//! (`docs/design/0023`).

mod maintain;
mod pointers;
mod range;
mod scan;
mod value;

pub(crate) use maintain::Indexes;
pub(crate) use maintain::maintained;
pub use maintain::{Index, IndexStatus, Indexed};
pub use pointers::Pointer;
pub use range::IndexRange;
pub use scan::{Direction, IndexScan};
pub use value::{IndexValue, TEXT_BYTES_MAX};
