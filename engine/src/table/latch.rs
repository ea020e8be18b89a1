//! The latches of tables, and the numbers that threads share in tables and views.
//!
//! Under `--cfg shuttle` the numbers are those of a checker that has threads act in an order of its choosing:
//! `view/model.rs` runs tables and views, as they are, on them, and on its locks. Under
//! `--cfg loom` they are those of another checker, for the model in `view/cuts.rs`.

use super::segment::Segment;
use crate::lock::{RwLockReadGuard, RwLockWriteGuard, rank};

/// A segment that is latched for reading.
pub(crate) type ReadLatch<'s> = RwLockReadGuard<'s, Segment, rank::Segment>;
/// A segment that is latched for writing.
pub(crate) type WriteLatch<'s> = RwLockWriteGuard<'s, Segment, rank::Segment>;

#[cfg(loom)]
pub(crate) use loom::sync::atomic::AtomicU64;
#[cfg(shuttle)]
pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, AtomicUsize, Ordering};
#[cfg(not(any(shuttle, loom)))]
pub(crate) use std::sync::atomic::AtomicU64;
#[cfg(not(shuttle))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicUsize, Ordering};
