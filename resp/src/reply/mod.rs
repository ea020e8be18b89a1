//! From replies to the bytes a client reads.

mod double;
mod writer;

pub use double::{DoubleText, format_double};
pub use writer::{Deferred, Protocol, Writer};
