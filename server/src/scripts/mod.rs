//! Scripts of clients: which are known, and which are running.
//!
//! ```text
//!   EVAL, SCRIPT LOAD ──> Cache: sources by SHA1 ──> Workshop of each worker: interpreter, programs
//!                                                        │ runs
//!   SCRIPT KILL, BUSY <── Running: since when, has it written, is it to end? <──┘
//! ```
//!
//! The executor runs scripts (`execute/executor/script.rs`); Lua itself is the package `lua`.

mod cache;
mod running;
mod workshop;

pub(crate) use cache::{Cache, Script, Sha, sha_of};
pub(crate) use running::{Killing, Run, Running};
pub use workshop::Workshop;
pub(crate) use workshop::{Known, NO_SCRIPT, sha_from};

/// The scripts of a server.
#[derive(Debug)]
pub struct Scripts {
    /// The known ones.
    pub(crate) cache: Cache,
    /// The running ones.
    pub(crate) running: Running,
}

impl Scripts {
    /// No scripts, for so many workers.
    pub(crate) fn new(workers: usize) -> Scripts {
        Scripts { cache: Cache::default(), running: Running::new(workers) }
    }
}
