//! How the algorithms are judged: by an oracle under real threads, and by loom in every order. Both are
//! judged themselves by mutants, algorithms with a hole that they must reject.

#[cfg(loom)]
mod model;
mod mutant;
#[cfg(not(loom))]
mod oracle;

pub(crate) use mutant::Mutant;
