//! Question: what do snapshots of an array of rows cost, by algorithm?
//!
//! Variables: algorithm, size of the data and of a row, updates in a tick, skew of the access, size of pages;
//! for the virtual algorithms, threads. Expected: the taken phase of Naive, Copy-on-Update, Fork and Zigzag
//! grows with the data and that of Ping-Pong, Hourglass and Piggyback does not; Naive and Fork update fastest
//! between snapshots, Hourglass and Piggyback come next.
//!
//! The parameters, figures and tables are those of the comparative study; `plan.rs` has them.

pub mod cell;
pub mod choose;
mod compare;
mod counter;
#[cfg(test)]
mod fixture;
mod flood;
pub mod measure;
mod plan;
mod rows;
mod stream;
mod study;
mod ticks;
mod transactions;

pub use study::{Options, Snapshots};

/// Where results are kept unless said otherwise.
pub const RESULTS: &str = "lab-results/snapshots.jsonl";
