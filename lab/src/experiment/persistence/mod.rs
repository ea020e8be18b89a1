//! Question: what does each model of persistence cost while data comes in, and how long does a start take
//! from its files?
//!
//! Variables: the model (nothing, snapshots by rules, a log that is flushed when the system likes, each
//! second, before each reply), the server (Tarn, redis-server), client threads, records, memory (ample, or
//! less than the raw data), the page cache, flushes of a file while it is written. Expected: a log that is
//! flushed before each reply is slowest and steady with one thread, and gains most from more of them; the
//! others differ little. Where memory is short, a server swaps, or the kernel ends it. A compressed file
//! saves what repeats, and costs a start processor time. A start of redis-server keeps one core busy, Tarn's
//! all of them. A file that is flushed while it is written takes longer.
//!
//! ```text
//!   plan: cells ─► trial: a server as a model says ─► measure: a load, or a start, under watch
//!   rows ─► figures/persistence.toml: targets, page ◄── results: a line of JSON each ◄──┘
//! ```

mod cell;
mod measure;
mod plan;
mod rows;
mod trial;

use self::cell::{Cell, Figures, Memory, Model, Part};
use self::measure::Times;
use super::contract::{Experiment, LineOf, Measured, ResultsOf, Wanted, leave_out};
use crate::error::{LabError, Result};
use crate::machine;
use crate::page::{Facts, Row};
use crate::report::Report;
use crate::resources::{Shares, Usage};
use crate::setting::Setting;
use crate::shortage::{self, Shortage};

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
    /// How memory is made short.
    #[command(flatten)]
    pub short: shortage::Options,
    /// The study's sizes, 1, 4 and 8 GB, and readings each second; by default a twenty-fifth of them, read
    /// five times a second, and records are loaded for ten seconds at most.
    #[arg(long, conflicts_with = "quick")]
    pub full: bool,
}

/// The experiment.
pub struct Persistence {
    setting: Setting,
    own: Options,
    times: Times,
}

impl Persistence {
    /// Prepares it.
    pub fn new(setting: Setting, own: Options) -> Persistence {
        Persistence { times: Times::of(&setting, own.full), setting, own }
    }
}

impl Experiment for Persistence {
    const NAME: &'static str = "persistence";
    const QUESTION: &'static str = "What does each model of persistence cost, and how long does a start take \
        from what it left? (parts: load, recovery, compression, inserts, cold, fsync)";
    const FIGURES: &'static str = include_str!("../../../figures/persistence.toml");
    const SERIES: &'static str = "part,server,model,shortens,threads,records,memory,s,requests_per_s,user,\
        system,iowait,stolen,process_user,process_system,process_iowait,machine_used,machine_swapped,\
        machine_faults_per_s,resident,swapped,faults_per_s,written,cores_busy,\
        ratio,short_by,compressed,values,cores_iowait";
    const HAS_PEERS: bool = true;
    type Cell = Cell;
    type Figures = Figures;

    fn plan(&mut self) -> Result<Vec<Cell>> {
        Ok(plan::cells(&self.setting, &self.own))
    }

    fn prepare(&mut self, todo: &mut Vec<Cell>, report: &mut Report) -> Result<()> {
        let refused = todo.iter().find_map(Cell::limit).and_then(|own| own.by.refusal(&self.setting.dir));
        if let Some(why) = refused {
            leave_out(todo, |cell| cell.limit().is_some(), &why, report)?;
        }
        if let Some(why) = machine::no_disk(&self.setting.file_system) {
            leave_out(todo, |cell| cell.part == Part::Cold, &why, report)?;
        }
        Ok(())
    }

    fn measure(&mut self, cell: &Cell, _: &mut Report) -> Result<Option<Measured<Figures>>> {
        let measured = self.measure_server(cell).map(Some);
        // A limit may have failed, and others may not.
        if cell.limit().is_some() { measured.map_err(LabError::of_cell) } else { measured }
    }

    fn series(cell: &Cell, figures: &Figures) -> Vec<String> {
        let Cell { part, model, shortens, threads, records, memory, .. } = cell;
        let (part, server, model, memory) = (part.name(), cell.server(), model.name(), memory.name());
        let limit = cell.limit();
        let (ratio, by) = limit.map_or(<_>::default(), |own| (own.ratio().to_string(), own.by.name()));
        let last = format!("{ratio},{by},{},{}", cell.compressed(), cell.values.name());
        let cell = format!("{part},{server},{model},{shortens},{threads},{records},{memory}");
        let rows = figures.usage.iter().map(|usage| {
            let at = usage.ms as f32 / 1e3;
            // Both are read as often; the interval that ends nearest.
            let distance = |point: &&(f32, f32)| (point.0 - at).abs();
            let nearest = figures.throughput.iter().min_by(|a, b| distance(a).total_cmp(&distance(b)));
            let rate = nearest.map_or(0.0, |point| point.1);
            let Usage { machine, process, machine_used, machine_swapped, machine_faults, .. } = usage;
            let Usage { resident, swapped, faults, written, .. } = usage;
            let all = [machine.user, machine.system, machine.iowait, machine.stolen];
            let own = [process.user, process.system, process.iowait];
            let shares: String = all.iter().chain(&own).map(|share| format!("{share:.1},")).collect();
            let by_core = |of: fn(&Shares) -> f32| {
                let all = usage.cores.iter().map(|core| format!("{:.0}", of(core)));
                all.collect::<Vec<_>>().join(" ")
            };
            let (cores, waiting) = (by_core(|core| core.user + core.system), by_core(|core| core.iowait));
            format!(
                "{cell},{at:.2},{rate:.0},{shares}{machine_used},{machine_swapped},{machine_faults:.1},\
                 {resident},{swapped},{faults:.1},{written},{cores},{last},{waiting}"
            )
        });
        rows.collect()
    }

    fn rows(results: &ResultsOf<Self>, wanted: Wanted) -> Vec<Row> {
        rows::of(results, wanted.quick)
    }

    fn facts(results: &ResultsOf<Self>, lines: &[&LineOf<Self>], _: Wanted) -> Facts {
        rows::facts(results, lines)
    }
}

impl Persistence {
    fn measure_server(&self, cell: &Cell) -> Result<Measured<Figures>> {
        let make = |limit: Shortage| limit.make(cell.raw_bytes(), &self.setting.dir);
        let limit = cell.limit().map(make).transpose()?.flatten();
        let mut trial = trial::start(&self.setting, cell, limit)?;
        let figures = measure::measure(&self.setting, &self.times, &mut trial, cell)?;
        Ok(Measured { server: cell.server().to_owned(), version: trial.version, figures })
    }
}

#[cfg(test)]
mod tests;
