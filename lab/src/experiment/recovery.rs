//! Question: how long after a start does a server with a log answer again?
//!
//! Variables: server, record (10 M of 48 bytes with a warm cache; 1 M of 1 KB, as strings and as hashes, from
//! a cold disk). A pure log on both sides, stopped cleanly. Expected: with a warm cache the memory's
//! insertion rate on all cores is the limit; with a cold one the device's read rate, measured on the same
//! files in the same run.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use serde_json::json;

use crate::client;
use crate::device::{self, Forgetting};
use crate::error::{LabError, Result};
use crate::load::{Arg, KeyChoice, Keys, Request, key_text};
use crate::process;
use crate::report::{Bound, Goal, Report, Run, Spread, number_cell, table, thousands};
use crate::server::{Persistence, Plan, Product, Server};
use crate::setting::Setting;
use crate::ycsb;

/// What `tarn lab list` says.
pub const QUESTION: &str =
    "How long after a start does a server with a log answer again? (warm cache, cold disk)";

/// The longest that a restart may take.
const PATIENCE: Duration = Duration::from_secs(1800);
/// Keys that are looked at after each restart.
const SAMPLES: u64 = 1000;
/// Other processes busier than this disturbed the measurement. The one that asks whether the server is ready
/// is one.
const OTHERS_BUSY_LIMIT: f64 = 0.2;
const GOAL_WARM: f64 = 3.0;
const GOAL_COLD: f64 = 0.9;

/// The parts of the experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// 10 M records of 48 bytes, warm cache.
    Warm,
    /// 1 M records of 1 KB, cold disk.
    Cold,
}

/// The experiment's own options.
#[derive(Debug, Clone, Default, clap::Args)]
#[group(skip)]
pub struct Options {
    /// Run these parts only.
    #[arg(long, value_name = "PART", value_delimiter = ',')]
    pub only: Vec<Part>,
}

/// What is loaded, and how to look at one record of it.
struct Kind {
    name: &'static str,
    request: Request,
    records: u64,
    cold: bool,
    /// The request that reads record `number`, and the length of its reply.
    sample: fn(u64) -> Vec<String>,
    sample_bytes: usize,
}

fn string_sample(number: u64) -> Vec<String> {
    vec!["GET".to_owned(), key_text("key:", 12, false, number)]
}

fn hash_sample(number: u64) -> Vec<String> {
    vec!["HGET".to_owned(), ycsb::key(number), format!("field{}", number % ycsb::FIELDS)]
}

fn kinds(setting: &Setting) -> [Kind; 3] {
    let key = Arg::Key { prefix: "key:", digits: 12, scattered: false };
    let string = |bytes| Request::new(&[Arg::Text("SET"), key.clone(), Arg::Value(bytes)]);
    [
        Kind {
            name: "strings of 32 B",
            request: string(32),
            records: setting.scaled(10_000_000),
            cold: false,
            sample: string_sample,
            sample_bytes: 32,
        },
        Kind {
            name: "strings of 1 KB",
            request: string(1000),
            records: setting.scaled(1_000_000),
            cold: true,
            sample: string_sample,
            sample_bytes: 1000,
        },
        Kind {
            name: "hashes of 1 KB",
            request: ycsb::insert(),
            records: setting.scaled(1_000_000),
            cold: true,
            sample: hash_sample,
            sample_bytes: ycsb::FIELD_BYTES,
        },
    ]
}

/// One restart.
#[derive(Debug, Clone, Copy)]
struct Restart {
    ready_s: f64,
    /// Processor time over elapsed time: 2 means two cores busy all the time.
    cores_busy: f64,
    /// Bytes a second of plain sequential reading of the same files, cold restarts only.
    device_bytes_per_s: f64,
    /// Processor time of all other processes over elapsed time.
    others_busy: f64,
    forgotten: Option<Forgetting>,
}

/// The restarts of one server.
struct Trial {
    product: Product,
    log_bytes: u64,
    ready_s: Spread,
    cores_busy: f64,
    /// Bytes of the log over the time until ready, over the device's rate: the median of the ratios.
    of_device: f64,
    others_busy: f64,
    forgotten: Option<Forgetting>,
}

/// Runs the experiment.
pub fn run(setting: &Setting, options: &Options, report: &mut Report) -> Result<()> {
    let mut table = table(&[
        "records",
        "cache",
        "server",
        "ready s",
        "spread",
        "records/s",
        "log MB",
        "MB/s",
        "÷ device",
        "cores busy",
    ]);
    for kind in kinds(setting) {
        let part = if kind.cold { Part::Cold } else { Part::Warm };
        if !options.only.is_empty() && !options.only.contains(&part) {
            continue;
        }
        let mut trials = Vec::new();
        for &(product, _) in &setting.servers {
            let trial = attempt(setting, report, &kind, product)?;
            let cache = match trial.forgotten {
                None => "warm",
                Some(Forgetting::DropCaches) => "cold: caches dropped",
                Some(Forgetting::Advice) => "cold: by advice",
            };
            table.add_row(vec![
                format!("{} {}", thousands(kind.records as f64), kind.name).into(),
                cache.into(),
                product.name().into(),
                number_cell(format!("{:.3}", trial.ready_s.median)),
                number_cell(format!("{:.0} %", trial.ready_s.percent())),
                number_cell(thousands(kind.records as f64 / trial.ready_s.median)),
                number_cell(thousands(trial.log_bytes as f64 / 1e6)),
                number_cell(thousands(trial.log_bytes as f64 / 1e6 / trial.ready_s.median)),
                number_cell(if kind.cold { format!("{:.2}", trial.of_device) } else { String::new() }),
                number_cell(format!("{:.2}", trial.cores_busy)),
            ]);
            trials.push(trial);
        }
        judge(report, &kind, &trials);
    }
    println!("{table}");
    Ok(())
}

/// Loads a server, stops it, and starts it again as often as the setting says.
fn attempt(setting: &Setting, report: &mut Report, kind: &Kind, product: Product) -> Result<Trial> {
    let (mut plan, dir) = setting.plan(product, Persistence::Everysec)?;
    plan.cores = Vec::new();
    plan.threads = process::cores_allowed().len();
    let server = plan.start()?;
    let version = server.version()?;
    let what = format!("load {} into {}", kind.name, product.name());
    let keys = Keys::new(KeyChoice::Sequential, kind.records);
    setting.fill(&server, &what, kind.records, kind.request.clone(), keys)?;
    server.stop()?;
    let (mut restarts, mut log_bytes) = (Vec::new(), 0);
    for repeat in 1..=setting.repeats() {
        // A start may tidy its files, so they are looked for each time.
        let (mut files, bytes) = device::files_below(dir.path())?;
        files.retain(|file| file.extension().is_none_or(|extension| extension != "output"));
        log_bytes = bytes;
        let restart = restart(&plan, kind, &files)?;
        report.run(Run {
            case: kind.name,
            server: product.name(),
            version: &version,
            repeat,
            parameters: json!({
                "records": kind.records, "cold": kind.cold, "threads": plan.threads,
                "file_system": setting.file_system, "persistence": "everysec",
            }),
            figures: json!({
                "ready_s": restart.ready_s, "records_per_s": kind.records as f64 / restart.ready_s,
                "log_bytes": log_bytes, "log_bytes_per_s": log_bytes as f64 / restart.ready_s,
                "device_bytes_per_s": restart.device_bytes_per_s, "cores_busy": restart.cores_busy,
                "others_busy": restart.others_busy,
                "forgotten": restart.forgotten,
            }),
        })?;
        restarts.push(restart);
    }
    let ratio = |restart: &Restart| log_bytes as f64 / restart.ready_s / restart.device_bytes_per_s;
    Ok(Trial {
        product,
        log_bytes,
        ready_s: Spread::of(restarts.iter().map(|restart| restart.ready_s)),
        cores_busy: Spread::of(restarts.iter().map(|restart| restart.cores_busy)).median,
        of_device: Spread::of(restarts.iter().map(ratio)).median,
        others_busy: Spread::of(restarts.iter().map(|restart| restart.others_busy)).median,
        forgotten: restarts[0].forgotten,
    })
}

fn restart(plan: &Plan, kind: &Kind, files: &[PathBuf]) -> Result<Restart> {
    let (mut device_bytes_per_s, mut forgotten) = (0.0, None);
    if kind.cold {
        device::forget(files)?;
    }
    // For a warm restart this warms the cache, for a cold one it measures the device.
    let (bytes, time) = device::read_through(files)?;
    if kind.cold {
        device_bytes_per_s = bytes as f64 / time.as_secs_f64();
        forgotten = Some(device::forget(files)?);
        // Forgetting may have reached the executable, which is not what is measured.
        device::read_through(std::slice::from_ref(&plan.binary))?;
    }
    let machine_before = process::machine_cpu_time()?;
    let mut server = plan.launch()?;
    let ready_s = server.wait_until_ready(PATIENCE)?.as_secs_f64();
    let server_time = server.cpu_time()?;
    let cores_busy = server_time.as_secs_f64() / ready_s;
    let machine_time = process::machine_cpu_time()? - machine_before;
    let others_busy = machine_time.saturating_sub(server_time).as_secs_f64() / ready_s;
    check(&server, kind)?;
    server.stop()?;
    Ok(Restart { ready_s, cores_busy, device_bytes_per_s, others_busy, forgotten })
}

/// All records are there, and some of them whole.
fn check(server: &Server, kind: &Kind) -> Result<()> {
    let keys = server.key_count()?;
    if keys != kind.records {
        return Err(server.complaint(format!("came back with {keys} of {} records", kind.records)));
    }
    let mut client = server.client()?;
    for sample in 0..SAMPLES.min(kind.records) {
        let number = sample * (kind.records / SAMPLES.min(kind.records));
        let request = (kind.sample)(number);
        let length = client::text(&client.call(&request)?)?.len();
        if length != kind.sample_bytes {
            return Err(LabError::Reply(format!("{} returned {length} bytes", request.join(" "))));
        }
    }
    Ok(())
}

fn judge(report: &mut Report, kind: &Kind, trials: &[Trial]) {
    let Some(ours) = trials.iter().find(|trial| trial.product == Product::Tarn) else { return };
    let case = format!("{} {}", thousands(kind.records as f64), kind.name);
    let mut note = format!("{:.2} cores busy", ours.cores_busy);
    for trial in trials.iter().filter(|trial| trial.others_busy > OTHERS_BUSY_LIMIT) {
        let label = trial.product.name();
        note.push_str(&format!("; {label}: disturbed, others used {:.1} cores", trial.others_busy));
    }
    if kind.cold {
        report.goal(Goal {
            what: format!("{case}, cold: recovery rate / device's read rate"),
            figure: ours.of_device,
            unit: "x",
            bound: Bound::AtLeast(GOAL_COLD),
            note: note.clone(),
        });
    }
    let Some(theirs) = trials.iter().find(|trial| trial.product == Product::RedisServer) else { return };
    if !kind.cold {
        report.goal(Goal {
            what: format!("{case}, warm: redis-server's time / tarn's"),
            figure: theirs.ready_s.median / ours.ready_s.median,
            unit: "x",
            bound: Bound::AtLeast(GOAL_WARM),
            note,
        });
    }
}
