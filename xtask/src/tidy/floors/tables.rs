//! The tables of floors in the text: rendered from the constants, compared with what is written, and written.
//!
//! ```text
//!   <!-- floors: engine -->        in ARCHITECTURE.md, and with `//!` before it in engine/src/lib.rs
//!       2  table | log             the highest floor first; `|` between modules that are apart
//!       1  record  lock
//!   <!-- end of floors -->
//! ```
//!
//! docs/how-it-works.md has a table of the engine's modules by hand, with a text for each: there only the
//! levels are compared.

use super::order::Package;
use crate::tidy::Finding;
use crate::tidy::source::Tree;
use std::collections::BTreeSet;

const END: &str = "<!-- end of floors -->";
const RULE: &str = "floor-table";

/// Columns of a rendered line, what stands before it included.
const COLUMNS_MAX: usize = 100;

/// The package whose modules a page describes one by one, and that page.
const DESCRIBED: (&str, &str) = ("engine", "docs/how-it-works.md");

/// Tables that are not what the floors are, or are not there.
pub(super) fn check(tree: &Tree, package: &Package) -> Vec<Finding> {
    let mut findings = Vec::new();
    for path in places(tree, package) {
        let finding = |line, problem| Finding { path: path.clone(), line, rule: RULE, problem };
        match between(&tree.files[&path].text, package) {
            None => findings.push(finding(
                1,
                format!(
                    "the table of floors has no place; add the lines `{}` and `{END}`, then call \
                     `cargo xtask tidy --write`",
                    begin(package)
                ),
            )),
            Some(place) if place.lines != rendered(&path, package) => findings.push(finding(
                place.line,
                format!(
                    "the table is not the floors of `{}` in xtask/src/tidy/floors/order.rs; call \
                     `cargo xtask tidy --write`",
                    package.name
                ),
            )),
            Some(_) => {}
        }
    }
    if package.name == DESCRIBED.0 {
        findings.extend(check_described(tree, package));
    }
    findings
}

/// The text that a file should have; `None` if it is that, or has no place for the table.
pub(super) fn corrected(tree: &Tree, package: &Package, path: &str, text: &str) -> Option<String> {
    if !places(tree, package).iter().any(|place| place == path) {
        return None;
    }
    let place = between(text, package)?;
    let lines: Vec<&str> = text.lines().collect();
    let (before, after) = (&lines[..place.line], &lines[place.line + place.lines.len()..]);
    let table = rendered(path, package);
    let all = before.iter().copied().chain(table.iter().map(String::as_str)).chain(after.iter().copied());
    let corrected: String = all.flat_map(|line| [line, "\n"]).collect();
    (corrected != text).then_some(corrected)
}

/// The files that have the table: the page of the house and the head of the crate.
fn places(tree: &Tree, package: &Package) -> Vec<String> {
    let source = |file| format!("{}/src/{file}", package.name);
    let all = ["ARCHITECTURE.md".to_owned(), source("lib.rs"), source("main.rs")];
    all.into_iter().filter(|path| tree.files.contains_key(path)).collect()
}

fn begin(package: &Package) -> String {
    format!("<!-- floors: {} -->", package.name)
}

/// The lines between the two markers.
struct Place {
    /// The line of the first marker, from 1.
    line: usize,
    lines: Vec<String>,
}

fn between(text: &str, package: &Package) -> Option<Place> {
    let bare = |line: &str| line.trim_start_matches("//!").trim().to_owned();
    let first = text.lines().position(|line| bare(line) == begin(package))?;
    let mut lines = Vec::new();
    for line in text.lines().skip(first + 1) {
        if bare(line) == END {
            return Some(Place { line: first + 1, lines });
        }
        lines.push(line.to_owned());
    }
    None
}

/// The lines of the table as a file has them: an indented block in Markdown; in Rust a block of text, since
/// rustdoc takes an indented one for a test.
fn rendered(path: &str, package: &Package) -> Vec<String> {
    let (first, prefix, last) = match path.ends_with(".rs") {
        true => ("//! ```text", "//!   ", "//! ```"),
        false => ("", "    ", ""),
    };
    let mut lines = vec![first.to_owned()];
    let width = package.floors.len().to_string().len();
    for (index, floor) in package.floors.iter().enumerate().rev() {
        let mut line = format!("{prefix}{:>width$}", index + 1);
        let mut is_first = true;
        let mut before = "";
        for module in *floor {
            let is_apart = !is_first && ((package.is_apart)(before) || (package.is_apart)(module));
            let between = if is_apart { " | " } else { "  " };
            if line.chars().count() + between.len() + module.len() > COLUMNS_MAX {
                // The sign that they are apart stays at the end of the line.
                lines.push(format!("{line}{between}").trim_end().to_owned());
                line = format!("{prefix}{:width$}", "");
                line.push_str("  ");
            } else {
                line.push_str(between);
            }
            line.push_str(module);
            (is_first, before) = (false, module);
        }
        lines.push(line);
    }
    lines.push(last.to_owned());
    lines
}

/// Rows `| level | modules | text |` of the page that describes the modules.
fn check_described(tree: &Tree, package: &Package) -> Vec<Finding> {
    let path = DESCRIBED.1;
    let Some(page) = tree.files.get(path) else { return Vec::new() };
    let finding = |line, problem| Finding { path: path.to_owned(), line, rule: RULE, problem };
    let mut findings = Vec::new();
    let mut described = BTreeSet::new();
    for (index, line) in page.text.lines().enumerate() {
        let mut cells = line.split('|').skip(1).map(str::trim);
        let level = cells.next().and_then(|cell| cell.parse::<usize>().ok());
        let (Some(level), Some(modules)) = (level, cells.next()) else { continue };
        for module in modules.split('`').skip(1).step_by(2) {
            let floor = package.floors.iter().position(|floor| floor.contains(&module));
            if floor != Some(level.wrapping_sub(1)) {
                let is = floor.map_or("no module".to_owned(), |floor| format!("level {}", floor + 1));
                findings.push(finding(
                    index + 1,
                    format!("`{module}` has {is} in the table of floors; say that"),
                ));
            }
            described.insert(module);
        }
    }
    let missing =
        package.floors.iter().flat_map(|floor| floor.iter()).filter(|one| !described.contains(*one));
    findings
        .extend(missing.map(|module| finding(1, format!("`{module}` is missing in the table; describe it"))));
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::source::sample;

    const PACKAGE: Package = Package {
        name: "p",
        floors: &[&["record", "lock"], &["table", "log"]],
        is_apart: |module| ["table", "log"].contains(&module),
    };
    const PAGE: &str = "# Page\n<!-- floors: p -->\n\n    2  table | log\n    1  record  lock\n\n\
                        <!-- end of floors -->\nEnd.\n";
    const HEAD: &str = "//! Head.\n//!\n//! <!-- floors: p -->\n//! ```text\n//!   2  table | log\n\
                        //!   1  record  lock\n//! ```\n//! <!-- end of floors -->\nmod a;\n";

    fn found(page: &str, head: &str) -> Vec<(String, usize)> {
        let tree = sample(&[("ARCHITECTURE.md", page), ("p/src/lib.rs", head)]);
        check(&tree, &PACKAGE).into_iter().map(|finding| (finding.path, finding.line)).collect()
    }

    #[test]
    fn tables_are_what_the_floors_are() {
        assert_eq!(found(PAGE, HEAD), []);
        assert_eq!(found(&PAGE.replace(" | ", "  "), HEAD), [("ARCHITECTURE.md".to_owned(), 2)]);
        assert_eq!(found(PAGE, &HEAD.replace("  lock", "")), [("p/src/lib.rs".to_owned(), 3)]);
        assert_eq!(found("# Page\n", "//! Head.\n").len(), 2);
        assert_eq!(found("# Page\n<!-- floors: p -->\n", HEAD), [("ARCHITECTURE.md".to_owned(), 1)]);
    }

    #[test]
    fn a_wrong_table_is_written() {
        for (path, good) in [("ARCHITECTURE.md", PAGE), ("p/src/lib.rs", HEAD)] {
            let bad = good.replace("table | log", "table").replace("  lock\n", "\nmore\n");
            let tree = sample(&[(path, good)]);
            assert_eq!(corrected(&tree, &PACKAGE, path, &bad).as_deref(), Some(good));
            assert_eq!(corrected(&tree, &PACKAGE, path, good), None);
        }
        let tree = sample(&[("README.md", PAGE)]);
        assert_eq!(
            corrected(&tree, &PACKAGE, "README.md", "<!-- floors: p -->\n<!-- end of floors -->"),
            None
        );
    }

    #[test]
    fn a_wide_floor_takes_several_lines() {
        let package = Package { floors: &[&["a_module_of_thirty_characters_"; 4]], ..PACKAGE };
        let lines = rendered("ARCHITECTURE.md", &package);
        let name = package.floors[0][0];
        assert_eq!(lines[1..3], [format!("    1  {name}  {name}"), format!("       {name}  {name}")]);
        let apart = Package { is_apart: |_| true, ..package };
        assert!(rendered("p/src/lib.rs", &apart)[1].ends_with("_ |"));
    }

    #[test]
    fn levels_of_described_modules_are_compared() {
        let package = Package { name: "engine", ..PACKAGE };
        let found = |page| {
            let tree = sample(&[(DESCRIBED.1, page)]);
            check(&tree, &package).into_iter().map(|finding| finding.line).collect::<Vec<usize>>()
        };
        assert_eq!(found("| 1 | `record`, `lock` | x |\n| 2 | `table` | `a` |\n| 2 | `log` | x |"), []);
        assert_eq!(found("| 1 | `record`, `lock` | x |\n| 1 | `table` | x |"), [2, 1]);
    }
}
