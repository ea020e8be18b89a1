//! Writes the log: the write buffer, the threads that write and sync it, and recovery of a failed disk.

pub(super) mod appender;
pub(super) mod buffer;
pub(super) mod compress;
#[cfg(test)]
mod compress_tests;
pub(super) mod counters;
pub(super) mod durable;
pub(super) mod files;
pub(super) mod flusher;
pub(super) mod group;
pub(super) mod keeper;
pub(super) mod pipeline;
pub(super) mod rescue;
#[cfg(test)]
mod rescue_tests;
pub(super) mod status;
