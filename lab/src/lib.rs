//! The laboratory of Tarn: load generators and experiments that drive servers by socket, ours and
//! `redis-server`.
//!
//! An experiment starts the servers that it compares side by side, pins them and the generator to different
//! cores, prints one JSON line a run and a table at the end, and says for each goal of the design whether it
//! was met.
//!
//! ```
//! use clap::Parser;
//! use tarn_lab::LabCli;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // Prints a line for each experiment: its name, and the question that it answers.
//! let conclusion = tarn_lab::execute(LabCli::parse_from(["tarn-lab", "list"]))?;
//! assert_eq!(conclusion.broken, 0);
//! # Ok(())
//! # }
//! ```

#![deny(clippy::print_stderr, reason = "a panic where the terminal has closed would end a run: tell!")]
#![deny(clippy::print_stdout, reason = "a panic where the reader has gone would end a run: show!")]

#[macro_use]
mod names;
#[macro_use]
mod tell;

pub mod checkpoint;
mod cli;
mod comma_separated;
pub mod demo;
pub mod device;
pub mod dialect;
pub mod error;
pub mod experiment;
pub mod interrupt;
pub mod ledger;
pub mod limit;
pub mod load;
pub mod machine;
mod numbers;
mod page;
pub mod peers;
pub mod power;
pub mod process;
mod program;
pub mod published;
pub mod report;
pub mod reproduce;
pub mod resources;
mod results;
pub mod server;
pub mod setting;
pub mod shortage;
pub mod snapshots;
pub mod swap;
pub mod ycsb;

pub use cli::{Conclusion, LabCli, execute, run};
