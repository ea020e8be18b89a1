//! The judges of the algorithms: an oracle under real threads, and loom in every order. Mutants, which are
//! algorithms with a fault, test the judges themselves: the judges must reject them.

#[cfg(loom)]
mod model;
mod mutant;
#[cfg(not(loom))]
mod oracle;

pub(crate) use mutant::Mutant;
