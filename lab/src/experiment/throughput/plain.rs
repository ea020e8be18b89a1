//! GET and SET of 64 bytes without a log.

use serde_json::{Value, json};

use super::contest;
use crate::error::Result;
use crate::load::{Arg, Group, KeyChoice, Keys, Mix, Pace, Request};
use crate::page::{Row, with};
use crate::report::Report;
use crate::server::Persistence;
use crate::setting::{Contender, Setting};

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

/// Loads all keys into each server.
pub(super) fn load_keys(setting: &Setting, contenders: &[Contender], keys: u64) -> Result<()> {
    for contender in contenders {
        let what = format!("load {}", contender.label);
        setting.fill(&contender.server, &what, keys, set(), Keys::new(KeyChoice::Sequential, keys))?;
    }
    Ok(())
}

/// GETs, and SETs, of so many keys.
pub(super) fn get_and_set(keys: u64) -> [(&'static str, Mix); 2] {
    let of = |request| Mix::of(request, Keys::new(KeyChoice::Uniform, keys));
    [("GET", of(get())), ("SET", of(set()))]
}

/// Holds a contest of each mix of requests at each pipeline. `more` has the parameters that only a part has.
pub(super) fn hold_all(
    setting: &Setting,
    report: &mut Report,
    part: &str,
    contenders: &[Contender],
    mixes: &[(&str, Mix)],
    pipelines: &[u32],
    more: &Value,
) -> Result<()> {
    for (name, mix) in mixes {
        for &pipeline in pipelines {
            let case = format!("{part}{name} pipeline {pipeline}");
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

/// Runs the part.
pub(super) fn run(setting: &Setting, report: &mut Report) -> Result<()> {
    let keys = setting.scaled(KEYS);
    let contenders = setting.contenders(Persistence::None)?;
    load_keys(setting, &contenders, keys)?;
    let more = json!({ "persistence": "none", "keys": keys });
    hold_all(setting, report, "", &contenders, &get_and_set(keys), &[1, 16, 64], &more)
}
