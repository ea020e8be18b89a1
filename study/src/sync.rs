//! Atomics, locks and threads of the standard library, or those of loom, which tries all orders in which they
//! may act.

#[cfg(not(loom))]
pub(crate) use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard, atomic},
    thread::yield_now,
};

#[cfg(loom)]
pub(crate) use loom::{
    sync::{Arc, Condvar, Mutex, MutexGuard, atomic},
    thread::yield_now,
};
