//! DuckDB with the same records in its own table, where its module for Python is installed: on one thread.

use std::path::Path;
use std::process::Command;

use super::super::cell::{Cell, Reference};
use super::super::store;
use super::{Missing, queries};
use crate::error::{IoContext, LabError, Result};
use crate::setting::{Setting, on_path};

/// The name in tables and lines.
const NAME: &str = "duckdb, in process";
/// Reads the table, then runs each statement so often; a line for each turn: statement, answer, seconds.
const SCRIPT: &str = "
import sys, time, duckdb
table, columns, turns, statements = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4:]
db = duckdb.connect()
db.execute('PRAGMA threads=1')
db.execute('CREATE TABLE record (' + columns + ')')
db.execute('COPY record FROM \\'' + table + '\\' (FORMAT CSV, HEADER FALSE)')
for number, statement in enumerate(statements):
    for turn in range(turns):
        began = time.perf_counter()
        answer = db.execute(statement).fetchone()[0]
        print(number, int(answer), time.perf_counter() - began)
";

/// Measures it; says why not, if it is not there.
pub(super) fn measure(
    setting: &Setting,
    cell: &Cell,
    table: &Path,
) -> Result<std::result::Result<Vec<Reference>, Missing>> {
    let missing = || Ok(Err(Missing("duckdb is not installed as a module of python3".to_owned())));
    let Some(python) = on_path("python3") else { return missing() };
    let look = Command::new(&python).args(["-c", "import duckdb"]).output();
    if !look.is_ok_and(|output| output.status.success()) {
        return missing();
    }
    let queries = queries(cell);
    let texts: Vec<_> = (1..store::FIELDS).map(|at| format!("f{at} VARCHAR")).collect();
    let columns = format!("id VARCHAR, f0 BIGINT, {}", texts.join(", "));
    let mut command = Command::new(&python);
    command.args(["-c", SCRIPT]).arg(table).args([&columns, &setting.repeats().to_string()]);
    let output = command.args(queries.iter().map(|(_, sql, _)| sql)).output();
    let output = output.doing(|| "run python3".to_owned())?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(LabError::Cell { what: NAME.to_owned(), status: output.status, words });
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut references: Vec<Reference> = queries
        .iter()
        .map(|(name, ..)| Reference { what: NAME.to_owned(), query: (*name).to_owned(), seconds: Vec::new() })
        .collect();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [number, answer, seconds] = words[..] else { return Err(LabError::Reply(text)) };
        let found = number.parse::<usize>().ok().filter(|number| *number < queries.len());
        let (Some(number), Ok(seconds)) = (found, seconds.parse()) else { return Err(LabError::Reply(text)) };
        if answer != queries[number].2.to_string() {
            let right = queries[number].2;
            return Err(LabError::Reply(format!("duckdb answers {answer}, and {right} is right")));
        }
        references[number].seconds.push(seconds);
    }
    Ok(Ok(references))
}
