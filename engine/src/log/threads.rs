//! The numbers that the threads of the log share.
//!
//! Under `--cfg shuttle` they are those of a checker that has threads act in an order of its choosing:
//! `model.rs` runs the log's own threads on them.

#[cfg(not(shuttle))]
pub(super) use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

#[cfg(shuttle)]
pub(super) use shuttle::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
