//! Validity-tracked compaction as its thesis has it, and the same with positions that never move.
//!
//! ```text
//!   put, delete ─► shard of the table, latched ─► log: bit of the old record, open block ─► queue of a file
//!                                                                                               │ flush
//!   compaction, file by file: settle ─► copy what is valid ─► walk over all entries ─► rename ◄─┘
//!                                                             (Ordinals only)
//! ```
//!
//! A [`Store`] keeps keyed records in memory and a log of them in a few files, one or more for each device.
//! The log is its own checkpoint: compaction copies the records that are still needed out of one file at a
//! time. [`Positions`] says how an entry names its newest record, the only difference between
//!
//! - [`Ordinals`], the thesis: the record's place in its file. A compaction moves records, so an array tells
//!   how far, and a walk over all entries corrects them. Meanwhile no bit of the file can be set, so what is
//!   replaced in it waits for the walk ("lazy invalidation").
//! - [`Lsns`], Tarn's: a number that is given once. Nothing moves, and bits are set at any time.
//!
//! paper: K. Lee, *Validity Tracking Based Log Management for In-Memory Databases*, 2021, chapter 3. A
//! [`Form`] lists the rules that the thesis lacks or leaves open; `docs/algorithms/vtc.md` has the sequences
//! that they prevent.
//!
//! ```
//! use tarn_study::vtc::{Options, Ordinals, Store};
//!
//! # let place = tempfile::tempdir().expect("a directory");
//! let options = Options::new(vec![place.path().to_owned()]);
//! let store = Store::<Ordinals>::open(&options)?;
//! store.put(7, b"first")?;
//! store.put(7, b"second")?;
//! std::thread::scope(|scope| {
//!     let (store, files) = (&store, 0..store.files());
//!     for file in files {
//!         scope.spawn(move || while store.flush(file).is_ok_and(|goes_on| goes_on) {});
//!     }
//!     let compacted = store.compact(0).and_then(|compaction| compaction.run());
//!     store.close();
//!     compacted
//! })?;
//! drop(store);
//! assert_eq!(Store::<Ordinals>::open(&options)?.get(7, <[u8]>::to_vec).as_deref(), Some(&b"second"[..]));
//! # Ok::<(), tarn_study::vtc::VtcError>(())
//! ```

mod compaction;
mod device;
mod error;
mod form;
mod format;
#[cfg(test)]
mod judge;
mod log;
mod lsns;
mod ordinals;
mod positions;
mod recovery;
mod store;
mod table;

pub use compaction::{Compacted, Compaction, Step};
pub use error::VtcError;
pub use form::{Form, Published, Repaired};
pub use lsns::Lsns;
pub use ordinals::Ordinals;
pub use positions::{Position, Positions};
pub use store::{MemoryUse, Options, Store};
