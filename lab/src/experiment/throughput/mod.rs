//! Question: how many requests a second does one worker on one core answer, and what does the log cost?
//!
//! Variables: server (ours, redis-server, other peers), request, pipeline, data type, persistence, number of
//! workers. Expected: ahead of redis-server everywhere, further with longer pipelines, where the kernel's
//! share per request shrinks; `everysec` costs little; `always` costs latency, but concurrent flushes and
//! group commit keep the rate, and readers do not pay for writers. Where the generator is the limit, the
//! processor time of a request tells servers apart.

mod always;
mod channels;
mod contest;
pub(super) mod families;
mod strings;
mod structures;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::contract::{Cell, Experiment, Measured};
use crate::device::FlushRates;
use crate::error::Result;
use crate::page::{self, Row};
use crate::report::{Report, median};
use crate::server::{Persistence, Product};
use crate::setting::{Setting, is_asked};

pub use families::Family;

/// The parts of the experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
pub enum Part {
    /// GET and SET of 64 bytes without a log, at pipeline 1, 16 and 64.
    Plain,
    /// Hashes and sorted sets without a log, at pipeline 16.
    Structures,
    /// Each family of commands without a log, at pipeline 1, 16 and 64.
    Families,
    /// Messages to 1, 100 and 1,000 clients, at pipeline 1 and 16.
    Channels,
    /// A log flushed every second, against none.
    Everysec,
    /// Replies only for durable writes: writers alone, at pipeline 1 and 16, then readers beside writers.
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
    /// In the part `families`, measure these only.
    #[arg(long, value_name = "FAMILY", value_delimiter = ',')]
    pub families: Vec<Family>,
}

/// The experiment.
pub struct Throughput {
    pub(crate) setting: Setting,
    pub(crate) own: Options,
}

impl Experiment for Throughput {
    const NAME: &'static str = "throughput";
    const QUESTION: &'static str = "How many requests a second does one worker answer, and what does the log \
        cost? (parts: plain, structures, families, channels, everysec, always, workers)";
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
            Part::Families => {
                let (setting, asked) = (&self.setting, &self.own.families);
                let cases = families::all_words(setting, asked);
                let contenders = setting.contenders(report, &cases, Persistence::None)?;
                families::run(setting, report, asked, &[], &contenders)?;
            }
            Part::Channels => channels::run(&self.setting, report)?,
            Part::Everysec => strings::everysec(&self.setting, report)?,
            Part::Always => always::run(&self.setting, report)?,
            Part::Workers => strings::workers(&self.setting, report)?,
        }
        Ok(None)
    }

    fn rows_of_lines(lines: &[Value]) -> Vec<Row> {
        let mut rows: Vec<Row> = page::merged(lines).into_iter().flat_map(rows_of_groups).collect();
        find_best_peers(&mut rows);
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
    let numbers = |name: &str| {
        let all = row.get(name).and_then(Value::as_array).into_iter().flatten();
        all.map(|number| number.as_f64().unwrap_or(f64::NAN)).collect::<Vec<_>>()
    };
    // The processor time of the server for a request, of all groups, in each repeat.
    let server_us: Vec<f64> = std::iter::zip(numbers("server_busy"), numbers("requests_per_s"))
        .map(|(busy, rate)| busy * 1e6 / rate)
        .collect();
    let aim = row.get("family").and_then(|own| Family::deserialize(own).ok()).map(Family::aim);
    let overlap = FlushRates::deserialize(flushes).is_ok_and(|flushes| flushes.overlap_helps());
    let of = |(place, (name, own)): (usize, (String, Value))| {
        let case = if is_one { whole.clone() } else { format!("{whole}: {name}") };
        let more = json!({
            "part": part, "own": own, "case": case, "whole": whole, "key": key, "first": place == 0,
            "flushes_overlap": overlap, "server_us": server_us, "aim": aim,
        });
        page::with(row.clone(), more)
    };
    groups.into_iter().enumerate().map(of).collect()
}

/// Finds for each row of ours the peer that used the least processor time for a request of the same case,
/// with the same persistence: its name and its µs, the median of its repeats.
fn find_best_peers(rows: &mut [Row]) {
    let name_and_mode = |row: &Row| {
        let server = row["server"].as_str().unwrap_or_default();
        let (name, mode) = server.split_once(' ').unwrap_or((server, ""));
        (name.to_owned(), mode.to_owned())
    };
    let is_tarn = |name: &str| name == Product::Tarn.name();
    let of = |row: &Row| {
        let (name, mode) = name_and_mode(row);
        let all = row["server_us"].as_array().into_iter().flatten().filter_map(Value::as_f64);
        (name, [row["case"].clone(), row["parameters"].clone(), mode.into()], median(all))
    };
    let peers: Vec<_> = rows.iter().map(of).filter(|(name, _, us)| !is_tarn(name) && *us > 0.0).collect();
    for row in rows {
        let (name, same, _) = of(row);
        let rivals = peers.iter().filter(|(_, own, _)| is_tarn(&name) && *own == same);
        let best = rivals.min_by(|a, b| a.2.total_cmp(&b.2));
        row.insert("best_peer".to_owned(), json!(best.map(|(name, ..)| name)));
        row.insert("best_peer_us".to_owned(), json!(best.map(|(.., us)| us)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(server: &str, keys: u64, busy: &[f64]) -> Vec<Value> {
        let of = |busy: &f64| {
            json!({
                "case": "everysec: SET", "server": server, "parameters": { "keys": keys },
                "figures": {
                    "server_busy": busy, "requests_per_s": 1e6, "groups": { "clients": { "requests": 9 } },
                },
            })
        };
        busy.iter().map(of).collect()
    }

    #[test]
    fn the_best_peer_is_found_in_the_same_case_with_the_same_persistence() {
        let lines = [
            line("tarn everysec", 10, &[0.3, 0.2, 0.7]),
            line("tarn none", 10, &[0.2]),
            line("redis-server everysec", 10, &[0.9, 0.4, 0.5]),
            line("redis-server none", 10, &[0.1]),
            line("other everysec", 10, &[0.6, 0.6]),
            // Elsewhere, and too short to be measured.
            line("third everysec", 99, &[0.01]),
            line("fourth everysec", 10, &[0.0]),
        ];
        let rows = Throughput::rows_of_lines(&lines.concat());
        let best: Vec<_> = rows.iter().map(|row| (&row["best_peer"], &row["best_peer_us"])).collect();
        assert_eq!(best[0], (&json!("redis-server"), &json!(0.5)));
        assert_eq!(best[1], (&json!("redis-server"), &json!(0.1)));
        assert!(best[2..].iter().all(|(name, us)| name.is_null() && us.is_null()), "{best:?}");
        assert_eq!(rows[0]["server_us"], json!([0.3, 0.2, 0.7]));
    }
}
