//! Encodes replies to the bytes that a client reads.

mod double;
mod writer;

pub use double::{DoubleText, format_double};
pub use writer::{Deferred, Protocol, Writer};
