//! The virtual algorithms: rows that transactions read and write, and snapshots of them that stop no
//! transaction.
//!
//! A [`Store`] is shared by any number of threads. Its transactions may access any rows; strict two-phase
//! locking gives them an order. A snapshot has the writes of all transactions of a prefix of that order. A
//! [`VirtualAlgorithm`] decides which prefix, and how its rows are kept; each has a file:
//!
//! | algorithm | a snapshot has the transactions that | a write | a snapshot shows |
//! | --- | --- | --- | --- |
//! | [`Calc`] | committed before its point of consistency | copies the old row aside first | all rows |
//! | [`PartialCalc`] | the same | the same | what has changed |
//! | [`Cpr`] | began before the trigger | copies the old row aside first | all rows |
//! | [`VirtualHourglass`] | began before the trigger | to the copy no snapshot needs | what has changed |
//! | [`VirtualPiggyback`] | began before the trigger | the same | all rows |
//!
//! ```
//! use tarn_study::transaction::{Store, TransactionError, VirtualPiggyback};
//! use tarn_study::{Shape, SnapshotError};
//!
//! let (store, mut snapshotter) = Store::<VirtualPiggyback>::new(Shape::new(1000, 8)?)?;
//! let pay = |from: usize, to: usize, amount: u64| {
//!     store.run(|transaction| {
//!         let mut balance = [0];
//!         transaction.read(from, &mut balance)?;
//!         transaction.write(from, &[balance[0].wrapping_sub(amount)])?;
//!         transaction.read(to, &mut balance)?;
//!         transaction.write(to, &[balance[0].wrapping_add(amount)])
//!     })
//! };
//! pay(7, 8, 100)?;
//! let mut snapshot = snapshotter.take();
//! pay(8, 9, 30)?;
//! let mut seen = [0; 1000];
//! snapshot.traverse(|row, fields| {
//!     seen[row] = fields[0];
//!     Ok::<(), SnapshotError>(())
//! })?;
//! assert_eq!(seen[8], 100);
//! assert_eq!(seen.iter().fold(0, |sum: u64, balance| sum.wrapping_add(*balance)), 0);
//! # Ok::<(), TransactionError>(())
//! ```

mod algorithm;
mod calc;
mod cpr;
mod hourglass;
mod locks;
mod pairs;
mod parts;
mod periods;
mod piggyback;
mod snapshotter;
mod store;
#[expect(clippy::module_inception, reason = "the noun is the same")]
mod transaction;

pub use algorithm::VirtualAlgorithm;
pub use calc::{Calc, PartialCalc};
pub use cpr::Cpr;
pub use hourglass::VirtualHourglass;
pub use locks::{Locks, Meeting, Newest, Version};
pub use parts::Counts;
pub use periods::{Period, Periods};
pub use piggyback::VirtualPiggyback;
pub use snapshotter::{Snapshot, Snapshotter};
pub use store::Store;
pub use transaction::{Transaction, TransactionError};
