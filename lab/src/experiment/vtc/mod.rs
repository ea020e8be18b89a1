//! Question: what does a log cost that is its own checkpoint, beside snapshots and beside a log that is
//! rewritten?
//!
//! Variables: the variant (Tarn with a log that is compacted by validity, Tarn with snapshots, redis-server
//! with RDB files and with an append-only file; without checkpoints: Tarn without a log, and with one that
//! only grows), records, the share of updates, the limit of memory. Expected: a log costs little throughput.
//! Compacting it takes hardly any memory and does not slow clients down, while a server that forks pays with
//! memory that grows with the share of updates, and swaps where there is little. A start from the log is as
//! fast as from a snapshot.
//!
//! ```text
//!   plan: cells ─► trial: a server with its records ─► measure: a load with checkpoints
//!             rows ─► figures/vtc.toml: targets, page ◄── results: a line of JSON each ◄──┘
//! ```

mod cell;
mod measure;
mod plan;
mod positions;
mod trial;

use std::path::PathBuf;

use serde_json::json;

use self::cell::{Cell, Figures, Part, Variant};
use super::contract::{Experiment, LineOf, Measured, ResultsOf, Wanted, leave_out, row, scale_fact};
use crate::checkpoint::stretch_rows;
use crate::error::{LabError, Result};
use crate::numbers;
use crate::page::{Facts, Row, with};
use crate::report::Report;
use crate::setting::Setting;
use crate::shortage::{self, Means, Shortage};

/// Records of the thesis's largest store.
const RECORDS_MOST: f64 = 12e6;

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
    #[arg(long, value_name = "MILLIONS", value_delimiter = ',', value_parser = numbers::millions)]
    pub sizes: Vec<f64>,
    /// Put the log's files there, once for each device. By default three directories below that of the data.
    #[arg(long = "log-dir", value_name = "DIR")]
    pub log_dirs: Vec<PathBuf>,
    /// How memory is made short.
    #[command(flatten)]
    pub short: shortage::Options,
}

/// The experiment.
pub struct Vtc {
    pub(crate) setting: Setting,
    pub(crate) own: Options,
}

impl Experiment for Vtc {
    const NAME: &'static str = "vtc";
    const QUESTION: &'static str = "What does a log cost that is its own checkpoint, beside snapshots and a \
        log that is rewritten? (parts: checkpoints, short, alone, latency, files, writes, \
        positions)";
    const FIGURES: &'static str = include_str!("../../../figures/vtc.toml");
    const SERIES: &'static str = "part,variant,records,update_percent,access,ms,what,value,ratio";
    const HAS_PEERS: bool = true;
    type Cell = Cell;
    type Figures = Figures;

    fn plan(&mut self) -> Result<Vec<Cell>> {
        let Vtc { setting, own } = self;
        if own.short.short_by == Some(Means::Maxmemory) {
            return Err(LabError::refused("vtc has no --short-by maxmemory: it bounds no child process"));
        }
        Ok(plan::cells(setting, own, &plan::variants(setting, own)))
    }

    fn prepare(&mut self, todo: &mut Vec<Cell>, report: &mut Report) -> Result<()> {
        let refused =
            todo.iter().find_map(|cell| cell.shortage).and_then(|own| own.by.refusal(&self.setting.dir));
        if let Some(why) = refused {
            leave_out(todo, |cell| cell.shortage.is_some(), &why, report)?;
        }
        Ok(())
    }

    fn measure(&mut self, cell: &Cell, _: &mut Report) -> Result<Option<Measured<Figures>>> {
        if cell.part == Part::Positions {
            let positions = positions::measure(&self.setting, &self.own.log_dirs, cell)?;
            let figures = Figures { positions, ..Figures::default() };
            return Ok(Some(Measured::here(cell.variant.name(), figures)));
        }
        let measured = self.measure_server(cell).map(Some);
        // A limit may have failed, and others may not.
        if cell.shortage.is_some() { measured.map_err(LabError::of_cell) } else { measured }
    }

    fn series(cell: &Cell, figures: &Figures) -> Vec<String> {
        let ratio = cell.shortage.map_or(String::new(), |own| own.ratio().to_string());
        let Cell { part, records, update_percent, access, .. } = cell;
        let (part, variant, access) = (part.name(), cell.name(), access.name());
        let cell = format!("{part},{variant},{records},{update_percent},{access}");
        let course = &figures.course;
        let requests = course.timeline.iter().flat_map(|(ms, requests, latency, _)| {
            [format!("{cell},{ms},requests,{requests}"), format!("{cell},{ms},latency_us_max,{latency:.1}")]
        });
        // Memory and the log's length have the times of their own readings.
        let memory =
            course.peak.timeline.iter().map(|(ms, bytes)| format!("{cell},{ms},resident_bytes,{bytes}"));
        let log = figures.writes.log.iter().flat_map(|(ms, all, needed)| {
            [format!("{cell},{ms},log_bytes,{all}"), format!("{cell},{ms},log_needed_bytes,{needed}")]
        });
        requests.chain(memory).chain(log).map(|row| format!("{row},{ratio}")).collect()
    }

    fn rows_of(cell: &Cell, figures: &Figures) -> Vec<Row> {
        let extra =
            figures.extra_bytes().map(|(before, during)| json!({ "before": before, "during": during }));
        let more = json!({
            "extra": extra, "rate_by_time": figures.requests_by_time(), "dip": figures.dip(),
            "longest_log": figures.longest_log(), "variant": cell.name(),
            "ratio": cell.shortage.map(Shortage::ratio), "short_by": cell.shortage.map(|own| own.by.name()),
            "raw_bytes": cell.value_bytes(), "cut_off": figures.is_cut_off(),
        });
        let row = with(row(cell, figures), more);
        let course = &figures.course;
        let stretches = [
            ("outside", &course.without_all, &course.without[..], &course.without_slow),
            ("during", &course.during_all, &course.during[..], &course.during_slow),
        ];
        let stretches = if cell.part == Part::Latency { stretch_rows(&row, &stretches) } else { Vec::new() };
        std::iter::once(row).chain(stretches).collect()
    }

    fn facts(_: &ResultsOf<Self>, lines: &[&LineOf<Self>], _: Wanted) -> Facts {
        let scale = scale_fact(lines.iter().map(|line| line.cell.records), "thesis's", RECORDS_MOST);
        let is_preferred = lines.iter().any(|line| line.figures.course.generator_preferred);
        let turn = if is_preferred { "comes before all others" } else { "takes its turn with others" };
        let generator = format!("one thread on the last core; it {turn} there");
        let mut bytes: Vec<u64> = lines.iter().map(|line| line.figures.log_file_bytes).collect();
        bytes.retain(|bytes| *bytes > 0);
        bytes.sort_unstable();
        let mib = |bytes: Option<&u64>| bytes.map_or(0.0, |bytes| *bytes as f64 / f64::from(1 << 20));
        let files = format!("{:.2} to {:.2} MiB", mib(bytes.first()), mib(bytes.last()));
        let short = shortage::words_of(lines.iter().filter_map(|line| line.cell.shortage));
        let short = if short.is_empty() { "not measured".to_owned() } else { short.join("; ") };
        vec![scale, ("generator", generator), ("size of log files", files), ("short memory", short)]
    }
}

impl Vtc {
    fn measure_server(&self, cell: &Cell) -> Result<Measured<Figures>> {
        let mut trial = trial::start(&self.setting, &self.own, cell)?;
        let measured = trial::fill(&self.setting, &trial, cell)
            .and_then(|()| measure::measure(&self.setting, self.own.full, &mut trial, cell));
        let figures = match measured {
            Ok(figures) => figures,
            Err(error) if cell.shortage.is_none() => return Err(trial.reason(error)),
            // Where memory is short, the kernel may end a server; that is the measurement.
            Err(error) => Figures { ended: Some(trial.out_of_memory(error)?), ..Figures::default() },
        };
        let limit_bytes = cell.shortage.map(|own| own.limit_bytes(cell.value_bytes()));
        let figures = Figures { limit_bytes, kills: trial.kills(), ..figures };
        Ok(Measured { server: cell.name(), version: trial.version, figures })
    }
}

#[cfg(test)]
mod tests {
    //! Tests the report with results that it must leave out.
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::checkpoint::{Course, Peak, Taken};
    use crate::experiment::contract;
    use crate::load::KeyChoice;
    use crate::ycsb::Requests;

    #[test]
    fn a_measurement_that_ended_has_no_figures_and_decides_nothing() {
        let shortage = Some(Shortage { percent: 200, by: Means::SwapFile });
        let (ycsb, access) = (Requests::WholeRecords, KeyChoice::Zipfian);
        let cell = Cell {
            part: Part::Short,
            variant: Variant::RedisRdb,
            peer: None,
            records: 1000,
            update_percent: 50,
            access,
            shortage,
            ycsb,
            quick: false,
        };
        let (dir, wanted) = (tempfile::tempdir().unwrap(), Wanted::default());
        let json = dir.path().join("vtc.jsonl");
        let statement = |figures: &Figures| {
            let line = json!({
                "experiment": Vtc::NAME, "parameters": cell, "figures": figures, "commit": "0123456789ab",
                "machine": {}, "seed": 1, "unix_ms": 1,
            });
            std::fs::write(&json, line.to_string()).unwrap();
            let claims = contract::claims::<Vtc>(&json).unwrap();
            let of = "memory copied by a checkpoint, by the raw data, RDB";
            claims.lines().find(|line| line.contains(of)).unwrap().to_owned()
        };
        let ended = Figures { ended: Some("the kernel ended it".to_owned()), kills: 1, ..Figures::default() };
        let says = statement(&ended);
        let why = "redis-rdb, ended: the kernel ended it";
        assert!(says.contains("cannot be judged here") && says.contains(why), "{says}");
        let rows = Vtc::rows(&ResultsOf::<Vtc>::read(&json, Vtc::NAME).unwrap(), wanted);
        assert!(!rows[0].contains_key("course") && rows[0]["cut_off"].is_null());
        // One that went on is judged.
        let taken = vec![Taken { seconds: 1.0, ..Taken::default() }];
        let peak = Peak { most: Some(0), ..Peak::default() };
        let course = Course { taken, peak, ..Course::default() };
        let says = statement(&Figures { course, ..Figures::default() });
        assert!(says.contains("does not hold"), "{says}");
    }
}
