//! The experiments: each opens with its question, its variables and the shape expected.

pub mod access;
pub mod compare;
pub mod contract;
pub mod durability;
pub mod eviction;
pub mod machine;
pub mod memory;
pub mod persistence;
pub mod ratios;
pub mod recovery;
mod series;
pub mod stalls;
pub mod store;
pub mod throughput;
pub mod vls;
pub mod vtc;
pub mod workers;
pub mod ycsb_control;

pub(crate) use series::path_beside;

pub use contract::{Cell, Experiment, LineOf, Measured, ResultsOf, Wanted, leave_out, row, scale_fact};
