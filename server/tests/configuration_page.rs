//! `docs/configuration.md` says what the table of directives says.
//!
//! With `TARN_WRITE_DOCS=1` in the environment the test writes the page instead of comparing it.

#![allow(clippy::unwrap_used)]

use std::fmt::Write;
use std::path::Path;

use tarn_server::config::{Directive, Shape, directives};

const HEAD: &str = "\
<!-- Written by: TARN_WRITE_DOCS=1 cargo test -p tarn-server --test configuration_page -->

# Configuration

`tarn serve` reads a file in the syntax of `redis.conf`, then `--directive value` from the command line,
which overrides the file; what Tarn cannot do is judged behind the last of them. All directives of
redis-server 7.0 are known here, those of Redis up to 8 and of Valkey up to 9, and the few that only Tarn has.
`tarn serve --test-config FILE` tells of a file what the server would not obey, and whether each value is
valid. It starts nothing, and tries no ports, directories or certificates.
`CONFIG GET` shows them all; `CONFIG SET` changes those with *yes* under *run time*; `CONFIG REWRITE` writes
what is in force back into the file. Sizes take the units `b`, `k` (1000), `kb` (1024), `m`, `mb`, `g`, `gb`.
";

const WITH_EFFECT: &str = "
## Directives that Tarn obeys

| directive | takes | default | run time | what it does |
| --- | --- | --- | --- | --- |
";

const WITHOUT_EFFECT: &str = "
## Directives that are accepted without effect

They can be set, are shown and are written back, so that an existing `redis.conf` works. A value other than
the default brings a warning at the start, and when it is set. One more line of the start names every
directive of the configuration that the server does not obey, also where the default is what it does not do.

| directive | takes | default | run time | why it changes nothing |
| --- | --- | --- | --- | --- |
";

const REFUSED: &str = "
## Directives that have to keep their default

Another value would promise what Tarn does not do, so it is refused, at the start and by `CONFIG SET`. So are
the orders `loadmodule` and `sentinel`. A line `user NAME RULES...` makes a user, and a line
`rename-command NAME OTHER` gives a command another name, or none if that is empty. They are no directives,
and `CONFIG GET` does not show them. A user of the command line takes the place of that of the file.

| directive | takes | default | why |
| --- | --- | --- | --- |
";

fn page() -> String {
    let mut page = HEAD.to_owned() + WITH_EFFECT;
    for row in directives().filter(|row| row.is_implemented()) {
        let lack = row.lack().map(|why| format!("; without effect in part: {why}")).unwrap_or_default();
        line(
            &mut page,
            &[&name(row), &takes(row), &default(row), run_time(row), &(row.doc.to_owned() + &lack)],
        );
    }
    page += WITHOUT_EFFECT;
    for row in directives().filter(|row| !row.is_implemented()) {
        if let Some(why) = row.lack() {
            line(&mut page, &[&name(row), &takes(row), &default(row), run_time(row), why]);
        }
    }
    page += REFUSED;
    for row in directives() {
        if let Some(why) = row.refused_beside_default() {
            line(&mut page, &[&name(row), &takes(row), &default(row), why]);
        }
    }
    page
}

fn line(page: &mut String, cells: &[&str]) {
    writeln!(page, "| {} |", cells.join(" | ")).unwrap();
}

fn name(row: &Directive) -> String {
    match row.alias {
        Some(alias) => format!("`{}`, `{alias}`", row.name),
        None => format!("`{}`", row.name),
    }
}

fn default(row: &Directive) -> String {
    if row.default.is_empty() { "`\"\"`".to_owned() } else { format!("`{}`", row.default) }
}

fn run_time(row: &Directive) -> &'static str {
    if row.run_time { "yes" } else { "no" }
}

fn takes(row: &Directive) -> String {
    let names = |names: &[&str]| names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" ");
    match row.shape {
        Shape::Bool => "`yes` `no`".to_owned(),
        Shape::Int { min, max } => format!("number{}", range(min, max)),
        Shape::Octal => "octal number to 777".to_owned(),
        Shape::Memory { min, max } => format!("size{}", range(min, max)),
        Shape::MemoryOrPercent => "size, or `0%` to `100%`".to_owned(),
        Shape::Choice(choices) | Shape::RenamedChoice { names: choices, .. } => names(choices),
        Shape::Flags(flags) => format!("some of {}", names(flags)),
        Shape::Text => "text".to_owned(),
        Shape::List => "words".to_owned(),
        Shape::Paths => "paths".to_owned(),
    }
}

/// A range, without those of its ends that only the width of a number sets.
fn range(min: i64, max: i64) -> String {
    let is_width = |n: i64| [i64::MAX, i32::MAX.into(), i32::MIN.into(), u32::MAX.into()].contains(&n);
    match (is_width(min), is_width(max)) {
        (false, false) => format!(", {min} to {max}"),
        (false, true) => format!(" from {min}"),
        _ => String::new(),
    }
}

#[test]
fn the_page_of_directives_says_what_their_table_says() {
    let path = Path::new(&std::env::var_os("CARGO_MANIFEST_DIR").unwrap()).join("../docs/configuration.md");
    let page = page();
    if std::env::var_os("TARN_WRITE_DOCS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    let stale = page.lines().zip(written.lines()).find(|(now, written)| now != written);
    assert!(
        written == page,
        "docs/configuration.md is stale, first at {stale:?}; write it with TARN_WRITE_DOCS=1 cargo test -p \
         tarn-server --test configuration_page"
    );
}

#[test]
fn every_directive_is_on_the_page_once() {
    let page = page();
    for row in directives() {
        let cell = format!("\n| `{}`", row.name);
        let count = [" |", ","].iter().map(|end| page.matches(&(cell.clone() + end)).count()).sum::<usize>();
        assert_eq!(count, 1, "{}", row.name);
    }
}
