//! `tarn-lab reproduce`: every experiment in order, into one directory of results that can be committed.
//!
//! ```text
//!   for each step:  tarn-lab run NAME … ─► NAME.jsonl ─► NAME.jsonl.zst, NAME.csv, NAME.html
//!                                  ▲           │                              ▲
//!   stopped? the next run continues here ◄─────┘        --draw begins here ───┘
//! ```
//!
//! A step runs in a process of its own. `manifest.json` has the scale, the seed and the steps that are done.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use indicatif::HumanDuration;
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{IoContext, LabError, Result};
use crate::interrupt;
use crate::report::table;
use crate::results;

/// The head of the page of statements.
const CLAIMS: &str = "\
# What holds, and what does not

Each statement of the five papers that the laboratory can judge, each number that they publish, and each
target of Tarn, held against one run. `tarn lab reproduce DIRECTORY --draw --claims FILE` writes this page
from the results in a directory; [README.md](README.md) says how these are made.
";
/// The interval between two looks at a step that runs.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// The level of compression: results are written once.
const LEVEL: i32 = 19;

named! {
    /// The size of all experiments together.
    pub enum Scale {
        /// Each with `--quick`: for a look; the figures mean little.
        Quick = "quick",
        /// Smaller and shorter than by default, for a machine of two cores and 24 GB.
        Small = "small",
        /// Each as it is without options.
        Default = "default",
        /// Each with `--full`, where it has that: the papers' sizes.
        Full = "full",
    }
}

/// An experiment and its options at each scale, with the minutes that it takes on two cores, about.
struct Step {
    experiment: &'static str,
    small: (&'static [&'static str], u32),
    minutes: u32,
    has_full: bool,
}

impl Step {
    fn options(&self, scale: Scale) -> &'static [&'static str] {
        match scale {
            Scale::Quick => &["--quick"],
            Scale::Small => self.small.0,
            Scale::Full if self.has_full => &["--full"],
            Scale::Default | Scale::Full => &[],
        }
    }

    fn minutes(&self, scale: Scale) -> f64 {
        match scale {
            Scale::Quick => 0.7,
            Scale::Small => f64::from(self.small.1),
            Scale::Default => f64::from(self.minutes),
            Scale::Full => f64::from(self.minutes) * if self.has_full { 8.0 } else { 1.0 },
        }
    }
}

const fn step(
    experiment: &'static str,
    small: (&'static [&'static str], u32),
    minutes: u32,
    has_full: bool,
) -> Step {
    Step { experiment, small, minutes, has_full }
}

/// The figures of the study that are measured at the small scale.
const SNAPSHOTS_SMALL: &str = "trace,repeats,transactions,flood,trigger,dataset,row,updates,skew,huge-pages,\
                               arxiv-updates,arxiv-dataset";

/// The order: first the machine, then the papers', then the rest.
const STEPS: [Step; 12] = [
    step("machine", (&[], 1), 1, false),
    step("snapshots", (&["--only", SNAPSHOTS_SMALL], 40), 60, true),
    step("store", (&["--sizes", "0.25,1", "--kinds", "records,lists", "--seconds", "2"], 25), 60, true),
    step("vtc", (&["--seconds", "2"], 15), 30, true),
    step("persistence", (&["--scale", "0.5"], 15), 30, true),
    step("vls", (&["--scale", "0.25", "--seconds", "1"], 18), 46, true),
    step("stalls", (&["--scale", "0.25"], 10), 30, false),
    step("throughput", (&["--seconds", "0.5", "--repeats", "1"], 15), 40, false),
    step("memory", (&["--scale", "0.25"], 3), 10, false),
    step("durability", (&[], 3), 3, false),
    step("recovery", (&["--scale", "0.25"], 5), 15, false),
    step("workers", (&["--seconds", "1"], 2), 3, false),
];

/// The options.
#[derive(Debug, Clone, clap::Args)]
pub struct ReproduceArgs {
    /// The directory for the results, such as results/my-machine. A run that was stopped continues in it.
    #[arg(value_name = "DIRECTORY")]
    results: PathBuf,
    /// The size of all experiments together.
    #[arg(long, value_enum, default_value = "default")]
    scale: Scale,
    /// Only these experiments.
    #[arg(long, value_name = "EXPERIMENT", value_delimiter = ',', value_parser = experiments())]
    only: Vec<String>,
    /// Measure nothing: draw every report again from the results in the directory.
    #[arg(long)]
    draw: bool,
    /// Write a page that says of each published statement and each target whether it holds.
    #[arg(long, value_name = "FILE")]
    claims: Option<PathBuf>,
    /// Put data under this directory; it should be on the disk that is to be measured.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// The seed of all experiments.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn experiments() -> clap::builder::PossibleValuesParser {
    clap::builder::PossibleValuesParser::new(STEPS.map(|step| step.experiment))
}

/// The record of a directory of results.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Manifest {
    scale: Scale,
    seed: u64,
    done: Vec<Done>,
}

/// A step that is done.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Done {
    experiment: String,
    /// The command.
    command: String,
    seconds: u64,
}

/// The pages that are made of the results of an experiment, by its name.
pub struct Pages<'p> {
    /// Draws the report of a file of results, and writes it.
    pub draw: &'p dyn Fn(&str, &Path, &Path) -> Result<()>,
    /// Says of each published statement and each target whether it holds.
    pub claims: &'p dyn Fn(&str, &Path) -> Result<String>,
}

/// Runs the steps that are not done yet, and draws. Returns how many failed.
pub fn run(args: &ReproduceArgs, pages: &Pages<'_>) -> Result<usize> {
    let dir = &args.results;
    if !args.draw {
        fs::create_dir_all(dir).at(dir)?;
    } else if !dir.is_dir() {
        return Err(LabError::Arguments(format!("{} is no directory of results", dir.display())));
    }
    let mut manifest = Manifest::read(args)?;
    // A step whose results have gone is to be measured again.
    manifest.done.retain(|own| packed(dir, &own.experiment).is_file());
    let asked = |step: &&Step| args.only.is_empty() || args.only.iter().any(|own| own == step.experiment);
    let steps: Vec<&Step> = STEPS.iter().filter(asked).collect();
    let (mut failed, mut claims) = (Vec::new(), CLAIMS.to_owned());
    // Minutes of the steps that were run here, as estimated and as they were.
    let (mut estimated, mut taken) = (0.0, 0.0);
    for (place, step) in steps.iter().enumerate() {
        interrupt::check()?;
        let name = step.experiment;
        if !args.draw && !manifest.has(name) {
            let left: f64 = steps[place..]
                .iter()
                .filter(|own| !manifest.has(own.experiment))
                .map(|own| own.minutes(manifest.scale))
                .sum();
            let pace = if estimated > 0.0 { taken / estimated } else { 1.0 };
            let left = HumanDuration(Duration::from_secs_f64(left * pace * 60.0));
            eprintln!("\n{name} ({} of {}), about {left} left", place + 1, steps.len());
            let begun = Instant::now();
            match manifest.measure(step, args) {
                Ok(()) => {}
                Err(error) => {
                    interrupt::check()?;
                    eprintln!("error: {error}; the other experiments go on");
                    failed.push(name);
                    continue;
                }
            }
            estimated += step.minutes(manifest.scale);
            taken += begun.elapsed().as_secs_f64() / 60.0;
        }
        let json = packed(dir, name);
        if json.is_file() {
            let drawn = write_rows(&json, &dir.join(format!("{name}.csv")))
                .and_then(|()| (pages.draw)(name, &json, &dir.join(format!("{name}.html"))))
                .and_then(|()| (pages.claims)(name, &json));
            match drawn {
                Ok(own) => claims += &format!("\n{own}"),
                Err(error) => {
                    eprintln!("error: {error}; the other experiments go on");
                    failed.push(name);
                }
            }
        } else {
            if args.draw {
                eprintln!("{name} is not measured in {}", dir.display());
            }
            claims += &format!("\n## {name}\n\nNot measured here.\n");
        }
    }
    if let Some(path) = &args.claims {
        fs::write(path, claims).at(path)?;
    }
    manifest.print();
    if !failed.is_empty() {
        eprintln!("failed: {}; the same command tries them again", failed.join(", "));
    }
    Ok(failed.len())
}

/// The compressed results of an experiment.
fn packed(dir: &Path, experiment: &str) -> PathBuf {
    dir.join(format!("{experiment}.jsonl.zst"))
}

impl Manifest {
    /// That of the directory, which must have been begun in the same way, or a new one.
    fn read(args: &ReproduceArgs) -> Result<Manifest> {
        let path = args.results.join("manifest.json");
        let new = Manifest { scale: args.scale, seed: args.seed, done: Vec::new() };
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(new),
            Err(error) => return Err(error).at(path),
        };
        let found: Manifest = serde_json::from_str(&text)
            .map_err(|error| LabError::Arguments(format!("{}: {error}", path.display())))?;
        if !args.draw && (found.scale, found.seed) != (args.scale, args.seed) {
            let (scale, seed) = (found.scale.name(), found.seed);
            return Err(LabError::Arguments(format!(
                "{} was begun with --scale {scale} --seed {seed}: use these, or another directory",
                args.results.display()
            )));
        }
        Ok(found)
    }

    fn has(&self, experiment: &str) -> bool {
        self.done.iter().any(|own| own.experiment == experiment)
    }

    /// Runs a step, packs its results, and records it.
    fn measure(&mut self, step: &Step, args: &ReproduceArgs) -> Result<()> {
        let (name, dir) = (step.experiment, &args.results);
        let json = dir.join(format!("{name}.jsonl"));
        let own = std::env::current_exe().doing(|| "find this program".to_owned())?;
        let mut words = vec!["run".to_owned(), name.to_owned()];
        words.extend(step.options(self.scale).iter().map(|&word| word.to_owned()));
        words.extend(["--seed".to_owned(), self.seed.to_string()]);
        let shown = format!("tarn lab {}", words.join(" "));
        let mut command = Command::new(own);
        command.args(&words).arg("--json").arg(&json);
        if let Some(data) = &args.dir {
            command.arg("--dir").arg(data);
        }
        let begun = Instant::now();
        let status = run_to_its_end(&mut command).doing(|| shown.clone())?;
        if !status.success() {
            return Err(LabError::Program { what: shown, status, words: String::new() });
        }
        pack(&json, &packed(dir, name))?;
        let seconds = begun.elapsed().as_secs();
        self.done.push(Done { experiment: name.to_owned(), command: shown, seconds });
        let text = serde_json::to_string_pretty(self).expect("a manifest is plain data");
        write_whole(&dir.join("manifest.json"), (text + "\n").as_bytes())?;
        // Only now: a run that is stopped before continues with these.
        fs::remove_file(&json).at(&json)?;
        // Time series are in the results too.
        let series = json.with_extension("csv");
        if series.exists() {
            fs::remove_file(&series).at(&series)?;
        }
        Ok(())
    }

    fn print(&self) {
        let mut printed = table(&["experiment", "minutes", "command"]);
        for own in &self.done {
            printed.add_row([&own.experiment, &format!("{:.1}", own.seconds as f64 / 60.0), &own.command]);
        }
        println!("{printed}");
    }
}

/// Runs a command. A signal that asks this process to end reaches it once: it has a group of its own, so that
/// a terminal does not send it another one, at which it would leave its files behind.
fn run_to_its_end(command: &mut Command) -> io::Result<ExitStatus> {
    let mut child = command.stdin(Stdio::null()).process_group(0).spawn()?;
    let mut is_told = false;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if interrupt::asked() && !is_told {
            is_told = true;
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

/// Writes a file that is there whole or not at all.
fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    let unfinished = path.with_added_extension("unfinished");
    let mut file = File::create(&unfinished).at(&unfinished)?;
    file.write_all(bytes).and_then(|()| file.sync_all()).at(&unfinished)?;
    fs::rename(&unfinished, path).at(path)
}

/// Writes the results as rows of comma-separated values: a column for each parameter and for each figure that
/// is a number, a word or a short list of numbers.
fn write_rows(json: &Path, to: &Path) -> Result<()> {
    let mut heads: Vec<String> = Vec::new();
    let mut rows: Vec<Vec<(String, String)>> = Vec::new();
    for line in results::text(json)?.lines() {
        let line: Value = serde_json::from_str(line)
            .map_err(|error| LabError::Arguments(format!("{}: {error}", json.display())))?;
        let mut row = Vec::new();
        for name in
            ["case", "server", "version", "repeat", "seed", "commit", "unix_ms", "parameters", "figures"]
        {
            flatten(name, &line[name], &mut row);
        }
        for (head, _) in &row {
            if !heads.contains(head) {
                heads.push(head.clone());
            }
        }
        rows.push(row);
    }
    let refused = |error: csv::Error| LabError::Arguments(format!("{}: {error}", to.display()));
    let mut writer = csv::Writer::from_path(to).map_err(refused)?;
    writer.write_record(&heads).map_err(refused)?;
    for row in rows {
        let value = |head: &String| row.iter().find(|(own, _)| own == head).map_or("", |(_, value)| value);
        writer.write_record(heads.iter().map(value)).map_err(refused)?;
    }
    writer.flush().at(to)
}

/// A list that is longer is left to the file of lines.
const LIST_MAX: usize = 20;

fn flatten(name: &str, value: &Value, row: &mut Vec<(String, String)>) {
    match value {
        Value::Null => {}
        Value::Object(members) => {
            members.iter().for_each(|(own, value)| flatten(&format!("{name}.{own}"), value, row));
        }
        Value::Array(all) if all.len() <= LIST_MAX && all.iter().all(Value::is_number) => {
            let all: Vec<String> = all.iter().map(Value::to_string).collect();
            row.push((name.to_owned(), all.join(" ")));
        }
        Value::Array(_) => {}
        Value::String(text) => row.push((name.to_owned(), text.clone())),
        other => row.push((name.to_owned(), other.to_string())),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn args(dir: &Path) -> ReproduceArgs {
        let results = dir.to_owned();
        ReproduceArgs {
            results,
            scale: Scale::Quick,
            only: Vec::new(),
            draw: true,
            claims: None,
            dir: None,
            seed: 1,
        }
    }

    #[test]
    fn results_are_packed_flattened_and_drawn_again() {
        let dir = tempfile::tempdir().unwrap();
        let json = dir.path().join("machine.jsonl");
        let long: Vec<u32> = (0..21).collect();
        let line = serde_json::json!({
            "case": "a, b", "parameters": { "x": 1 }, "figures": { "deep": { "y": [1.5, 2] }, "long": long },
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
        assert_eq!(run(&asked, &Pages { draw: &draw, claims: &claims }).unwrap(), 0);
        assert!(fs::read_to_string(page).unwrap().contains("\n\n## machine\n\n## snapshots\n\nNot measured"));
        let expected = ("machine".to_owned(), format!("{line}\n"), dir.path().join("machine.html"));
        assert_eq!(*drawn.borrow(), [expected]);
        // What cannot be read fails alone.
        fs::write(packed(dir.path(), "snapshots"), "no results").unwrap();
        assert_eq!(run(&args(dir.path()), &Pages { draw: &draw, claims: &claims }).unwrap(), 1);
        assert_eq!(drawn.borrow().len(), 2);
        assert!(run(&args(&dir.path().join("none")), &Pages { draw: &draw, claims: &claims }).is_err());
        let rows = fs::read_to_string(dir.path().join("machine.csv")).unwrap();
        assert_eq!(rows, "case,parameters.x,figures.deep.y\n\"a, b\",1,1.5 2\n");
    }

    #[test]
    fn a_directory_keeps_its_scale_and_seed() {
        let dir = tempfile::tempdir().unwrap();
        let text = "{\"scale\":\"small\",\"seed\":3,\"done\":[]}";
        fs::write(dir.path().join("manifest.json"), text).unwrap();
        let nothing = Pages { draw: &|_, _, _| Ok(()), claims: &|_, _| Ok(String::new()) };
        let asked = ReproduceArgs { draw: false, only: vec!["machine".to_owned()], ..args(dir.path()) };
        let error = run(&asked, &nothing).unwrap_err().to_string();
        assert!(error.contains("was begun with --scale small --seed 3"), "{error}");
        fs::write(dir.path().join("manifest.json"), "{}").unwrap();
        let error = run(&asked, &nothing).unwrap_err().to_string();
        assert!(error.contains("manifest.json: missing field"), "{error}");
    }
}
