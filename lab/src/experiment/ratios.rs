//! Question: does a request cost Tarn more than it did, compared with what it costs redis-server?
//!
//! Variables: family of commands, at pipeline 16. The processor time of a request differs from machine to
//! machine and from hour to hour, its ratio to redis-server's on the same machine at the same time much less.
//! So ratios are stored in a file, for each processor and for builds with and without optimisation, and later
//! ones are held against them. Expected: ratios that stay, where a change was not meant to cost anything.
//!
//! A case is measured three times before it counts as lost, as a neighbour can spoil one or two.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::contract::Experiment;
use super::throughput::{Family, Throughput, families};
use crate::error::{IoContext, LabError, Result};
use crate::machine::Machine;
use crate::numbers;
use crate::report::{Bound, Goal, Report, median};
use crate::server::{Persistence, Product};
use crate::setting::{self, Setting};

/// The name in lines, and on the command line.
pub const NAME: &str = "ratios";
/// The families that are measured unless others are wished.
const FAMILIES: [Family; 8] = [
    Family::Get,
    Family::Set,
    Family::Hset,
    Family::Lpush,
    Family::Incr,
    Family::Sadd,
    Family::Zadd,
    Family::Multi,
];
const PIPELINE: u32 = 16;
/// Keys and records by those of the throughput experiment.
const SCALE: f64 = 0.1;
/// The length of a measurement in seconds: the system counts processor time in steps of 10 ms.
const SECONDS: f64 = 0.5;
const REPEATS: u32 = 5;
/// How often a case is measured before it counts as lost.
const ATTEMPTS: usize = 3;

/// The options.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub struct Options {
    /// The file of ratios.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Store what is measured, in the place of what is stored of it for this processor and this kind of
    /// build.
    #[arg(long)]
    store: bool,
    /// End with exit code 2 if a ratio is more than this many times the stored one.
    #[arg(long, value_name = "RATIO", default_value_t = 1.1, value_parser = numbers::limit)]
    limit: f64,
    /// Measure these families of commands only.
    #[arg(long, value_name = "FAMILY", value_delimiter = ',')]
    families: Vec<Family>,
}

/// The file of ratios.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    #[serde(default)]
    machine: Vec<OfMachine>,
}

/// The ratios of a processor, by request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct OfMachine {
    processor: String,
    build: String,
    ratios: BTreeMap<String, f64>,
}

impl Stored {
    /// Reads a file; nothing is stored in one that is not there.
    fn read(path: &Path) -> Result<Stored> {
        match fs::read_to_string(path) {
            Ok(text) => toml::from_str(&text)
                .map_err(|error| LabError::Arguments(format!("{}: {error}", path.display()))),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Stored::default()),
            Err(error) => Err(error).at(path),
        }
    }

    fn of(&self, processor: &str, build: &str) -> Option<&BTreeMap<String, f64>> {
        let is_it = |own: &&OfMachine| own.processor == processor && own.build == build;
        self.machine.iter().find(is_it).map(|own| &own.ratios)
    }

    /// Puts the ratios of a machine in the place of those that it had of the same requests.
    fn put(&mut self, new: OfMachine) {
        let is_it = |own: &&mut OfMachine| (&own.processor, &own.build) == (&new.processor, &new.build);
        match self.machine.iter_mut().find(is_it) {
            Some(own) => own.ratios.extend(new.ratios),
            None => self.machine.push(new),
        }
    }

    fn text(&self) -> String {
        let mut text =
            "# Processor time of a request, Tarn's by redis-server's: `tarn lab ratios FILE --store`.\n"
                .to_owned();
        for OfMachine { processor, build, ratios } in &self.machine {
            let _ = write!(text, "\n[[machine]]\nprocessor = {processor:?}\nbuild = {build:?}\n\n");
            text.push_str("[machine.ratios]\n");
            for (request, ratio) in ratios {
                let _ = writeln!(text, "{request:?} = {ratio:.3}");
            }
        }
        text
    }
}

/// Measures ratios, and stores them or holds them against those that are stored. Returns how many are lost.
pub(crate) fn run(mut options: setting::Options, own: &Options, results: &Path) -> Result<usize> {
    if !options.servers.is_empty() || !options.peers.is_empty() || options.scale != 1.0 || options.quick {
        let why = "ratios has no --servers, --peer, --scale and --quick: what is stored must be comparable";
        return Err(LabError::Arguments(why.to_owned()));
    }
    let mut stored = Stored::read(&own.file)?;
    let (processor, build) = (Machine::look(Path::new("/")).processor, build());
    let known = stored.of(&processor, build).cloned();
    if known.is_none() && !own.store {
        tell!("nothing is stored in {} for {processor}, {build} builds: --store", own.file.display());
        return Ok(0);
    }
    options.servers = vec![Product::Tarn, Product::RedisServer];
    options.scale = SCALE;
    options.seconds.get_or_insert(SECONDS);
    options.repeats.get_or_insert(REPEATS);
    let path = options.json.clone().unwrap_or_else(|| results.to_owned());
    let setting = Setting::new(options)?;
    setting.announce(NAME);
    let mut report = Report::new(NAME, setting.seed, &setting.dir, Some(&path))?;
    let is_lost = |request: &str, ratio: f64| match known.as_ref().and_then(|known| known.get(request)) {
        Some(known) if !own.store => ratio > known * own.limit,
        _ => own.store,
    };
    let all = measure(&setting, &mut report, &own.families, is_lost)?;
    if own.store {
        // The largest of all attempts, so that what chance alone can do is not a loss.
        let largest = |ratios: Vec<f64>| ratios.into_iter().fold(0.0, f64::max);
        let ratios = all.into_iter().map(|(request, ratios)| (request, largest(ratios))).collect();
        stored.put(OfMachine { processor, build: build.to_owned(), ratios });
        fs::write(&own.file, stored.text()).at(&own.file)?;
        show!("{}", stored.text());
        return Ok(0);
    }
    let known = known.unwrap_or_default();
    for request in all.keys().filter(|request| !known.contains_key(*request)) {
        tell!("not judged, as no ratio is stored of it: {request}");
    }
    judge(&all, &known, own.limit).into_iter().for_each(|goal| report.goal(goal));
    report.finish()
}

/// The kind of this build: servers beside it are of the same.
const fn build() -> &'static str {
    if cfg!(debug_assertions) { "debug" } else { "release" }
}

/// Measures the families, those whose ratio is lost up to three times. Returns the ratios by request.
fn measure(
    setting: &Setting,
    report: &mut Report,
    asked: &[Family],
    is_lost: impl Fn(&str, f64) -> bool,
) -> Result<BTreeMap<String, Vec<f64>>> {
    // None of them is a peer.
    let contenders = setting.contenders(report, &[], Persistence::None)?;
    let mut families = if asked.is_empty() { FAMILIES.to_vec() } else { asked.to_vec() };
    let mut all = BTreeMap::<String, Vec<f64>>::new();
    for _ in 0..ATTEMPTS {
        let before = report.written().len();
        families::run(setting, report, &families, &[PIPELINE], &contenders)?;
        families.clear();
        for (family, request, ratio) in ratios(&report.written()[before..]) {
            if is_lost(&request, ratio) {
                families.push(family);
            }
            all.entry(request).or_default().push(ratio);
        }
        if families.is_empty() {
            break;
        }
    }
    Ok(all)
}

/// The ratios in these lines, with the family and its request. A measurement so short that a server was not
/// seen to use any processor time has none.
fn ratios(lines: &[Value]) -> Vec<(Family, String, f64)> {
    let of = |row: crate::page::Row| {
        let peer = row["best_peer_us"].as_f64()?;
        let own = row["server_us"].as_array()?.iter().filter_map(Value::as_f64);
        let family = serde_json::from_value(row["family"].clone()).ok()?;
        let ratio = Some(median(own) / peer).filter(|ratio| *ratio > 0.0 && ratio.is_finite());
        Some((family, row["request"].as_str()?.to_owned(), ratio?))
    };
    Throughput::rows_of_lines(lines).into_iter().filter_map(of).collect()
}

/// The least ratio of each request that has a stored one, beside it.
fn judge(all: &BTreeMap<String, Vec<f64>>, known: &BTreeMap<String, f64>, limit: f64) -> Vec<Goal> {
    let of = |(request, ratios): (&String, &Vec<f64>)| {
        let known = *known.get(request)?;
        let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
        Some(Goal {
            what: format!("{request}, pipeline {PIPELINE}: ratio to redis-server by the stored one"),
            figure: least / known,
            unit: "x".to_owned(),
            bound: Bound::AtMost(limit),
            note: format!("{least:.3} by {known:.3}, {} attempts", ratios.len()),
            section: String::new(),
            promise: String::new(),
        })
    };
    all.iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use serde_json::json;

    fn of(processor: &str, build: &str, ratio: f64) -> OfMachine {
        let ratios = BTreeMap::from([("SET".to_owned(), ratio), ("MULTI of 5 SET".to_owned(), 2.0)]);
        OfMachine { processor: processor.to_owned(), build: build.to_owned(), ratios }
    }

    #[test]
    fn what_is_stored_is_read_again_and_replaced_by_machine() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ratios.toml");
        let mut stored = Stored::read(&path).unwrap();
        stored.put(of("a \"fast\" one", "debug", 0.5));
        stored.put(of("another", "debug", 0.6));
        let set = BTreeMap::from([("SET".to_owned(), 0.75)]);
        stored.put(OfMachine { ratios: set, ..of("a \"fast\" one", "debug", 0.0) });
        fs::write(&path, stored.text()).unwrap();
        let again = Stored::read(&path).unwrap();
        assert_eq!((&again, again.machine.len()), (&stored, 2));
        let fast = again.of("a \"fast\" one", "debug").unwrap();
        assert_eq!((fast["SET"], fast["MULTI of 5 SET"]), (0.75, 2.0), "others stay");
        assert_eq!(again.of("a \"fast\" one", "release"), None);
        fs::write(&path, "[[machine]]\nname = 1").unwrap();
        assert!(Stored::read(&path).unwrap_err().to_string().contains("ratios.toml"));
    }

    #[test]
    fn a_ratio_is_lost_only_if_all_attempts_are_above_the_limit() {
        let known = BTreeMap::from([("SET".to_owned(), 0.5), ("GET".to_owned(), 0.5)]);
        let all =
            |set: &[f64]| BTreeMap::from([("SET".to_owned(), set.to_vec()), ("INCR".to_owned(), vec![9.0])]);
        let met = |set: &[f64]| {
            let goals = judge(&all(set), &known, 1.1);
            assert_eq!(goals.len(), 1, "what is not stored is not judged");
            goals[0].is_met()
        };
        assert!(met(&[0.54]) && met(&[0.7, 0.6, 0.54]) && !met(&[0.7, 0.6, 0.56]));
    }

    #[test]
    fn ratios_are_those_of_the_medians() {
        let line = |server: &str, busy: f64| {
            json!({
                "case": "families: INCR pipeline 16", "server": server,
                "parameters": { "request": "INCR", "family": "incr", "pipeline": 16 },
                "figures": {
                    "server_busy": busy, "requests_per_s": 1e6, "groups": { "clients": { "requests": 9 } },
                },
            })
        };
        let own = [0.2, 0.9, 0.3].map(|busy| line("tarn", busy));
        let lines = [own, [0.5, 0.6, 0.7].map(|busy| line("redis-server", busy))].concat();
        assert_eq!(ratios(&lines), [(Family::Incr, "INCR".to_owned(), 0.5)]);
    }
}
