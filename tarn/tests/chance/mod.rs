//! Statements by chance, and who answers them.

pub mod answers;
pub mod peer;
pub mod statements;
