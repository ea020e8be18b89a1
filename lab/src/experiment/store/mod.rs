//! Question: what does a checkpoint of the store cost its clients meanwhile?
//!
//! Variables: the variant (Tarn in each mode of its checkpoints, the published store, redis-server), the
//! pace, the size of the store, the share of updates, giant collections. Expected: latency, throughput and
//! memory of Tarn hardly show whether a checkpoint is being taken, at any size; those of servers that fork
//! do, the more the larger the store is.
//!
//! ```text
//!   plan: cells ─► trial: a server with its data ─► measure: a load with checkpoints
//!           rows ─► figures/store.toml: targets, page ◄── results: a line of JSON each ◄──┘
//! ```

mod cell;
mod measure;
mod plan;
mod requests;
mod rows;
mod trial;

use self::cell::{Cell, Data, Figures, Kind, Part, Variant, Who};
use self::trial::Filled;
use super::contract::{Cell as _, Experiment, LineOf, Measured, ResultsOf, SPARE_BYTES, Wanted};
use crate::dialect::Dialect;
use crate::error::{LabError, Result};
use crate::interrupt;
use crate::numbers;
use crate::page::{Facts, Row};
use crate::process;
use crate::report::{LeftOut, Report};
use crate::server::Persistence;
use crate::setting::{Setting, is_asked};

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
    /// The paper's sizes, 1 to 16 million records, its 4 million requests in the part `figures`, and 50,000
    /// lists; by default a quarter of 1 to 8 million and of the lists, and requests for some time.
    #[arg(long, conflicts_with = "quick")]
    pub full: bool,
    /// End the part `figures` after so many requests; with `--seconds` too, at what comes first. A checkpoint
    /// that has begun ends in any case.
    #[arg(long, value_name = "REQUESTS", value_parser = clap::value_parser!(u64).range(1..))]
    pub operations: Option<u64>,
    /// These sizes instead, in millions of records. With --quick only the least and the largest of them,
    /// a hundredth each.
    #[arg(long, value_name = "MILLIONS", value_delimiter = ',', value_parser = numbers::millions)]
    pub sizes: Vec<f64>,
    /// Measure stores with these only: records, or which giants.
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    pub kinds: Vec<Kind>,
}

/// The experiment.
pub struct Store {
    setting: Setting,
    own: Options,
    /// The servers that run, the one that was used last at the end.
    trials: Vec<Filled>,
    /// Variants and peers that are not there.
    missing: Vec<LeftOut<Cell>>,
}

impl Store {
    /// Prepares it.
    pub fn new(setting: Setting, own: Options) -> Store {
        Store { setting, own, trials: Vec::new(), missing: Vec::new() }
    }

    /// The variants that are asked for and there, and the peers.
    fn variants(&mut self) -> Result<Vec<Who>> {
        let Store { setting, own, missing, .. } = self;
        let mut is_missing = |what: &str, why: String, failed| {
            missing.push(LeftOut { cell: None, what: what.to_owned(), why, failed });
        };
        let is_there = |variant: &Variant| match variant.algorithm() {
            // It needs no server; but who names servers and no variants wants those only.
            Some(_) => setting.options.servers.is_empty() || own.variants.contains(variant),
            None => setting.has(variant.product()),
        };
        let is_there = |variant: &Variant| is_asked(&own.variants, variant) && is_there(variant);
        let mut variants = Vec::new();
        for variant in Variant::ALL.into_iter().filter(is_there) {
            match trial::refusal(setting, variant)? {
                None => variants.push((variant, None)),
                Some(words) => is_missing(variant.name(), format!("not available here: {words}"), false),
            }
        }
        for own in setting.peers() {
            let (plan, _dir) = setting.plan_of(own, Persistence::None)?;
            match plan.start() {
                Ok(_) => variants.push((Variant::RedisServer, own.peer)),
                Err(_) if interrupt::asked() => return Err(LabError::Interrupted),
                Err(error) => is_missing(&own.name, format!("it does not start: {error}"), true),
            }
        }
        Ok(variants)
    }
}

impl Experiment for Store {
    const NAME: &'static str = "store";
    const QUESTION: &'static str = "What does a checkpoint of the store cost those who use it meanwhile? \
        (parts: saturated, latency, figures, overwrite, time, giants)";
    const FIGURES: &'static str = include_str!("../../../figures/store.toml");
    const SERIES: &'static str =
        "part,variant,pace,data,count,update_percent,ms,requests,latency_us_max,late_us_max";
    const HAS_PEERS: bool = true;
    type Cell = Cell;
    type Figures = Figures;

    fn plan(&mut self) -> Result<Vec<Cell>> {
        let variants = self.variants()?;
        let Store { setting, own, .. } = self;
        let parts = Part::ALL.into_iter().filter(|part| is_asked(&own.only, part)).collect::<Vec<_>>();
        let sizes = plan::sizes(setting, own);
        let all = sizes.iter().copied().chain(plan::giants(setting, own));
        let all = all.filter(|data| is_asked(&own.kinds, &data.kind));
        let figure_15 = plan::figure_15(setting, &sizes);
        let cells =
            all.flat_map(|data| plan::cells(setting, data, figure_15 == Some(data), &variants, &parts));
        let peer = |cell: &Cell| setting.peers().find(|own| own.peer == cell.peer);
        Ok(cells.filter(|cell| peer(cell).is_none_or(|own| can(cell, own.dialect))).collect())
    }

    /// Where the servers of some data do not fit into memory together, one variant comes after the other, so
    /// that no server is filled twice.
    fn prepare(&mut self, todo: &mut Vec<Cell>, report: &mut Report) -> Result<()> {
        self.missing.drain(..).try_for_each(|own| report.leave_out(&own))?;
        for cells in todo.chunk_by_mut(|a, b| a.data == b.data) {
            if !fit_together(cells)? {
                cells.sort_by_key(Cell::who);
            }
        }
        Ok(())
    }

    /// Ends servers that were used long ago, until there is room. That of the cell comes to the end.
    fn make_room(&mut self, cell: &Cell) -> Result<u64> {
        self.trials.retain(|trial| trial.data == cell.data);
        let own = self.trials.iter().position(|trial| trial.who == cell.who());
        let own = own.map(|place| self.trials.remove(place));
        let base = if own.is_some() { cell.filled_bytes() } else { 0 };
        let need = cell.need_bytes().saturating_sub(base);
        while process::available_bytes()? < need + SPARE_BYTES && !self.trials.is_empty() {
            self.trials.remove(0);
        }
        self.trials.extend(own);
        Ok(need)
    }

    fn measure(&mut self, cell: &Cell, _: &mut Report) -> Result<Option<Measured<Figures>>> {
        if self.trials.last().is_none_or(|trial| trial.who != cell.who()) {
            self.trials.push(Filled::start(&self.setting, cell.who(), cell.data)?);
        }
        let own = self.trials.last_mut().expect("it was started");
        match measure::measure(&self.setting, &self.own, own, cell) {
            Ok(figures) => {
                let (server, version) = (cell.name().to_owned(), own.trial.version.clone());
                Ok(Some(Measured { server, version, figures }))
            }
            Err(error) => {
                let reason = own.trial.reason(error);
                self.trials.pop();
                Err(reason)
            }
        }
    }

    fn series(cell: &Cell, figures: &Figures) -> Vec<String> {
        let Cell { part, pace, data: Data { kind, count }, update_percent, .. } = cell;
        let (part, variant, pace) = (part.name(), cell.name(), pace.name());
        let kind = kind.name();
        let cell = format!("{part},{variant},{pace},{kind},{count},{update_percent}");
        let row = |(ms, requests, latency, late): &(u32, u32, f32, f32)| {
            format!("{cell},{ms},{requests},{latency:.1},{late:.1}")
        };
        figures.course.timeline.iter().map(row).collect()
    }

    fn rows(results: &ResultsOf<Self>, wanted: Wanted) -> Vec<Row> {
        rows::of(results, wanted.quick)
    }

    fn facts(_: &ResultsOf<Self>, lines: &[&LineOf<Self>], _: Wanted) -> Facts {
        rows::facts(lines)
    }
}

/// True if a peer can hold the data of a cell, and what it has in memory is no cache.
fn can(cell: &Cell, own: Dialect) -> bool {
    let is_known = own.has_lists() || cell.data.kind != Kind::Lists;
    let is_held = own.value_bytes_max().is_none_or(|most| cell.data.largest_bytes() <= most);
    is_known && is_held && (cell.part != Part::Overwrite || own.is_in_memory())
}

/// True if the servers of all cells fit into memory at the same time, while one of them takes a checkpoint.
fn fit_together(cells: &[Cell]) -> Result<bool> {
    let mut variants: Vec<Who> = cells.iter().map(Cell::who).collect();
    variants.sort();
    variants.dedup();
    let base = cells.iter().map(Cell::filled_bytes).max().unwrap_or_default();
    let most = cells.iter().map(Cell::need_bytes).max().unwrap_or_default();
    let need = base * variants.len().saturating_sub(1) as u64 + most + SPARE_BYTES;
    Ok(need <= process::available_bytes()?)
}

#[cfg(test)]
mod tests;
