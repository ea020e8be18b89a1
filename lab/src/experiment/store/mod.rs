//! Question: what does a checkpoint of the store cost its clients meanwhile?
//!
//! Variables: the variant (Tarn by fork, Hourglass and Piggyback, redis-server), the pace, the size of the
//! store, the share of updates, giant collections. Expected: latency, throughput and memory of Tarn hardly
//! show whether a checkpoint is being taken, at any size; those of servers that fork do, the more the larger
//! the store is.
//!
//! ```text
//!   plan: cells ─► trial: a server with its data ─► measure: a load with checkpoints
//!                                   goals, report ◄── results: a line of JSON each ◄──┘
//! ```

mod cell;
mod goals;
mod measure;
mod plan;
pub mod report;
mod requests;
mod trial;

use std::path::Path;

use indicatif::ProgressBar;
use serde_json::json;

use self::cell::{Cell, Data, Figures, Kind, Part, Variant};
use self::trial::Trial;
use crate::cells;
use crate::error::{LabError, Result};
use crate::interrupt;
use crate::process;
use crate::report::{Report, Run, number_cell, table, thousands};
use crate::results;
use crate::setting::Setting;

/// The question, for `tarn lab list`.
pub const QUESTION: &str = "What does a checkpoint of the store cost those who use it meanwhile? \
    (parts: saturated, latency, figures, overwrite, time, giants)";

/// The experiment's name in the lines.
pub const EXPERIMENT: &str = "store";
/// Where results are kept unless said otherwise.
pub const RESULTS: &str = "lab-results/store.jsonl";

/// All that was measured.
pub type Results = results::Results<Cell, Figures>;

/// Memory that is left to all others.
const SPARE_BYTES: u64 = 1 << 30;

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
    /// The paper's sizes, 1 to 8 million records and 50,000 lists; by default a quarter of them.
    #[arg(long, conflicts_with = "quick")]
    pub full: bool,
    /// These sizes instead, in millions of records.
    #[arg(long, value_name = "MILLIONS", value_delimiter = ',')]
    pub sizes: Vec<f64>,
    /// Measure stores with these only: records, or which giants.
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    pub kinds: Vec<Kind>,
    /// Measure cells again that the file of results already has.
    #[arg(long)]
    pub again: bool,
}

/// Runs the experiment.
pub fn run(setting: &Setting, own: &Options, path: &Path, report: &mut Report) -> Result<()> {
    let parts = if own.only.is_empty() { Part::ALL.to_vec() } else { own.only.clone() };
    let variants = variants(setting, own)?;
    let sizes = plan::sizes(setting, own);
    let giants = plan::giants(setting, own);
    let results = Results::read(path, EXPERIMENT)?;
    let mut todo: Vec<Vec<Cell>> = Vec::new();
    let is_asked = |data: &&Data| own.kinds.is_empty() || own.kinds.contains(&data.kind);
    for &data in sizes.iter().chain(&giants).filter(is_asked) {
        let is_largest = Some(&data) == sizes.last();
        let mut cells = plan::cells(setting, data, is_largest, &variants, &parts);
        cells.retain(|cell| own.again || results.find(cell).is_none());
        todo.push(cells);
    }
    let all = || todo.iter().flatten();
    let bar = cells::bar(all().count(), all().map(|cell| seconds(setting, cell)).sum());
    let mut lab = Lab { setting, path, report, bar, trials: Vec::new() };
    for cells in &todo {
        lab.measure(cells)?;
    }
    lab.bar.finish_and_clear();
    drop(lab);
    let results = Results::read(path, EXPERIMENT)?;
    print(&results, setting.options.quick);
    goals::judge(&results, setting.options.quick).into_iter().for_each(|goal| report.goal(goal));
    Ok(())
}

/// The variants that are asked for and there.
fn variants(setting: &Setting, own: &Options) -> Result<Vec<Variant>> {
    let asked = |variant: &Variant| own.variants.is_empty() || own.variants.contains(variant);
    let has_server =
        |variant: &Variant| setting.servers.iter().any(|(product, _)| *product == variant.product());
    let mut variants = Vec::new();
    for variant in Variant::ALL.into_iter().filter(asked).filter(has_server) {
        match trial::refusal(setting, variant)? {
            None => variants.push(variant),
            Some(words) => eprintln!("{} is not available here: {words}", variant.name()),
        }
    }
    Ok(variants)
}

fn seconds(setting: &Setting, cell: &Cell) -> u64 {
    measure::seconds(setting, cell).ceil() as u64
}

struct Lab<'l> {
    setting: &'l Setting,
    path: &'l Path,
    report: &'l mut Report,
    bar: ProgressBar,
    /// The servers that run, the one that was used last at the end.
    trials: Vec<Trial>,
}

impl Lab<'_> {
    /// Measures the cells of one kind and size of data.
    fn measure(&mut self, cells: &[Cell]) -> Result<()> {
        self.trials.clear();
        let mut cells = cells.to_vec();
        if !self.fit_together(&cells)? {
            // One variant after the other: no server is filled twice.
            cells.sort_by_key(|cell| cell.variant);
        }
        for cell in &cells {
            interrupt::check()?;
            self.bar.set_message(cell.to_string());
            if self.make_ready(cell)? {
                let trial = self.trials.last_mut().expect("it was made ready");
                match measure::measure(self.setting, trial, cell) {
                    Ok(figures) => self.tell(cell, figures)?,
                    Err(error) => self.leave_out_if_ended(cell, error)?,
                }
            }
            self.bar.inc(seconds(self.setting, cell));
        }
        self.trials.clear();
        Ok(())
    }

    /// Leaves out a cell whose server has ended by itself; others are measured all the same.
    fn leave_out_if_ended(&mut self, cell: &Cell, error: LabError) -> Result<()> {
        let Some(status) = self.trials.last_mut().and_then(|trial| trial.server.ended()) else {
            return Err(error);
        };
        self.trials.pop();
        let ended = LabError::Ended { status };
        self.bar.suspend(|| eprintln!("left out, as {ended}: {cell}"));
        Ok(())
    }

    /// True if the servers of all cells fit into memory at the same time, while one of them takes a
    /// checkpoint.
    fn fit_together(&self, cells: &[Cell]) -> Result<bool> {
        let mut variants: Vec<Variant> = cells.iter().map(|cell| cell.variant).collect();
        variants.sort();
        variants.dedup();
        let base = cells.iter().map(|cell| cell.data.need_bytes()).max().unwrap_or_default();
        let most = cells.iter().map(Cell::need_bytes).max().unwrap_or_default();
        let need = base * variants.len().saturating_sub(1) as u64 + most + SPARE_BYTES;
        Ok(need <= process::available_bytes()?)
    }

    /// Has the server of a cell at the end of `trials`, with its data. `false` if it does not fit into
    /// memory.
    fn make_ready(&mut self, cell: &Cell) -> Result<bool> {
        let own =
            self.trials.iter().position(|trial| trial.variant == cell.variant && trial.data == cell.data);
        let own = own.map(|place| self.trials.remove(place));
        let base = if own.is_some() { cell.data.need_bytes() } else { 0 };
        let need = cell.need_bytes() - base + SPARE_BYTES;
        while process::available_bytes()? < need && !self.trials.is_empty() {
            self.trials.remove(0);
        }
        let available = process::available_bytes()?;
        if available < need {
            let (need, available) = (need >> 20, available >> 20);
            self.bar.suspend(|| {
                eprintln!("left out, as it needs {need} MB of memory and {available} are available: {cell}");
            });
            self.trials.extend(own);
            return Ok(false);
        }
        let trial = match own {
            Some(trial) => trial,
            None => Trial::start(self.setting, cell.variant, cell.data)?,
        };
        self.trials.push(trial);
        Ok(true)
    }

    /// Writes the line of a cell, and its time series.
    fn tell(&mut self, cell: &Cell, figures: Figures) -> Result<()> {
        let trial = self.trials.last().expect("it was measured");
        write_series(&self.path.with_extension("csv"), cell, &figures)?;
        self.report.run(Run {
            case: &cell.to_string(),
            server: cell.variant.name(),
            version: &trial.version,
            repeat: 1,
            parameters: json!(cell),
            figures: json!(figures),
        })
    }
}

/// Appends a cell's time series to the table of all.
fn write_series(path: &Path, cell: &Cell, figures: &Figures) -> Result<()> {
    let heads = "part,variant,pace,data,count,update_percent,ms,requests,latency_us_max,late_us_max";
    let Cell { part, variant, pace, data: Data { kind, count }, update_percent, .. } = cell;
    let (part, variant, pace) = (part.name(), variant.name(), pace.name());
    let kind = json!(kind);
    let kind = kind.as_str().unwrap_or_default();
    let cell = format!("{part},{variant},{pace},{kind},{count},{update_percent}");
    let row = |(ms, requests, latency, late): &(u32, u32, f32, f32)| {
        format!("{cell},{ms},{requests},{latency:.1},{late:.1}")
    };
    cells::append_series(path, heads, figures.timeline.iter().map(row))
}

/// Prints latency and throughput as a table.
fn print(results: &Results, quick: bool) {
    let heads =
        ["cell", "requests/s", "during", "p99.9 µs", "during", "max ms", "during", "late ms", "checkpoint s"];
    let mut table = table(&heads);
    for line in results.lines.iter().filter(|line| line.cell.quick == quick && line.cell.part != Part::Time) {
        let Figures { without_all: before, during_all: during, taken, .. } = &line.figures;
        let took: f64 = taken.iter().map(|taken| taken.seconds).sum::<f64>() / taken.len().max(1) as f64;
        table.add_row(vec![
            line.cell.to_string().into(),
            number_cell(thousands(before.rate)),
            number_cell(thousands(during.rate)),
            number_cell(thousands(before.p999_us)),
            number_cell(thousands(during.p999_us)),
            number_cell(format!("{:.2}", before.max_us / 1e3)),
            number_cell(format!("{:.2}", during.max_us / 1e3)),
            number_cell(format!("{:.2}", during.late_max_us / 1e3)),
            number_cell(format!("{took:.2}")),
        ]);
    }
    if !table.is_empty() {
        println!("{table}");
    }
}

/// True if a cell is one of records.
fn is_records(cell: &Cell) -> bool {
    cell.data.kind == Kind::Records
}
