//! The latches of tables and views, and the numbers that threads share there.
//!
//! Under `--cfg shuttle` they are those of a checker that has threads act in an order of its choosing:
//! `view/model.rs` runs tables and views, as they are, on them. Under `--cfg loom` only the numbers are, for
//! the model in `view/cuts.rs`.

#[cfg(not(shuttle))]
pub use parking_lot::{Mutex, RwLock, RwLockReadGuard, RwLockUpgradableReadGuard, RwLockWriteGuard};
#[cfg(shuttle)]
pub use shuttle_parking_lot::{Mutex, RwLock, RwLockReadGuard, RwLockUpgradableReadGuard, RwLockWriteGuard};

#[cfg(loom)]
pub use loom::sync::atomic::AtomicU64;
#[cfg(shuttle)]
pub use shuttle::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, AtomicUsize, Ordering};
#[cfg(not(any(shuttle, loom)))]
pub use std::sync::atomic::AtomicU64;
#[cfg(not(shuttle))]
pub use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicUsize, Ordering};
