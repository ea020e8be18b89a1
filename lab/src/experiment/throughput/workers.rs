//! Two workers against one. The server may use every core; the generator has its own only where there are
//! three.

use serde_json::json;

use super::contest;
use super::plain::{CLIENTS, KEYS, clients, get, load_keys, set};
use crate::error::Result;
use crate::load::{KeyChoice, Keys, Mix};
use crate::process;
use crate::report::Report;
use crate::server::{Persistence, Product};
use crate::setting::{Contender, Setting};

/// Runs the part.
pub(super) fn run(setting: &Setting, report: &mut Report) -> Result<()> {
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
    load_keys(setting, &contenders, keys)?;
    let contenders: Vec<&Contender> = contenders.iter().collect();
    for (name, request) in [("GET", get()), ("SET", set())] {
        for pipeline in [1, 16] {
            let case = format!("workers: {name} pipeline {pipeline}");
            let parameters = json!({
                "persistence": "none", "keys": keys, "key_bytes": 16, "value_bytes": 64, "clients": CLIENTS,
                "pipeline": pipeline, "choice": "uniform", "server_cores": others,
                "generator_apart": enough,
            });
            let groups = [clients(pipeline, Mix::of(request.clone(), Keys::new(KeyChoice::Uniform, keys)))];
            contest::hold(setting, report, &case, &parameters, &contenders, &groups)?;
        }
    }
    if !enough {
        println!("Two workers and the generator share two cores here: no goal is judged.");
    }
    Ok(())
}
