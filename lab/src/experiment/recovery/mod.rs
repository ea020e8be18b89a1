//! Question: how long after a start does a server with a log answer again?
//!
//! Variables: server, record (10 M strings of 26 bytes, and 10 M members of 100 sorted sets, with a warm
//! cache; 1 M of 1 KB, as strings and as hashes, from a cold disk). A pure log on both sides, stopped
//! cleanly; where the cache is warm the other one's is rewritten, and it starts from an RDB file, too. The
//! restarts of all take turns. Expected: with a warm cache the memory's insertion rate on all cores is the
//! limit; with a cold one the device's read rate, measured on the same files in the same run. Where the
//! directory is in memory, the cold part is left out.

mod kinds;

use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::contract::{Experiment, Measured};
use crate::device;
use crate::error::{LabError, Result};
use crate::interrupt::wait_for;
use crate::load::Mix;
use crate::report::{LeftOut, Report, Run};
use crate::server::{Info, Persistence, Plan, Product, Server, Subject};
use crate::setting::{self, Setting, is_asked};
use crate::{machine, process};
use kinds::{Kind, kinds};
use tarn_resp::client;

pub use kinds::Part;

/// The longest that a restart or a rewriting may take.
const PATIENCE: Duration = Duration::from_secs(1800);
/// The interval between two questions to a server that rewrites its log.
const ASK_AGAIN: Duration = Duration::from_millis(20);
/// Keys that are read after each restart.
const SAMPLES: u64 = 1000;

/// The experiment's own options.
#[derive(Debug, Clone, Default, clap::Args)]
#[group(skip)]
pub struct Options {
    /// Run these parts only.
    #[arg(long, value_name = "PART", value_delimiter = ',')]
    pub only: Vec<Part>,
}

/// The form in which a server has its data on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Data {
    Log,
    Rdb,
}

impl Data {
    fn label(self, subject: &Subject) -> String {
        let name = &subject.name;
        if self == Data::Rdb { format!("{name}, RDB") } else { name.clone() }
    }
}

/// A server that was filled and stopped, and its restarts.
struct Trial {
    data: Data,
    version: String,
    plan: Plan,
    dir: TempDir,
    /// The figures of its restarts.
    figures: Vec<Value>,
}

impl Trial {
    fn label(&self) -> String {
        self.data.label(&self.plan.subject)
    }
}

/// The experiment.
pub struct Recovery {
    pub(crate) setting: Setting,
    pub(crate) own: Options,
}

impl Experiment for Recovery {
    const NAME: &'static str = "recovery";
    const QUESTION: &'static str =
        "How long after a start does a server with a log answer again? (warm cache, cold disk)";
    const FIGURES: &'static str = include_str!("../../../figures/recovery.toml");
    const CONTINUES: bool = false;
    type Cell = String;
    type Figures = ();

    fn plan(&mut self) -> Result<Vec<String>> {
        let asked = kinds(&self.setting).into_iter().filter(|kind| is_asked(&self.own.only, &kind.part));
        Ok(asked.map(|kind| kind.name.to_owned()).collect())
    }

    fn measure(&mut self, name: &String, report: &mut Report) -> Result<Option<Measured<()>>> {
        let (setting, kinds) = (&self.setting, kinds(&self.setting));
        let kind = kinds.iter().find(|kind| kind.name == name).expect("the plan has names of kinds");
        if let Some(why) = machine::no_disk(&setting.file_system).filter(|_| kind.is_cold()) {
            for Subject { name: server, .. } in &setting.servers {
                let (what, why) = (format!("{name}, {server}"), why.clone());
                report.leave_out(&LeftOut::<()> { cell: None, what, why, failed: false })?;
            }
            return Ok(None);
        }
        let mut trials = Vec::new();
        for subject in &setting.servers {
            let has_rdb = subject.product == Product::RedisServer && !kind.is_cold();
            for data in std::iter::once(Data::Log).chain(has_rdb.then_some(Data::Rdb)) {
                let what = || format!("{name}, {}", data.label(subject));
                let filled = fill(setting, kind, subject, data);
                trials.extend(report.forgive(subject.is_peer(), what, filled)?);
            }
        }
        for _ in 1..=setting.repeats() {
            for mut trial in std::mem::take(&mut trials) {
                let what = || format!("{name}, {}", trial.label());
                let restarted = restart(kind, &trial);
                // A peer that fails is not tried again.
                if let Some(figures) = report.forgive(trial.plan.subject.is_peer(), what, restarted)? {
                    trial.figures.push(figures);
                    trials.push(trial);
                }
            }
        }
        // Not before: the first restarts of a peer that fails in a later one would stand for all.
        for repeat in 1..=setting.repeats() {
            trials.iter().try_for_each(|trial| tell(setting, report, kind, repeat, trial))?;
        }
        Ok(None)
    }
}

/// Writes the line of a restart.
fn tell(setting: &Setting, report: &mut Report, kind: &Kind, repeat: u32, trial: &Trial) -> Result<()> {
    let Trial { plan, version, .. } = trial;
    let parameters = json!({
        "records": kind.records, "cold": kind.is_cold(), "threads": plan.threads,
        "file_system": setting.file_system, "persistence": plan.persistence.name(),
    });
    let (server, figures) = (&trial.label(), trial.figures[repeat as usize - 1].clone());
    report.run(Run { case: kind.name, server, version, repeat, parameters, figures })
}

/// Fills a server and stops it.
fn fill(setting: &Setting, kind: &Kind, subject: &Subject, data: Data) -> Result<Trial> {
    let persistence = if data == Data::Log { Persistence::Everysec } else { Persistence::None };
    let (mut plan, dir) = setting.plan_of(subject, persistence)?;
    plan.cores = Vec::new();
    plan.threads = process::cores_allowed().len();
    let server = plan.start()?;
    let version = server.version()?;
    let trial = Trial { data, version, plan, dir, figures: Vec::new() };
    let what = format!("load {} into {}", kind.name, trial.label());
    let mix = Mix::in_order(kind.request.clone(), kind.records);
    setting::fill(&server, &what, kind.records, mix, setting.seed)?;
    let is_rewritten =
        subject.product == Product::RedisServer && subject.dialect.rewrites() && !kind.is_cold();
    match data {
        Data::Rdb => _ = server.client()?.call(&["SAVE"])?,
        Data::Log if is_rewritten => rewrite_log(&server)?,
        Data::Log => {}
    }
    server.stop()?;
    Ok(trial)
}

/// Makes a server rewrite its log as short as it can, and waits for it.
fn rewrite_log(server: &Server) -> Result<()> {
    let mut client = server.client()?;
    client.call(&["BGREWRITEAOF"])?;
    let ended = wait_for(ASK_AGAIN, PATIENCE, || {
        let info = Info::read(&mut client, "persistence")?;
        let is_over = |name| info.text(name) == Some("0");
        Ok((is_over("aof_rewrite_in_progress") && is_over("aof_rewrite_scheduled")).then_some(()))
    })?;
    ended.ok_or_else(|| server.complaint("did not end to rewrite its log".to_owned()))
}

/// Starts a server from its files once more. Returns the figures.
fn restart(kind: &Kind, trial: &Trial) -> Result<Value> {
    let Trial { plan, dir, .. } = trial;
    // A start may tidy its files, so they are looked for at each.
    let (files, log_bytes) = device::data_files(std::slice::from_ref(dir));
    // Bytes a second of plain sequential reading of the same files, cold restarts only.
    let (mut device_bytes_per_s, mut forgotten) = (0.0, None);
    if kind.is_cold() {
        device::forget(&files)?;
    }
    // For a warm restart this warms the cache, for a cold one it measures the device.
    let (bytes, time) = device::read_through(&files)?;
    if kind.is_cold() {
        device_bytes_per_s = bytes as f64 / time.as_secs_f64();
        forgotten = Some(device::forget(&files)?);
        // Forgetting may have affected the executable, which is not to be measured.
        device::read_through(std::slice::from_ref(&plan.subject.binary))?;
    }
    let machine_before = process::machine_cpu_time()?;
    let mut server = plan.launch()?;
    let ready_s = server.wait_until_ready(PATIENCE)?.as_secs_f64();
    let server_time = server.cpu_time()?.as_secs_f64();
    let machine_time = process::machine_cpu_time()?.saturating_sub(machine_before).as_secs_f64();
    check(&server, kind)?;
    server.stop()?;
    Ok(json!({
        "ready_s": ready_s, "records_per_s": kind.records as f64 / ready_s,
        "log_bytes": log_bytes, "log_bytes_per_s": log_bytes as f64 / ready_s,
        "device_bytes_per_s": device_bytes_per_s,
        // Processor time over elapsed time: 2 means two cores busy all the time. Then that of all others.
        "cores_busy": server_time / ready_s,
        "others_busy": (machine_time - server_time) / ready_s,
        "forgotten": forgotten,
    }))
}

/// All records are there, and some of them whole.
fn check(server: &Server, kind: &Kind) -> Result<()> {
    let keys = server.key_count()?;
    if keys != kind.keys {
        return Err(server.complaint(format!("came back with {keys} of {} keys", kind.keys)));
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
