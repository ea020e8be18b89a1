//! Floors of the packages: the packages that each may import, and the parts that stay private.
//!
//! ```text
//!   tarn       -> lab, server, analytics, rdb
//!   lab        -> resp, engine, study
//!   server     -> resp, rdb, engine
//!   analytics  -> engine
//!   resp, rdb, study, engine, xtask know nobody
//! ```
//!
//! No other package sees the private modules of the engine: the log and the table.

use super::Finding;
use super::source::Tree;
use proc_macro2::{TokenStream, TokenTree};

/// A package, by its folder, and those of the house that it may depend on.
const ALLOWED: &[(&str, &[&str])] = &[
    ("resp", &[]),
    ("rdb", &[]),
    ("study", &[]),
    ("engine", &[]),
    ("analytics", &["tarn-engine"]),
    ("server", &["tarn-resp", "tarn-rdb", "tarn-engine"]),
    ("lab", &["tarn-resp", "tarn-engine", "tarn-study"]),
    ("tarn", &["tarn-lab", "tarn-server", "tarn-engine", "tarn-rdb", "tarn-resp", "tarn-analytics"]),
    ("xtask", &[]),
];

/// Modules of the engine that only the engine names.
const BEHIND_THE_DOOR: &[&str] = &["table", "log"];

/// Dependencies that are not allowed, and names of modules that only the engine may name.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (package, allowed) in ALLOWED {
        let path = format!("{package}/Cargo.toml");
        let Some(manifest) = tree.files.get(&path) else { continue };
        for (index, line) in manifest.text.lines().enumerate() {
            let name = line.split(['.', ' ', '=']).next().expect("a split has at least one part");
            if name.starts_with("tarn-") && !allowed.contains(&name) {
                let problem = format!(
                    "`{package}` may not know `{name}`; see the floors in xtask/src/tidy/packages.rs"
                );
                findings.push(Finding { path: path.clone(), line: index + 1, rule: "packages", problem });
            }
        }
    }
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
    fn nobody_looks_behind_the_engines_door() {
        let text = "use tarn_engine::record::Lsn;\nuse tarn_engine::table::Entry;\n\
                    fn f() { vec![tarn_engine::log::x()]; }";
        let lines: Vec<usize> =
            check(&sample(&[("server/src/a.rs", text)])).iter().map(|one| one.line).collect();
        assert_eq!(lines, [2, 3]);
        assert_eq!(check(&sample(&[("engine/tests/a.rs", text)])), []);
    }
}
