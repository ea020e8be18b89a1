//! What the virtual algorithms show is what a prefix of the transactions has written, in the order that
//! two-phase locking gave them.
//!
//! `graph.rs` judges a history of transactions and snapshots; `recorder.rs` writes one down; `random.rs`
//! makes them at random, under threads; `stepped.rs` makes those that are hard to meet, step by step;
//! `mutants.rs` has algorithms with a mistake, whose histories must be rejected.

#![allow(clippy::unwrap_used)]

mod graph;
mod mutants;
mod random;
mod recorder;
mod stepped;
