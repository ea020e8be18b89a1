//! Question: what does a log cost that is its own checkpoint, beside snapshots and beside a log that is
//! rewritten?
//!
//! Variables: the variant (Tarn with a log that is compacted by validity, Tarn with snapshots, redis-server
//! with RDB files and with an append-only file; without checkpoints: Tarn without a log, and with one that
//! only grows), records, the share of updates. Expected: a log costs little throughput. Compacting it takes
//! hardly any memory and does not slow clients down, while a server that forks pays with memory that grows
//! with the share of updates. A start from the log is as fast as from a snapshot.
//!
//! ```text
//!   plan: cells ─► trial: a server with its records ─► measure: a load with checkpoints
//!                                     goals, report ◄── results: a line of JSON each ◄──┘
//! ```

mod cell;
mod goals;
mod measure;
mod plan;
pub mod report;
mod trial;

use std::path::{Path, PathBuf};

use serde_json::json;

use self::cell::{Cell, Figures, Part, Variant};
use self::trial::Trial;
use crate::cells;
use crate::error::{LabError, Result};
use crate::interrupt;
use crate::report::{Report, Run, number_cell, table, thousands};
use crate::results;
use crate::setting::Setting;

/// The question, for `tarn lab list`.
pub const QUESTION: &str = "What does a log cost that is its own checkpoint, beside snapshots and a log \
    that is rewritten? (parts: checkpoints, alone, latency, files, writes)";

/// The experiment's name in the lines.
pub const EXPERIMENT: &str = "vtc";
/// Where results are kept unless said otherwise.
pub const RESULTS: &str = "lab-results/vtc.jsonl";

/// All that was measured.
pub type Results = results::Results<Cell, Figures>;

/// The experiment's own options.
#[derive(Debug, Clone, Default, clap::Args)]
#[group(skip)]
pub struct Options {
    /// Run these parts only.
    #[arg(long, value_name = "PART", value_delimiter = ',')]
    pub only: Vec<Part>,
    /// Measure these variants only.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub variants: Vec<Variant>,
    /// The thesis's sizes, 2 to 12 million records, and 60 s before files are measured; by default three of
    /// them, a fiftieth each.
    #[arg(long, conflicts_with = "quick")]
    pub full: bool,
    /// These sizes instead, in millions of records.
    #[arg(long, value_name = "MILLIONS", value_delimiter = ',')]
    pub sizes: Vec<f64>,
    /// Put the log's files there, once for each device. By default three directories below that of the data.
    #[arg(long = "log-dir", value_name = "DIR")]
    pub log_dirs: Vec<PathBuf>,
    /// Measure cells again that the file of results already has.
    #[arg(long)]
    pub again: bool,
}

/// Runs the experiment.
pub fn run(setting: &Setting, own: &Options, path: &Path, report: &mut Report) -> Result<()> {
    let asked = |variant: &Variant| own.variants.is_empty() || own.variants.contains(variant);
    let is_there =
        |variant: &Variant| setting.servers.iter().any(|(product, _)| *product == variant.traits().product);
    let variants: Vec<_> = Variant::ALL.into_iter().filter(asked).filter(is_there).collect();
    let results = Results::read(path, EXPERIMENT)?;
    let mut todo = plan::cells(setting, own, &variants);
    todo.retain(|cell| own.again || results.find(cell).is_none());
    cells::go_through(
        &todo,
        |cell| measure::seconds(setting, own.full, cell),
        |cell| {
            let mut trial = Trial::start(setting, own, cell)?;
            let figures = match measure::measure(setting, own.full, &mut trial, cell) {
                Ok(figures) => figures,
                Err(error) => {
                    // Ctrl-C ends the server too.
                    interrupt::check()?;
                    return Err(ended(&mut trial).unwrap_or(error));
                }
            };
            write_series(&path.with_extension("csv"), cell, &figures)?;
            report.run(Run {
                case: &cell.to_string(),
                server: cell.variant.name(),
                version: &trial.version,
                repeat: 1,
                parameters: json!(cell),
                figures: json!(figures),
            })
        },
    )?;
    let results = Results::read(path, EXPERIMENT)?;
    print(&results, setting.options.quick);
    goals::judge(&results, setting.options.quick).into_iter().for_each(|goal| report.goal(goal));
    Ok(())
}

/// The error of a server that ended by itself.
fn ended(trial: &mut Trial) -> Option<LabError> {
    trial.server.ended().map(|status| LabError::Ended { status })
}

/// Appends a cell's time series to the table of all: memory and the log's length at the times of the
/// readings.
fn write_series(path: &Path, cell: &Cell, figures: &Figures) -> Result<()> {
    let heads = "part,variant,records,update_percent,access,ms,what,value";
    let Cell { part, variant, records, update_percent, access, .. } = cell;
    let (part, variant, access) = (part.name(), variant.name(), access.name());
    let cell = format!("{part},{variant},{records},{update_percent},{access}");
    let course = &figures.course;
    let requests = course.timeline.iter().flat_map(|(ms, requests, latency, _)| {
        [format!("{cell},{ms},requests,{requests}"), format!("{cell},{ms},latency_us_max,{latency:.1}")]
    });
    let memory = course.peak.timeline.iter().map(|(ms, bytes)| format!("{cell},{ms},resident_bytes,{bytes}"));
    let log = figures.writes.log.iter().flat_map(|(ms, all, needed)| {
        [format!("{cell},{ms},log_bytes,{all}"), format!("{cell},{ms},log_needed_bytes,{needed}")]
    });
    cells::append_series(path, heads, requests.chain(memory).chain(log))
}

/// Prints the measurements as a table.
fn print(results: &Results, quick: bool) {
    let heads = ["cell", "requests/s", "during", "p99.9 ms", "during", "checkpoint s", "added memory"];
    let mut table = table(&heads);
    let percent =
        |share: f64| if share.is_nan() { "–".to_owned() } else { format!("{:.1} %", share * 100.0) };
    let is_shown = |cell: &Cell| {
        cell.quick == quick && matches!(cell.part, Part::Checkpoints | Part::Alone | Part::Latency)
    };
    for (cell, figures) in results.of(is_shown) {
        let (without, during) = (&figures.course.without_all, &figures.course.during_all);
        table.add_row(vec![
            cell.to_string().into(),
            number_cell(thousands(without.rate)),
            number_cell(thousands(during.rate)),
            number_cell(format!("{:.2}", without.p999_us / 1e3)),
            number_cell(format!("{:.2}", during.p999_us / 1e3)),
            number_cell(format!("{:.2}", figures.checkpoint_s())),
            number_cell(percent(figures.extra_share())),
        ]);
    }
    if !table.is_empty() {
        println!("{table}");
    }
}
