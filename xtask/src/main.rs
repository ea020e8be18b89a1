//! `cargo xtask`: tasks on the source tree.
//!
//! - `cargo xtask tidy` holds the source to the rules of the house;
//! - `cargo xtask scripts` plays the behaviour scripts of `testscripts/`, or records them;
//! - `cargo xtask licences` writes THIRD-PARTY.md;
//! - `cargo xtask charts` brings the library that draws the charts of reports;
//! - `cargo xtask measure` prints numbers about the source, to compare two commits;
//! - `cargo xtask ci` does all that a change has to pass.

mod charts;
mod ci;
mod licences;
mod measure;
mod run;
mod scripts;
mod setup;
mod tidy;

use clap::{Parser, Subcommand};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Tasks on the source tree of Tarn.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Check the rules of the source: imports, heads, lengths, names.
    Tidy {
        /// Break comments that are too wide.
        #[arg(long)]
        fix: bool,
        /// Write the tables that are made from lists in the code: the floors of each package.
        #[arg(long, conflicts_with = "fix")]
        write: bool,
        /// Print the files that import each other, with the names that tie them.
        #[arg(long, conflicts_with_all = ["fix", "write"])]
        cycles: bool,
    },
    /// Play the behaviour scripts against Tarn and redis-server, or record them.
    Scripts(scripts::Scripts),
    /// Write THIRD-PARTY.md: the licences of the linked libraries.
    Licences,
    /// Bring the library that draws the charts of the laboratory's reports, or check it.
    Charts(charts::Charts),
    /// Print numbers about the source: lines, cycles, public items, words a sentence.
    Measure(measure::Measure),
    /// Do all that a change has to pass.
    Ci(ci::Ci),
}

fn main() -> ExitCode {
    match Cli::parse().task {
        Task::Tidy { cycles: true, .. } => tidy::cycles(&root()),
        Task::Tidy { write: true, .. } => tidy::write(&root()),
        Task::Tidy { fix: true, .. } => tidy::fix(&root()),
        Task::Tidy { .. } => tidy::run(&root()),
        Task::Scripts(scripts) => scripts.run(&root()),
        Task::Charts(charts) => charts.run(&root()),
        Task::Measure(measure) => measure.run(&root()),
        Task::Licences => licences::run(&root()),
        Task::Ci(ci) => ci.run(&root()),
    }
}

/// The top of the source tree that `cargo xtask` was called in; where this program was built, that may be
/// another.
fn root() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").expect("started as `cargo xtask`, which says where");
    Path::new(&package).parent().expect("the package lies in the workspace").to_owned()
}
