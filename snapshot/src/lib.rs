//! Consistent snapshots of an array of rows while clients go on writing to it.
//!
//! An [`Array`] has rows of 8-byte fields. Each [`Client`] owns a range of rows, which it reads and writes in
//! turns; the [`Snapshotter`] takes a snapshot between turns and then traverses it, at its leisure. How
//! the rows of the snapshot are kept from the clients' writes is the business of an [`Algorithm`], a file
//! each:
//!
//! | algorithm | taking a snapshot | a client's write | copies of the data | each snapshot is |
//! | --- | --- | --- | --- | --- |
//! | [`Naive`] | copies all rows | in place | 2 | full |
//! | [`CopyOnUpdate`] | clears a bit a row | the first of a period copies the old row aside | 2 | full |
//! | [`Fork`] | forks the process | in place; the kernel copies a page before the first | up to 2 | full |
//! | [`Zigzag`] | a word for 64 rows | into the copy that the snapshot does not have | 2 | full |
//! | [`PingPong`] | swaps two pointers | twice | 3 | what has changed |
//! | [`Hourglass`] | swaps two pointers | into the copy that the snapshot does not have | 2 | what has
//! changed |
//! | [`Piggyback`] | swaps two pointers | into the copy that the snapshot does not have | 2 | full |
//!
//! The virtual algorithms, CALC, vHG and vPB, take snapshots between transactions that may touch any row:
//! [`transaction`].
//!
//! [`vls`] is another matter: a store of keyed records, many scans of which run at once, each over a snapshot
//! of its own.
//!
//! ```
//! use tarn_snapshot::{Array, Hourglass, Shape, SnapshotError};
//!
//! let (mut clients, mut snapshotter) = Array::<Hourglass>::new(Shape::new(1000, 64)?, 1)?;
//! let client = &mut clients[0];
//! client.turn().write_field(7, 0, 42)?;
//! let mut snapshot = snapshotter.take()?;
//! client.turn().write_field(7, 0, 43)?;
//! let mut seen = 0;
//! snapshot.traverse(|row, fields| {
//!     if row == 7 {
//!         seen = fields[0];
//!     }
//!     Ok::<(), SnapshotError>(())
//! })?;
//! assert_eq!(seen, 42);
//! # Ok::<(), tarn_snapshot::SnapshotError>(())
//! ```

mod algorithm;
mod array;
mod bits;
pub mod checkpoint;
mod copy_on_update;
mod error;
mod flags;
#[cfg(not(loom))]
mod fork;
mod gate;
mod halves;
mod hourglass;
#[cfg(test)]
mod judge;
mod memory;
mod naive;
mod pair;
mod piggyback;
mod ping_pong;
mod rows;
mod sync;
pub mod transaction;
pub mod vls;
mod zigzag;

pub use algorithm::{Algorithm, Visit};
pub use array::{Array, Client, Snapshot, Snapshotter, Turn};
pub use copy_on_update::CopyOnUpdate;
pub use error::SnapshotError;
#[cfg(not(loom))]
pub use fork::Fork;
pub use hourglass::Hourglass;
pub use naive::Naive;
pub use piggyback::Piggyback;
pub use ping_pong::PingPong;
pub use rows::Shape;
pub use zigzag::Zigzag;
