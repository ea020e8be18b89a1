//! Write protection of pages by `userfaultfd`: the kernel says which pages clients write, as a forked child's
//! copies do, and no page table is copied.
//!
//! - [`WriteProtection`]: a write to a protected page waits until a thread of ours has copied the page aside.
//! - [`AsyncWriteProtection`]: the kernel lifts the protection itself, and says later which pages were
//!   written.
//!
//! Both need Linux: 5.7 for the first, 6.7 for the second. Where the kernel or its settings refuse, the array
//! cannot be made, and the error says so.

mod asynchronous;
mod kernel;
mod synchronous;

pub use asynchronous::AsyncWriteProtection;
#[cfg(test)]
pub(crate) use asynchronous::mutants as asynchronous_mutants;
pub use synchronous::WriteProtection;
#[cfg(test)]
pub(crate) use synchronous::mutants as synchronous_mutants;

use std::io;

use crate::error::SnapshotError;

/// The error for what the kernel refuses.
fn system(action: &'static str) -> impl Fn(io::Error) -> SnapshotError {
    move |error| SnapshotError::System { action, reason: error.to_string() }
}
