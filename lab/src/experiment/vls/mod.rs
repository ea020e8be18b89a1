//! Question: what do consistent queries cost, beside queries that read each record as they meet it?
//!
//! Variables: records of 240 bytes, queries at the same time, the share of the records that a query reads
//! (all, or 5 to 25 % by an index), updates (none, a rate, as many as possible), and the way in which the
//! records are read: live, through a view, by a child process; and the paper's literal form with masks of 64
//! and 128 bits. Expected, as in the paper on virtual lightweight snapshots: a view costs a query and the
//! updates next to nothing, and many queries keep about as much as one.
//!
//! ```text
//!   plan: cells ─► store: records in the engine, in this process ─► measure, remset, masks, opening
//!                  references: other stores through their clients ─┐
//!                                     goals, report ◄── results: a line of JSON each ◄──┘
//! ```

mod cell;
mod goals;
mod masks;
mod measure;
mod opening;
mod plan;
mod query;
mod references;
mod remset;
pub mod report;
mod store;

use std::path::Path;
use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::SmallRng;
use serde_json::json;

use self::cell::{Cell, Figures, Part, Variant};
use self::measure::Place;
use self::store::Store;
use crate::cells;
use crate::error::Result;
use crate::report::{Report, Run, number_cell, table, thousands};
use crate::results;
use crate::setting::Setting;

/// The question, for `tarn lab list`.
pub const QUESTION: &str = "What do consistent queries cost, beside those that read what they happen to \
    meet? (parts: alone, updates, latency, remset, masks, opening, references)";

/// The experiment's name in the lines.
pub const EXPERIMENT: &str = "vls";
/// Where results are kept unless said otherwise.
pub const RESULTS: &str = "lab-results/vls.jsonl";
/// A turn, in seconds.
const TURN_S: f64 = 2.0;
const TURN_QUICK_S: f64 = 0.05;

/// All that was measured.
pub type Results = results::Results<Cell, Figures>;

/// The experiment's own options.
#[derive(Debug, Clone, Default, clap::Args)]
#[group(skip)]
pub struct Options {
    /// Run these parts only.
    #[arg(long, value_name = "PART", value_delimiter = ',')]
    pub only: Vec<Part>,
    /// 10 million records as well; by default a million.
    #[arg(long, conflicts_with = "quick")]
    pub full: bool,
    /// These sizes instead, in millions of records.
    #[arg(long, value_name = "MILLIONS", value_delimiter = ',')]
    pub sizes: Vec<f64>,
    /// This many queries at the same time; by default 1, 8 and 64.
    #[arg(long, value_name = "COUNT", value_delimiter = ',', value_parser = queries)]
    pub queries: Vec<usize>,
    /// Measure cells again that the file of results already has.
    #[arg(long)]
    pub again: bool,
}

/// As many queries as there can be views.
fn queries(text: &str) -> std::result::Result<usize, String> {
    let most = tarn_engine::VIEWS;
    let count = text.parse().ok().filter(|count| (1..=most).contains(count));
    count.ok_or_else(|| format!("from 1 to {most}, as there are so many views"))
}

/// Runs the experiment. Returns in how many cells something was wrong.
pub fn run(setting: &Setting, own: &Options, path: &Path, report: &mut Report) -> Result<usize> {
    let results = Results::read(path, EXPERIMENT)?;
    let mut todo = plan::cells(setting, own);
    todo.retain(|cell| own.again || results.find(cell).is_none());
    let place = place(setting);
    let mut store = None;
    cells::go_through(
        &todo,
        |cell| seconds(&place, cell),
        |cell| {
            let figures = measure(setting, &place, &mut store, cell, report)?;
            report.run(Run {
                case: &cell.to_string(),
                server: "tarn",
                version: env!("CARGO_PKG_VERSION"),
                repeat: 1,
                parameters: json!(cell),
                figures: json!(figures),
            })
        },
    )?;
    drop(store);
    let results = Results::read(path, EXPERIMENT)?;
    let quick = setting.options.quick;
    print(&results, quick);
    goals::judge(&results, quick).into_iter().for_each(|goal| report.goal(goal));
    Ok(goals::broken(&results, quick))
}

fn place(setting: &Setting) -> Place {
    let turn = if setting.options.quick { TURN_QUICK_S } else { TURN_S };
    let seconds = setting.options.seconds.unwrap_or(turn).clamp(0.01, 86400.0);
    Place {
        writer_core: setting.server_cores[0],
        query_core: setting.load_cores[0],
        measured: Duration::from_secs_f64(seconds),
        repeats: setting.repeats(),
        seed: setting.seed,
    }
}

/// About how long a cell takes.
fn seconds(place: &Place, cell: &Cell) -> f64 {
    let turn = place.measured.as_secs_f64() * 1.2;
    let millions = cell.records as f64 / 1e6;
    match cell.part {
        Part::Alone => turn * f64::from(place.repeats),
        Part::Updates | Part::Latency => turn * 3.5 * f64::from(place.repeats),
        Part::Remset => millions * 0.2 * cell.queries as f64,
        Part::Masks => turn * 3.0 * f64::from(place.repeats) + millions * 3.0,
        Part::Opening => 2.0,
        Part::References => millions * 60.0,
    }
}

/// Measures a cell, in the store of its size.
fn measure(
    setting: &Setting,
    place: &Place,
    kept: &mut Option<Store>,
    cell: &Cell,
    report: &mut Report,
) -> Result<Figures> {
    if matches!(cell.part, Part::Masks | Part::References) {
        // They have stores of their own, and need the memory.
        *kept = None;
    }
    match cell.part {
        Part::Masks => return masks::measure(place, cell),
        Part::References => return references::measure(setting, cell, report),
        _ => {}
    }
    if kept.as_ref().is_none_or(|store| store.records != cell.records) {
        *kept = None;
        *kept = Some(Store::fill(cell.records, &mut SmallRng::seed_from_u64(place.seed))?);
    }
    let store = kept.as_ref().expect("it was filled above");
    match cell.part {
        Part::Alone => measure::alone(store, place, cell),
        Part::Remset => remset::measure(store, place, cell),
        Part::Opening => opening::measure(store, place, cell),
        _ => measure::beside_updates(store, place, cell),
    }
}

/// Prints the measurements as tables.
fn print(results: &Results, quick: bool) {
    let heads =
        ["cell", "variant", "M rows/s", "query ms", "updates/s", "p50 µs", "p95", "p99.9", "max", "kept"];
    let mut table = table(&heads);
    for (cell, figures) in results.of(|cell| cell.quick == quick) {
        for variant in figures.variants.iter().map(|own| own.variant) {
            let of = |of: &dyn Fn(&cell::Measured) -> f64| figures.of(variant, of);
            let number = |value: f64, places: usize| match value > 0.0 && value.is_finite() {
                true => number_cell(format!("{value:.places$}")),
                false => number_cell("–"),
            };
            let reads = variant != Variant::None;
            table.add_row(vec![
                cell.to_string().into(),
                variant.name().into(),
                number(of(&|own| own.rows_per_s / 1e6), 2),
                number(if reads { of(&|own| own.query_ms(cell)) } else { 0.0 }, 1),
                number_cell(thousands(of(&|own| own.updates_per_s))),
                number(of(&|own| own.latency.p50), 2),
                number(of(&|own| own.latency_p95), 2),
                number(of(&|own| own.latency.p999), 1),
                number(of(&|own| own.latency.max), 0),
                number_cell(thousands(of(&|own| own.versions as f64))),
            ]);
        }
    }
    if !table.is_empty() {
        println!("{table}");
    }
    print_references(results, quick);
}

fn print_references(results: &Results, quick: bool) {
    let mut table = table(&["cell", "store", "query", "seconds"]);
    for (cell, figures) in results.of(|cell| cell.quick == quick && cell.part == Part::References) {
        for reference in &figures.references {
            let seconds = number_cell(format!("{:.4}", reference.median_s()));
            table.add_row(vec![
                cell.to_string().into(),
                reference.what.clone().into(),
                reference.query.clone().into(),
                seconds,
            ]);
        }
    }
    if !table.is_empty() {
        println!("{table}");
    }
}
