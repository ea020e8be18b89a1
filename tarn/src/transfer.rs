//! The parts that `tarn import` and `tarn export` share: the data directory, the progress, the end.

use clap::Args;
use indicatif::{HumanCount, ProgressBar, ProgressStyle};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use tarn_server::persist::transfer::{Place, Stage, TransferError};

const REFUSED: u8 = 1;
const FAILED: u8 = 2;

/// The data directory, in the words of `tarn serve`.
#[derive(Args)]
pub(crate) struct PlaceArgs {
    /// The data directory of the server.
    #[arg(long, value_name = "DIR", default_value = "tarn-data")]
    dir: PathBuf,
    /// A directory of its log, if it has --log-dir: once for each, in their order; relative ones lie below
    /// --dir.
    #[arg(long, value_name = "DIR", num_args = 1)]
    log_dir: Vec<PathBuf>,
    /// The logical databases of the server.
    #[arg(
        long, value_name = "NUMBER", default_value_t = 16,
        value_parser = clap::value_parser!(u16).range(1..=256)
    )]
    databases: u16,
}

impl PlaceArgs {
    pub(crate) fn place(&self) -> Place {
        Place {
            dir: self.dir.clone(),
            log_dirs: self.log_dir.clone(),
            databases: usize::from(self.databases),
            threads: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }
}

/// Does it, telling on a terminal how far it has come, and says why if it is not done.
pub(crate) fn ended(work: impl FnOnce(&mut dyn FnMut(Stage)) -> Result<(), TransferError>) -> ExitCode {
    let bar = progress_bar();
    let done = work(&mut |stage| show(&bar, stage));
    bar.finish_and_clear();
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tarn: {error}");
            ExitCode::from(if error.is_refusal() { REFUSED } else { FAILED })
        }
    }
}

/// It shows nothing where standard error is no terminal.
pub(crate) fn progress_bar() -> ProgressBar {
    ProgressBar::no_length().with_style(
        ProgressStyle::with_template("{msg:<60} {wide_bar} {percent:>3} %").expect("the template is valid"),
    )
}

fn show(bar: &ProgressBar, stage: Stage) {
    let seconds = bar.elapsed().as_secs_f64();
    let (keys, position, length, message) = match stage {
        Stage::Reading { keys, bytes, bytes_total } => {
            (keys, bytes, bytes_total, format!("reading: {:.0} MB", bytes as f64 / 1e6))
        }
        Stage::Writing { keys, keys_total } => (keys, keys, keys_total, "writing".to_owned()),
    };
    let keys = match (keys, stage) {
        (0, _) => String::new(),
        (keys, Stage::Reading { .. }) => {
            format!(", {} keys, {} a second", HumanCount(keys), HumanCount((keys as f64 / seconds) as u64))
        }
        (keys, Stage::Writing { .. }) => format!(": {} keys", HumanCount(keys)),
    };
    bar.set_length(length);
    bar.set_position(position);
    bar.set_message(message + &keys);
}

/// The number of keys, the time, and the keys a second.
pub(crate) fn rate(keys: u64, took: Duration) -> String {
    let seconds = took.as_secs_f64();
    format!("{keys} keys in {seconds:.2} s, {:.0} a second", keys as f64 / seconds.max(1e-6))
}
