//! The order of modules inside a package: a module imports only lower floors, so that each can be read,
//! tested and replaced without those above. In the engine:
//!
//! ```text
//!   engine  session  early  recovery  repair      know table, log and view together
//!   compactor  renewal  backup  indexer
//!   checkpoint
//!   view  overlay  watch
//!   index  gate  declared
//!   table | log                    never each other
//!   value
//!   io  upheaval
//!   record  error  lock
//! ```
//!
//! Modules of one floor may know each other, except those that are listed as apart. Tests may know
//! everything. `ARCHITECTURE.md` has the floors of each package.

use super::Finding;
use super::source::{Tree, is_for_tests};
use syn::visit::{Visit, visit_item_mod, visit_path};
use syn::{ItemMod, ItemUse, Path, UseTree};

/// From the ground up. A new module of the engine gets its place here.
const FLOORS: &[&[&str]] = &[
    &["record", "error", "lock"],
    &["io", "upheaval"],
    &["value"],
    &["table", "log"],
    &["index", "gate", "declared"],
    &["view", "overlay", "watch"],
    &["checkpoint"],
    &[
        "engine",
        "indexer",
        "session",
        "recovery",
        "repair",
        "scrub",
        "compactor",
        "renewal",
        "options",
        "backup",
        "early",
    ],
];

/// The floors of `analytics`. A new folder, or a file beside the folders, gets its place here.
const ANALYTICS: &[&[&str]] = &[
    &["table"],
    &["error"],
    &["statement", "dialect", "json"],
    &["plan", "guard"],
    &["exact", "catalog", "export", "connections"],
    &["analytics"],
    &["session", "stats"],
    &["search", "wire"],
];

/// A package whose modules have floors.
struct Package {
    name: &'static str,
    floors: &'static [&'static [&'static str]],
    /// Whether a module may import no other module of its floor.
    is_apart: fn(&str) -> bool,
}

const PACKAGES: &[Package] = &[
    Package { name: "engine", floors: FLOORS, is_apart: |module| ["table", "log"].contains(&module) },
    Package { name: "analytics", floors: ANALYTICS, is_apart: |_| true },
];

const RULE: &str = "floors";

/// Imports that go up, or across to a module that is apart.
pub fn check(tree: &Tree) -> Vec<Finding> {
    PACKAGES.iter().flat_map(|package| check_package(tree, package)).collect()
}

fn check_package(tree: &Tree, package: &Package) -> Vec<Finding> {
    let floor_of = |module: &str| package.floors.iter().position(|floor| floor.contains(&module));
    let source = format!("{}/src/", package.name);
    let mut findings = Vec::new();
    for (path, _, rust) in tree.rust() {
        let Some(inside) = path.strip_prefix(&source) else { continue };
        let module = inside.split(['/', '.']).next().expect("a split has at least one part");
        if rust.is_test || module == "lib" {
            continue;
        }
        let Some(floor) = floor_of(module) else {
            let problem = format!("module `{module}` has no floor; give it one in xtask/src/tidy/floors.rs");
            findings.push(Finding { path: path.to_owned(), line: 1, rule: RULE, problem });
            continue;
        };
        for (line, imported) in imports(&rust.file) {
            let Some(other) = floor_of(&imported) else { continue };
            let is_across = other == floor && imported != module && (package.is_apart)(module);
            if other > floor || is_across {
                let problem = format!(
                    "`{module}` imports `{imported}`, which is not below it; move what both need down"
                );
                findings.push(Finding { path: path.to_owned(), line, rule: RULE, problem });
            }
        }
    }
    findings
}

/// The modules named right after `crate::`, with their lines; those of test modules left out.
fn imports(file: &syn::File) -> Vec<(usize, String)> {
    let mut visitor = Imports { found: Vec::new() };
    visitor.visit_file(file);
    visitor.found
}

struct Imports {
    found: Vec<(usize, String)>,
}

impl Imports {
    fn add_tree(&mut self, tree: &UseTree) {
        match tree {
            UseTree::Path(path) => self.add(&path.ident),
            UseTree::Name(name) => self.add(&name.ident),
            UseTree::Rename(rename) => self.add(&rename.ident),
            UseTree::Group(group) => group.items.iter().for_each(|item| self.add_tree(item)),
            UseTree::Glob(_) => {}
        }
    }

    fn add(&mut self, module: &syn::Ident) {
        self.found.push((module.span().start().line, module.to_string()));
    }
}

impl<'ast> Visit<'ast> for Imports {
    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        if !is_for_tests(&module.attrs) {
            visit_item_mod(self, module);
        }
    }

    fn visit_item_use(&mut self, import: &'ast ItemUse) {
        if let UseTree::Path(path) = &import.tree
            && path.ident == "crate"
        {
            self.add_tree(&path.tree);
        }
    }

    fn visit_path(&mut self, path: &'ast Path) {
        if path.segments.len() > 1 && path.segments[0].ident == "crate" {
            self.add(&path.segments[1].ident);
        }
        visit_path(self, path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::source::sample;

    fn problems(path: &str, text: &str) -> Vec<usize> {
        check(&sample(&[(path, text)])).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn lower_floors_may_be_imported() {
        let text = "use crate::record::Lsn;\nuse crate::{io, value::Value};\nuse crate::table::Entry;";
        assert_eq!(problems("engine/src/table/segment.rs", text), []);
        assert_eq!(problems("engine/src/engine.rs", "use crate::{table, log, session};"), []);
        assert_eq!(problems("server/src/table.rs", "use crate::engine;"), []);
    }

    #[test]
    fn upper_floors_may_not() {
        assert_eq!(problems("engine/src/record.rs", "\nuse crate::io::Disk;"), [2]);
        assert_eq!(problems("engine/src/value/mod.rs", "use crate::{\nrecord::Lsn,\ntable::Entry};"), [3]);
        assert_eq!(problems("engine/src/log/mod.rs", "fn f() {\n crate::engine::open();\n}"), [2]);
    }

    #[test]
    fn table_and_log_do_not_know_each_other() {
        assert_eq!(problems("engine/src/table/mod.rs", "use crate::log::Log;"), [1]);
        assert_eq!(problems("engine/src/log/mod.rs", "fn f(entry: &crate::table::Entry) {}"), [1]);
    }

    #[test]
    fn each_package_has_its_floors() {
        let text = "use crate::error::QueryError;\nuse crate::wire::Caller;";
        assert_eq!(problems("analytics/src/search/mod.rs", text), [2]);
        assert_eq!(problems("analytics/src/table/rows.rs", text), [1, 2]);
    }

    #[test]
    fn tests_may_know_everything() {
        let text = "#[cfg(test)]\nmod tests {\n use crate::engine::Engine;\n}";
        assert_eq!(problems("engine/src/io/os.rs", text), []);
    }

    #[test]
    fn a_module_without_a_floor_is_found() {
        assert_eq!(problems("engine/src/attic.rs", ""), [1]);
    }
}
