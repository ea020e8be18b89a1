//! Question: what do consistent queries cost, beside queries that read each record as they meet it?
//!
//! Variables: records of 240 bytes, queries at the same time, the share of the records that a query reads
//! (all, or 5 to 25 % by an index), updates (none, a rate, as many as possible), and the way in which the
//! records are read: live, through a view, by a child process, by SQL over a server; and the paper's literal
//! form with masks of 64 to 512 bits, and version chains. Expected, as in the paper on virtual lightweight
//! snapshots: a view costs a query and the updates next to nothing, and many queries keep about as much as
//! one.
//!
//! ```text
//!   plan: cells ─► store: records in the engine, in this process ─► alone, updates, remset, …
//!                  references: other stores through their clients ─┐
//!             rows ─► figures/vls.toml: targets, page ◄── results: a line of JSON each ◄──┘
//! ```

mod cell;
mod masks;
mod measure;
mod opening;
mod plan;
mod query;
mod references;
mod remset;
mod rows;
mod separate;
mod served;
mod store;
mod work;

use rand::SeedableRng;
use rand::rngs::SmallRng;

use self::cell::{Cell, Figures, Part};
use self::store::Store;
use super::contract::{Experiment, Measured, ResultsOf, Wanted};
use crate::error::Result;
use crate::numbers;
use crate::page::Row;
use crate::report::Report;
use crate::setting::{Setting, is_asked};

/// Repeats with `--full`, as in the paper.
const REPEATS_FULL: u32 = 10;

/// The experiment's own options.
#[derive(Debug, Clone, Default, clap::Args)]
#[group(skip)]
pub struct Options {
    /// Run these parts only.
    #[arg(long, value_name = "PART", value_delimiter = ',')]
    pub only: Vec<Part>,
    /// The paper's load: 10 million records as well (by default a million), its four rates, 10 repeats.
    #[arg(long, conflicts_with = "quick")]
    pub full: bool,
    /// These sizes instead, in millions of records.
    #[arg(long, value_name = "MILLIONS", value_delimiter = ',', value_parser = numbers::millions)]
    pub sizes: Vec<f64>,
    /// This many queries at the same time; by default 1, 8 and 64.
    #[arg(long, value_name = "COUNT", value_delimiter = ',', value_parser = queries)]
    pub queries: Vec<usize>,
    /// Attempted updates a second in the parts that have a rate; by default 10000 and 100000, with --full
    /// 20000 and 30000 as well.
    #[arg(long, value_name = "RATE", value_delimiter = ',', value_parser = numbers::whole_rate)]
    pub rates: Vec<u32>,
    /// Threads that update beside queries; the paper has 10. The parts remset, separate and opening have one,
    /// served has ten.
    #[arg(long, value_name = "COUNT", default_value = "1", value_parser = numbers::count)]
    pub writers: Option<usize>,
    /// Threads that run the queries, no more than there are queries; the paper has one for each: 64. The
    /// parts alone, remset and separate have one, served has one for each.
    #[arg(long, value_name = "COUNT", default_value = "1", value_parser = numbers::count)]
    pub threads: Option<usize>,
}

/// As many queries as there can be views.
fn queries(text: &str) -> std::result::Result<usize, String> {
    let most = tarn_engine::VIEWS;
    let count = text.parse().ok().filter(|count| (1..=most).contains(count));
    count.ok_or_else(|| format!("from 1 to {most}, as there are so many views"))
}

/// The experiment.
pub struct Vls {
    setting: Setting,
    own: Options,
    store: Option<Store>,
}

impl Vls {
    /// Prepares it.
    pub fn new(mut setting: Setting, own: Options) -> Vls {
        if own.full {
            setting.options.repeats.get_or_insert(REPEATS_FULL);
        }
        Vls { setting, own, store: None }
    }
}

impl Experiment for Vls {
    const NAME: &'static str = "vls";
    const QUESTION: &'static str = "What do consistent queries cost, beside those that read what they happen \
        to meet? (parts: alone, updates, latency, remset, separate, masks, versions, moves, \
        opening, served, references)";
    const FIGURES: &'static str = include_str!("../../../figures/vls.toml");
    type Cell = Cell;
    type Figures = Figures;

    fn plan(&mut self) -> Result<Vec<Cell>> {
        Ok(plan::cells(&self.setting, &self.own))
    }

    fn starts_servers(&self) -> bool {
        [Part::Served, Part::References].iter().any(|part| is_asked(&self.own.only, part))
    }

    fn lacks(&self, cell: &Cell, figures: &Figures) -> bool {
        cell.part == Part::References && references::lacks(&self.setting, &figures.references)
    }

    fn measure(&mut self, cell: &Cell, report: &mut Report) -> Result<Option<Measured<Figures>>> {
        let figures = measure(&self.setting, &mut self.store, cell, report)?;
        Ok(Some(Measured::here("tarn", figures)))
    }

    fn rows_of(cell: &Cell, figures: &Figures) -> Vec<Row> {
        rows::of(cell, figures)
    }

    fn broken(results: &ResultsOf<Self>, wanted: Wanted) -> usize {
        let of = results.of(|cell| cell.quick == wanted.quick);
        of.into_iter().filter(|(_, figures)| figures.is_broken()).count()
    }
}

/// Measures a cell, in the store of its size.
fn measure(setting: &Setting, kept: &mut Option<Store>, cell: &Cell, report: &mut Report) -> Result<Figures> {
    if matches!(cell.part, Part::Masks | Part::Versions | Part::Separate | Part::References) {
        // They have stores of their own, and need the memory.
        *kept = None;
    }
    match cell.part {
        Part::Masks | Part::Versions => return masks::measure(setting, cell),
        Part::Separate => return separate::measure(setting, cell),
        Part::References => return references::measure(setting, cell, report),
        _ => {}
    }
    if kept.as_ref().is_none_or(|store| store.records != cell.records || store.writers < cell.writers) {
        *kept = None;
        *kept = Some(Store::fill(cell.records, cell.writers, &mut SmallRng::seed_from_u64(setting.seed))?);
    }
    let store = kept.as_ref().expect("it was filled above");
    match cell.part {
        Part::Alone => measure::alone(store, setting, cell),
        Part::Remset => remset::measure(store, setting, cell),
        Part::Opening => opening::measure(store, setting, cell),
        Part::Served => served::measure(store, setting, cell),
        _ => measure::beside_updates(store, setting, cell),
    }
}

#[cfg(test)]
mod tests;
