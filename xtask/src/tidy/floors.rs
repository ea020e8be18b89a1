//! Floors of the engine: a module imports only lower floors, so that each can be read, tested and replaced
//! without those above.
//!
//! ```text
//!   engine                                       the façade
//!   backup  scrub  recovery  repair
//!   early  renewal  compactor  indexer  expirer
//!   session
//!   store                                        what all threads share
//!   checkpoint
//!   view  overlay  watch  rewrite_cursor
//!   index  gate  declared
//!   table | log                                  never each other
//!   value
//!   io  upheaval
//!   record  lock
//! ```
//!
//! Modules of one floor may know each other, but for `table` and `log`. Tests may know everything.
//!
//! The folders of the packages `server` and `analytics` are floors, too; ARCHITECTURE.md has all tables.

use super::Finding;
use super::source::{Tree, is_for_tests};
use syn::visit::{Visit, visit_item_mod, visit_path};
use syn::{ItemMod, ItemUse, Path, UseTree};

/// From the ground up. A new module of the engine gets its place here.
const FLOORS: &[&[&str]] = &[
    &["record", "lock"],
    &["io", "upheaval"],
    &["value"],
    &["table", "log"],
    &["index", "gate", "declared"],
    &["view", "overlay", "watch", "rewrite_cursor"],
    &["checkpoint"],
    &["store"],
    &["session"],
    &["early", "renewal", "compactor", "indexer", "expirer"],
    &["backup", "scrub", "recovery", "repair"],
    &["engine"],
];

/// The same for package `server`. Modules of one floor do not know each other.
const SERVER: &[&[&str]] = &[
    &["error", "glob", "version"],
    &["json", "config"],
    &["net"],
    &["analytics", "observe"],
    &["store"],
    &["shared"],
    &["persist"],
    &["execute"],
    &["metrics", "apply"],
    &["commands"],
    &["serve"],
];

/// A package, its floors, and the modules that do not import others of their floor.
struct Order {
    source: &'static str,
    floors: &'static [&'static [&'static str]],
    apart: fn(&str) -> bool,
}

const ORDERS: &[Order] = &[
    Order { source: "engine/src/", floors: FLOORS, apart: |module| ["table", "log"].contains(&module) },
    Order { source: "server/src/", floors: SERVER, apart: |_| true },
    Order { source: "analytics/src/", floors: ANALYTICS, apart: |_| true },
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

const RULE: &str = "floors";

/// Imports that go up, or across between modules that must not know each other.
pub fn check(tree: &Tree) -> Vec<Finding> {
    ORDERS.iter().flat_map(|order| order.check(tree)).collect()
}

impl Order {
    fn check(&self, tree: &Tree) -> Vec<Finding> {
        let mut findings = Vec::new();
        for (path, _, rust) in tree.rust() {
            let Some(inside) = path.strip_prefix(self.source) else { continue };
            let module = inside.split(['/', '.']).next().expect("a split has at least one part");
            if !rust.is_test && module != "lib" {
                self.check_file(path, module, &rust.file, &mut findings);
            }
        }
        findings
    }

    fn check_file(&self, path: &str, module: &str, file: &syn::File, findings: &mut Vec<Finding>) {
        let mut find = |line, problem| {
            findings.push(Finding { path: path.to_owned(), line, rule: RULE, problem });
        };
        let Some(floor) = self.floor_of(module) else {
            find(1, format!("module `{module}` has no floor; give it one in xtask/src/tidy/floors.rs"));
            return;
        };
        for (line, imported) in imports(file) {
            let Some(other) = self.floor_of(&imported) else { continue };
            let is_across = other == floor && imported != module && (self.apart)(module);
            if other > floor || is_across {
                find(
                    line,
                    format!(
                        "`{module}` imports `{imported}`, which is not below it; move what both need down"
                    ),
                );
            }
        }
    }

    fn floor_of(&self, module: &str) -> Option<usize> {
        self.floors.iter().position(|floor| floor.contains(&module))
    }
}

/// The modules named directly after `crate::`, with their lines; without those of test modules.
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
        assert_eq!(problems("server/src/execute/table.rs", "use crate::{net::address::Address, store};"), []);
        assert_eq!(problems("lab/src/record.rs", "use crate::engine;"), []);
    }

    #[test]
    fn upper_floors_may_not() {
        assert_eq!(problems("engine/src/record.rs", "\nuse crate::io::Disk;"), [2]);
        assert_eq!(problems("engine/src/value/mod.rs", "use crate::{\nrecord::Lsn,\ntable::Entry};"), [3]);
        assert_eq!(problems("engine/src/log/mod.rs", "fn f() {\n crate::engine::open();\n}"), [2]);
        assert_eq!(problems("server/src/persist/saver.rs", "use crate::execute::services::Services;"), [1]);
        assert_eq!(problems("server/src/metrics/figures.rs", "use crate::apply::apply;"), [1]);
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
