//! Question: does a request cost one build of Tarn more processor time than another?
//!
//! Variables: build (A, B: an executable, or a revision, which is built first), family of commands, pipeline.
//! The requests are those of the part `families` of the throughput experiment, among them the GET and SET of
//! its part `plain`. Expected: a ratio near 1, where a change was not meant to cost anything.

mod build;

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use super::contract::{Experiment, page_of_lines};
use super::throughput::{Family, Throughput, families};
use crate::error::{IoContext, LabError, Result};
use crate::numbers;
use crate::page::{self, List, Rows};
use crate::report::Report;
use crate::results::{Line, Results};
use crate::server::{Persistence, Product, Subject};
use crate::setting::{self, Setting};
use build::Build;

/// The name in lines, and on the command line.
pub const NAME: &str = "compare";
/// The names of the builds in tables and lines.
const LABELS: [&str; 2] = ["A", "B"];

/// The options of a comparison.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub struct Options {
    /// The build to compare with: an executable of tarn, or a git revision of the repository here.
    #[arg(value_name = "A")]
    a: String,
    /// The build that is judged.
    #[arg(value_name = "B")]
    b: String,
    /// End with exit code 2 if B costs more than this many times the processor time of A in a case.
    #[arg(long, value_name = "RATIO", default_value_t = 1.1, value_parser = numbers::limit)]
    limit: f64,
    /// Measure these families of commands only.
    #[arg(long, value_name = "FAMILY", value_delimiter = ',')]
    families: Vec<Family>,
}

/// Compares. Lines go to a file, to `results` unless the options name another one, and the page beside it.
/// Returns in how many cases the limit was exceeded.
pub(crate) fn run(options: setting::Options, own: &Options, results: &Path) -> Result<usize> {
    let setting::Options { servers, tarn, redis_server, peers, .. } = &options;
    if !servers.is_empty() || tarn.is_some() || redis_server.is_some() || !peers.is_empty() {
        let why = "compare has no --servers, --tarn, --redis-server and --peer: its servers are A and B";
        return Err(LabError::Arguments(why.to_owned()));
    }
    let here = std::env::current_dir().doing(|| "find the current directory".to_owned())?;
    let cache = build::cache();
    // Both are found before one is built: that takes minutes.
    let builds = [build::find(&own.a, &here, &cache)?, build::find(&own.b, &here, &cache)?];
    builds.iter().try_for_each(|build| build.make(&cache))?;
    let path = options.json.clone().unwrap_or_else(|| results.to_owned());
    let (written, missed) = measure(options, own, &builds, &path)?;
    let html = page_of(&written, own.limit, &path)?;
    page::write(&path.with_extension("html"), &html)?;
    Ok(missed)
}

/// Measures both builds by turns. Returns the lines, and in how many cases the limit was exceeded.
fn measure(
    options: setting::Options,
    own: &Options,
    builds: &[Build; 2],
    path: &Path,
) -> Result<(Vec<Value>, usize)> {
    let servers = std::iter::zip(LABELS, builds).map(|(label, build)| Subject {
        name: label.to_owned(),
        ..Subject::new(Product::Tarn, &build.binary)
    });
    let setting = Setting::of(servers.collect(), options)?;
    for (label, build) in std::iter::zip(LABELS, builds) {
        tell!("{label}: {}", build.words);
    }
    setting.announce(NAME);
    let mut report = Report::new(NAME, setting.seed, &setting.dir, Some(path))?;
    // None of them is a peer.
    let mut contenders = setting.contenders(&mut report, &[], Persistence::None)?;
    for (contender, build) in std::iter::zip(&mut contenders, builds) {
        contender.version = format!("{}, {}", contender.version, build.words);
    }
    families::run(&setting, &mut report, &own.families, &[], &contenders)?;
    let written = report.written().to_vec();
    let (list, rows) = rows_and_list(&written, own.limit);
    page::print(&list, &rows);
    page::judge(&list, &rows).into_iter().for_each(|goal| report.goal(goal));
    Ok((written, report.finish()?))
}

/// The list of figures with the limit, and the rows of a run.
fn rows_and_list(written: &[Value], limit: f64) -> (List, Rows) {
    let mut list = List::parse(include_str!("../../../figures/compare.toml"));
    list.targets.iter_mut().for_each(|target| target.at_most = Some(limit));
    let rows = list.rows(Throughput::rows_of_lines(written));
    (list, rows)
}

/// The page of this run: the file may have lines of others.
fn page_of(written: &[Value], limit: f64, path: &Path) -> Result<String> {
    let lines: serde_json::Result<Vec<Line<Value, Value>>> = written.iter().map(Line::deserialize).collect();
    let lines = lines.map_err(LabError::refused)?;
    let versions = LABELS.map(|label| {
        let own = written.iter().find(|line| line["server"] == label);
        format!("{label}: {}", own.and_then(|line| line["version"].as_str()).unwrap_or("not measured"))
    });
    let results =
        Results { path: PathBuf::from(path), lines, notes: versions.to_vec(), left_out: Vec::new() };
    let (list, rows) = rows_and_list(written, limit);
    Ok(page_of_lines(NAME, &list, &rows, &results))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    fn lines(server: &str, busy: &[f64]) -> Vec<Value> {
        let line = |busy: &f64| {
            let own = json!({
                "requests": 9, "requests_per_s": 1e6, "latency_us_p99": 1.0,
            });
            json!({
                "experiment": NAME, "case": "families: INCR pipeline 16", "server": server,
                "version": format!("0.1.0, build of {server}"), "repeat": 1,
                "parameters": { "request": "INCR", "pipeline": 16 },
                "figures": {
                    "server_busy": busy, "requests_per_s": 1e6, "others_busy": 0.1,
                    "groups": { "clients": own },
                },
                "seed": 1, "commit": "0123456789ab", "unix_ms": 951_782_400_000_u64,
                "machine": { "processor": "one", "cores": 2, "memory_bytes": 4e9, "system": "Linux" },
            })
        };
        busy.iter().map(line).collect()
    }

    #[test]
    fn a_ratio_is_the_median_of_the_turns_and_is_held_against_the_limit() {
        let written = [lines("A", &[0.2, 0.5, 0.4]), lines("B", &[0.3, 0.6, 0.2])].concat();
        let judged = |limit: f64| {
            let (list, rows) = rows_and_list(&written, limit);
            assert_eq!(page::faults(&list, &rows), [""; 0]);
            page::judge(&list, &rows)
        };
        let [goal] = &judged(1.1)[..] else { panic!("there is one case") };
        assert!((goal.figure - 1.2).abs() < 1e-9 && !goal.is_met(), "{goal:?}");
        assert!(judged(1.3)[0].is_met());
        let page = page_of(&written, 1.1, Path::new("some.jsonl")).unwrap();
        for text in ["1.20 (0.50 to 1.50)", "A: 0.1.0, build of A", "B: 0.1.0, build of B"] {
            assert!(page.contains(text), "{text}");
        }
    }

    #[test]
    fn a_case_too_short_for_the_clock_is_not_judged() {
        let written = [lines("A", &[0.0]), lines("B", &[0.1])].concat();
        let (list, rows) = rows_and_list(&written, 1.1);
        assert!(page::judge(&list, &rows).is_empty());
    }
}
