//! The command line of `tarn-lab`: `demo`, `list`, `run EXPERIMENT`, `reproduce`, `compare`, `ratios`,
//! `report` and `choose`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Arg, Args, Parser, Subcommand, ValueEnum};

use crate::demo::{self, DemoArgs};
use crate::error::{LabError, Result};
use crate::experiment::contract::{self, Experiment, Wanted};
use crate::experiment::{
    access, compare, durability, eviction, machine, memory, persistence, ratios, recovery, stalls, store,
    throughput, vls, vtc, workers, ycsb_control,
};
use crate::interrupt;
use crate::process;
use crate::published;
use crate::report::{Report, table};
use crate::reproduce::{self, Pages, ReproduceArgs};
use crate::results::{is_same_file, unpacked};
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
    /// Serve a keyed store whose values have two copies, as the study's authors put Hourglass and Piggyback
    /// into Redis.
    #[command(hide = true)]
    PublishedStore(published::Options),
    /// Draw the results, beside what the study printed, as one file of HTML.
    Report(ReportOptions),
    /// Name the snapshot algorithm that fits a workload, from the results.
    Choose(snapshots::choose::Options),
    /// Compare two builds of Tarn by the processor time of a request. Exit code 2: the second costs more.
    #[command(mut_args(|own| hidden(own, &["servers", "tarn", "redis_server", "peers"])))]
    Compare(Box<Asked<compare::Options>>),
    /// Hold the processor time of a request, by that of redis-server, against a stored ratio. Exit code 2:
    /// one is larger.
    #[command(mut_args(|own| hidden(own, &["servers", "peers", "scale", "quick"])))]
    Ratios(Box<Asked<ratios::Options>>),
    /// Run all experiments in order, into a directory of results; a run that was stopped continues.
    Reproduce(ReproduceArgs),
    /// Run an experiment.
    Run {
        #[command(subcommand)]
        experiment: Box<Named>,
    },
}

/// An option, which the help does not offer if it is one of those that are refused.
fn hidden(own: Arg, refused: &[&str]) -> Arg {
    let is_refused = refused.contains(&own.get_id().as_str());
    own.hide(is_refused)
}

/// The options that all experiments share, and those of one.
#[derive(Debug, Args)]
struct Asked<O: Args> {
    #[command(flatten)]
    options: Options,
    #[command(flatten)]
    own: O,
}

/// The same of one that continues its file of results.
#[derive(Debug, Args)]
struct Continued<O: Args> {
    #[command(flatten)]
    asked: Asked<O>,
    /// Measure cells again that the file of results already has.
    #[arg(long)]
    again: bool,
}

/// No options.
#[derive(Debug, Args)]
struct Nothing {}

/// Defines the experiments: their options on the command line, whose results can be drawn, and how to list,
/// draw and run each.
macro_rules! experiments {
    ($($(#[doc = $doc:literal])+ $name:ident($options:ty) = $experiment:ty, $with:literal, $run:expr;)+) => {
        #[derive(Debug, Subcommand)]
        enum Named {
            $($(#[doc = $doc])+ $name($options),)+
        }

        /// The experiments that are drawn.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
        enum Drawn {
            $(#[doc = $with] $name,)+
        }

        fn report(own: &ReportOptions) -> Result<()> {
            match own.experiment {
                $(Drawn::$name => draw::<$experiment>(own),)+
            }
        }

        fn claims(name: &str, json: &Path) -> Result<String> {
            match Drawn::from_str(name, false).map_err(LabError::Arguments)? {
                $(Drawn::$name => contract::claims::<$experiment>(json),)+
            }
        }

        fn noise(name: &str, first: &Path, second: &Path) -> Result<String> {
            match Drawn::from_str(name, false).map_err(LabError::Arguments)? {
                $(Drawn::$name => contract::noise::<$experiment>(first, second),)+
            }
        }

        fn list() {
            let mut table = table(&["experiment", "question"]);
            $(table.add_row([<$experiment>::NAME, <$experiment>::QUESTION]);)+
            // A reader that closes the pipe early has what it wanted.
            let _ = writeln!(std::io::stdout(), "{table}");
        }

        fn run_experiment(experiment: Named) -> Result<Conclusion> {
            match experiment {
                $(Named::$name(asked) => $run(asked),)+
            }
        }
    };
}

experiments! {
    /// The costs of this machine: memory, locks, forks, the loopback interface, the disk.
    Machine(Continued<machine::Options>) = machine::MachineCosts, "`tarn lab run machine`",
        |own: Continued<_>| start(own.asked, own.again, machine::MachineCosts::new);
    /// Requests a second: plain, with hashes and sorted sets, with the log in its modes, with two workers.
    Throughput(Asked<throughput::Options>) = throughput::Throughput,
        "`tarn lab run throughput`, with `--json`",
        |asked| start(asked, false, |setting, own| throughput::Throughput { setting, own });
    /// Hard kills at random moments: acknowledged writes must survive.
    Durability(Asked<durability::Options>) = durability::Durability,
        "`tarn lab run durability`, with `--json`", |asked| start(asked, false, durability::Durability::new);
    /// Resident memory of records.
    Memory(Asked<Nothing>) = memory::RecordMemory, "`tarn lab run memory`, with `--json`",
        |asked| start(asked, false, |setting, _| memory::RecordMemory { setting });
    /// Time from a start until the data are back.
    Recovery(Asked<recovery::Options>) = recovery::Recovery, "`tarn lab run recovery`, with `--json`",
        |asked| start(asked, false, |setting, own| recovery::Recovery { setting, own });
    /// The cost of a checkpoint to clients of the store, beside redis-server.
    Store(Continued<store::Options>) = store::Store,
        "`tarn lab run store`", |own: Continued<_>| start(own.asked, own.again, store::Store::new);
    /// How long clients wait while the server does something large besides: files, SQL, long commands.
    Stalls(Continued<stalls::Options>) = stalls::Stalls,
        "`tarn lab run stalls`", |own: Continued<_>| start(own.asked, own.again, stalls::Stalls::new);
    /// The cost of a log that is its own checkpoint, beside snapshots and a log that is rewritten.
    Vtc(Continued<vtc::Options>) = vtc::Vtc, "`tarn lab run vtc`",
        |own: Continued<_>| start(own.asked, own.again, |setting, own| vtc::Vtc { setting, own });
    /// The cost of each model of persistence, and the time of a start from its files.
    Persistence(Continued<persistence::Options>) = persistence::Persistence, "`tarn lab run persistence`",
        |own: Continued<_>| start(own.asked, own.again, persistence::Persistence::new);
    /// The cost of consistent queries, beside queries that read each record as they meet it.
    Vls(Continued<vls::Options>) = vls::Vls, "`tarn lab run vls`",
        |own: Continued<_>| start(own.asked, own.again, vls::Vls::new);
    /// The cost of a worker of the engine to the others, in this process.
    Workers(Continued<workers::Options>) = workers::Workers, "`tarn lab run workers`",
        |own: Continued<_>| start(own.asked, own.again, |setting, own| workers::Workers { setting, own });
    /// The load of the laboratory beside the real YCSB: the same requests, at the same cost to the server.
    YcsbControl(Continued<ycsb_control::Options>) = ycsb_control::YcsbControl, "`tarn lab run ycsb-control`",
        |own: Continued<_>| {
            start(own.asked, own.again, |setting, own| ycsb_control::YcsbControl { setting, own })
        };
    /// A cache at its limit of memory, beside redis-server: hits, cost, and waits while the limit is lowered.
    Eviction(Continued<eviction::Options>) = eviction::Eviction, "`tarn lab run eviction`",
        |own: Continued<_>| start(own.asked, own.again, |setting, own| eviction::Eviction { setting, own });
    /// The cost of the rules of a user and of encryption, beside redis-server.
    Access(Continued<access::Options>) = access::AccessCosts, "`tarn lab run access`",
        |own: Continued<_>| start(own.asked, own.again, |setting, own| access::AccessCosts { setting, own });
    /// Algorithms that take snapshots of an array of rows: the comparative study, figure by figure.
    Snapshots(snapshots::Options) = snapshots::Snapshots, "`tarn lab run snapshots`", study;
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
    /// The file to write. By default one beside the file of results.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Show what was measured with `--quick`; by default the scale of the newest result.
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// Show what was measured with `--full`.
    #[arg(long)]
    full: bool,
}

fn draw<E: Experiment>(own: &ReportOptions) -> Result<()> {
    let json = own.json.clone().unwrap_or_else(|| results_of(E::NAME));
    let out = own.out.clone().unwrap_or_else(|| page_beside(&json));
    if is_same_file(&json, &out) {
        let why = format!("{} has the results themselves: choose another file with --out", out.display());
        return Err(LabError::Arguments(why));
    }
    contract::draw::<E>(&json, &out, Wanted { quick: own.quick, full: own.full })
}

/// The report beside a file of results, which may be packed.
fn page_beside(json: &Path) -> PathBuf {
    unpacked(json).with_extension("html")
}

/// Draws the newest results of a file, of the experiment with this name.
fn draw_named(name: &str, json: &Path, out: &Path) -> Result<()> {
    let experiment = Drawn::from_str(name, false).map_err(LabError::Arguments)?;
    let (json, out) = (Some(json.to_owned()), Some(out.to_owned()));
    report(&ReportOptions { experiment, json, out, quick: false, full: false })
}

/// Where the results of an experiment are kept unless said otherwise.
fn results_of(experiment: &str) -> PathBuf {
    PathBuf::from(format!("lab-results/{experiment}.jsonl"))
}

/// The conclusion of an experiment that ran to its end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Conclusion {
    /// Goals that were not met.
    pub goals_missed: usize,
    /// Campaigns and checks in which something was wrong.
    pub broken: usize,
    /// Cells of experiments that ran to their end which failed and were left out.
    pub failed: usize,
    /// True if a missed goal is a failure.
    pub strict: bool,
}

/// Runs the laboratory's command line. The exit code is 0 if the experiment ran and found nothing broken, 1
/// if it did not, 2 if a goal was missed and `--strict` asked to say so, 3 if all of `reproduce` ran but some
/// cells failed, 130 after Ctrl-C.
pub fn run(cli: LabCli) -> ExitCode {
    interrupt::listen();
    match execute(cli) {
        Ok(conclusion) if conclusion.broken > 0 => ExitCode::FAILURE,
        Ok(conclusion) if conclusion.strict && conclusion.goals_missed > 0 => ExitCode::from(2),
        Ok(conclusion) if conclusion.failed > 0 => ExitCode::from(3),
        Ok(_) => ExitCode::SUCCESS,
        Err(_) if interrupt::asked() => {
            // A terminal that closed takes no words.
            tell!("interrupted");
            ExitCode::from(interrupt::EXIT_CODE)
        }
        // As of `head`.
        Err(LabError::NoReader) => ExitCode::SUCCESS,
        Err(error) => {
            tell!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs an experiment, a report or a list; the caller decides on the exit code.
pub fn execute(cli: LabCli) -> Result<Conclusion> {
    match cli.command {
        Command::Demo(args) => demo::show(&args)?,
        Command::List => list(),
        Command::Cell { cell, place } => snapshots::measure::run(&cell, &place)?,
        Command::PublishedStore(own) => published::run(&own)?,
        Command::Report(own) => report(&own)?,
        Command::Choose(own) => snapshots::choose::run(&own)?,
        Command::Compare(asked) => {
            let Asked { options, own } = *asked;
            let goals_missed = compare::run(options, &own, &results_of(compare::NAME))?;
            return Ok(Conclusion { goals_missed, strict: true, ..Conclusion::default() });
        }
        Command::Ratios(asked) => {
            let Asked { options, own } = *asked;
            let goals_missed = ratios::run(options, &own, &results_of(ratios::NAME))?;
            return Ok(Conclusion { goals_missed, strict: true, ..Conclusion::default() });
        }
        Command::Reproduce(own) => {
            let pages = Pages { draw: &draw_named, claims: &claims, noise: &noise };
            let done = reproduce::run(&own, &pages)?;
            let (broken, failed) = (done.steps_failed, done.cells_failed);
            return Ok(Conclusion { broken, failed, ..Conclusion::default() });
        }
        Command::Run { experiment } => return run_experiment(*experiment),
    }
    Ok(Conclusion::default())
}

fn study(own: snapshots::Options) -> Result<Conclusion> {
    let (seed, strict, again, path) = (own.seed, own.strict, own.again, own.json.clone());
    let wanted = Wanted { quick: own.quick, full: own.full };
    let dir = own.dir.clone().unwrap_or_else(std::env::temp_dir);
    conduct(&mut snapshots::Snapshots::new(own)?, &dir, Some(&path), wanted, again, (seed, strict))
}

/// Runs an experiment against servers. One with a report continues its file of results.
fn start<E: Experiment, O: Args>(
    Asked { mut options, own }: Asked<O>,
    again: bool,
    experiment: impl FnOnce(Setting, O) -> E,
) -> Result<Conclusion> {
    if E::CONTINUES {
        if E::HAS_SERVERS && !E::HAS_PEERS && !options.peers.is_empty() {
            let why = format!("{} compares variants of its own: it has no --peer", E::NAME);
            return Err(LabError::Arguments(why));
        }
        options.json.get_or_insert_with(|| results_of(E::NAME));
        if options.server_cores.is_empty() {
            // The thread that takes the checkpoint must find a core, even while the worker has one.
            options.server_cores = process::cores_allowed();
        }
    }
    let setting =
        if E::HAS_SERVERS { Setting::new(options)? } else { Setting::without_servers(options, E::NAME)? };
    let (seed, strict) = (setting.seed, setting.options.strict);
    let (path, dir) = (setting.options.json.clone(), setting.dir.clone());
    let wanted = Wanted { quick: setting.options.quick, full: false };
    let mut announced = setting.clone();
    let mut experiment = experiment(setting, own);
    if !experiment.starts_servers() {
        announced.servers.clear();
    }
    announced.announce(E::NAME);
    conduct(&mut experiment, &dir, path.as_deref(), wanted, again, (seed, strict))
}

fn conduct<E: Experiment>(
    experiment: &mut E,
    dir: &Path,
    path: Option<&Path>,
    wanted: Wanted,
    again: bool,
    (seed, strict): (u64, bool),
) -> Result<Conclusion> {
    let mut report = Report::new(E::NAME, seed, dir, path)?;
    let broken = contract::run(experiment, path, wanted, again, &mut report)?;
    // A step of `reproduce` is packed and drawn there.
    if let Some(path) = path.filter(|_| std::env::var_os(reproduce::STEP).is_none()) {
        tell!("drawn by: tarn lab report {} --json {}", E::NAME, path.display());
    }
    let goals_missed = match report.finish() {
        // That something was wrong counts even if nobody reads of the goals.
        Err(LabError::NoReader) if broken > 0 => 0,
        finished => finished?,
    };
    Ok(Conclusion { goals_missed, broken, strict, ..Conclusion::default() })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn numbers_that_cannot_be_measured_are_refused_by_name() {
        for words in [
            "store --sizes 0",
            "store --operations 0",
            "vtc --sizes 0.25,-1",
            "vls --sizes NaN",
            "vls --rates 0",
            "vls --writers 0",
            "vls --queries 0",
            "stalls --sizes 1e9",
            "stalls --rate inf",
            "durability --kills 0",
            "durability --dirs 0",
            "durability --writers 0",
            "workers --workers 0",
            "ycsb-control --threads 0",
            "throughput --seconds NaN",
            "memory --repeats 0",
        ] {
            let all = ["tarn-lab", "run"].into_iter().chain(words.split(' '));
            let refused = LabCli::try_parse_from(all).expect_err(words).to_string();
            let option = words.split(' ').nth(1).unwrap_or_default();
            assert!(refused.contains(option) && refused.contains("invalid value"), "{words}: {refused}");
        }
        for scale in ["0", "-1", "NaN", "2"] {
            let cli = LabCli::try_parse_from(["tarn-lab", "run", "workers", &format!("--scale={scale}")]);
            let refused = execute(cli.expect("it is checked later")).expect_err(scale).to_string();
            assert_eq!(refused, "--scale is between 0 and 1");
        }
        for option in ["--load-core", "--server-cores"] {
            let words = ["tarn-lab", "run", "vls", "--servers", "tarn", "--tarn", "/bin/sh", option, "1023"];
            let refused = execute(LabCli::parse_from(words)).expect_err(option).to_string();
            assert!(refused.starts_with(&format!("{option} 1023: the cores here are [")), "{refused}");
        }
    }

    #[test]
    fn no_help_offers_an_option_that_is_refused() {
        for (name, refused, kept) in [
            ("compare", &["--servers", "--tarn", "--redis-server", "--peer"][..], "--scale"),
            ("ratios", &["--servers", "--peer", "--scale", "--quick"], "--redis-server"),
        ] {
            let help = LabCli::try_parse_from(["tarn-lab", name, "--help"]).expect_err("help").to_string();
            let offered =
                |option: &str| help.lines().any(|line| line.trim_start().split(' ').next() == Some(option));
            assert!(!refused.iter().any(|option| offered(option)) && offered(kept), "{help}");
        }
    }

    #[test]
    fn an_experiment_without_servers_has_no_options_about_them() {
        for words in ["--peer redis-7", "--servers tarn", "--tarn /bin/sh"] {
            let all = ["tarn-lab", "run", "workers"].into_iter().chain(words.split(' '));
            let refused = execute(LabCli::parse_from(all)).expect_err(words).to_string();
            let option = words.split(' ').next().unwrap_or_default();
            assert_eq!(refused, format!("workers measures no server: it has no {option}"));
        }
    }

    #[test]
    fn a_report_does_not_replace_its_results() {
        let dir = tempfile::tempdir().expect("there is room");
        let (json, link) = (dir.path().join("workers.html"), dir.path().join("link.html"));
        let text = include_str!("../tests/results/workers.jsonl");
        std::fs::write(&json, text).expect("there is room");
        std::os::unix::fs::symlink(&json, &link).expect("there are links");
        let words = |out: Option<&Path>| {
            let all = ["tarn-lab", "report", "workers", "--json"].map(Into::into).to_vec();
            let out = out.into_iter().flat_map(|out| ["--out".into(), out.as_os_str().to_owned()]);
            all.into_iter().chain([json.as_os_str().to_owned()]).chain(out).collect::<Vec<_>>()
        };
        for out in [None, Some(&*json), Some(&*link)] {
            let refused = execute(LabCli::parse_from(words(out))).expect_err("it is refused").to_string();
            assert!(refused.ends_with("has the results themselves: choose another file with --out"));
            assert_eq!(std::fs::read_to_string(&json).expect("it is there"), text);
        }
        execute(LabCli::parse_from(words(Some(&dir.path().join("other.html"))))).expect("it is drawn");
    }

    #[test]
    fn the_command_line_is_consistent() {
        LabCli::command().debug_assert();
        let words = ["tarn-lab", "run", "throughput", "--quick", "--only", "plain,always"];
        assert!(LabCli::try_parse_from(words).is_ok());
        assert_eq!(page_beside(Path::new("a/vls.jsonl.zst")), Path::new("a/vls.html"));
        assert_eq!(page_beside(&results_of("vls")), Path::new("lab-results/vls.html"));
        let Command::List = LabCli::parse_from(["tarn-lab", "list"]).command else { panic!("list is list") };
    }
}
