//! Checkpoints: the whole store in a file, while clients go on. `docs/format/checkpoint.md` has the bytes.
//!
//! ```text
//!   view ──step──> entries ──> blocks of 1 MB ──> writer threads: checksum, write, sync ──> manifest
//! ```

mod directory;
mod error;
mod fork;
mod format;
mod load;
mod manifest;
mod merge;
#[cfg(test)]
mod merge_tests;
mod pace;
mod reader;
mod source;
mod take;
mod writer;

pub use directory::{CheckpointMode, Checkpoints, Taken};
pub use error::CheckpointError;
pub use load::Loaded;
pub use manifest::Checkpoint;
pub use pace::{Pace, Pacer, Progress, TakeOptions};
pub use source::Source;
