//! Random statements, and the servers that answer them.

pub(crate) mod answers;
pub(crate) mod peer;
pub(crate) mod statements;
