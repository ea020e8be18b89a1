//! Question: do acknowledged writes survive `kill -9`, and is the restored state always a prefix?
//!
//! Variables: mode of the log, number of directories. Several connections write strings, counters, hashes,
//! lists, sets and sorted sets, one by one and pipelined, some in transactions. The server is killed at
//! random moments, also while it starts, and continues with the same data each time. Expected: no loss under
//! `always`; under `everysec` only writes that were acknowledged within the last second; never a hole; never
//! half a write of several keys. Tarn compacts its log all the while, in small files.
//!
//! A killed process loses the data that it had not handed to the operating system; a machine that loses power
//! loses more. With `--power` the data is on a disk that loses power ([`crate::power`]). Each kill loses all
//! unsynced data, or all of it but a random part, while checkpoints and backups are taken.

mod campaign;
mod judge;
mod model;
mod writer;

use std::fmt;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::contract::{Cell, Experiment, Measured};
use crate::error::{IoContext, LabError, Result};
use crate::interrupt;
use crate::numbers;
use crate::power::{PowerDisk, is_available};
use crate::report::{Report, Run};
use crate::server::{Persistence, Plan, Product, Subject, is_peer};
use crate::setting::Setting;
use campaign::Orders;

/// Under `everysec`, acknowledged writes may be lost if they are younger than this at the kill.
const EVERYSEC: Duration = Duration::from_secs(1);

/// The experiment's own options.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub struct Options {
    /// Hard kills in each mode and number of directories. By default 200, with --quick 3.
    #[arg(long, value_parser = numbers::times)]
    pub kills: Option<u32>,
    /// Connections that write; every second one pipelines.
    #[arg(long, default_value_t = 6, value_parser = numbers::count)]
    pub writers: usize,
    /// Writes at once of those that pipeline.
    #[arg(long, default_value_t = 16, value_parser = numbers::count)]
    pub pipeline: usize,
    /// The modes.
    #[arg(long, value_name = "MODE", value_delimiter = ',', default_value = "always,everysec")]
    pub modes: Vec<Persistence>,
    /// The numbers of log directories, by default 1 and 3, with --power 1 and 2. Servers other than ours have
    /// one.
    #[arg(long, value_name = "COUNT", value_delimiter = ',', value_parser = numbers::count)]
    pub dirs: Vec<usize>,
    /// Cuts power: all unsynced data is lost. Needs /dev/fuse. By default 1,000 cuts in all modes and numbers
    /// of directories together, with --quick 3 in each.
    #[arg(long)]
    pub power: bool,
    /// Makes syncs of that disk do nothing: shows that the experiment notices.
    #[arg(long, requires = "power")]
    pub without_syncs: bool,
    /// An allowance on top of the second of `everysec`, for the clocks of two processes on a busy machine.
    #[arg(long, value_name = "MS", default_value_t = 250)]
    pub slack_ms: u64,
}

/// A server, the mode of its log and the number of its directories.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Case {
    server: String,
    mode: Persistence,
    dirs: usize,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.words(), self.server)
    }
}

impl Case {
    /// The case without the server.
    fn words(&self) -> String {
        format!("{} with {} directories", self.mode.name(), self.dirs)
    }
}

impl Cell for Case {
    fn is_of_peer(&self) -> bool {
        is_peer(&self.server)
    }
}

/// The experiment.
pub struct Durability {
    setting: Setting,
    own: Options,
    broken: usize,
}

impl Durability {
    /// Prepares it.
    pub fn new(setting: Setting, own: Options) -> Durability {
        Durability { setting, own, broken: 0 }
    }
}

impl Experiment for Durability {
    const NAME: &'static str = "durability";
    const QUESTION: &'static str =
        "Do acknowledged writes survive kill -9, and is what comes back always a prefix?";
    const FIGURES: &'static str = include_str!("../../../figures/durability.toml");
    const CONTINUES: bool = false;
    type Cell = Case;
    type Figures = ();

    fn plan(&mut self) -> Result<Vec<Case>> {
        let Durability { setting, own, .. } = self;
        // Ours alone unless others are named: this project does not promise theirs.
        let named = !setting.options.servers.is_empty();
        let dirs: &[usize] = match (&own.dirs[..], own.power) {
            ([], false) => &[1, 3],
            ([], true) => &[1, 2],
            (named, _) => named,
        };
        let mut cases = Vec::new();
        let is_tarn = |subject: &Subject| subject.product == Product::Tarn;
        for subject in setting.servers.iter().filter(|own| named || own.is_peer() || is_tarn(own)) {
            for &mode in &own.modes {
                let dirs = dirs.iter().filter(|&&dirs| is_tarn(subject) || dirs == 1);
                cases.extend(dirs.map(|&dirs| Case { server: subject.name.clone(), mode, dirs }));
            }
        }
        Ok(cases)
    }

    fn measure(&mut self, case: &Case, report: &mut Report) -> Result<Option<Measured<()>>> {
        campaign(self, report, case)?;
        Ok(None)
    }

    fn broken_of_run(&self) -> usize {
        self.broken
    }
}

/// Kills a server again and again, and counts it as broken before anybody has read of it.
fn campaign(experiment: &mut Durability, report: &mut Report, case: &Case) -> Result<()> {
    let Durability { setting, own: options, broken } = experiment;
    let &Case { ref server, mode, dirs } = case;
    let subject = setting.subject(server)?;
    let (mut plan, dir) = setting.plan_of(subject, mode)?;
    let mut power = options.power.then(|| mount(&mut plan, options, setting.seed)).transpose()?;
    plan.cores = Vec::new();
    plan.threads = 2;
    if subject.product == Product::Tarn {
        // Small files, compacted as soon as some of their records are obsolete.
        plan.compacts = true;
        let directives = [("log-file-size", "65536"), ("log-compaction-min-size", "0")];
        plan.directives.extend(directives.map(|(name, value)| (name, value.to_owned())));
        plan.directives.push(("log-compaction-file-percentage", "30".to_owned()));
    }
    if dirs > 1 {
        // The server makes them.
        plan.log_dirs = (0..dirs).map(|index| plan.dir.join(format!("device{index}"))).collect();
    }
    let quick = setting.options.quick;
    let slack = Duration::from_millis(options.slack_ms);
    let orders = Orders {
        plan,
        kills: options.kills.unwrap_or(match (quick, options.power) {
            (true, _) => 3,
            (false, false) => 200,
            (false, true) => 250,
        }),
        writers: options.writers,
        pipeline: options.pipeline,
        allowed: (mode != Persistence::Always).then_some(EVERYSEC + slack),
        stretch: Duration::from_millis(if quick { 100 } else { 300 }),
        seed: setting.seed,
    };
    let label = case.to_string();
    let outcome = campaign::fight(&orders, power.as_mut(), &label)?;
    *broken += usize::from(!outcome.violations.is_empty());
    for violation in &outcome.violations {
        show!("{label}: {violation}");
    }
    if !outcome.violations.is_empty() && power.is_none() {
        show!("{label}: the data are kept in {}", interrupt::keep(dir).display());
    }
    report.run(Run {
        case: &case.words(),
        server,
        version: &outcome.version,
        repeat: 1,
        parameters: json!({
            "mode": mode, "dirs": dirs, "kills": orders.kills, "writers": orders.writers,
            "pipeline": orders.pipeline, "slack_ms": options.slack_ms, "file_system": setting.file_system,
            "power": options.power, "syncs": !options.without_syncs,
        }),
        figures: json!(outcome),
    })?;
    Ok(())
}

/// Puts the data of a server on a disk that loses power.
fn mount(plan: &mut Plan, options: &Options, seed: u64) -> Result<PowerDisk> {
    is_available().map_err(|reason| LabError::Arguments(format!("--power: {reason}")))?;
    let make = |path: &Path| std::fs::create_dir(path).at(path);
    let place = plan.dir.join("power");
    make(&place)?;
    let disk = PowerDisk::mount(&place, !options.without_syncs, seed)?;
    plan.dir = place.join("data");
    make(&plan.dir)?;
    // An installation makes the server's directory long before; the server makes everything inside it.
    disk.keep_all();
    Ok(disk)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::{self, List};

    #[test]
    fn only_campaigns_that_cut_the_power_judge_a_loss_of_power() {
        let judged = |power: bool, violations: &[&str]| -> Vec<bool> {
            let line = json!({
                "case": "always with 1 directories", "server": "tarn",
                "parameters": { "mode": "always", "dirs": 1, "kills": 3, "power": power },
                "figures": { "kills": 3, "acknowledged": 9, "violations": violations },
            });
            let list = List::parse(Durability::FIGURES);
            let rows = list.rows(Durability::rows_of_lines(&[line]));
            let goals = page::judge(&list, &rows);
            let own = goals.iter().filter(|goal| goal.what.ends_with("wrong after a loss of power"));
            own.map(|goal| goal.is_met()).collect()
        };
        assert_eq!(judged(false, &[]), Vec::<bool>::new());
        assert_eq!((judged(true, &[]), judged(true, &["lost"])), (vec![true], vec![false]));
    }
}
