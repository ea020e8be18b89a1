//! Results as rows of comma-separated values, for programs of other people.

use std::path::Path;

use serde_json::Value;

use crate::error::{IoContext, LabError, Result};
use crate::results;

/// Writes the results as rows of comma-separated values: a column for each fact of the machine, for each
/// parameter, and for each figure that is a number, a word or a short list of numbers.
pub(crate) fn write_rows(json: &Path, to: &Path) -> Result<()> {
    let mut heads: Vec<String> = Vec::new();
    let mut rows: Vec<Vec<(String, String)>> = Vec::new();
    for line in results::text(json)?.lines() {
        let line: Value = serde_json::from_str(line)
            .map_err(|error| LabError::Arguments(format!("{}: {error}", json.display())))?;
        let mut row = Vec::new();
        for name in [
            "case",
            "server",
            "version",
            "repeat",
            "seed",
            "commit",
            "unix_ms",
            "machine",
            "parameters",
            "figures",
        ] {
            flatten(name, &line[name], &mut row);
        }
        for (head, _) in &row {
            if !heads.contains(head) {
                heads.push(head.clone());
            }
        }
        rows.push(row);
    }
    let refused = |error: csv::Error| LabError::Arguments(format!("{}: {error}", to.display()));
    let mut writer = csv::Writer::from_path(to).map_err(refused)?;
    writer.write_record(&heads).map_err(refused)?;
    for row in rows {
        let value = |head: &String| row.iter().find(|(own, _)| own == head).map_or("", |(_, value)| value);
        writer.write_record(heads.iter().map(value)).map_err(refused)?;
    }
    writer.flush().at(to)
}

/// A list that is longer is left to the file of lines.
const LIST_MAX: usize = 20;

fn flatten(name: &str, value: &Value, row: &mut Vec<(String, String)>) {
    match value {
        Value::Null => {}
        Value::Object(members) => {
            members.iter().for_each(|(own, value)| flatten(&format!("{name}.{own}"), value, row));
        }
        Value::Array(all) if all.len() <= LIST_MAX && all.iter().all(Value::is_number) => {
            let all: Vec<String> = all.iter().map(Value::to_string).collect();
            row.push((name.to_owned(), all.join(" ")));
        }
        Value::Array(_) => {}
        Value::String(text) => row.push((name.to_owned(), text.clone())),
        other => row.push((name.to_owned(), other.to_string())),
    }
}
