//! The `tarn-lab` program: the demonstration and the experiments. `tarn demo` and `tarn lab` start it.

use std::process::ExitCode;

use clap::Parser;
use tarn_lab::LabCli;

fn main() -> ExitCode {
    tarn_lab::run(LabCli::parse())
}
