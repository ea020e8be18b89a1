//! Floors of the packages: the packages that each may import, and the parts that stay private.
//!
//! The table of packages in ARCHITECTURE.md says the same in its last column, and is compared.
//!
//! No other package sees the private modules of the engine: the log and the table.

use super::Finding;
use super::source::Tree;
use proc_macro2::{TokenStream, TokenTree};
use std::collections::BTreeSet;

/// A package, by its folder, and those of the house that it may depend on.
const ALLOWED: &[(&str, &[&str])] = &[
    ("resp", &[]),
    ("rdb", &[]),
    ("lua", &["tarn-resp"]),
    ("study", &[]),
    ("engine", &[]),
    ("analytics", &["tarn-engine"]),
    ("server", &["tarn-resp", "tarn-rdb", "tarn-lua", "tarn-engine"]),
    ("lab", &["tarn-resp", "tarn-rdb", "tarn-engine", "tarn-study"]),
    ("tarn", &["tarn-lab", "tarn-server", "tarn-engine", "tarn-rdb", "tarn-resp", "tarn-analytics"]),
    ("xtask", &[]),
];

/// The page with the table of packages.
const PAGE: &str = "ARCHITECTURE.md";

/// Modules of the engine that only the engine names.
const BEHIND_THE_DOOR: &[&str] = &["table", "log"];

/// Dependencies that are not allowed, and names of modules that only the engine may name.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (package, allowed) in ALLOWED {
        let path = format!("{package}/Cargo.toml");
        let Some(manifest) = tree.files.get(&path) else { continue };
        for (index, line) in manifest.text.lines().enumerate() {
            let name = line.split(['.', ' ', '=']).next().expect("a split has at least one part");
            if name.starts_with("tarn-") && !allowed.contains(&name) {
                let problem =
                    format!("`{package}` may not know `{name}`; see `ALLOWED` in xtask/src/tidy/packages.rs");
                findings.push(Finding { path: path.clone(), line: index + 1, rule: "packages", problem });
            }
        }
    }
    findings.extend(check_page(tree));
    for (path, _, rust) in tree.rust() {
        if !path.starts_with("engine/") && !path.starts_with("fuzz/") {
            let mut found = Vec::new();
            find_behind_the_door(rust.tokens.clone(), &mut found);
            findings.extend(found.into_iter().map(|(line, module)| Finding {
                path: path.to_owned(),
                line,
                rule: "front-door",
                problem: format!(
                    "`tarn_engine::{module}` is the engine's own; take it from the top of `tarn_engine`"
                ),
            }));
        }
    }
    findings
}

/// Rows of the table of packages in ARCHITECTURE.md whose last column is not what is allowed.
fn check_page(tree: &Tree) -> Vec<Finding> {
    let Some(page) = tree.files.get(PAGE) else { return Vec::new() };
    let finding = |line, problem| Finding { path: PAGE.into(), line, rule: "packages", problem };
    let rows = page.text.lines().enumerate().filter_map(|(index, line)| Some((index + 1, row(line)?)));
    let rows: Vec<(usize, (&str, BTreeSet<&str>))> = rows.collect();
    let mut findings = Vec::new();
    for (package, allowed) in ALLOWED {
        let Some((line, (_, imports))) = rows.iter().find(|(_, (name, _))| name == package) else {
            findings.push(finding(1, format!("the table of packages has no row for `{package}`; add it")));
            continue;
        };
        let allowed: BTreeSet<&str> = allowed.iter().map(|name| name.trim_start_matches("tarn-")).collect();
        if *imports != allowed {
            let allowed: Vec<&str> = allowed.into_iter().collect();
            findings.push(finding(
                *line,
                format!(
                    "`{package}` may import {allowed:?}; say that in the last column, or change `ALLOWED` in \
                     xtask/src/tidy/packages.rs"
                ),
            ));
        }
    }
    findings
}

/// The package of a row `| \`package\` | text | \`import\`, … |`, and its imports; what is in brackets is
/// left out.
fn row(line: &str) -> Option<(&str, BTreeSet<&str>)> {
    let (name, rest) = line.strip_prefix("| `")?.split_once("` |")?;
    let (_, last) = rest.trim_end().strip_suffix('|')?.rsplit_once('|')?;
    let outside = last.split('(').enumerate().filter_map(|(index, part)| match index {
        0 => Some(part),
        _ => part.split_once(')').map(|(_, after)| after),
    });
    Some((name, outside.flat_map(|part| part.split('`').skip(1).step_by(2)).collect()))
}

/// Sequences `tarn_engine :: table`, also inside of macros. (`use tarn_engine::{table}` is left to the
/// reader.)
fn find_behind_the_door(tokens: TokenStream, found: &mut Vec<(usize, String)>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    for (index, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Group(group) => find_behind_the_door(group.stream(), found),
            TokenTree::Ident(name) if name == "tarn_engine" => {
                if let Some(TokenTree::Ident(module)) = tokens.get(index + 3)
                    && BEHIND_THE_DOOR.iter().any(|behind| module == behind)
                {
                    found.push((module.span().start().line, module.to_string()));
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::source::sample;

    #[test]
    fn a_package_knows_only_those_below_it() {
        let good =
            sample(&[("server/Cargo.toml", "[dependencies]\ntarn-engine.workspace = true\nbytes = \"1\"")]);
        assert_eq!(check(&good), []);
        let bad = sample(&[("engine/Cargo.toml", "[dependencies]\ntarn-resp = { path = \"../resp\" }")]);
        assert_eq!(check(&bad).len(), 1);
        assert_eq!(check(&bad)[0].line, 2);
    }

    #[test]
    fn the_page_says_what_is_allowed() {
        let row = |(name, imports): &(&str, &[&str])| {
            let imports: Vec<String> =
                imports.iter().map(|one| format!("`{}`", one.trim_start_matches("tarn-"))).collect();
            format!("| `{name}` | with `words` | {} |\n", imports.join(", "))
        };
        let good: String = ALLOWED.iter().map(row).collect();
        let lines = |page: &str| {
            let tree = sample(&[(PAGE, page)]);
            check(&tree).iter().map(|finding| finding.line).collect::<Vec<usize>>()
        };
        assert_eq!(lines(&good), []);
        assert_eq!(lines(&good.replace("`analytics`,", "`analytics` (feature `sql`),")), []);
        let analytics = 1 + ALLOWED.iter().position(|(name, _)| *name == "analytics").expect("a package");
        assert_eq!(lines(&good.replace("| `engine` |\n", "| - |\n")), [analytics]);
        assert_eq!(lines(&good.replace("| `resp` | with `words` |  |", "| `resp` | with | `rdb` |")), [1]);
        assert_eq!(lines(&good.replace("| `xtask`", "| xtask")), [1]);
    }

    #[test]
    fn nobody_looks_behind_the_engines_door() {
        let text = "use tarn_engine::record::Lsn;\nuse tarn_engine::table::Entry;\n\
                    fn f() { vec![tarn_engine::log::x()]; }";
        let lines: Vec<usize> =
            check(&sample(&[("server/src/a.rs", text)])).iter().map(|one| one.line).collect();
        assert_eq!(lines, [2, 3]);
        assert_eq!(check(&sample(&[("engine/tests/a.rs", text)])), []);
    }
}
