//! Decodes the bytes of a client to the arguments of its commands.

mod args;
mod decoder;
mod error;
mod inline;
mod limits;
#[cfg(test)]
mod tests;

pub use args::{Args, ArgsIter, OwnedArgs};
pub use decoder::RequestDecoder;
pub use error::ProtocolError;
pub use limits::Limits;
