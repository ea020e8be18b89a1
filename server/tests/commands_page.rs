//! `docs/commands.md` says of each command of Redis and Valkey whether Tarn has it. It comes from the
//! reference of commands, the table of those that are served, and the cases of `docs/compatibility.md`.
//!
//! With `TARN_WRITE_DOCS=1` in the environment the test writes the page instead of comparing it.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use tarn_server::commands::reference::{Article, articles};
use tarn_server::commands::table;
use tarn_server::execute::command::Command;

const HEAD: &str = "\
<!-- Written by: TARN_WRITE_DOCS=1 cargo test -p tarn-server --test commands_page -->

# Commands

Every command and subcommand of Redis up to 8.10 and of Valkey up to 9, and those that only Tarn has.

- *Redis* and *Valkey*: the first version that has it. What Redis 8 took over from modules counts as 8.0.0.
- *Tarn*: *yes*; *yes, differs*, if [compatibility.md](compatibility.md) has a case about it; or *no*, and
  why. *without* names options that newer versions of Redis or Valkey have and Tarn does not take yet.
  [json.md](json.md) and [search.md](search.md) have what differs in `JSON.*` and `FT.*`.

A command that Tarn does not have is refused as an unknown one, or by an error that says what is missing.

| of | commands | in Tarn |
| --- | --- | --- |
";

const COLUMNS: &str = "| command | Redis | Valkey | Tarn |\n| --- | --- | --- | --- |\n";

/// Versions, each with a name. Those of Valkey count in its own way.
const VERSIONS: [(&str, &str); 3] = [("Redis 7.0", "7.0"), ("Redis 7.4", "7.4"), ("Redis 8", "8")];

/// Why commands of whole groups are missing.
const MISSING_GROUPS: &[(&str, &str)] = &[
    ("cluster", "there are no clusters: one server holds the data"),
    ("array", "arrays are not built yet"),
    ("vector-set", "vector sets are not built yet"),
    ("time-series", "time series are not built yet"),
    ("probabilistic", "Bloom filters and the like are not built yet"),
];

/// Why others are missing, with their subcommands. The rest is not built yet.
const MISSING: &[(&str, &str)] = &[
    ("replicaof", REPLICATION),
    ("slaveof", REPLICATION),
    ("replconf", REPLICATION),
    ("psync", REPLICATION),
    ("sync", REPLICATION),
    ("role", REPLICATION),
    ("failover", REPLICATION),
    ("restore-asking", "there are no clusters: one server holds the data"),
    ("client|import-source", REPLICATION),
    ("ft.hybrid", "there are no vectors"),
    ("backup|abort", BACKUP),
    ("backup|cleanup", BACKUP),
    ("backup|help", BACKUP),
    ("backup|list", BACKUP),
    ("backup|seal", BACKUP),
    ("backup|start", BACKUP),
    ("backup|status", BACKUP),
];

const REPLICATION: &str = "there is no replication yet";
const BACKUP: &str = "Tarn's `BACKUP` is another command ([operating.md](operating.md))";

/// Remarks on commands that are there.
const REMARKS: &[(&str, &str)] = &[
    ("backup", "another command than that of Redis: it copies the log to a directory"),
    ("wait", "always 0: there are no replicas"),
    ("script|debug", "replies with an error: there is no debugger"),
];

/// The beginning of the sentence of a row that stands for a missing command.
const REFUSED: &str = "Not there";

/// The row of a command or a subcommand that is served.
fn served(article: &Article) -> Option<&'static Command> {
    let (name, sub) =
        article.name.split_once('|').map_or((article.name, None), |(name, sub)| (name, Some(sub)));
    let command = table().find(name.as_bytes())?.command;
    let row = match sub {
        None => command,
        Some(sub) => command.subcommand(sub.as_bytes())?,
    };
    (!row.summary.starts_with(REFUSED)).then_some(row)
}

/// Its name as clients write it.
fn written(article: &Article) -> String {
    article.name.replace('|', " ").to_uppercase()
}

/// The code in the first cells of the table of differences.
fn cases() -> BTreeSet<String> {
    let text = std::fs::read_to_string(page_of("compatibility.md")).unwrap();
    let first = |line: &str| line.strip_prefix("| ")?.split(" | ").next().map(str::to_owned);
    let cells: Vec<String> = text.lines().filter_map(first).collect();
    let spans = cells.iter().flat_map(|cell| cell.split('`').skip(1).step_by(2));
    spans.map(str::to_owned).collect()
}

/// Whether a case is about a command. A container does nothing of its own.
fn differs(article: &Article, cases: &BTreeSet<String>) -> bool {
    let name = written(article);
    let is_container = served(article).is_some_and(|row| !row.subcommands.is_empty());
    let begin = format!("{name} ");
    cases.iter().any(|case| *case == name || !is_container && case.starts_with(&begin))
}

/// The words of the table for the state of a command in Tarn.
fn status(article: &Article, cases: &BTreeSet<String>) -> String {
    let of = |list: &[(&'static str, &'static str)], name: &str| {
        list.iter().find(|(of, _)| *of == name).map(|(_, text)| *text)
    };
    if served(article).is_none() {
        let container = article.name.split('|').next().unwrap();
        let why = of(MISSING, article.name).or_else(|| of(MISSING, container));
        let why = why.or_else(|| of(MISSING_GROUPS, article.group)).unwrap_or("not built yet");
        return format!("no: {why}");
    }
    let differs = if differs(article, cases) { ", [differs](compatibility.md)" } else { "" };
    let remark = of(REMARKS, article.name).map(|remark| format!("; {remark}")).unwrap_or_default();
    format!("yes{differs}{}{remark}", without(article))
}

/// The options of newer versions that Tarn does not take, behind them the version of each.
fn without(article: &Article) -> String {
    let (mut text, missing) = (String::new(), article.missing());
    for (at, (word, version)) in missing.iter().enumerate() {
        text += if at == 0 { "; without " } else { " " };
        write!(text, "`{word}`").unwrap();
        if missing.get(at + 1).is_none_or(|(_, next)| next != version) {
            write!(text, " ({version})").unwrap();
        }
    }
    text
}

/// The first and the second number of a version.
fn numbers(version: &str) -> (u32, u32) {
    let mut numbers = version.split('.').map(|number| number.parse().unwrap());
    (numbers.next().unwrap(), numbers.next().unwrap_or(u32::MAX))
}

fn count(page: &mut String, name: &str, is_in: impl Fn(&Article) -> bool) {
    let all: Vec<&Article> = articles().iter().filter(|article| is_in(article)).collect();
    let there = all.iter().filter(|article| served(article).is_some()).count();
    writeln!(page, "| {name} | {} | {there} |", all.len()).unwrap();
}

fn page() -> String {
    let (mut page, cases) = (HEAD.to_owned(), cases());
    for (name, newest) in VERSIONS {
        count(&mut page, name, |article| {
            article.redis.is_some_and(|first| numbers(first) <= numbers(newest))
        });
    }
    count(&mut page, "Valkey 9", |article| article.valkey.is_some());
    count(&mut page, "Tarn alone", |article| article.redis.is_none() && article.valkey.is_none());
    let mut group = "";
    for article in articles() {
        if article.group != group {
            group = article.group;
            write!(page, "\n## {group}\n\n{COLUMNS}").unwrap();
        }
        let (redis, valkey) = (article.redis.unwrap_or("–"), article.valkey.unwrap_or("–"));
        writeln!(page, "| `{}` | {redis} | {valkey} | {} |", written(article), status(article, &cases))
            .unwrap();
    }
    page
}

fn page_of(name: &str) -> PathBuf {
    Path::new(&std::env::var_os("CARGO_MANIFEST_DIR").unwrap()).join("../docs").join(name)
}

#[test]
fn the_page_of_commands_says_what_their_table_says() {
    let (path, page) = (page_of("commands.md"), page());
    if std::env::var_os("TARN_WRITE_DOCS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    let stale = page.lines().zip(written.lines()).find(|(now, written)| now != written);
    assert!(
        written == page,
        "docs/commands.md is stale, first at {stale:?}; write it with TARN_WRITE_DOCS=1 cargo test -p \
         tarn-server --test commands_page"
    );
}

#[test]
fn reasons_are_of_commands_that_are_missing_and_remarks_of_those_that_are_there() {
    let find = |name: &str| articles().iter().find(|article| article.name == name);
    for &(name, _) in MISSING {
        assert!(find(name).is_some_and(|article| served(article).is_none()), "{name} is no missing command");
    }
    for &(name, _) in REMARKS {
        assert!(find(name).is_some_and(|article| served(article).is_some()), "{name} is not served");
    }
    for (group, _) in MISSING_GROUPS {
        let is_missing = |article: &Article| article.group == *group && served(article).is_none();
        assert!(articles().iter().any(is_missing), "nothing of {group} is missing");
    }
}

#[test]
fn a_case_is_about_the_command_that_it_names() {
    let cases: BTreeSet<String> =
        ["OBJECT ENCODING", "XADD", "LPOS", "CONFIG"].into_iter().map(str::to_owned).collect();
    let named: Vec<&str> =
        articles().iter().filter(|article| differs(article, &cases)).map(|article| article.name).collect();
    assert_eq!(named, ["object|encoding", "lpos", "xadd", "config"]);
}
