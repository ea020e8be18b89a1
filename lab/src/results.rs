//! The file of results: a line of JSON for each measured cell. So a run can continue where it was stopped,
//! and a report can be drawn without measuring again.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Deserialize;
#[cfg(test)]
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{IoContext, LabError, Result};
use crate::page::{Facts, utc};
use crate::report::{LEFT_OUT, LeftOut, NOTE, is_packed, whole};

/// Bytes of a file of results at most, once it is unpacked.
const TEXT_BYTES_MAX: u64 = 2 << 30;

/// All that was measured.
#[derive(Debug)]
pub struct Results<C, F> {
    /// Where they came from.
    pub path: PathBuf,
    /// A line each, the newest last.
    pub lines: Vec<Line<C, F>>,
    /// Words that were noted, the newest last.
    pub notes: Vec<String>,
    /// Everything that was left out and was not measured since. Of a cell that was measured before, the words
    /// say so.
    pub left_out: Vec<LeftOut<C>>,
}

/// The lines of a file of results, which is compressed if its name ends with `.zst`; without a last one that
/// is cut.
pub(crate) fn text(path: &Path) -> Result<String> {
    let mut text = Vec::new();
    if is_packed(path) {
        let packed = zstd::Decoder::new(File::open(path).at(path)?).at(path)?;
        packed.take(TEXT_BYTES_MAX + 1).read_to_end(&mut text).at(path)?;
        if text.len() as u64 > TEXT_BYTES_MAX {
            let (path, most) = (path.display(), TEXT_BYTES_MAX >> 20);
            return Err(LabError::Arguments(format!(
                "{path} has more than {most} MB of results: whose is it?"
            )));
        }
    } else {
        text = fs::read(path).at(path)?;
    }
    let whole = whole(&text).len();
    if whole < text.len() {
        tell!("{}: its last line is cut, and is left out", path.display());
        text.truncate(whole);
    }
    String::from_utf8(text)
        .map_err(|error| std::io::Error::new(std::io::ErrorKind::InvalidData, error))
        .at(path)
}

/// The file that is measured into: one that is packed is not.
pub(crate) fn unpacked(path: &Path) -> PathBuf {
    if is_packed(path) { path.with_extension("") } else { path.to_owned() }
}

/// True if two names are those of one file that is there.
pub(crate) fn is_same_file(first: &Path, second: &Path) -> bool {
    first.canonicalize().is_ok_and(|first| second.canonicalize().is_ok_and(|second| first == second))
}

/// The words by which parts of a line may have been left out before: its server; its case there, at any
/// pipeline, or with a log; other stores that it has figures of.
fn names_of(line: &serde_json::Value) -> Vec<String> {
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let (case, server) = (text(&line["case"]), text(&line["server"]));
    let head = case.split(" pipeline ").next().unwrap_or_default();
    let log = text(&line["parameters"]["persistence"]);
    let with_log = format!("{case}, log {log}, {server}");
    let own = [format!("{case}, {server}"), format!("{head}, {server}"), with_log, server];
    let stores = line["figures"]["references"].as_array().into_iter().flatten();
    let stores = stores.filter_map(|own| own["what"].as_str()?.split(',').next().map(str::to_owned));
    own.into_iter().chain(stores).collect()
}

/// The error for a file of results that lacks those of an experiment.
pub(crate) fn nothing_measured(path: &Path, experiment: &str) -> LabError {
    let target = unpacked(path);
    let (path, target) = (path.display(), target.display());
    LabError::Arguments(format!(
        "{path} has no measurements of {experiment}; make some with: \
         tarn lab run {experiment} --json {target}"
    ))
}

/// One measurement.
#[derive(Debug, Clone, Deserialize)]
pub struct Line<C, F> {
    experiment: String,
    /// The measured case, in words.
    #[serde(default)]
    case: String,
    /// The server.
    #[serde(default)]
    server: String,
    /// The measured cell.
    #[serde(rename = "parameters")]
    pub cell: C,
    /// Its results.
    pub figures: F,
    /// The commit that measured it.
    pub commit: String,
    /// The machine.
    pub machine: serde_json::Value,
    /// The seed of the run that measured it; a repeat's cell has another one.
    #[serde(default)]
    pub seed: u64,
    /// The time, in milliseconds since 1970; 0 if the line does not have it.
    #[serde(default)]
    pub unix_ms: u64,
    /// The words by which parts of it may have been left out before.
    #[serde(skip)]
    names: Vec<String>,
}

impl Line<serde_json::Value, serde_json::Value> {
    /// The case, the server, the parameters and the figures.
    pub fn value(&self) -> serde_json::Value {
        let Line { case, server, cell, figures, .. } = self;
        serde_json::json!({ "case": case, "server": server, "parameters": cell, "figures": figures })
    }
}

impl<C, F> Line<C, F> {
    /// The machine in words.
    pub fn machine_text(&self) -> String {
        let text = |name: &str| self.machine[name].as_str().unwrap_or("unknown").to_owned();
        let number = |name: &str| self.machine[name].as_f64().unwrap_or_default();
        format!(
            "{}, {} cores, {:.1} GiB of memory, {}",
            text("processor"),
            number("cores"),
            number("memory_bytes") / f64::from(1 << 30),
            text("system")
        )
    }
}

impl<C, F> Line<C, F> {
    /// The settings of the machine that matter, in words; results of older versions have none.
    fn settings_text(&self) -> Option<String> {
        let text = |name: &str| self.machine[name].as_str();
        let swap = self.machine["swap_bytes"].as_f64()? / f64::from(1 << 30);
        let (huge, governor, overcommit) = (text("huge_pages")?, text("governor")?, text("overcommit")?);
        Some(format!(
            "huge pages {huge}, swap {swap:.1} GiB, governor {governor}, overcommit {overcommit}; disk: {}",
            text("disk")?
        ))
    }
}

impl<C, F> Results<C, F> {
    /// The place, time and subject of some measured lines, and what was noted.
    pub fn facts(&self, lines: &[&Line<C, F>]) -> Facts {
        let distinct = |of: &dyn Fn(&Line<C, F>) -> String| {
            let mut texts: Vec<String> = lines.iter().map(|line| of(line)).collect();
            texts.sort();
            texts.dedup();
            texts.join("; ")
        };
        let mut facts = vec![
            ("machine", distinct(&Line::machine_text)),
            ("settings", distinct(&|line| line.settings_text().unwrap_or_else(|| "not recorded".to_owned()))),
            ("commit", distinct(&|line| line.commit.clone())),
            ("seed", distinct(&|line| line.seed.to_string())),
        ];
        let times = || lines.iter().map(|line| line.unix_ms).filter(|ms| *ms > 0);
        if let (Some(first), Some(last)) = (times().min(), times().max()) {
            facts.push(("measured", format!("from {} to {}", utc(first), utc(last))));
        }
        facts.push(("results", self.path.display().to_string()));
        facts.extend(self.notes.iter().map(|note| ("note", note.clone())));
        facts
    }
}

impl<C: DeserializeOwned + PartialEq, F: DeserializeOwned> Results<C, F> {
    /// Reads the results of an experiment from a file; a missing file has none.
    pub fn read(path: &Path, experiment: &str) -> Result<Results<C, F>> {
        let text = if path.exists() { text(path)? } else { String::new() };
        let (mut lines, mut notes, mut others) = (Vec::new(), Vec::new(), 0);
        // Each with the number of the measurements before it.
        let mut left_out: Vec<(usize, LeftOut<C>)> = Vec::new();
        for (number, text) in text.lines().enumerate() {
            let value: serde_json::Value = serde_json::from_str(text).map_err(|error| {
                let place = format!("{}, line {}", path.display(), number + 1);
                LabError::Arguments(format!("{place}: {error}; is it a file of the laboratory's results?"))
            })?;
            if value["experiment"] == experiment && value["case"] == NOTE {
                notes.extend(value["figures"]["text"].as_str().map(str::to_owned));
            }
            if value["experiment"] == experiment && value["case"] == LEFT_OUT {
                // One of an earlier setup may not be understood any more, as its cell.
                if let Ok(own) = LeftOut::<C>::deserialize(&value["figures"]) {
                    left_out.retain(|(_, other)| other.what != own.what);
                    left_out.push((lines.len(), own));
                }
                continue;
            }
            // Goals have no parameters. Those of an earlier setup have not all that a cell of today has.
            let is_measured = value["experiment"] == experiment && value["parameters"].is_object();
            let names = names_of(&value);
            match Line::<C, F>::deserialize(value) {
                Ok(line) if line.experiment == experiment => lines.push(Line { names, ..line }),
                _ => others += usize::from(is_measured),
            }
        }
        if others > 0 {
            let path = path.display();
            tell!("{path}: {others} measurements were made in another way and are left out");
        }
        let is_in = |lines: &[Line<C, F>], own: &LeftOut<C>| {
            let is_own = |line: &Line<C, F>| own.cell.as_ref().is_some_and(|cell| line.cell == *cell);
            lines.iter().any(|line| is_own(line) || line.names.contains(&own.what))
        };
        left_out.retain(|(before, own)| !is_in(&lines[*before..], own));
        let tell = |(before, mut own): (usize, LeftOut<C>)| {
            if is_in(&lines[..before], &own) {
                own.what += " (an older measurement stands)";
            }
            own
        };
        let left_out = left_out.into_iter().map(tell).collect();
        Ok(Results { path: path.to_owned(), lines, notes, left_out })
    }

    /// The same for a report, which needs something to draw.
    pub fn read_some(path: &Path, experiment: &str) -> Result<Results<C, F>> {
        let results = Results::read(path, experiment)?;
        if results.lines.is_empty() { Err(nothing_measured(path, experiment)) } else { Ok(results) }
    }

    /// The newest figures of each cell that is wanted, in the order in which cells were measured first.
    pub fn of(&self, wanted: impl Fn(&C) -> bool) -> Vec<(&C, &F)> {
        let mut cells: Vec<&C> = Vec::new();
        for line in &self.lines {
            if wanted(&line.cell) && !cells.contains(&&line.cell) {
                cells.push(&line.cell);
            }
        }
        cells.into_iter().filter_map(|cell| Some((cell, self.find(cell)?))).collect()
    }

    /// The newest figures of a cell.
    pub fn find(&self, cell: &C) -> Option<&F> {
        self.line(cell).map(|line| &line.figures)
    }

    /// The newest measurement of a cell.
    pub fn line(&self, cell: &C) -> Option<&Line<C, F>> {
        self.lines.iter().rev().find(|line| line.cell == *cell)
    }
}

#[cfg(test)]
impl<C: Serialize + DeserializeOwned, F: Serialize + DeserializeOwned> Results<C, F> {
    /// Made-up results.
    #[expect(clippy::unwrap_used, reason = "for tests")]
    pub fn invented(experiment: &str, measured: &[(C, F)]) -> Results<C, F> {
        let machine = serde_json::json!({
            "processor": "A <fast> one", "cores": 2, "memory_bytes": 4e9, "system": "Linux",
        });
        let line = |(cell, figures): &(C, F)| {
            Line::deserialize(serde_json::json!({
                "experiment": experiment, "parameters": cell, "figures": figures, "commit": "0123456789ab",
                "seed": 1, "unix_ms": 951_782_400_000_u64, "machine": machine,
            }))
            .unwrap()
        };
        let lines = measured.iter().map(line).collect();
        Results { path: format!("{experiment}.jsonl").into(), lines, notes: Vec::new(), left_out: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn what_was_left_out_is_no_more_once_a_line_of_it_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lines.jsonl");
        let line = |case: &str, server: &str, parameters: Value, figures: Value| {
            let (commit, machine) = ("c", json!({}));
            let line = json!({
                "experiment": "e", "case": case, "server": server, "parameters": parameters,
                "figures": figures, "commit": commit, "machine": machine,
            });
            line.to_string() + "\n"
        };
        let left = |text: String| {
            fs::write(&path, text).unwrap();
            Results::<Value, Value>::read(&path, "e").unwrap().left_out.len()
        };
        for (what, case, server) in [
            ("GET, other", "GET pipeline 16", "other"),
            ("GET pipeline 16, other", "GET pipeline 16", "other"),
            ("always: SET of 64 clients, other", "always: SET of 64 clients", "other"),
            ("everysec: SET, other everysec", "everysec: SET pipeline 1", "other everysec"),
            ("YCSB, log none, other", "YCSB", "other"),
            ("always with 1 directories, other", "always with 1 directories", "other"),
            ("strings of 16 B, other, RDB", "strings of 16 B", "other, RDB"),
        ] {
            // Of memory and durability it has a cell, of which a line has no more than some parameters.
            for cell in [Value::Null, json!({ "server": server, "mode": "always" })] {
                let mut out = json!({ "what": what, "why": "it ended", "failed": true });
                if !cell.is_null() {
                    out["cell"] = cell;
                }
                let out = line(LEFT_OUT, "", Value::Null, out);
                let log = || json!({ "persistence": "none" });
                let measured = |case: &str, server: &str| line(case, server, log(), json!({}));
                assert_eq!(left(out.clone() + &measured(case, server)), 0, "{what}");
                let others = measured(case, "another") + &measured("SET pipeline 16", "other");
                assert_eq!(left(out + &others), 1, "{what}");
            }
        }
    }
}
