//! The command line of `tarn-lab`: `demo`, `list`, `run EXPERIMENT`, `report` and `choose`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand, ValueEnum};
use comfy_table::Table;

use crate::demo::{self, DemoArgs};
use crate::error::{IoContext, Result};
use crate::experiment::contract::{self, Experiment, Wanted};
use crate::experiment::{durability, memory, persistence, recovery, store, throughput, vls, vtc};
use crate::interrupt;
use crate::process;
use crate::report::{Report, table};
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
        experiment: Box<Named>,
    },
}

/// The options that all experiments share, and those of one.
#[derive(Debug, Args)]
struct Asked<O: Args> {
    #[command(flatten)]
    options: Options,
    #[command(flatten)]
    own: O,
}

/// No options.
#[derive(Debug, Args)]
struct Nothing {}

#[derive(Debug, Subcommand)]
enum Named {
    /// Requests a second: plain, with hashes and sorted sets, with the log in its modes, with two workers.
    Throughput(Asked<throughput::Options>),
    /// Hard kills at random moments: acknowledged writes must survive.
    Durability(Asked<durability::Options>),
    /// Resident memory of records.
    Memory(Asked<Nothing>),
    /// Time from a start until the data are back.
    Recovery(Asked<recovery::Options>),
    /// The cost of a checkpoint to clients of the store, beside redis-server.
    Store(Asked<store::Options>),
    /// The cost of a log that is its own checkpoint, beside snapshots and a log that is rewritten.
    Vtc(Asked<vtc::Options>),
    /// The cost of consistent queries, beside queries that read each record as they meet it.
    Vls(Asked<vls::Options>),
    /// The cost of each model of persistence, and the time of a start from its files.
    Persistence(Asked<persistence::Options>),
    /// Algorithms that take snapshots of an array of rows: the comparative study, figure by figure.
    Snapshots(snapshots::Options),
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
    /// `tarn lab run throughput`, with `--json`
    Throughput,
    /// `tarn lab run memory`, with `--json`
    Memory,
    /// `tarn lab run recovery`, with `--json`
    Recovery,
    /// `tarn lab run durability`, with `--json`
    Durability,
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
    fn draw<E: Experiment>(own: &ReportOptions) -> Result<()> {
        let results = results_of::<E>();
        let json = own.json.clone().unwrap_or_else(|| results.clone());
        let out = own.out.clone().unwrap_or_else(|| results.with_extension("html"));
        contract::draw::<E>(&json, &out, Wanted { quick: own.quick, full: own.full })
    }
    match own.experiment {
        Drawn::Snapshots => draw::<snapshots::Snapshots>(own),
        Drawn::Store => draw::<store::Store>(own),
        Drawn::Vtc => draw::<vtc::Vtc>(own),
        Drawn::Persistence => draw::<persistence::Persistence>(own),
        Drawn::Vls => draw::<vls::Vls>(own),
        Drawn::Throughput => draw::<throughput::Throughput>(own),
        Drawn::Memory => draw::<memory::RecordMemory>(own),
        Drawn::Recovery => draw::<recovery::Recovery>(own),
        Drawn::Durability => draw::<durability::Durability>(own),
    }
}

/// Where the results of an experiment are kept unless said otherwise.
fn results_of<E: Experiment>() -> PathBuf {
    PathBuf::from(format!("lab-results/{}.jsonl", E::NAME))
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
    fn add<E: Experiment>(table: &mut Table) {
        table.add_row([E::NAME, E::QUESTION]);
    }
    let mut table = table(&["experiment", "question"]);
    add::<throughput::Throughput>(&mut table);
    add::<durability::Durability>(&mut table);
    add::<memory::RecordMemory>(&mut table);
    add::<recovery::Recovery>(&mut table);
    add::<store::Store>(&mut table);
    add::<vtc::Vtc>(&mut table);
    add::<persistence::Persistence>(&mut table);
    add::<vls::Vls>(&mut table);
    add::<snapshots::Snapshots>(&mut table);
    // A reader that closes the pipe early has what it wanted.
    let _ = writeln!(std::io::stdout(), "{table}");
}

fn run_experiment(experiment: Named) -> Result<Conclusion> {
    match experiment {
        Named::Throughput(Asked { options, own }) => {
            start(options, |setting| Ok(throughput::Throughput::new(setting, own)))
        }
        Named::Durability(Asked { options, own }) => {
            start(options, |setting| Ok(durability::Durability::new(setting, own)))
        }
        Named::Memory(Asked { options, .. }) => {
            start(options, |setting| Ok(memory::RecordMemory::new(setting)))
        }
        Named::Recovery(Asked { options, own }) => {
            start(options, |setting| Ok(recovery::Recovery::new(setting, own)))
        }
        Named::Store(Asked { options, own }) => start(options, |setting| Ok(store::Store::new(setting, own))),
        Named::Vtc(Asked { options, own }) => start(options, |setting| Ok(vtc::Vtc::new(setting, own))),
        Named::Persistence(Asked { options, own }) => {
            start(options, |setting| Ok(persistence::Persistence::new(setting, own)))
        }
        Named::Vls(Asked { options, own }) => start(options, |setting| Ok(vls::Vls::new(setting, own))),
        Named::Snapshots(own) => {
            let (seed, strict, path) = (own.seed, own.strict, own.json.clone());
            let wanted = Wanted { quick: own.quick, full: own.full };
            conduct(&mut snapshots::Snapshots::new(own)?, Some(&path), wanted, seed, strict)
        }
    }
}

/// Runs an experiment against servers. One with a report continues its file of results.
fn start<E: Experiment>(
    mut options: Options,
    experiment: impl FnOnce(Setting) -> Result<E>,
) -> Result<Conclusion> {
    if E::CONTINUES {
        options.json.get_or_insert_with(results_of::<E>);
        if options.server_cores.is_empty() {
            // The thread that takes the checkpoint must find a core, even while the worker has one.
            options.server_cores = process::cores_allowed();
        }
    }
    let setting = Setting::new(options)?;
    let servers: Vec<_> = setting.servers.iter().map(|(product, _)| product.name()).collect();
    eprintln!(
        "{}: {}; server on cores {:?}, load on {:?}; data in {} ({}); scale {}{}; seed {}",
        E::NAME,
        servers.join(", "),
        setting.server_cores,
        setting.load_cores,
        setting.dir.display(),
        setting.file_system,
        setting.options.scale,
        if setting.options.quick { ", quick" } else { "" },
        setting.seed
    );
    let (seed, strict, path) = (setting.seed, setting.options.strict, setting.options.json.clone());
    let wanted = Wanted { quick: setting.options.quick, full: false };
    conduct(&mut experiment(setting)?, path.as_deref(), wanted, seed, strict)
}

fn conduct<E: Experiment>(
    experiment: &mut E,
    path: Option<&Path>,
    wanted: Wanted,
    seed: u64,
    strict: bool,
) -> Result<Conclusion> {
    if let Some(parent) = path.and_then(Path::parent) {
        std::fs::create_dir_all(parent).doing(|| parent.display().to_string())?;
    }
    let mut report = Report::new(E::NAME, seed, path)?;
    let broken = contract::run(experiment, path, wanted, &mut report)?;
    if let Some(path) = path {
        eprintln!("drawn by: tarn lab report {} --json {}", E::NAME, path.display());
    }
    Ok(Conclusion { goals_missed: report.finish()?, broken, strict })
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
