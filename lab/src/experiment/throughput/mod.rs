//! Question: how many requests a second does one worker on one core answer, and what does the log cost?
//!
//! Variables: server (ours, redis-server), request, pipeline, data type, persistence, number of workers.
//! Expected: ahead of redis-server everywhere, further with longer pipelines, where the kernel's share per
//! request shrinks; `everysec` costs little; `always` costs latency, but concurrent flushes and group commit
//! keep the rate, and readers do not pay for writers.

mod always;
mod contest;
mod everysec;
mod plain;
mod structures;
mod tables;
mod workers;

use clap::ValueEnum;

use crate::error::Result;
use crate::report::Report;
use crate::server::Product;
use crate::setting::Setting;

/// The question, for `tarn lab list`.
pub const QUESTION: &str = "How many requests a second does one worker answer, and what does the log cost? \
    (parts: plain, structures, everysec, always, workers)";

/// The parts of the experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// GET and SET of 64 bytes without a log, at pipeline 1, 16 and 64.
    Plain,
    /// Hashes and sorted sets without a log, at pipeline 16.
    Structures,
    /// A log flushed every second, against none.
    Everysec,
    /// Replies only for durable writes: writers alone, then readers beside writers.
    Always,
    /// Two workers against one.
    Workers,
}

/// The experiment's own options.
#[derive(Debug, Clone, Default, clap::Args)]
#[group(skip)]
pub struct Options {
    /// Run these parts only.
    #[arg(long, value_name = "PART", value_delimiter = ',')]
    pub only: Vec<Part>,
}

/// Runs the experiment.
pub fn run(setting: &Setting, options: &Options, report: &mut Report) -> Result<()> {
    let asked = |part| options.only.is_empty() || options.only.contains(&part);
    if asked(Part::Plain) {
        plain::run(setting, report)?;
    }
    if asked(Part::Structures) {
        structures::run(setting, report)?;
    }
    if asked(Part::Everysec) {
        everysec::run(setting, report)?;
    }
    if asked(Part::Always) {
        always::run(setting, report)?;
    }
    let ours = setting.servers.iter().any(|(product, _)| *product == Product::Tarn);
    if asked(Part::Workers) && ours {
        workers::run(setting, report)?;
    }
    Ok(())
}
