//! Random statements, and the servers that answer them.

pub mod answers;
pub mod peer;
pub mod statements;
