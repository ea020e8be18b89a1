//! A keyed store in which each value has two copies, as the authors of the comparative study put Hourglass
//! and Piggyback into Redis (section 5.4): one thread serves, a second one dumps.
//!
//! ```text
//!   index      "user7" ──► entry ── lock ──► field0 ──► snap_row: copy 0, copy 1, bits
//!                                            field1 ──► snap_row
//!   server     set  get  set | take  set  set  get       writes go to the upper copy
//!   dumper                   └─────► entry by entry ──►  shows the value at the cut, frees what is old
//! ```
//!
//! - [`Store`] belongs to the one thread that reads and writes, as a Redis server has one. [`Store::take`]
//!   swaps two pointers, which takes as long for one value as for a billion.
//! - [`Snapshot`] goes to another thread, which dumps all of it. Until it is dropped there is no other one.
//! - [`SnapRow`] is what the algorithms differ in: [`HourglassRow`] and [`PiggybackRow`].
//!
//! The thread that dumps locks one entry at a time, for as long as its values take to be copied, and shows
//! them without a lock.
//!
//! ```
//! use std::convert::Infallible;
//! use tarn_study::paired::{HourglassRow, Shown, Store};
//!
//! let mut store = Store::<HourglassRow>::new();
//! store.set(b"user7", &[(b"name", b"Ada")])?;
//! let snapshot = store.take().expect("no other one lives");
//! store.set(b"user7", &[(b"name", b"Bob")])?;
//! snapshot.dump(|shown| {
//!     let Shown::Hash { key, fields } = shown else { panic!("there is no sorted set") };
//!     assert_eq!((key, fields.iter().next()), (&b"user7"[..], Some((&b"name"[..], &b"Ada"[..]))));
//!     Ok::<(), Infallible>(())
//! })?;
//! assert_eq!(store.get(b"user7", b"name", |value| value == b"Bob")?, Some(true));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `docs/algorithms/published-store.md` says what is as published, and what is not.

mod hourglass;
#[cfg(test)]
mod judge;
mod piggyback;
mod row;
mod snapshot;
mod store;
mod table;

pub use hourglass::HourglassRow;
pub use piggyback::PiggybackRow;
pub use row::SnapRow;
pub use snapshot::{FieldsAtCut, MembersAtCut, Shown, Snapshot};
pub use store::{Refused, Store};
