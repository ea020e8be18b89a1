//! Results of a step that are in the directory before it is run: whether it may go on with them.
//!
//! ```text
//!   NAME.jsonl.zst   NAME.jsonl           manifest
//!        –               –                    –       measure all
//!        –         of this run's seed,        –       continue
//!        x         scale and commit,          x       continue, or first unpack
//!        x         or packed already          –       continue: it ended before it was recorded
//!        x               –                    –       refuse: it would be measured again and replaced
//!                  anything else                      refuse
//! ```

use std::collections::HashSet;
use std::path::Path;

use serde_json::Value;

use super::packed;
use super::steps::Scale;
use crate::error::{LabError, Result};
use crate::report::COMMIT;
use crate::results;

/// Fails, with the way out, if a step must not go on with what the directory has. `is_recorded` is true if
/// the manifest has it.
pub(super) fn check(dir: &Path, name: &str, is_recorded: bool, run: (Scale, u64)) -> Result<()> {
    let (packed, json) = (packed(dir, name), dir.join(format!("{name}.jsonl")));
    let refuse = |path: &Path, why: &str| {
        let path = path.display();
        Err(LabError::Arguments(format!(
            "{path} {why}: move it away, and the step is measured from its start"
        )))
    };
    let own = if json.exists() { results::text(&json)? } else { String::new() };
    // Other commits may have measured what is packed.
    let before = if packed.is_file() && json.exists() { results::text(&packed)? } else { String::new() };
    if packed.is_file() && !is_recorded && (before.is_empty() || !own.starts_with(&before)) {
        return refuse(&packed, "is not in manifest.json, and would be replaced");
    }
    let before: HashSet<&str> = before.lines().filter(|_| is_recorded).collect();
    for line in own.lines().filter(|line| !before.contains(line)) {
        if let Some(why) = stranger(line, name, run) {
            return refuse(&json, &why);
        }
    }
    Ok(())
}

/// The reason for which a line is of another run.
fn stranger(line: &str, name: &str, (scale, seed): (Scale, u64)) -> Option<String> {
    let Ok(line) = serde_json::from_str::<Value>(line) else {
        return Some("has a line that is no result".to_owned());
    };
    let quick = line["parameters"]["quick"].as_bool();
    if line["experiment"] != name {
        return Some(format!("has a line that is not of {name}"));
    }
    if line["seed"] != seed {
        return Some(format!("is of the seed {}, and this run has {seed}", line["seed"]));
    }
    if quick.is_some_and(|quick| quick != (scale == Scale::Quick)) {
        return Some(format!("is of another scale than {}", scale.name()));
    }
    let commit = line["commit"].as_str().unwrap_or_default();
    let why = || format!("is of the commit {commit}, and this program of {COMMIT}; end it with that one, or");
    (commit != COMMIT).then(why)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::fs;

    use serde_json::json;

    use super::*;

    const NAME: &str = "vls";

    /// A line, with the value of one member changed.
    fn line(change: &str, value: Value) -> String {
        let mut line = json!({
            "experiment": NAME, "seed": 1, "commit": COMMIT, "parameters": { "quick": true },
        });
        line[change] = value;
        format!("{line}\n")
    }

    /// The words of a refusal; nothing if the step may go on.
    fn of(zst: Option<&str>, json: Option<&str>, is_recorded: bool) -> String {
        let dir = tempfile::tempdir().unwrap();
        if let Some(text) = zst {
            fs::write(packed(dir.path(), NAME), zstd::encode_all(text.as_bytes(), 1).unwrap()).unwrap();
        }
        if let Some(text) = json {
            fs::write(dir.path().join("vls.jsonl"), text).unwrap();
        }
        let checked = check(dir.path(), NAME, is_recorded, (Scale::Quick, 1));
        checked.err().map_or(String::new(), |error| error.to_string())
    }

    #[test]
    fn a_step_goes_on_with_its_own_results_only() {
        let own = line("seed", 1.into());
        let both = own.clone() + &own;
        // Nothing; stopped; done and to be tried again; stopped in that; not recorded yet.
        for (zst, json, is_recorded) in [
            (None, None, false),
            (None, Some(&own), false),
            (None, Some(&String::new()), false),
            (Some(&own), None, true),
            (Some(&own), Some(&both), true),
            (Some(&own), Some(&own), false),
        ] {
            let [zst, json] = [zst, json].map(|text| text.map(String::as_str));
            assert_eq!(of(zst, json, is_recorded), "", "{zst:?} {json:?} {is_recorded}");
        }
        for (change, value, why) in [
            ("seed", Value::from(2), "vls.jsonl is of the seed 2, and this run has 1: move it away"),
            ("commit", "0123".into(), "is of the commit 0123, and this program of "),
            ("experiment", "vtc".into(), "has a line that is not of vls"),
            ("parameters", json!({ "quick": false }), "is of another scale than quick"),
        ] {
            let foreign = line(change, value);
            let said = of(None, Some(&(own.clone() + &foreign)), false);
            assert!(said.contains(why), "{said}");
            // It was measured before, as the manifest says.
            assert_eq!(of(Some(&foreign), Some(&foreign), true), "");
        }
        assert!(of(None, Some("notes\n"), false).contains("vls.jsonl has a line that is no result"));
    }

    #[test]
    fn packed_results_that_nobody_recorded_are_not_replaced() {
        let own = line("seed", 1.into());
        let why = "vls.jsonl.zst is not in manifest.json, and would be replaced: move it away";
        for json in [None, Some("")] {
            let said = of(Some(&own), json, false);
            assert!(said.contains(why), "{said}");
        }
    }
}
