//! The command line of `tarn-lab`: `demo`, `list`, `run EXPERIMENT`, `report` and `choose`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::demo::{self, DemoArgs};
use crate::error::Result;
use crate::experiment::{durability, memory, persistence, recovery, store, throughput, vls, vtc};
use crate::interrupt;
use crate::process;
use crate::report::{Report, table};
use crate::results;
use crate::setting::{Options, Setting};
use crate::snapshots;

/// The laboratory of Tarn: a demonstration, and experiments that compare Tarn with redis-server.
#[derive(Debug, Parser)]
#[command(name = "tarn-lab", version, arg_required_else_help = true)]
pub struct LabCli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Load a million records, update them, kill the server, and check that all of it comes back.
    Demo(DemoArgs),
    /// List the experiments.
    List,
    /// Measure one cell of the study of snapshots in this process, and print its figures.
    #[command(hide = true)]
    Cell {
        /// Its parameters, as JSON.
        cell: String,
        /// Where to measure, as JSON.
        place: String,
    },
    /// Draw the results, beside what the study printed, as one file of HTML.
    Report {
        #[command(flatten)]
        own: ReportOptions,
    },
    /// Name the snapshot algorithm that fits a workload, from the results.
    Choose {
        #[command(flatten)]
        own: snapshots::choose::Options,
    },
    /// Run an experiment.
    Run {
        #[command(subcommand)]
        experiment: Box<Experiment>,
    },
}

#[derive(Debug, Subcommand)]
enum Experiment {
    /// Requests a second: plain, with hashes and sorted sets, with the log in its modes, with two workers.
    Throughput {
        #[command(flatten)]
        options: Options,
        #[command(flatten)]
        own: throughput::Options,
    },
    /// Hard kills at random moments: acknowledged writes must survive.
    Durability {
        #[command(flatten)]
        options: Options,
        #[command(flatten)]
        own: durability::Options,
    },
    /// Resident memory of records.
    Memory {
        #[command(flatten)]
        options: Options,
    },
    /// Time from a start until the data are back.
    Recovery {
        #[command(flatten)]
        options: Options,
        #[command(flatten)]
        own: recovery::Options,
    },
    /// The cost of a checkpoint to clients of the store, beside redis-server.
    Store {
        #[command(flatten)]
        options: Options,
        #[command(flatten)]
        own: store::Options,
    },
    /// The cost of a log that is its own checkpoint, beside snapshots and a log that is rewritten.
    Vtc {
        #[command(flatten)]
        options: Options,
        #[command(flatten)]
        own: vtc::Options,
    },
    /// The cost of consistent queries, beside queries that read each record as they meet it.
    Vls {
        #[command(flatten)]
        options: Options,
        #[command(flatten)]
        own: vls::Options,
    },
    /// The cost of each model of persistence, and the time of a start from its files.
    Persistence {
        #[command(flatten)]
        options: Options,
        #[command(flatten)]
        own: persistence::Options,
    },
    /// Algorithms that take snapshots of an array of rows: the comparative study, figure by figure.
    Snapshots {
        #[command(flatten)]
        own: snapshots::Options,
    },
}

/// The experiments that are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Drawn {
    /// `tarn lab run snapshots`
    Snapshots,
    /// `tarn lab run store`
    Store,
    /// `tarn lab run vtc`
    Vtc,
    /// `tarn lab run persistence`
    Persistence,
    /// `tarn lab run vls`
    Vls,
}

/// The options of a report.
#[derive(Debug, Clone, Args)]
struct ReportOptions {
    /// The experiment.
    #[arg(value_enum, default_value = "snapshots")]
    experiment: Drawn,
    /// The file of results. By default that of the experiment.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// The file to write. By default one beside the default file of results.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Show what was measured with `--quick`; by default the scale of the newest result.
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// Show what was measured with `--full`.
    #[arg(long)]
    full: bool,
}

fn report(own: &ReportOptions) -> Result<()> {
    let results = match own.experiment {
        Drawn::Snapshots => snapshots::RESULTS,
        Drawn::Store => store::RESULTS,
        Drawn::Vtc => vtc::RESULTS,
        Drawn::Persistence => persistence::RESULTS,
        Drawn::Vls => vls::RESULTS,
    };
    let json = own.json.clone().unwrap_or_else(|| results.into());
    let out = own.out.clone().unwrap_or_else(|| Path::new(results).with_extension("html"));
    match own.experiment {
        Drawn::Snapshots => {
            let (quick, full) = (own.quick, own.full);
            snapshots::report::run(&snapshots::report::Options { json, out, quick, full })
        }
        Drawn::Store => store::report::run(&json, &out, own.quick),
        Drawn::Vtc => vtc::report::run(&json, &out, own.quick),
        Drawn::Persistence => persistence::report::run(&json, &out, own.quick),
        Drawn::Vls => vls::report::run(&json, &out, own.quick),
    }
}

/// The conclusion of an experiment that ran to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Conclusion {
    /// Goals that were not met.
    pub goals_missed: usize,
    /// Campaigns and checks in which something was wrong.
    pub broken: usize,
    /// True if a missed goal is a failure.
    pub strict: bool,
}

/// Runs the laboratory's command line. The exit code is 0 if the experiment ran and found nothing broken, 1
/// if it did not, 2 if a goal was missed and `--strict` asked to say so, 130 after Ctrl-C.
pub fn run(cli: LabCli) -> ExitCode {
    if let Command::Demo(args) = &cli.command {
        return demo::run(args);
    }
    interrupt::listen();
    match execute(cli) {
        Ok(conclusion) if conclusion.broken > 0 => ExitCode::FAILURE,
        Ok(conclusion) if conclusion.strict && conclusion.goals_missed > 0 => ExitCode::from(2),
        Ok(_) => ExitCode::SUCCESS,
        Err(_) if interrupt::asked() => {
            eprintln!("interrupted");
            ExitCode::from(130)
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs an experiment, a report or a list; the caller decides on the exit code.
pub fn execute(cli: LabCli) -> Result<Conclusion> {
    match cli.command {
        Command::Demo(args) => {
            demo::show(&args)?;
            Ok(Conclusion { goals_missed: 0, broken: 0, strict: false })
        }
        Command::List => {
            list();
            Ok(Conclusion { goals_missed: 0, broken: 0, strict: false })
        }
        Command::Cell { cell, place } => {
            snapshots::measure::run(&cell, &place)?;
            Ok(Conclusion { goals_missed: 0, broken: 0, strict: false })
        }
        Command::Report { own } => {
            report(&own)?;
            Ok(Conclusion { goals_missed: 0, broken: 0, strict: false })
        }
        Command::Choose { own } => {
            snapshots::choose::run(&own)?;
            Ok(Conclusion { goals_missed: 0, broken: 0, strict: false })
        }
        Command::Run { experiment } => run_experiment(*experiment),
    }
}

fn list() {
    let mut table = table(&["experiment", "question"]);
    table.add_row(["throughput", throughput::QUESTION]);
    table.add_row(["durability", durability::QUESTION]);
    table.add_row(["memory", memory::QUESTION]);
    table.add_row(["recovery", recovery::QUESTION]);
    table.add_row(["store", store::QUESTION]);
    table.add_row(["vtc", vtc::QUESTION]);
    table.add_row(["persistence", persistence::QUESTION]);
    table.add_row(["vls", vls::QUESTION]);
    table.add_row(["snapshots", snapshots::QUESTION]);
    // A reader that closes the pipe early has what it wanted.
    let _ = writeln!(std::io::stdout(), "{table}");
}

fn run_experiment(experiment: Experiment) -> Result<Conclusion> {
    match experiment {
        Experiment::Throughput { options, own } => {
            let (setting, mut report) = prepare("throughput", options)?;
            throughput::run(&setting, &own, &mut report)?;
            finish(&setting, report, 0)
        }
        Experiment::Durability { options, own } => {
            let (setting, mut report) = prepare("durability", options)?;
            let broken = durability::run(&setting, &own, &mut report)?;
            finish(&setting, report, broken)
        }
        Experiment::Memory { options } => {
            let (setting, mut report) = prepare("memory", options)?;
            memory::run(&setting, &mut report)?;
            finish(&setting, report, 0)
        }
        Experiment::Recovery { options, own } => {
            let (setting, mut report) = prepare("recovery", options)?;
            recovery::run(&setting, &own, &mut report)?;
            finish(&setting, report, 0)
        }
        Experiment::Store { options, own } => {
            let (setting, mut report, path) = prepare_cells("store", options, store::RESULTS)?;
            store::run(&setting, &own, &path, &mut report)?;
            finish(&setting, report, 0)
        }
        Experiment::Vtc { options, own } => {
            let (setting, mut report, path) = prepare_cells("vtc", options, vtc::RESULTS)?;
            vtc::run(&setting, &own, &path, &mut report)?;
            finish(&setting, report, 0)
        }
        Experiment::Persistence { options, own } => {
            let (setting, mut report, path) = prepare_cells("persistence", options, persistence::RESULTS)?;
            persistence::run(&setting, &own, &path, &mut report)?;
            finish(&setting, report, 0)
        }
        Experiment::Vls { options, own } => {
            let (setting, mut report, path) = prepare_cells("vls", options, vls::RESULTS)?;
            let broken = vls::run(&setting, &own, &path, &mut report)?;
            finish(&setting, report, broken)
        }
        Experiment::Snapshots { own } => {
            let goals_missed = snapshots::run(&own)?;
            Ok(Conclusion { goals_missed, broken: 0, strict: own.strict })
        }
    }
}

fn prepare(name: &'static str, options: Options) -> Result<(Setting, Report)> {
    let report_to = options.json.clone();
    let setting = Setting::new(options)?;
    let report = Report::new(name, setting.seed, report_to.as_deref())?;
    let servers: Vec<_> = setting.servers.iter().map(|(product, _)| product.name()).collect();
    eprintln!(
        "{name}: {}; server on cores {:?}, load on {:?}; data in {} ({}); scale {}{}; seed {}",
        servers.join(", "),
        setting.server_cores,
        setting.load_cores,
        setting.dir.display(),
        setting.file_system,
        setting.options.scale,
        if setting.options.quick { ", quick" } else { "" },
        setting.seed
    );
    Ok((setting, report))
}

/// Prepares an experiment that measures cells, and continues its file of results.
fn prepare_cells(
    name: &'static str,
    mut options: Options,
    results: &str,
) -> Result<(Setting, Report, PathBuf)> {
    let path = results::path_of(options.json.as_ref(), results)?;
    options.json = Some(path.clone());
    if options.server_cores.is_empty() {
        // The thread that takes the checkpoint must find a core, even while the worker has one.
        options.server_cores = process::cores_allowed();
    }
    let (setting, report) = prepare(name, options)?;
    Ok((setting, report, path))
}

fn finish(setting: &Setting, report: Report, broken: usize) -> Result<Conclusion> {
    Ok(Conclusion { goals_missed: report.finish()?, broken, strict: setting.options.strict })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        LabCli::command().debug_assert();
        let words = ["tarn-lab", "run", "throughput", "--quick", "--only", "plain,always"];
        assert!(LabCli::try_parse_from(words).is_ok());
        let Command::List = LabCli::parse_from(["tarn-lab", "list"]).command else { panic!("list is list") };
    }
}
