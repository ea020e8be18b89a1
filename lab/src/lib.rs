//! The laboratory of Tarn: load generators and experiments that drive servers by socket, ours and
//! `redis-server`.
//!
//! An experiment starts the servers that it compares side by side, pins them and the generator to different
//! cores, prints one JSON line a run and a table at the end, and says for each goal of the design whether it
//! was met.

#[macro_use]
mod names;

pub mod checkpoint;
mod cli;
pub mod demo;
pub mod device;
pub mod error;
pub mod experiment;
pub mod interrupt;
pub mod limit;
pub mod load;
pub mod machine;
mod page;
pub mod power;
pub mod process;
pub mod report;
pub mod resources;
mod results;
pub mod server;
pub mod setting;
pub mod snapshots;
pub mod ycsb;

pub use cli::{Conclusion, LabCli, execute, run};
