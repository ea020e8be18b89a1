//! The same load on several running servers, in turns, so that disturbances of the machine affect all alike.

use std::time::Instant;

use serde_json::{Map, Value, json};

use crate::error::Result;
use crate::load::{Group, Load, LoadResult};
use crate::process::Pinned;
use crate::report::{Report, Run, Spread};
use crate::setting::{Contender, Setting, progress};

/// The figures of one server, over all repeats.
#[derive(Debug, Clone)]
pub struct Score {
    /// The server's label.
    pub label: String,
    /// By group of the load, in its order.
    pub groups: Vec<GroupScore>,
    /// Its processor time over the measured time, median.
    pub server_busy: f64,
    /// The generator's.
    pub generator_busy: f64,
    /// That of all other processes.
    pub others_busy: f64,
}

/// The figures of one group of connections to one server, over all repeats.
#[derive(Debug, Clone, Copy)]
pub struct GroupScore {
    /// Requests a second.
    pub rate: Spread,
    /// Latency in microseconds, 99th percentile.
    pub p99_us: Spread,
}

/// A generator busier than this was the limit, not the server.
const GENERATOR_BUSY_LIMIT: f64 = 0.97;
/// Other processes busier than this disturbed the measurement.
const OTHERS_BUSY_LIMIT: f64 = 0.1;

impl Score {
    /// A warning for the reader: the generator was fully busy while the server was not, so that the server
    /// could do more; or another process used the processor.
    pub fn limit_note(&self) -> Option<String> {
        if self.others_busy > OTHERS_BUSY_LIMIT {
            return Some(format!("{}: disturbed, others used {:.1} cores", self.label, self.others_busy));
        }
        (self.generator_busy > GENERATOR_BUSY_LIMIT && self.server_busy < GENERATOR_BUSY_LIMIT).then(|| {
            format!("{}: generator-bound, server {:.0} % busy", self.label, self.server_busy * 100.0)
        })
    }

    /// The processor time of the server a request, in microseconds.
    pub fn server_us_per_request(&self) -> f64 {
        self.server_busy * 1e6 / self.groups.iter().map(|group| group.rate.median).sum::<f64>()
    }
}

/// Runs the load on each contender by turns, as often as the setting says.
pub fn hold(
    setting: &Setting,
    report: &mut Report,
    case: &str,
    parameters: &Value,
    contenders: &[&Contender],
    groups: &[Group],
) -> Result<Vec<Score>> {
    let mut results: Vec<Vec<LoadResult>> = vec![Vec::new(); contenders.len()];
    let bar = progress(u64::from(setting.repeats()) * contenders.len() as u64 * setting.load_time_ms(), case);
    for repeat in 1..=setting.repeats() {
        for (contender, results) in contenders.iter().zip(&mut results) {
            let seed = setting.seed.wrapping_add(u64::from(repeat) << 32);
            let mut load = Load::new(contender.server.address(), groups.to_vec(), setting.until(), seed);
            load.watched_pid = Some(contender.server.pid());
            let pinned = Pinned::to(&setting.load_cores)?;
            let (begun, position) = (Instant::now(), bar.position());
            let passed_ms = || (begun.elapsed().as_millis() as u64).min(setting.load_time_ms());
            let result = load.run(|_| bar.set_position(position + passed_ms()))?.check()?;
            bar.set_position(position + setting.load_time_ms());
            drop(pinned);
            report.run(Run {
                case,
                server: &contender.label,
                version: &contender.version,
                repeat,
                parameters: parameters.clone(),
                figures: figures(&result),
            })?;
            results.push(result);
        }
    }
    bar.finish_and_clear();
    Ok(contenders.iter().zip(results).map(|(contender, results)| score(&contender.label, &results)).collect())
}

fn figures(result: &LoadResult) -> Value {
    let groups: Map<String, Value> = result
        .groups
        .iter()
        .map(|group| {
            let figures = json!({
                "requests": group.requests,
                "requests_per_s": group.rate,
                "latency_us_p50": group.latency_us(0.5),
                "latency_us_p99": group.latency_us(0.99),
                "latency_us_p999": group.latency_us(0.999),
                "latency_us_max": group.latency_us(1.0),
            });
            (group.name.to_owned(), figures)
        })
        .collect();
    json!({
        "elapsed_s": result.elapsed.as_secs_f64(),
        "requests_per_s": result.rate(),
        "server_busy": result.server_busy,
        "generator_busy": result.generator_busy,
        "others_busy": result.others_busy,
        "groups": groups,
    })
}

fn score(label: &str, results: &[LoadResult]) -> Score {
    let groups = (0..results[0].groups.len())
        .map(|group| GroupScore {
            rate: Spread::of(results.iter().map(|result| result.groups[group].rate)),
            p99_us: Spread::of(results.iter().map(|result| result.groups[group].latency_us(0.99))),
        })
        .collect();
    Score {
        label: label.to_owned(),
        groups,
        server_busy: Spread::of(results.iter().map(|result| result.server_busy)).median,
        generator_busy: Spread::of(results.iter().map(|result| result.generator_busy)).median,
        others_busy: Spread::of(results.iter().map(|result| result.others_busy)).median,
    }
}
