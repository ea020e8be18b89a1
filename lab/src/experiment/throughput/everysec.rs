//! The same requests with a log that is flushed every second, and without a log.

use serde_json::json;

use super::contest;
use super::plain::{CLIENTS, KEYS, clients, get, load_keys, set};
use crate::error::Result;
use crate::load::{KeyChoice, Keys, Mix};
use crate::report::Report;
use crate::server::Persistence;
use crate::setting::{Contender, Setting};

/// Runs the part.
pub(super) fn run(setting: &Setting, report: &mut Report) -> Result<()> {
    let keys = setting.scaled(KEYS);
    let mut contenders = Vec::new();
    for &(product, _) in &setting.servers {
        for persistence in [Persistence::Everysec, Persistence::None] {
            let (plan, dir) = setting.plan(product, persistence)?;
            let label = format!("{} {}", product.name(), persistence.name());
            contenders.push(setting.contender(&label, plan, dir)?);
        }
    }
    load_keys(setting, &contenders, keys)?;
    let contenders: Vec<&Contender> = contenders.iter().collect();
    let uniform = || Keys::new(KeyChoice::Uniform, keys);
    let half = Mix::weighted(&[(1, set()), (1, get())], uniform());
    for (name, mix) in [("SET", Mix::of(set(), uniform())), ("SET 50 % GET 50 %", half)] {
        for pipeline in [1, 16, 64] {
            let case = format!("everysec: {name} pipeline {pipeline}");
            let parameters = json!({
                "keys": keys, "key_bytes": 16, "value_bytes": 64, "clients": CLIENTS, "pipeline": pipeline,
                "choice": "uniform", "file_system": setting.file_system,
            });
            let groups = [clients(pipeline, mix.clone())];
            contest::hold(setting, report, &case, &parameters, &contenders, &groups)?;
        }
    }
    Ok(())
}
