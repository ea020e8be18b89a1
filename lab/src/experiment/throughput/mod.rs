//! Question: how many requests a second does one worker on one core answer, and what does the log cost?
//!
//! Variables: server (ours, redis-server), request, pipeline, data type, persistence, number of workers.
//! Expected: ahead of redis-server everywhere, further with longer pipelines, where the kernel's share per
//! request shrinks; `everysec` costs little; `always` costs latency, but concurrent flushes and group commit
//! keep the rate, and readers do not pay for writers.

mod always;
mod contest;
mod strings;
mod structures;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::contract::{Cell, Experiment, Measured};
use crate::device::FlushRates;
use crate::error::Result;
use crate::page::{self, Row};
use crate::report::Report;
use crate::server::Product;
use crate::setting::{Setting, is_asked};

/// The parts of the experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
pub enum Part {
    /// GET and SET of 64 bytes without a log, at pipeline 1, 16 and 64.
    Plain,
    /// Hashes and sorted sets without a log, at pipeline 16.
    Structures,
    /// A log flushed every second, against none.
    Everysec,
    /// Replies only for durable writes: writers alone, then readers beside writers.
    Always,
    /// Two workers against one.
    Workers,
}

impl std::fmt::Display for Part {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self:?}")
    }
}

impl Cell for Part {}

/// The experiment's own options.
#[derive(Debug, Clone, Default, clap::Args)]
#[group(skip)]
pub struct Options {
    /// Run these parts only.
    #[arg(long, value_name = "PART", value_delimiter = ',')]
    pub only: Vec<Part>,
}

/// The experiment.
pub struct Throughput {
    pub(crate) setting: Setting,
    pub(crate) own: Options,
}

impl Experiment for Throughput {
    const NAME: &'static str = "throughput";
    const QUESTION: &'static str = "How many requests a second does one worker answer, and what does the log \
        cost? (parts: plain, structures, everysec, always, workers)";
    const FIGURES: &'static str = include_str!("../../../figures/throughput.toml");
    const CONTINUES: bool = false;
    type Cell = Part;
    type Figures = ();

    fn plan(&mut self) -> Result<Vec<Part>> {
        let ours = self.setting.has(Product::Tarn);
        let mut parts = Part::value_variants().to_vec();
        parts.retain(|part| is_asked(&self.own.only, part) && (ours || *part != Part::Workers));
        Ok(parts)
    }

    fn measure(&mut self, part: &Part, report: &mut Report) -> Result<Option<Measured<()>>> {
        match part {
            Part::Plain => strings::plain(&self.setting, report)?,
            Part::Structures => structures::run(&self.setting, report)?,
            Part::Everysec => strings::everysec(&self.setting, report)?,
            Part::Always => always::run(&self.setting, report)?,
            Part::Workers => strings::workers(&self.setting, report)?,
        }
        Ok(None)
    }

    fn rows_of_lines(lines: &[Value]) -> Vec<Row> {
        let mut rows: Vec<Row> = page::merged(lines).into_iter().flat_map(rows_of_groups).collect();
        // Readers in an open loop, beside writers and without them.
        let p99: Vec<_> =
            rows.iter().map(|row| (row["case"].clone(), row["own"]["latency_us_p99"].clone())).collect();
        for row in rows.iter_mut().filter(|row| row["first"] == true) {
            let alone = row["whole"]
                .as_str()
                .and_then(|whole| whole.split_once(" due, ").map(|(due, _)| format!("{due} due")));
            let found = alone.and_then(|alone| p99.iter().find(|(case, _)| *case == *alone));
            row.insert("p99_without".to_owned(), found.map_or(Value::Null, |(_, p99)| p99.clone()));
        }
        rows
    }
}

/// A row for each group of connections.
fn rows_of_groups(row: Row) -> Vec<Row> {
    let groups = row.get("groups").and_then(Value::as_object).cloned().unwrap_or_default();
    let text = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
    let (whole, key, is_one) = (text("case"), text("server").replace(' ', "-"), groups.len() == 1);
    let part = whole.split_once(": ").map_or("without a log", |(part, _)| part).to_owned();
    let flushes = &row["parameters"]["device_flushes_per_s"];
    let overlap = FlushRates::deserialize(flushes).is_ok_and(|flushes| flushes.overlap_helps());
    let of = |(place, (name, own)): (usize, (String, Value))| {
        let case = if is_one { whole.clone() } else { format!("{whole}: {name}") };
        let more = json!({
            "part": part, "own": own, "case": case, "whole": whole, "key": key, "first": place == 0,
            "flushes_overlap": overlap,
        });
        page::with(row.clone(), more)
    };
    groups.into_iter().enumerate().map(of).collect()
}
