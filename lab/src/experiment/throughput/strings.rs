//! GET and SET of 64 bytes: without a log, with a log that is flushed every second, and with two workers.

use serde_json::{Value, json};

use super::contest;
use crate::error::Result;
use crate::load::{Arg, Group, KeyChoice, Keys, Mix, Pace, Request};
use crate::page::{Row, with};
use crate::process;
use crate::report::Report;
use crate::server::{Persistence, Product};
use crate::setting::{Contender, Setting, fill};

/// The keys: 16 bytes.
pub(super) const KEY: Arg = Arg::Key { prefix: "key:", digits: 12, scattered: false };
/// The number of keys.
pub(super) const KEYS: u64 = 1_000_000;
/// The values.
pub(super) const VALUE: Arg = Arg::Value(64);
/// Connections, where nothing else is said.
pub(super) const CLIENTS: usize = 50;

/// A SET of a value of 64 bytes.
pub(super) fn set() -> Request {
    Request::new(&[Arg::Text("SET"), KEY, VALUE])
}

/// A GET.
pub(super) fn get() -> Request {
    Request::new(&[Arg::Text("GET"), KEY])
}

/// Fifty connections in a closed loop.
pub(super) fn clients(pipeline: u32, mix: Mix) -> Group {
    Group { name: "clients", connections: CLIENTS, pace: Pace::Closed { pipeline }, mix }
}

/// Loads all keys into each server, for some cases.
pub(super) fn load_keys<'c>(
    setting: &Setting,
    report: &mut Report,
    cases: &[String],
    contenders: &'c [Contender],
    keys: u64,
) -> Result<Vec<&'c Contender>> {
    contest::prepared(report, cases, contenders, |contender| {
        let what = format!("load {}", contender.label);
        fill(&contender.server, &what, keys, Mix::in_order(set(), keys), setting.seed).map(|_| ())
    })
}

/// GETs, and SETs, of so many keys.
pub(super) fn get_and_set(keys: u64) -> [(&'static str, Mix); 2] {
    let of = |request| Mix::of(request, Keys::new(KeyChoice::Uniform, keys));
    [("GET", of(get())), ("SET", of(set()))]
}

/// The words of the cases of a part, but for their pipelines.
fn cases(part: &str, mixes: &[(&str, Mix)]) -> Vec<String> {
    mixes.iter().map(|(name, _)| format!("{part}{name}")).collect()
}

/// Holds a contest of each mix of requests at each pipeline. `more` has the parameters that only a part has.
pub(super) fn hold_all(
    setting: &Setting,
    report: &mut Report,
    part: &str,
    contenders: &[&Contender],
    mixes: &[(&str, Mix)],
    pipelines: &[u32],
    more: &Value,
) -> Result<()> {
    for (words, (_, mix)) in cases(part, mixes).into_iter().zip(mixes) {
        for &pipeline in pipelines {
            let case = format!("{words} pipeline {pipeline}");
            let own = json!({
                "key_bytes": 16, "value_bytes": 64, "clients": CLIENTS, "pipeline": pipeline,
                "choice": "uniform",
            });
            let parameters = with(with(Row::new(), own), more.clone()).into();
            let groups = [clients(pipeline, mix.clone())];
            contest::hold(setting, report, &case, &parameters, contenders, &groups)?;
        }
    }
    Ok(())
}

/// Requests without a log.
pub(super) fn plain(setting: &Setting, report: &mut Report) -> Result<()> {
    let keys = setting.scaled(KEYS);
    let mixes = get_and_set(keys);
    let cases = cases("", &mixes);
    let contenders = setting.contenders(report, &cases, Persistence::None)?;
    let contenders = load_keys(setting, report, &cases, &contenders, keys)?;
    let more = json!({ "persistence": "none", "keys": keys });
    hold_all(setting, report, "", &contenders, &mixes, &[1, 16, 64], &more)
}

/// Requests with a log that is flushed every second, and without a log.
pub(super) fn everysec(setting: &Setting, report: &mut Report) -> Result<()> {
    let keys = setting.scaled(KEYS);
    let uniform = || Keys::new(KeyChoice::Uniform, keys);
    let half = Mix::weighted(&[(1, set()), (1, get())], uniform());
    let mixes = [("SET", Mix::of(set(), uniform())), ("SET 50 % GET 50 %", half)];
    let cases = cases("everysec: ", &mixes);
    let mut contenders = Vec::new();
    for subject in &setting.servers {
        for persistence in [Persistence::Everysec, Persistence::None] {
            let label = format!("{} {}", subject.name, persistence.name());
            contenders.extend(setting.contender_of(report, &cases, &label, subject, persistence)?);
        }
    }
    let contenders = load_keys(setting, report, &cases, &contenders, keys)?;
    let more = json!({ "keys": keys, "file_system": setting.file_system });
    hold_all(setting, report, "everysec: ", &contenders, &mixes, &[1, 16, 64], &more)
}

/// Two workers against one. The server may use every core; the generator has its own only where there are
/// three.
pub(super) fn workers(setting: &Setting, report: &mut Report) -> Result<()> {
    let keys = setting.scaled(KEYS);
    let cores = process::cores_allowed();
    let mut others: Vec<usize> =
        cores.iter().copied().filter(|core| !setting.load_cores.contains(core)).collect();
    let enough = others.len() >= 2;
    if !enough {
        others = cores;
    }
    let mut contenders = Vec::new();
    for (label, threads) in [("tarn 2 workers", 2), ("tarn 1 worker", 1)] {
        let (mut plan, dir) = setting.plan(Product::Tarn, Persistence::None)?;
        plan.threads = threads;
        plan.cores.clone_from(&others);
        contenders.push(setting.contender(label, plan, dir)?);
    }
    let mixes = get_and_set(keys);
    let contenders = load_keys(setting, report, &cases("workers: ", &mixes), &contenders, keys)?;
    let more = json!({
        "persistence": "none", "keys": keys, "server_cores": others, "generator_apart": enough,
    });
    hold_all(setting, report, "workers: ", &contenders, &mixes, &[1, 16], &more)?;
    if !enough {
        show!("Two workers and the generator share two cores here: no goal is judged.");
    }
    Ok(())
}
