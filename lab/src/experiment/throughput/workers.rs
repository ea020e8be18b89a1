//! Two workers against one. The server may use every core; the generator has its own only where there are
//! three.

use serde_json::json;

use super::plain::{KEYS, get_and_set, hold_all, load_keys};
use crate::error::Result;
use crate::process;
use crate::report::Report;
use crate::server::{Persistence, Product};
use crate::setting::Setting;

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
    let more = json!({
        "persistence": "none", "keys": keys, "server_cores": others, "generator_apart": enough,
    });
    hold_all(setting, report, "workers: ", &contenders, &get_and_set(keys), &[1, 16], &more)?;
    if !enough {
        println!("Two workers and the generator share two cores here: no goal is judged.");
    }
    Ok(())
}
