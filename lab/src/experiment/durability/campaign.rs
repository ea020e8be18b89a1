//! A campaign: write, kill, restart, compare, and continue with the surviving data, many times over.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde::Serialize;

use super::judge::{History, Violation, judge};
use super::model::{Keys, Model};
use super::writer::{read_until_the_end, write_until_the_end};
use crate::error::{LabError, Result};
use crate::interrupt;
use crate::power::{PowerDisk, Survival};
use crate::server::{Plan, Server};
use crate::setting::progress;
use tarn_resp::client::Client;

/// The parameters of a campaign.
#[derive(Debug, Clone)]
pub(super) struct Orders {
    /// The server.
    pub plan: Plan,
    /// Hard kills while writing.
    pub kills: u32,
    /// Connections that write. Every second one pipelines.
    pub writers: usize,
    /// Writes at once of those that do.
    pub pipeline: usize,
    /// The age that lost acknowledgements may have; `None` if none may be lost.
    pub allowed: Option<Duration>,
    /// The longest ordinary stretch of writing.
    pub stretch: Duration,
    /// The seed of writes and moments.
    pub seed: u64,
}

/// The disk of the server, if it is one that loses power.
pub(super) type Power<'a> = Option<&'a mut PowerDisk>;

/// The outcome of a campaign.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Outcome {
    /// The server's version, as it reports it.
    #[serde(skip)]
    pub version: String,
    /// Hard kills while writing.
    pub kills: u32,
    /// Hard kills while the server was starting.
    pub kills_while_starting: u32,
    /// Acknowledged writes.
    pub acknowledged: u64,
    /// Of these, those that were missing after a restart.
    pub lost: u64,
    /// For the oldest lost write, the time from its acknowledgement to the kill.
    pub lost_age_ms_max: f64,
    /// Writes that survived though unacknowledged, which is allowed.
    pub unacknowledged_survived: u64,
    /// Log files that were compacted, or became one, before the kills.
    pub compactions: u64,
    /// Restarts until ready, the median.
    pub restart_ms_p50: f64,
    /// The longest.
    pub restart_ms_max: f64,
    /// The violations, in words.
    pub violations: Vec<String>,
}

/// One stretch in this many is long enough for a periodic flush to fall into it.
const LONG_STRETCHES: u32 = 8;
/// One restart in this many is killed too.
const KILLED_RESTARTS: u32 = 6;

/// Runs a campaign. It ends early after a violation, because then the expected content is not known any more.
///
/// With a disk that loses power, every kill comes after a cut: unsynced data is lost.
pub(super) fn fight(orders: &Orders, mut power: Power<'_>, what: &str) -> Result<Outcome> {
    let mut rng = SmallRng::seed_from_u64(orders.seed);
    let mut models: Vec<Model> = (0..orders.writers).map(|writer| Model::new(writer, orders.seed)).collect();
    let mut outcome = Outcome::default();
    let mut restarts_ms = Vec::new();
    let bar = progress(orders.kills.into(), what);
    let mut server = orders.plan.start()?;
    outcome.version = server.version()?;
    while outcome.kills < orders.kills && outcome.violations.is_empty() {
        interrupt::check()?;
        let long = rng.random_ratio(1, LONG_STRETCHES);
        let longest = if long { orders.stretch * 8 } else { orders.stretch };
        let stretch = longest.mul_f64(rng.random_range(0.02..1.0));
        let (histories, ended, compactions) =
            write_and_kill(orders, &mut server, power.as_deref(), models, stretch)?;
        lose_power(&mut power, &mut rng);
        outcome.compactions += compactions;
        outcome.kills += 1;
        outcome.acknowledged +=
            histories.iter().map(|history| history.acknowledged.len() as u64).sum::<u64>();
        if rng.random_ratio(1, KILLED_RESTARTS) {
            let mut starting = orders.plan.launch()?;
            std::thread::sleep(Duration::from_micros(rng.random_range(0..50_000)));
            if let Some(disk) = &power {
                disk.cut();
            }
            starting.kill_unless_ended()?;
            lose_power(&mut power, &mut rng);
            outcome.kills_while_starting += 1;
        }
        server = orders.plan.launch()?;
        let restart = server.wait_until_ready(Duration::from_secs(600))?;
        restarts_ms.push(restart.as_secs_f64() * 1000.0);
        models = compare(orders, &server, &histories, ended, &mut outcome)?;
        bar.set_position(outcome.kills.into());
    }
    bar.finish_and_clear();
    restarts_ms.sort_by(f64::total_cmp);
    outcome.restart_ms_p50 = restarts_ms.get(restarts_ms.len() / 2).copied().unwrap_or(0.0);
    outcome.restart_ms_max = restarts_ms.last().copied().unwrap_or(0.0);
    Ok(outcome)
}

/// Forgets unsynced data: all of it, or a random part.
fn lose_power(power: &mut Power<'_>, rng: &mut SmallRng) {
    if let Some(disk) = power {
        disk.restore(if rng.random() { Survival::Synced } else { Survival::ByChance });
    }
}

/// Makes the server take checkpoints and backups, and compact its log, until it is killed.
fn keep_busy(address: SocketAddr, killed: &AtomicBool) {
    let Ok(mut client) = Client::connect(address, Duration::from_secs(30)) else { return };
    for round in 0.. {
        let backup = format!("backup-{round}");
        let chores: [&[&str]; 3] = [&["BGSAVE"], &["BACKUP", &backup], &["BGREWRITEAOF"]];
        for chore in chores {
            // A command that is refused because another is in progress is tried again in the next round.
            if killed.load(Ordering::SeqCst) || client.ask(chore).is_err() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Lets the writers write for a while and kills the server meanwhile. Returns their histories, the moment,
/// and the compactions.
fn write_and_kill(
    orders: &Orders,
    server: &mut Server,
    power: Option<&PowerDisk>,
    models: Vec<Model>,
    stretch: Duration,
) -> Result<(Vec<History>, Instant, u64)> {
    let (killed, stop) = (AtomicBool::new(false), AtomicBool::new(false));
    let address = server.address();
    let counters: Vec<String> = models.iter().map(|model| model.key("counter")).collect();
    std::thread::scope(|scope| {
        let writers: Vec<_> = models
            .into_iter()
            .enumerate()
            .map(|(writer, model)| {
                let pipeline = if writer % 2 == 0 { 1 } else { orders.pipeline };
                let (killed, stop) = (&killed, &stop);
                scope.spawn(move || write_until_the_end(address, model, pipeline, killed, stop))
            })
            .collect();
        let reader = scope.spawn(|| read_until_the_end(address, &counters, &killed, &stop));
        if power.is_some() {
            scope.spawn(|| keep_busy(address, &killed));
        }
        std::thread::sleep(stretch);
        let compactions = server.info_number("persistence", "log_compactions");
        killed.store(true, Ordering::SeqCst);
        let cut = power.map(|disk| {
            let moment = Instant::now();
            disk.cut();
            moment
        });
        let ended = server.kill();
        stop.store(true, Ordering::Relaxed);
        let histories: Result<Vec<History>> =
            writers.into_iter().map(|writer| writer.join().expect("a writer does not panic")).collect();
        let seen = reader.join().expect("the reader does not panic");
        let (ended, _) = ended?;
        let ended = cut.unwrap_or(ended);
        let mut histories = histories?;
        for (history, seen) in histories.iter_mut().zip(seen?) {
            history.seen = seen;
        }
        Ok((histories, ended, compactions?.unwrap_or(0)))
    })
}

/// Reads the content of the server and judges it. Returns each writer's keys to continue from.
fn compare(
    orders: &Orders,
    server: &Server,
    histories: &[History],
    ended: Instant,
    outcome: &mut Outcome,
) -> Result<Vec<Model>> {
    let mut client = server.client()?;
    let found =
        histories.iter().map(|history| history.before.read_found(&mut client)).collect::<Result<Vec<_>>>()?;
    let verdict = judge(histories, &found, ended, orders.allowed);
    outcome.lost += verdict.lost;
    outcome.lost_age_ms_max = outcome.lost_age_ms_max.max(verdict.lost_age.as_secs_f64() * 1000.0);
    outcome.unacknowledged_survived += verdict.unacknowledged_survived;
    for violation in verdict.violations {
        let (Violation::Altered(text)
        | Violation::Lost(text)
        | Violation::Hole(text)
        | Violation::Shown(text)) = violation;
        outcome.violations.push(format!("kill {}: {text}", outcome.kills));
    }
    let expected: usize = found.iter().map(Keys::count).sum();
    let keys = server.key_count()?;
    if keys != expected as u64 {
        outcome
            .violations
            .push(format!("kill {}: the server counts {keys} keys, {expected} are known", outcome.kills));
    }
    if verdict.survivors.len() != histories.len() && outcome.violations.is_empty() {
        return Err(LabError::Reply("a writer's state is missing".to_owned()));
    }
    Ok(verdict.survivors)
}
