//! Scripts and functions of clients: which are known, and which are running.
//!
//! ```text
//!   EVAL, SCRIPT LOAD ──> Cache: sources by SHA1 ───┬──> Workshop of each worker: interpreters, programs
//!   FUNCTION LOAD ──> Functions: libraries by name ─┘        │ runs
//!   SCRIPT KILL, BUSY <── Running: since when, has it written, is it to end? <──┘
//! ```
//!
//! The executor runs scripts (`execute/executor/script.rs`); Lua itself is the package `lua`.

mod cache;
mod known;
mod library;
mod running;
mod shelf;
mod workshop;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tarn_lua::{Failure, Interpreter, Limits, Purpose};

pub(crate) use cache::{Cache, Script, Sha, promises_no_writes, sha_of};
pub(crate) use known::Known;
pub(crate) use library::{Function, Functions, Libraries, Library};
pub(crate) use running::{About, Killing, Run, Running};
pub use workshop::Workshop;
pub(crate) use workshop::{NO_SCRIPT, sha_from};

use crate::error::CommandError;
use crate::version::REDIS_VERSION;

/// Bytes of memory that an interpreter may take.
const MEMORY_BYTES: usize = 256 << 20;

/// The scripts of a server.
#[derive(Debug)]
pub struct Scripts {
    /// The known ones.
    pub(crate) cache: Cache,
    /// The libraries of functions.
    pub(crate) functions: Arc<Functions>,
    /// The running ones.
    pub(crate) running: Running,
    /// Whether they may run commands that are not for them (`DEBUG SET-DISABLE-DENY-SCRIPTS`).
    pub(crate) allows_all: AtomicBool,
}

impl Scripts {
    /// No scripts, for so many workers.
    pub(crate) fn new(workers: usize) -> Scripts {
        Scripts {
            cache: Cache::default(),
            functions: Arc::default(),
            running: Running::new(workers),
            allows_all: AtomicBool::new(false),
        }
    }
}

/// An interpreter with the limits of the server.
fn interpreter(purpose: Purpose) -> Result<Interpreter, CommandError> {
    let limits = Limits { memory_bytes: MEMORY_BYTES };
    Interpreter::new(limits, REDIS_VERSION, purpose)
        .map_err(|failure| CommandError::owned(format!("ERR {}", text_of(&failure))))
}

/// Why a script was not compiled.
fn text_of(failure: &Failure) -> String {
    match failure {
        Failure::Error { message, .. } => String::from_utf8_lossy(message).into_owned(),
        Failure::Aborted { .. } => "it was ended".to_owned(),
    }
}

/// Writes a line of `redis.log`.
pub(crate) fn log(level: u8, message: &[u8]) {
    let message = String::from_utf8_lossy(message).replace(['\r', '\n'], " ");
    match level {
        0 => tracing::debug!("script: {message}"),
        1 => tracing::trace!("script: {message}"),
        2 => tracing::info!("script: {message}"),
        _ => tracing::warn!("script: {message}"),
    }
}
