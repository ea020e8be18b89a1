//! Question: what does each model of persistence cost while data comes in, and how long does a start take
//! from its files?
//!
//! Variables: the model (nothing, snapshots by rules, a log that is flushed when the system likes, each
//! second, before each reply), the server (Tarn, redis-server), client threads, records, memory (ample, or
//! less than the raw data). Expected: a log that is flushed before each reply is slowest and steady with one
//! thread, and gains most from more of them; the others differ little. Where memory is short, the kernel ends
//! a server without swap. A start of redis-server keeps one core busy, Tarn's all of them.
//!
//! ```text
//!   plan: cells ─► trial: a server as a model says ─► measure: a load, or a start, under watch
//!                                goals, report ◄── results: a line of JSON each ◄──┘
//! ```

mod cell;
mod goals;
mod measure;
mod plan;
pub mod report;
mod trial;

use std::path::Path;

use serde_json::json;

use self::cell::{Cell, Figures, Memory, Model, Part};
use self::measure::Times;
use self::trial::Trial;
use crate::cells;
use crate::error::{LabError, Result};
use crate::limit::MemoryLimit;
use crate::report::{Report, Run, number_cell, table, thousands};
use crate::resources::Usage;
use crate::results;
use crate::setting::Setting;

/// The question, for `tarn lab list`.
pub const QUESTION: &str = "What does each model of persistence cost, and how long does a start take from \
    what it left? (parts: load, recovery)";

/// The experiment's name in the lines.
pub const EXPERIMENT: &str = "persistence";
/// Where results are kept unless said otherwise.
pub const RESULTS: &str = "lab-results/persistence.jsonl";

/// All that was measured.
pub type Results = results::Results<Cell, Figures>;

/// The limit of a control group that is made to see whether it can be.
const PROBE_BYTES: u64 = 64 << 20;

/// The experiment's own options.
#[derive(Debug, Clone, Default, clap::Args)]
#[group(skip)]
pub struct Options {
    /// Run these parts only.
    #[arg(long, value_name = "PART", value_delimiter = ',')]
    pub only: Vec<Part>,
    /// Measure these models only.
    #[arg(long, value_name = "MODEL", value_delimiter = ',')]
    pub models: Vec<Model>,
    /// Measure with this much memory only.
    #[arg(long, value_name = "MEMORY", value_delimiter = ',')]
    pub memory: Vec<Memory>,
    /// The study's sizes, 1, 4 and 8 GB, and readings each second; by default a twenty-fifth of them, read
    /// four times a second, and records are loaded for ten seconds at most.
    #[arg(long, conflicts_with = "quick")]
    pub full: bool,
    /// Measure cells again that the file of results already has.
    #[arg(long)]
    pub again: bool,
}

/// Runs the experiment.
pub fn run(setting: &Setting, own: &Options, path: &Path, report: &mut Report) -> Result<()> {
    let times = Times::of(setting, own.full);
    let results = Results::read(path, EXPERIMENT)?;
    let mut todo = plan::cells(setting, own);
    todo.retain(|cell| own.again || results.find(cell).is_none());
    let is_short = |cell: &Cell| cell.memory == Memory::Short;
    if let (true, Err(why)) = (todo.iter().any(is_short), MemoryLimit::make(PROBE_BYTES)) {
        eprintln!("memory cannot be made short here: {why}");
        report.note(&why)?;
        todo.retain(|cell| !is_short(cell));
    }
    cells::go_through(
        &todo,
        |cell| measure::seconds(&times, cell),
        |cell| {
            let mut trial = Trial::start(setting, cell, limit(cell)?)?;
            let figures = measure::measure(setting, &times, &mut trial)?;
            write_series(&path.with_extension("csv"), cell, &figures)?;
            report.run(Run {
                case: &cell.to_string(),
                server: cell.product().name(),
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

/// The limit of memory of a cell.
fn limit(cell: &Cell) -> Result<Option<MemoryLimit>> {
    let make = |bytes| MemoryLimit::make(bytes).map_err(LabError::Arguments);
    cell.limit_bytes().map(make).transpose()
}

/// Appends a cell's time series to the table of all.
fn write_series(path: &Path, cell: &Cell, figures: &Figures) -> Result<()> {
    let heads = "part,server,model,shortens,threads,records,memory,s,requests_per_s,user,system,iowait,\
        stolen,process_user,process_system,process_iowait,machine_used,machine_swapped,machine_faults_per_s,\
        resident,swapped,faults_per_s,written,cores_busy";
    let Cell { part, model, shortens, threads, records, memory, .. } = cell;
    let (part, server, model, memory) = (part.name(), cell.product().name(), model.name(), memory.name());
    let cell = format!("{part},{server},{model},{shortens},{threads},{records},{memory}");
    let rows = figures.usage.iter().map(|usage| {
        let at = usage.ms as f32 / 1e3;
        // Both are read as often; the interval that ends nearest.
        let distance = |point: &&(f32, f32)| (point.0 - at).abs();
        let nearest = figures.throughput.iter().min_by(|a, b| distance(a).total_cmp(&distance(b)));
        let rate = nearest.map_or(0.0, |point| point.1);
        let (machine, process) = (&usage.machine, &usage.process);
        let shares = [machine.user, machine.system, machine.iowait, machine.stolen]
            .into_iter()
            .chain([process.user, process.system, process.iowait])
            .map(|share| format!("{share:.1},"));
        let shares: String = shares.collect();
        let cores = usage.cores.iter().map(|core| format!("{:.0}", core.user + core.system));
        let cores = cores.collect::<Vec<_>>().join(" ");
        let Usage {
            machine_used, machine_swapped, machine_faults, resident, swapped, faults, written, ..
        } = usage;
        format!(
            "{cell},{at:.2},{rate:.0},{shares}{machine_used},{machine_swapped},{machine_faults:.1},\
             {resident},{swapped},{faults:.1},{written},{cores}"
        )
    });
    cells::append_series(path, heads, rows)
}

/// Prints the measurements as a table.
fn print(results: &Results, quick: bool) {
    let mut loads = table(&["load", "loaded", "requests/s", "p99.9 ms", "updates and reads/s", "ended"]);
    let mut starts = table(&["start", "seconds", "MB of files", "cores busy", "ended"]);
    for (cell, figures) in results.of(|cell| cell.quick == quick) {
        let name = cell.to_string();
        let name = name.split_once(": ").map_or(&*name, |(_, rest)| rest);
        let ended = figures.ended.as_deref().unwrap_or_default();
        match cell.part {
            Part::Load => loads.add_row(vec![
                name.into(),
                number_cell(format!("{:.0} %", figures.loaded as f64 / cell.records as f64 * 100.0)),
                number_cell(thousands(figures.load.rate)),
                number_cell(format!("{:.2}", figures.load.p999_us / 1e3)),
                number_cell(thousands(figures.updates.rate)),
                ended.into(),
            ]),
            Part::Recovery => starts.add_row(vec![
                name.into(),
                number_cell(figures.started_s.map_or("–".to_owned(), |seconds| format!("{seconds:.2}"))),
                number_cell(format!("{:.1}", figures.last_file_bytes as f64 / 1e6)),
                number_cell(format!("{:.2}", figures.cores_busy)),
                ended.into(),
            ]),
        };
    }
    for table in [loads, starts].into_iter().filter(|table| !table.is_empty()) {
        println!("{table}");
    }
}
