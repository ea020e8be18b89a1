//! The time series of an experiment: a table of comma-separated values beside its file of results.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::error::{IoContext, LabError, Result};
use crate::report::first_line;

/// The table beside a file of results, `X.series.csv` beside `X.jsonl`. The name is never that of the
/// results, nor that of their own table, `X.csv`.
pub(crate) fn path_beside(json: &Path) -> PathBuf {
    json.with_extension("series.csv")
}

/// Fails unless rows with these heads can be appended: the table is new, or begins with the same heads.
pub(super) fn check(json: &Path, heads: &str) -> Result<()> {
    let path = path_beside(json);
    if !path.exists() {
        return Ok(());
    }
    let first = first_line(File::open(&path).at(&path)?).at(&path)?;
    if first.is_empty() || first == format!("{heads}\n").as_bytes() {
        return Ok(());
    }
    let path = path.display();
    Err(LabError::Arguments(format!(
        "{path} has other columns than the time series of this run: move it away, or choose another file \
         with --json"
    )))
}

/// Appends rows to the table, which begins with its heads. Results that go to a device have none.
///
/// REQUIRES: the file of results is locked, so that nobody else appends.
pub(super) fn append(json: &Path, heads: &str, rows: &[String]) -> Result<()> {
    if rows.is_empty() || !json.is_file() {
        return Ok(());
    }
    check(json, heads)?;
    let path = path_beside(json);
    let file = OpenOptions::new().create(true).append(true).open(&path).at(&path)?;
    let is_new = file.metadata().at(&path)?.len() == 0;
    let mut file = BufWriter::new(file);
    let heads = is_new.then_some(heads).into_iter();
    let mut lines = heads.chain(rows.iter().map(String::as_str));
    lines.try_for_each(|line| writeln!(file, "{line}")).and_then(|()| file.flush()).at(path)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::fs;

    use super::*;

    #[test]
    fn no_file_but_the_series_gets_rows() {
        let dir = tempfile::tempdir().unwrap();
        for (json, series) in [
            ("s.jsonl", "s.series.csv"),
            ("s.csv", "s.series.csv"),
            ("s", "s.series.csv"),
            ("s.series.csv", "s.series.series.csv"),
        ] {
            let names = [json, "s.csv", series].map(|name| dir.path().join(name));
            names[..2].iter().for_each(|path| fs::write(path, "theirs").unwrap());
            for row in ["1,2", "3,4"] {
                append(&names[0], "a,b", &[row.to_owned()]).unwrap();
            }
            let texts = names.map(|path| fs::read_to_string(path).unwrap());
            assert_eq!(texts, ["theirs", "theirs", "a,b\n1,2\n3,4\n"], "{json}");
            fs::remove_file(dir.path().join(series)).unwrap();
        }
    }

    #[test]
    fn a_table_of_anything_else_stays_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let (json, path) = (dir.path().join("s.jsonl"), dir.path().join("s.series.csv"));
        fs::write(&json, "").unwrap();
        for text in ["name,age\n", "a,b", "a,b,c\n1,2,3\n"] {
            fs::write(&path, text).unwrap();
            for refused in [check(&json, "a,b"), append(&json, "a,b", &["1,2".to_owned()])] {
                let refused = refused.unwrap_err().to_string();
                assert!(refused.contains("s.series.csv has other columns"), "{refused}");
            }
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
    }
}
