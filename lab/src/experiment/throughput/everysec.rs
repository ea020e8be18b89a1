//! The same requests with a log that is flushed every second, and without a log.

use serde_json::json;

use super::plain::{KEYS, get, hold_all, load_keys, set};
use crate::error::Result;
use crate::load::{KeyChoice, Keys, Mix};
use crate::report::Report;
use crate::server::Persistence;
use crate::setting::Setting;

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
    let uniform = || Keys::new(KeyChoice::Uniform, keys);
    let half = Mix::weighted(&[(1, set()), (1, get())], uniform());
    let mixes = [("SET", Mix::of(set(), uniform())), ("SET 50 % GET 50 %", half)];
    let more = json!({ "keys": keys, "file_system": setting.file_system });
    hold_all(setting, report, "everysec: ", &contenders, &mixes, &[1, 16, 64], &more)
}
