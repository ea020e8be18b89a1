//! DuckDB with the same records in its own table, where its module for Python is installed: on one thread.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::super::cell::{Cell, Reference};
use super::{check, columns, queries};
use crate::error::{LabError, Result};
use crate::process::output_of;
use crate::setting::{Setting, on_path};

/// The name in tables and lines.
pub(super) const NAME: &str = "duckdb, in process";
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

/// The Python that has the module.
fn python() -> Option<PathBuf> {
    let python = on_path("python3")?;
    output_of(Command::new(&python).args(["-c", "import duckdb"]), NAME).ok().map(|_| python)
}

/// True if it can be measured.
pub(super) fn is_there() -> bool {
    python().is_some()
}

/// Measures it, if it is there.
pub(super) fn measure(setting: &Setting, cell: &Cell, table: &Path) -> Result<Vec<Reference>> {
    let missing = || LabError::Missing("duckdb is not installed as a module of python3".to_owned());
    let python = python().ok_or_else(missing)?;
    let queries = queries(cell);
    let columns = format!("id VARCHAR, {}", columns("BIGINT", "VARCHAR"));
    let mut command = Command::new(&python);
    command.args(["-c", SCRIPT]).arg(table).args([&columns, &setting.repeats().to_string()]);
    let output = output_of(command.args(queries.iter().map(|(_, sql, _)| sql)), NAME)?;
    let text = String::from_utf8_lossy(&output).into_owned();
    let mut references: Vec<Reference> = queries
        .iter()
        .map(|(name, ..)| Reference { what: NAME.to_owned(), query: (*name).to_owned(), seconds: Vec::new() })
        .collect();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [number, answer, seconds] = words[..] else { return Err(LabError::Reply(text)) };
        let found = number.parse::<usize>().ok().filter(|number| *number < queries.len());
        let (Some(number), Ok(answer), Ok(seconds)) = (found, answer.parse(), seconds.parse()) else {
            return Err(LabError::Reply(text));
        };
        check("duckdb", answer, queries[number].2)?;
        references[number].seconds.push(seconds);
    }
    Ok(references)
}
