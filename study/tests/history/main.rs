//! Snapshots of the virtual algorithms show the writes of a prefix of the transactions, in the order that
//! two-phase locking gave them.
//!
//! `graph.rs` judges a history of transactions and snapshots; `recorder.rs` writes one down; `random.rs`
//! makes them at random, under threads; `stepped.rs` makes those that are hard to meet, step by step;
//! `mutants.rs` has algorithms with a mistake, whose histories must be rejected. `model.rs` has
//! loom try out all orders of short ones; `cargo xtask ci models` runs it.

#![allow(clippy::unwrap_used)]

mod graph;
#[cfg(loom)]
mod model;
#[cfg(not(loom))]
mod mutants;
#[cfg(not(loom))]
mod random;
mod recorder;
#[cfg(not(loom))]
mod stepped;
