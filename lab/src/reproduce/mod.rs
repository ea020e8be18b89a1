//! `tarn-lab reproduce`: every experiment in order, into one directory of results that can be committed.
//!
//! ```text
//!   for each step:  tarn-lab run NAME … ─► NAME.jsonl ─► NAME.jsonl.zst, NAME.csv, NAME.html
//!                                  ▲           │                              ▲
//!   stopped? the next run continues here ◄─────┘        --draw begins here ───┘
//! ```
//!
//! A step runs in a process of its own. `manifest.json` has the scale, the seed, the machine, and of each
//! step that is done its command, its times, and everything that it left out.

mod begun;
mod steps;

use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use chrono::{DateTime, SecondsFormat};
use indicatif::HumanDuration;
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use self::steps::Scale;
use self::steps::{STEPS, Step, WITH_PEERS};
use crate::comma_separated::write_rows;
use crate::error::{IoContext, LabError, Result};
use crate::experiment::path_beside;
use crate::interrupt;
use crate::machine::Machine;
use crate::page::{cells, write_whole};
use crate::report::{COMMIT, LeftOut, by_kind, lock, table};
use crate::results::{self, Results};

/// The head of the page of statements.
const CLAIMS: &str = "\
# What holds, and what does not

Each statement of the five papers that the laboratory knows, each number that they publish, and each target
of Tarn, held against one run: it holds, it does not, or it cannot be judged here, with the reason. A target
that judges a promise of Tarn's pages names it. `tarn lab reproduce DIRECTORY --draw --claims FILE` writes
this page from the results in a directory; [README.md](README.md) says how these are made.
";
/// The head of the page of the differences between two runs.
const NOISE: &str = "\
# Noise between two runs

The same cells, measured twice at one scale. For each quantity that a figure shows, the second value by the
first, over all cells: the median of these ratios; the factor, up or down, within which 9 of 10 cells are; and
the ratio that is farthest from 1, with its cell and both values. A list of values, as by time or of repeats,
counts by its median. `tarn lab reproduce DIRECTORY --draw --against SECOND --noise FILE` writes this page;
[README.md](README.md) says how such directories are made.

";
/// Set for the process of a step: its file of results will have another name.
pub const STEP: &str = "TARN_LAB_STEP";
/// The share of the estimate of all steps by which the first of them count little: a short step says little
/// of the pace of the others.
const PACE_SHARE: f64 = 0.25;
/// The interval between two looks at a step that runs.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// The level of compression: results are written once.
const LEVEL: i32 = 19;

/// The options.
#[derive(Debug, Clone, clap::Args)]
pub struct ReproduceArgs {
    /// The directory for the results, such as results/my-machine. A run that was stopped continues in it.
    #[arg(value_name = "DIRECTORY")]
    results: PathBuf,
    /// The size of all experiments together: `default`, unless another is given. With `--draw` that of the
    /// results.
    #[arg(long, value_enum)]
    scale: Option<Scale>,
    /// Only these experiments.
    #[arg(long, value_name = "EXPERIMENT", value_delimiter = ',', value_parser = experiments())]
    only: Vec<String>,
    /// Try again what was left out by experiments that are done, such as for want of a program.
    #[arg(long, conflicts_with = "draw")]
    again: bool,
    /// Measure this server of Redis's protocol too, by the experiments that compare servers, as `--peer` of
    /// `tarn lab run` does. What is done is kept: only the cells of a new peer are measured.
    #[arg(long, value_name = "NAME[=COMMAND]", conflicts_with = "draw")]
    peer: Vec<String>,
    /// Measure nothing: draw every report again from the results in the directory.
    #[arg(long)]
    draw: bool,
    /// Write a page that says of each published statement and each target whether it holds.
    #[arg(long, value_name = "FILE")]
    claims: Option<PathBuf>,
    /// A second directory of results, of the same scale, to compare with.
    #[arg(long, value_name = "DIRECTORY", requires = "noise")]
    against: Option<PathBuf>,
    /// Write a page of how far the results in that directory differ from these.
    #[arg(long, value_name = "FILE", requires = "against")]
    noise: Option<PathBuf>,
    /// Put data under this directory; it should be on the disk that is to be measured.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// The seed of all experiments, by default 1.
    #[arg(long)]
    seed: Option<u64>,
}

impl ReproduceArgs {
    /// The peers that an experiment is to measure, as given.
    fn peers_of(&self, experiment: &str) -> impl Iterator<Item = &str> {
        let taken = if WITH_PEERS.contains(&experiment) { &self.peer[..] } else { &[] };
        taken.iter().map(String::as_str)
    }
}

/// The name of a peer that is given as `NAME` or `NAME=COMMAND`.
fn name_of(peer: &str) -> String {
    peer.split_once('=').map_or(peer, |(name, _)| name).to_owned()
}

fn experiments() -> clap::builder::PossibleValuesParser {
    clap::builder::PossibleValuesParser::new(STEPS.map(|step| step.experiment))
}

/// The record of a directory of results. Those of older versions do not have all of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Manifest {
    scale: Scale,
    seed: u64,
    /// The version of the laboratory.
    #[serde(default)]
    version: String,
    #[serde(default)]
    commit: String,
    machine: Option<Machine>,
    /// The beginning of the first run, in the form of RFC 3339, as all moments here.
    #[serde(default)]
    began: String,
    /// The end of the last step.
    #[serde(default)]
    ended: String,
    done: Vec<Done>,
}

/// A step that is done.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct Done {
    experiment: String,
    /// The command.
    command: String,
    /// The commit of the laboratory that ran it.
    commit: String,
    began: String,
    ended: String,
    seconds: u64,
    /// True if an earlier run was stopped in it, or had measured all but a peer: the times are those of the
    /// rest.
    continued: bool,
    /// The names of the peers that are measured.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    peers: Vec<String>,
    /// Lines with figures.
    measurements: usize,
    /// Everything that was planned and is not measured, by name.
    left_out: Vec<LeftOut<()>>,
}

impl Done {
    /// Reads what a step has measured and left out.
    fn count(&mut self, json: &Path) -> Result<()> {
        let results = Results::<Value, Value>::read(json, &self.experiment)?;
        self.measurements = results.lines.iter().filter(|line| !line.cell.is_null()).count();
        let named = |LeftOut { what, why, failed, .. }| LeftOut { cell: None, what, why, failed };
        self.left_out = results.left_out.into_iter().map(named).collect();
        Ok(())
    }

    /// A line for each reason for which something was left out.
    fn reasons(&self) -> Vec<String> {
        let kinds = by_kind(&self.left_out.iter().collect::<Vec<_>>());
        let text = |(kind, words): (String, Vec<String>)| {
            format!("{}: {} left out: {kind}", self.experiment, cells(words.len()))
        };
        kinds.into_iter().map(text).collect()
    }

    fn failed(&self) -> usize {
        self.left_out.iter().filter(|own| own.failed).count()
    }
}

/// The end of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Steps that failed.
    pub steps_failed: usize,
    /// Cells that failed in steps that are done. Cells that this machine cannot measure do not count.
    pub cells_failed: usize,
}

/// The present moment, in the form of RFC 3339.
fn now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let moment = DateTime::from_timestamp_secs(since.as_secs() as i64).unwrap_or_default();
    moment.to_rfc3339_opts(SecondsFormat::Secs, true)
}

/// Minutes of the steps that were run here.
#[derive(Debug, Clone, Copy, Default)]
struct Pace {
    estimated: f64,
    taken: f64,
}

impl Pace {
    /// The minutes that are left of an estimate, by how long those steps took that were run. `all` is the
    /// estimate of all steps.
    fn minutes_left(self, estimate: f64, all: f64) -> f64 {
        let known = all * PACE_SHARE;
        estimate * (known + self.taken) / (known + self.estimated)
    }
}

/// The pages that are made of the results of an experiment, by its name.
pub struct Pages<'p> {
    /// Draws the report of a file of results, and writes it.
    pub draw: &'p dyn Fn(&str, &Path, &Path) -> Result<()>,
    /// Says of each published statement and each target whether it holds.
    pub claims: &'p dyn Fn(&str, &Path) -> Result<String>,
    /// Says how far a second file of results differs from a first.
    pub noise: &'p dyn Fn(&str, &Path, &Path) -> Result<String>,
}

/// Runs the steps that are not done yet, and draws.
pub fn run(args: &ReproduceArgs, pages: &Pages<'_>) -> Result<Outcome> {
    let dir = &args.results;
    if !args.draw {
        fs::create_dir_all(dir).at(dir)?;
    } else if !dir.is_dir() {
        return Err(LabError::Arguments(format!("{} is no directory of results", dir.display())));
    }
    // Held until the end.
    let held = File::open(dir).at(dir)?;
    lock(&held, dir)?;
    for page in [&args.claims, &args.noise].into_iter().flatten() {
        check_apart(page, args)?;
        check_writable(page)?;
    }
    let mut manifest = Manifest::read(args)?;
    if let Some(second) = &args.against {
        manifest.check_scale(second)?;
    }
    // A step whose results have gone is to be measured again.
    manifest.done.retain(|own| packed(dir, &own.experiment).is_file());
    for own in manifest.done.iter_mut().filter(|own| own.measurements == 0) {
        // An older version did not count. A file that cannot be read fails where it is drawn.
        let _ = own.count(&packed(dir, &own.experiment.clone()));
    }
    let asked = |step: &&Step| args.only.is_empty() || args.only.iter().any(|own| own == step.experiment);
    let steps: Vec<&Step> = STEPS.iter().filter(asked).collect();
    let (mut failed, mut claims) = (Vec::new(), CLAIMS.to_owned());
    if !args.draw {
        for step in steps.iter().filter(|step| manifest.is_due(step.experiment, args)) {
            begun::check(
                dir,
                step.experiment,
                manifest.has(step.experiment),
                (manifest.scale, manifest.seed),
            )?;
        }
        manifest.begin(args)?;
    }
    let mut pace = Pace::default();
    for (place, step) in steps.iter().enumerate() {
        interrupt::check()?;
        let name = step.experiment;
        if !args.draw && manifest.is_due(name, args) {
            let todo: Vec<&Step> =
                steps[place..].iter().copied().filter(|own| manifest.is_due(own.experiment, args)).collect();
            let left = pace.minutes_left(minutes(&todo, manifest.scale), minutes(&steps, manifest.scale));
            let left = HumanDuration(Duration::from_secs_f64(left * 60.0));
            tell!("\n{name} ({} of {}), about {left} left", place + 1, steps.len());
            let begun = Instant::now();
            match manifest.measure(step, args) {
                Ok(()) => {
                    pace.estimated += step.minutes(manifest.scale);
                    pace.taken += begun.elapsed().as_secs_f64() / 60.0;
                }
                Err(error) => {
                    interrupt::check()?;
                    tell!("error: {error}; the other experiments go on");
                    failed.push(name);
                }
            }
        }
        match draw(name, dir, pages) {
            Ok(own) => claims += &own,
            Err(error) => {
                tell!("error: {name}: {error}; the other experiments go on");
                claims += &format!("\n## {name}\n\nCannot be judged here: {error}\n");
                if !failed.contains(&name) {
                    failed.push(name);
                }
            }
        }
    }
    if let Some(path) = &args.claims {
        write_whole(path, claims.as_bytes())?;
    }
    if let (Some(second), Some(path)) = (&args.against, &args.noise) {
        let names = steps.iter().map(|step| step.experiment);
        write_whole(path, manifest.differences(dir, second, names, pages)?.as_bytes())?;
    }
    manifest.print();
    if !failed.is_empty() {
        tell!("failed: {}; the same command tries them again", failed.join(", "));
    }
    let own = manifest.done.iter().filter(|own| steps.iter().any(|step| step.experiment == own.experiment));
    let cells_failed = if args.draw { 0 } else { own.map(Done::failed).sum() };
    Ok(Outcome { steps_failed: failed.len(), cells_failed })
}

/// The minutes of some steps, as estimated.
fn minutes(steps: &[&Step], scale: Scale) -> f64 {
    steps.iter().map(|own| own.minutes(scale)).sum()
}

/// Writes the table and the report of an experiment. Returns what the page of statements says of it.
fn draw(name: &str, dir: &Path, pages: &Pages<'_>) -> Result<String> {
    let json = packed(dir, name);
    if !json.is_file() {
        tell!("{name} is not measured in {}", dir.display());
        return Ok(format!("\n## {name}\n\nCannot be judged here: not measured.\n"));
    }
    let mut done = Done { experiment: name.to_owned(), ..Done::default() };
    done.count(&json)?;
    if done.measurements == 0 && !done.left_out.is_empty() {
        let reasons = done.reasons();
        reasons.iter().for_each(|reason| tell!("{reason}"));
        return Ok(format!("\n## {name}\n\nCannot be judged here: {}.\n", reasons.join("; ")));
    }
    write_rows(&json, &dir.join(format!("{name}.csv")))?;
    (pages.draw)(name, &json, &dir.join(format!("{name}.html")))?;
    Ok(format!("\n{}", (pages.claims)(name, &json)?))
}

/// Fails if a page would replace results or their manifest.
fn check_apart(page: &Path, args: &ReproduceArgs) -> Result<()> {
    let dirs = [Some(&args.results), args.against.as_ref()];
    let of = |dir: &PathBuf| {
        let results = STEPS.map(|step| packed(dir, step.experiment));
        results.into_iter().chain([dir.join("manifest.json")]).any(|own| results::is_same_file(&own, page))
    };
    let is_there = dirs.into_iter().flatten().any(of);
    let page = page.display();
    match is_there {
        true => Err(LabError::Arguments(format!("{page} has results: choose another file for the page"))),
        false => Ok(()),
    }
}

/// Fails unless a file can be written, which may take hours until it is.
fn check_writable(path: &Path) -> Result<()> {
    if path.is_dir() {
        return Err(LabError::Arguments(format!("{} is a directory: a file is expected", path.display())));
    }
    let unfinished = path.with_added_extension("unfinished");
    File::create(&unfinished).and_then(|_| fs::remove_file(&unfinished)).at(unfinished)
}

/// The compressed results of an experiment.
fn packed(dir: &Path, experiment: &str) -> PathBuf {
    dir.join(format!("{experiment}.jsonl.zst"))
}

impl Manifest {
    /// That of the directory, which must have been begun in the same way, or a new one.
    fn read(args: &ReproduceArgs) -> Result<Manifest> {
        let path = args.results.join("manifest.json");
        let (scale, seed, none) = (args.scale.unwrap_or(Scale::Default), args.seed.unwrap_or(1), String::new);
        let (version, commit, began, ended) = (none(), none(), none(), none());
        let new = Manifest { scale, seed, version, commit, machine: None, began, ended, done: Vec::new() };
        if !path.exists() {
            return Ok(new);
        }
        let found = Manifest::of(&args.results)?;
        // To draw needs neither, but what is given must be right.
        let is_other = |is_given, is_same: bool| (is_given || !args.draw) && !is_same;
        if is_other(args.scale.is_some(), found.scale == scale)
            || is_other(args.seed.is_some(), found.seed == seed)
        {
            let (scale, seed) = (found.scale.name(), found.seed);
            return Err(LabError::Arguments(format!(
                "{} was begun with --scale {scale} --seed {seed}: use these, or another directory",
                args.results.display()
            )));
        }
        Ok(found)
    }

    /// That of a directory of results.
    fn of(dir: &Path) -> Result<Manifest> {
        let path = dir.join("manifest.json");
        let text = fs::read_to_string(&path).at(&path)?;
        serde_json::from_str(&text)
            .map_err(|error| LabError::Arguments(format!("{}: {error}", path.display())))
    }

    /// Fails unless a second directory is of the same scale.
    fn check_scale(&self, second: &Path) -> Result<()> {
        let (own, other) = (self.scale, Manifest::of(second)?.scale);
        if own == other {
            return Ok(());
        }
        let (own, other, second) = (own.name(), other.name(), second.display());
        Err(LabError::Arguments(format!("{second} is of the scale {other}, and these results are of {own}")))
    }

    /// The page of the differences between these results and those of a second directory.
    fn differences(
        &self,
        first: &Path,
        second: &Path,
        names: impl Iterator<Item = &'static str>,
        pages: &Pages<'_>,
    ) -> Result<String> {
        let mut text = format!("{NOISE}- scale: {}\n", self.scale.name());
        for (which, own) in [("first", self), ("second", &Manifest::of(second)?)] {
            text += &format!("- {which} run: {}\n", own.words());
        }
        for name in names {
            let [own, other] = [first, second].map(|dir| packed(dir, name));
            text += &match (own.is_file(), other.is_file()) {
                (true, true) => match (pages.noise)(name, &own, &other) {
                    Ok(own) => format!("\n{own}"),
                    Err(error) => format!("\n## {name}\n\nCannot be compared: {error}\n"),
                },
                (false, false) => format!("\n## {name}\n\nNot measured.\n"),
                _ => format!("\n## {name}\n\nMeasured in one run only.\n"),
            };
        }
        Ok(text)
    }

    /// The program, the machine and the time of these results.
    fn words(&self) -> String {
        let Manifest { seed, commit, machine, began, ended, .. } = self;
        let machine = machine.as_ref().map_or("not recorded".to_owned(), |machine| {
            format!("{}, {} cores, {}", machine.processor, machine.cores, machine.system)
        });
        let commit = if commit.is_empty() { "not recorded" } else { commit };
        let times = match (began.is_empty(), ended.is_empty()) {
            (_, true) => String::new(),
            (true, false) => format!(", until {ended}"),
            (false, false) => format!(", from {began} to {ended}"),
        };
        format!("commit {commit}, seed {seed}{times}; machine: {machine}")
    }

    fn has(&self, experiment: &str) -> bool {
        self.done.iter().any(|own| own.experiment == experiment)
    }

    /// True if an experiment is to be measured: it is not done, `again` asks for what it has left out, or it
    /// has not measured a peer that is asked for.
    fn is_due(&self, experiment: &str, args: &ReproduceArgs) -> bool {
        let done = self.done.iter().find(|own| own.experiment == experiment);
        done.is_none_or(|own| {
            args.again && !own.left_out.is_empty()
                || args.peers_of(experiment).any(|peer| !own.peers.contains(&name_of(peer)))
        })
    }

    /// Records who measures, where and from when on. What is there of steps that are done stays: another
    /// program or machine may have measured them.
    fn begin(&mut self, args: &ReproduceArgs) -> Result<()> {
        interrupt::be_patient();
        if !self.done.is_empty() {
            return Ok(());
        }
        self.version = env!("CARGO_PKG_VERSION").to_owned();
        self.commit = COMMIT.to_owned();
        self.machine = Some(Machine::look(&args.dir.clone().unwrap_or_else(std::env::temp_dir)));
        if self.began.is_empty() {
            self.began = now();
        }
        self.write(&args.results)
    }

    /// Runs a step, packs its results, and records it.
    fn measure(&mut self, step: &Step, args: &ReproduceArgs) -> Result<()> {
        let (name, dir) = (step.experiment, &args.results);
        let json = dir.join(format!("{name}.jsonl"));
        let own = std::env::current_exe().doing(|| "find this program".to_owned())?;
        let mut words = vec!["run".to_owned(), name.to_owned()];
        words.extend(step.options(self.scale).iter().map(|&word| word.to_owned()));
        words.extend(["--seed".to_owned(), self.seed.to_string()]);
        words.extend(args.peers_of(name).flat_map(|peer| ["--peer".to_owned(), peer.to_owned()]));
        let shown = format!("tarn lab {}", words.join(" "));
        let mut command = Command::new(own);
        command.args(&words).arg("--json").arg(&json).env(STEP, name);
        if let Some(data) = &args.dir {
            command.arg("--dir").arg(data);
        }
        if !json.exists() && self.has(name) {
            // Whole or not at all: a part of them would be continued, and packed in their place.
            write_whole(&json, results::text(&packed(dir, name))?.as_bytes())?;
        }
        let (begun, began, continued) = (Instant::now(), now(), json.exists());
        let status = run_to_its_end(&mut command).doing(|| shown.clone())?;
        if !status.success() {
            return Err(LabError::Program { what: shown, status, words: String::new() });
        }
        let (experiment, commit, seconds) = (name.to_owned(), COMMIT.to_owned(), begun.elapsed().as_secs());
        let ended = now();
        self.ended.clone_from(&ended);
        let times = Done { began, ended, seconds, continued, ..Done::default() };
        let before = self.done.iter().find(|own| own.experiment == name);
        let mut peers = before.map_or(Vec::new(), |own| own.peers.clone());
        for peer in args.peers_of(name).map(name_of) {
            if !peers.contains(&peer) {
                peers.push(peer);
            }
        }
        let mut done = Done { experiment, command: shown, commit, peers, ..times };
        done.count(&json)?;
        pack(&json, &packed(dir, name))?;
        self.done.retain(|own| own.experiment != name);
        self.done.push(done);
        self.write(dir)?;
        // Only now: a run that is stopped before continues with these.
        fs::remove_file(&json).at(&json)?;
        // Time series are in the results too.
        let series = path_beside(&json);
        if series.exists() {
            fs::remove_file(&series).at(&series)?;
        }
        Ok(())
    }

    fn write(&self, dir: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self).expect("a manifest is plain data");
        write_whole(&dir.join("manifest.json"), (text + "\n").as_bytes())
    }

    fn print(&self) {
        let mut printed = table(&["experiment", "minutes", "measurements", "left out", "failed", "command"]);
        for own in &self.done {
            let counts = [own.measurements, own.left_out.len() - own.failed(), own.failed()];
            let [measurements, left_out, failed] = counts.map(|count| count.to_string());
            let minutes = format!("{:.1}", own.seconds as f64 / 60.0);
            printed.add_row([&own.experiment, &minutes, &measurements, &left_out, &failed, &own.command]);
        }
        show!("{printed}");
        self.done.iter().flat_map(Done::reasons).for_each(|reason| tell!("{reason}"));
    }
}

/// Runs a command. Each signal that asks this process to end reaches it once: it has a group of its own, so
/// that a terminal does not send it another one, at which it would stop in the midst of a measurement.
fn run_to_its_end(command: &mut Command) -> io::Result<ExitStatus> {
    let mut child = command.stdin(Stdio::null()).process_group(0).spawn()?;
    let mut told = 0;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if interrupt::signals() > told {
            told += 1;
            // It may have ended.
            let _ = kill_process(Pid::from_child(&child), Signal::INT);
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// Compresses a file.
fn pack(from: &Path, to: &Path) -> Result<()> {
    let text = fs::read(from).at(from)?;
    write_whole(to, &zstd::encode_all(&text[..], LEVEL).at(from)?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn args(dir: &Path) -> ReproduceArgs {
        let results = dir.to_owned();
        ReproduceArgs {
            results,
            scale: None,
            only: Vec::new(),
            again: false,
            peer: Vec::new(),
            draw: true,
            claims: None,
            against: None,
            noise: None,
            dir: None,
            seed: None,
        }
    }

    #[test]
    fn results_are_packed_flattened_and_drawn_again() {
        let dir = tempfile::tempdir().unwrap();
        let json = dir.path().join("machine.jsonl");
        let long: Vec<u32> = (0..21).collect();
        let line = serde_json::json!({
            "case": "a, b", "parameters": { "x": 1 }, "figures": { "deep": { "y": [1.5, 2] }, "long": long },
            "machine": { "system": "Linux 6", "disk": "ext4 on vda" },
        });
        fs::write(&json, format!("{line}\n")).unwrap();
        pack(&json, &packed(dir.path(), "machine")).unwrap();
        let drawn = std::cell::RefCell::new(Vec::new());
        let draw = |name: &str, json: &Path, out: &Path| {
            drawn.borrow_mut().push((name.to_owned(), results::text(json)?, out.to_owned()));
            Ok(())
        };
        let claims = |name: &str, _: &Path| Ok(format!("## {name}\n"));
        let page = dir.path().join("claims.md");
        let asked = ReproduceArgs { claims: Some(page.clone()), ..args(dir.path()) };
        let pages = Pages { draw: &draw, claims: &claims, noise: &no_noise };
        assert_eq!(run(&asked, &pages).unwrap(), Outcome::default());
        let written = fs::read_to_string(page).unwrap();
        assert!(written.contains("\n\n## machine\n\n## snapshots\n\nCannot be judged here: not measured"));
        let expected = ("machine".to_owned(), format!("{line}\n"), dir.path().join("machine.html"));
        assert_eq!(*drawn.borrow(), [expected]);
        // What cannot be read fails alone.
        fs::write(packed(dir.path(), "snapshots"), "no results").unwrap();
        assert_eq!(run(&args(dir.path()), &pages).unwrap(), Outcome { steps_failed: 1, cells_failed: 0 });
        assert_eq!(drawn.borrow().len(), 2);
        assert!(run(&args(&dir.path().join("none")), &pages).is_err());
        // That the page cannot be written is known before anything else.
        let lost = ReproduceArgs { claims: Some(dir.path().join("none/claims.md")), ..args(dir.path()) };
        assert!(run(&lost, &pages).is_err());
        assert_eq!(drawn.borrow().len(), 2);
        let rows = fs::read_to_string(dir.path().join("machine.csv")).unwrap();
        let heads = "case,machine.system,machine.disk,parameters.x,figures.deep.y";
        assert_eq!(rows, format!("{heads}\n\"a, b\",Linux 6,ext4 on vda,1,1.5 2\n"));
    }

    fn no_noise(_: &str, _: &Path, _: &Path) -> Result<String> {
        panic!("compared")
    }

    #[test]
    fn two_directories_of_a_scale_are_compared() {
        let [first, second] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let pages = Pages {
            draw: &|_, _, _| Ok(()),
            claims: &|_, _| Ok(String::new()),
            noise: &|name, first, second| {
                Ok(format!("## {name}: {} {}\n", results::text(first)?.len(), results::text(second)?.len()))
            },
        };
        let page = first.path().join("noise.md");
        let asked = ReproduceArgs {
            scale: Some(Scale::Quick),
            against: Some(second.path().to_owned()),
            noise: Some(page.clone()),
            only: ["machine", "vls", "vtc"].map(str::to_owned).to_vec(),
            ..args(first.path())
        };
        let measure = |dir: &Path, name: &str, count: usize| {
            let (json, line) = (dir.join("lines"), serde_json::json!({ "case": "a", "parameters": {} }));
            fs::write(&json, format!("{line}\n").repeat(count)).unwrap();
            pack(&json, &packed(dir, name)).unwrap();
        };
        measure(first.path(), "machine", 1);
        measure(second.path(), "machine", 2);
        measure(second.path(), "vls", 1);
        // It has no manifest, and then one of another scale.
        assert!(run(&asked, &pages).is_err());
        let manifest = |scale: &str| format!("{{\"scale\":\"{scale}\",\"seed\":3,\"done\":[]}}");
        fs::write(second.path().join("manifest.json"), manifest("small")).unwrap();
        let error = run(&asked, &pages).unwrap_err().to_string();
        assert!(error.contains("is of the scale small, and these results are of quick"), "{error}");
        fs::write(second.path().join("manifest.json"), manifest("quick")).unwrap();
        assert_eq!(run(&asked, &pages).unwrap(), Outcome::default());
        let written = fs::read_to_string(page).unwrap();
        let length = serde_json::json!({ "case": "a", "parameters": {} }).to_string().len() + 1;
        for text in [
            "- second run: commit not recorded, seed 3; machine: not recorded\n",
            &format!("\n\n## machine: {length} {}\n", length * 2),
            "\n\n## vtc\n\nNot measured.\n",
            "\n\n## vls\n\nMeasured in one run only.\n",
        ] {
            assert!(written.contains(text), "{text}: {written}");
        }
    }

    #[test]
    fn a_step_names_what_it_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let line = |case: &str, parameters: Value, figures: Value| {
            let line = serde_json::json!({
                "experiment": "vls", "case": case, "parameters": parameters, "figures": figures,
                "commit": "c", "machine": {},
            });
            line.to_string() + "\n"
        };
        let out = |cell: u32, why: &str, failed| {
            let (cell, what) = (serde_json::json!({ "x": cell }), format!("x {cell}"));
            let out = LeftOut { cell: Some(cell), what, why: why.to_owned(), failed };
            line(crate::report::LEFT_OUT, Value::Null, serde_json::to_value(out).unwrap())
        };
        let text = [
            out(1, "no room: 4 MB", false),
            // Measured by a later run.
            out(2, "no room: 5 MB", false),
            line("x 2", serde_json::json!({ "x": 2 }), serde_json::json!({ "y": 1 })),
            out(3, "it ended", true),
            // Once more.
            out(1, "no room: 3 MB", false),
            // Measured, and not when it was tried again.
            line("x 4", serde_json::json!({ "x": 4 }), serde_json::json!({ "y": 1 })),
            out(4, "no room: 6 MB", false),
            line("goal", Value::Null, Value::Null),
        ];
        let json = dir.path().join("vls.jsonl");
        fs::write(&json, text.concat()).unwrap();
        let mut done = Done { experiment: "vls".to_owned(), ..Done::default() };
        done.count(&json).unwrap();
        assert_eq!((done.measurements, done.left_out.len(), done.failed()), (2, 3, 1));
        assert_eq!(done.reasons(), ["vls: 1 cell left out: it ended", "vls: 2 cells left out: no room"]);
        let words: Vec<&str> = done.left_out.iter().map(|own| own.what.as_str()).collect();
        assert_eq!(words, ["x 3", "x 1", "x 4 (an older measurement stands)"]);
        // A store that was not there, and one that still is not, after the cell was measured again.
        let missing = |what: &str| {
            let out =
                LeftOut::<()> { cell: None, what: what.to_owned(), why: "no".to_owned(), failed: false };
            line(crate::report::LEFT_OUT, Value::Null, serde_json::to_value(out).unwrap())
        };
        let references = serde_json::json!({ "references": [{ "what": "duckdb, in process" }] });
        let measured = |figures| line("references", serde_json::json!({ "x": 1 }), figures);
        let text = [missing("postgresql"), missing("duckdb"), measured(Value::Null), measured(references)];
        fs::write(&json, text.concat()).unwrap();
        done.count(&json).unwrap();
        let words: Vec<&str> = done.left_out.iter().map(|own| own.what.as_str()).collect();
        assert_eq!(words, ["postgresql"]);
        let [version, commit, began, ended] = [(); 4].map(|()| String::new());
        let whole = Done { experiment: "vtc".to_owned(), ..Done::default() };
        let peers = vec!["valkey-9".to_owned()];
        let with_peer = Done { experiment: "persistence".to_owned(), peers, ..Done::default() };
        let (scale, machine, all) = (Scale::Quick, None, vec![done.clone(), whole, with_peer]);
        let manifest = Manifest { scale, seed: 1, version, commit, machine, began, ended, done: all };
        let due = |again, peers: &[&str]| {
            let peer = peers.iter().map(|&peer| peer.to_owned()).collect();
            let asked = ReproduceArgs { again, peer, ..args(dir.path()) };
            ["vls", "vtc", "store", "persistence"].map(|name| manifest.is_due(name, &asked))
        };
        assert_eq!(due(false, &[]), [false, false, true, false]);
        assert_eq!(due(true, &[]), [true, false, true, false]);
        // A peer is measured once, and only by experiments that take peers.
        assert_eq!(due(false, &["valkey-9"]), [false, true, true, false]);
        assert_eq!(due(false, &["valkey-9=valkey-server"]), [false, true, true, false]);
        assert_eq!(due(false, &["valkey-9", "redis-8"]), [false, true, true, true]);
        // Where all was left out nothing is drawn, and the page of statements says why.
        fs::write(&json, out(1, "no room: 4 MB", false)).unwrap();
        pack(&json, &packed(dir.path(), "vls")).unwrap();
        let nothing =
            Pages { draw: &|_, _, _| panic!("drawn"), claims: &|_, _| panic!("judged"), noise: &no_noise };
        let said = draw("vls", dir.path(), &nothing).unwrap();
        assert_eq!(said, "\n## vls\n\nCannot be judged here: vls: 1 cell left out: no room.\n");
    }

    #[test]
    fn results_that_cannot_be_unpacked_whole_are_not_continued() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(packed(dir.path(), "vls"), zstd::encode_all(&b"{}\n{}\n"[..], 1).unwrap()).unwrap();
        let mut manifest = Manifest::read(&args(dir.path())).unwrap();
        manifest.done.push(Done { experiment: "vls".to_owned(), ..Done::default() });
        // The place of what is not whole yet is taken.
        fs::create_dir(dir.path().join("vls.jsonl.unfinished")).unwrap();
        let step = STEPS.iter().find(|step| step.experiment == "vls").unwrap();
        let error = manifest.measure(step, &args(dir.path())).unwrap_err().to_string();
        assert!(error.contains("vls.jsonl.unfinished") && !dir.path().join("vls.jsonl").exists(), "{error}");
    }

    #[test]
    fn a_short_step_says_little_of_the_time_left() {
        let of = |estimated, taken| Pace { estimated, taken }.minutes_left(100.0, 120.0);
        assert_eq!(of(0.0, 0.0), 100.0);
        // A step of a minute that took six seconds, and one that took three minutes.
        assert!((of(1.0, 0.1) - 97.1).abs() < 0.1 && (of(1.0, 3.0) - 106.5).abs() < 0.1);
        // Half of all took twice as long.
        assert!((of(60.0, 120.0) - 166.7).abs() < 0.1);
    }

    #[test]
    fn a_manifest_of_an_older_version_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let text = r#"{"scale":"quick","seed":1,"done":[{"experiment":"vls","command":"c","seconds":9}]}"#;
        fs::write(dir.path().join("manifest.json"), text).unwrap();
        let mut manifest = Manifest::read(&args(dir.path())).unwrap();
        assert!(manifest.has("vls") && manifest.machine.is_none());
        manifest.begin(&args(dir.path())).unwrap();
        // Another program has measured what is there.
        assert!(manifest.commit.is_empty() && manifest.machine.is_none() && manifest.began.is_empty());
        manifest.done.clear();
        manifest.begin(&args(dir.path())).unwrap();
        let written = fs::read_to_string(dir.path().join("manifest.json")).unwrap();
        let written: Value = serde_json::from_str(&written).unwrap();
        assert_eq!(written["commit"], COMMIT);
        assert!(written["machine"]["cores"].as_u64().unwrap() > 0 && written["began"] == *manifest.began);
        assert!(DateTime::parse_from_rfc3339(&manifest.began).is_ok(), "{}", manifest.began);
    }

    #[test]
    fn a_directory_keeps_its_scale_and_seed() {
        let dir = tempfile::tempdir().unwrap();
        let text = "{\"scale\":\"small\",\"seed\":3,\"done\":[]}";
        fs::write(dir.path().join("manifest.json"), text).unwrap();
        let nothing = Pages { draw: &|_, _, _| Ok(()), claims: &|_, _| Ok(String::new()), noise: &no_noise };
        let asked = ReproduceArgs { draw: false, only: vec!["machine".to_owned()], ..args(dir.path()) };
        let scale = ReproduceArgs { scale: Some(Scale::Quick), ..args(dir.path()) };
        let seed = ReproduceArgs { seed: Some(1), ..args(dir.path()) };
        for asked in [&asked, &scale, &seed] {
            let error = run(asked, &nothing).unwrap_err().to_string();
            assert!(error.contains("was begun with --scale small --seed 3"), "{error}");
        }
        let same = ReproduceArgs { scale: Some(Scale::Small), seed: Some(3), ..args(dir.path()) };
        assert!(run(&same, &nothing).is_ok() && run(&args(dir.path()), &nothing).is_ok());
        // Another run is at work there.
        let other = File::open(dir.path()).unwrap();
        other.lock().unwrap();
        let error = run(&asked, &nothing).unwrap_err().to_string();
        assert!(error.ends_with(" is in use: another run writes its results there"), "{error}");
        drop(other);
        fs::write(dir.path().join("manifest.json"), "{}").unwrap();
        let error = run(&asked, &nothing).unwrap_err().to_string();
        assert!(error.contains("manifest.json: missing field"), "{error}");
    }
}
