//! The comparative study of published snapshot algorithms: consistent snapshots of an array of rows while
//! clients continue to write to it.
//!
//! The server does not use this package. Its snapshots are the views of `tarn-engine` (`engine/src/view/`).
//!
//! ```text
//!   clients      w w w w w w w | w w w w w w w w w w w w w w
//!                              | cut
//!   snapshotter               take ──► traverse, or checkpoint into a file ──► drop
//! ```
//!
//! [`Array::new`] makes an array of a [`Shape`], all zeros, and gives it out as its parts:
//!
//! - [`Client`]s, each of which owns a range of rows ([`Client::rows`]) and may go to a thread of its own. It
//!   reads and writes in turns ([`Client::turn`]); the cut falls between turns, so keep them short.
//! - One [`Snapshotter`], for one more thread. [`Snapshotter::take`] gives a [`Snapshot`], the rows as they
//!   were at the cut, to read ([`Snapshot::traverse`]) or to write into a file ([`Snapshot::checkpoint`]),
//!   once or, if that fails, again. Until it is dropped there is no other one.
//!
//! ```
//! use tarn_study::{Array, Hourglass, Shape, SnapshotError};
//!
//! // A thousand rows of 64 bytes, eight fields each; one client.
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
//! # Ok::<(), SnapshotError>(())
//! ```
//!
//! An [`Algorithm`], the type parameter of all these, keeps the rows of the snapshot from the clients'
//! writes. Each has a file, and a page in `docs/algorithms/`:
//!
//! | algorithm | taking a snapshot | a client's write | copies of the data | a snapshot shows |
//! | --- | --- | --- | --- | --- |
//! | [`Naive`] | copies all rows | in place | 2 | all rows |
//! | [`CopyOnUpdate`] | clears a bit a row | the first of a period copies the old row aside | 2 | all rows |
//! | [`Fork`] | forks the process | in place; the kernel copies the page | up to 2 | all rows |
//! | [`HotColdFork`] | forks the process | in place; the kernel copies the page | up to 2 | all rows |
//! | [`ReturningFork`] | forks the process | in place; the kernel copies the page | up to 2 | all rows |
//! | [`Zigzag`] | turns a bit a row | into the copy that the snapshot does not have | 2 | all rows |
//! | [`PingPong`] | swaps two pointers | twice | 3 | what has changed |
//! | [`Hourglass`] | swaps two pointers | as Zigzag | 2 | what has changed |
//! | [`Piggyback`] | swaps two pointers | as Zigzag | 2 | all rows |
//! | [`PublishedCopyOnUpdate`] | clears a bit a row | locks the row; the first copies it | 2 | all rows |
//! | [`PublishedHourglass`] | swaps two pointers | as Zigzag, and two bits | 2 | what has changed |
//! | [`WriteProtection`] | protects all pages | the first to a page waits for its copy | 2 | all rows |
//! | [`AsyncWriteProtection`] | copies the written pages | in place; the kernel notes the page | 2 | what has
//! changed |
//! | [`PublishedPiggyback`] | swaps two pointers | as Zigzag, and a tag | 2 | all rows |
//!
//! The three published forms are those of the study, with the departures that their files name;
//! Copy-on-Update, Hourglass and Piggyback improve on them.
//!
//! "What has changed" is what was written since the snapshot before; the first one shows all rows. If a
//! snapshot is abandoned, which is to drop it without a complete traversal, the next one gets its changes.
//!
//! A checkpoint is a complete file whatever the snapshot shows; [`checkpoint`] says how:
//!
//! ```
//! use tarn_study::checkpoint::{CheckpointDir, CheckpointError, CheckpointReader};
//! use tarn_study::{Array, Hourglass, Shape};
//!
//! # let place = tempfile::tempdir().expect("a directory");
//! # let path = place.path();
//! let shape = Shape::new(1000, 64)?;
//! let (mut clients, mut snapshotter) = Array::<Hourglass>::new(shape, 1)?;
//! let mut dir = CheckpointDir::new(path, shape);
//! for value in [1, 2] {
//!     clients[0].turn().write_field(7, 0, value)?;
//!     snapshotter.take()?.checkpoint(&mut dir)?;
//! }
//! let mut sum = 0;
//! CheckpointReader::open(dir.file())?.rows(|_, fields| sum += fields[0])?;
//! assert_eq!(sum, 2);
//! # Ok::<(), CheckpointError>(())
//! ```
//!
//! More families, of types of their own:
//!
//! - [`transaction`]: transactions of any number of threads, each of which may read and write any rows. CALC
//!   and the virtual algorithms vHG and vPB take snapshots between transactions, and stop none.
//! - [`paired`]: a keyed store whose values have two copies each, as the authors put Hourglass and Piggyback
//!   into Redis.
//! - [`vls`]: a store of keyed records with many scans at once, each over a snapshot of its own.
//! - [`mvcc`]: the same by version chains, which VLS is compared with; [`Records`] is what both can do.
//! - `vtc`: a store of keyed records whose log is its own checkpoint, compacted by validity.

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
pub mod mvcc;
mod naive;
#[cfg(not(loom))]
mod pages;
mod pair;
pub mod paired;
mod piggyback;
mod ping_pong;
#[cfg(not(loom))]
mod protection;
mod published;
mod records;
mod rows;
mod shape;
mod sync;
pub mod transaction;
pub mod vls;
#[cfg(not(loom))]
pub mod vtc;
mod zigzag;

pub use algorithm::{Algorithm, Visit};
pub use array::{Array, Client, Snapshot, Snapshotter, Turn};
pub use copy_on_update::CopyOnUpdate;
pub use error::SnapshotError;
#[cfg(not(loom))]
pub use fork::{Fork, Forking, HotColdFork, ReturningFork};
pub use hourglass::Hourglass;
pub use naive::Naive;
pub use piggyback::Piggyback;
pub use ping_pong::PingPong;
#[cfg(not(loom))]
pub use protection::{AsyncWriteProtection, WriteProtection};
pub use published::{PublishedCopyOnUpdate, PublishedHourglass, PublishedPiggyback};
pub use records::{Kept, RecordBatch, RecordScan, Records};
pub use shape::Shape;
pub use zigzag::Zigzag;
