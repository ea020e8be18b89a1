//! Checkpoints, backups, RDB files, and switching the log: everything that keeps data beyond the process.
//!
//! ```text
//!   saver: one thread takes the checkpoints     shutdown: the last one, then the end
//!   log_switch: appendonly on and off           backups: copies of the log
//!   rdb, rdb_file, transfer: Redis's files      libraries: functions and their file
//!   migration: keys to another server           reload: all keys to a file and back, for tests
//! ```
//!
//! May import `shared` and the folders below it. Services that need each other get the other one as an
//! argument: nothing here knows `execute::services`.

pub(crate) mod backup_place;
pub(crate) mod backups;
pub(crate) mod keeping;
pub(crate) mod libraries;
pub(crate) mod log_switch;
pub(crate) mod migration;
pub mod rdb;
pub(crate) mod rdb_file;
pub(crate) mod reload;
pub(crate) mod saver;
pub(crate) mod shutdown;
pub mod transfer;

pub use libraries::{FUNCTIONS_FILE, FunctionsError};
