//! Decodes the bytes of a server to its replies, for clients: load generators, experiments, tests.

mod command;
mod decoder;
mod display;
mod error;
mod line;
mod skimmer;
mod types;

pub use command::encode_command;
pub use decoder::{FrameDecoder, FrameLimits};
pub use error::FrameError;
pub use skimmer::{ReplyKind, ReplySkimmer, Skimmed};
pub use types::Frame;
