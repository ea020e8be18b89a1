//! Floors inside a package: a module imports its own floor and lower ones, so that each can be
//! read, tested and replaced without those above.
//!
//! `order.rs` has the floors, and ARCHITECTURE.md the table that is made of them. Modules of one floor may
//! know each other, but for those that are apart, as are `table` and `log` of the engine. Tests may know
//! everything.

mod order;
mod tables;

use super::Finding;
use super::source::{Tree, attributes_of, is_for_tests};
use order::{PACKAGES, Package};
use std::collections::BTreeMap;
use syn::visit::{Visit, visit_item, visit_path};
use syn::{Item, ItemUse, Path, UseTree};

const RULE: &str = "floors";

/// Imports that go up, or across between modules that are apart, and tables that are not of these floors.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let check = |package| {
        let mut findings = check_imports(tree, package);
        findings.extend(check_names(tree, package));
        findings.extend(tables::check(tree, package));
        findings
    };
    PACKAGES.iter().flat_map(check).collect()
}

/// The files that have other tables than the floors make, with the text that they should have.
pub(super) fn corrected(tree: &Tree) -> BTreeMap<String, String> {
    let mut texts: BTreeMap<String, String> = BTreeMap::new();
    for package in PACKAGES {
        for (path, file) in &tree.files {
            let text = texts.get(path).unwrap_or(&file.text);
            if let Some(corrected) = tables::corrected(tree, package, path, text) {
                texts.insert(path.clone(), corrected);
            }
        }
    }
    texts
}

fn check_imports(tree: &Tree, package: &Package) -> Vec<Finding> {
    let floor_of = |module: &str| package.floors.iter().position(|floor| floor.contains(&module));
    let source = format!("{}/src/", package.name);
    let mut findings = Vec::new();
    for (path, _, rust) in tree.rust() {
        let Some(inside) = path.strip_prefix(&source) else { continue };
        let module = inside.split(['/', '.']).next().expect("a split has at least one part");
        if rust.is_test || ["lib", "main"].contains(&module) {
            continue;
        }
        let Some(floor) = floor_of(module) else {
            let problem =
                format!("module `{module}` has no floor; give it one in xtask/src/tidy/floors/order.rs");
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

/// Names with a floor that are no modules.
fn check_names(tree: &Tree, package: &Package) -> Vec<Finding> {
    let source = format!("{}/src", package.name);
    let has = |file: &str| tree.files.contains_key(&format!("{source}/{file}"));
    if !has("lib.rs") && !has("main.rs") {
        return Vec::new();
    }
    let names = package.floors.iter().flat_map(|floor| floor.iter());
    let missing = names.filter(|name| !has(&format!("{name}.rs")) && !has(&format!("{name}/mod.rs")));
    let finding = |name: &&str| Finding {
        path: "xtask/src/tidy/floors/order.rs".to_owned(),
        line: 1,
        rule: RULE,
        problem: format!("`{}` has no module `{name}`; take the name out", package.name),
    };
    missing.map(finding).collect()
}

/// The modules named right after `crate::`, with their lines; those of items for tests left out.
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
    fn visit_item(&mut self, item: &'ast Item) {
        if !is_for_tests(attributes_of(item)) {
            visit_item(self, item);
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
        assert_eq!(problems("lab/src/table.rs", "use crate::engine;"), []);
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
    fn tests_may_know_everything() {
        let text = "#[cfg(test)]\nmod tests {\n use crate::engine::Engine;\n}";
        assert_eq!(problems("engine/src/io/os.rs", text), []);
        let text = "#[cfg(all(test, loom))]\nmod model {\n use crate::engine::Engine;\n}\n\
                    #[cfg(test)]\nconst E: u8 = crate::engine::E;";
        assert_eq!(problems("engine/src/io/os.rs", text), []);
    }

    #[test]
    fn a_module_without_a_floor_is_found() {
        assert_eq!(problems("engine/src/attic.rs", ""), [1]);
    }

    #[test]
    fn a_name_without_a_module_is_found() {
        let package = Package { name: "p", floors: &[&["a", "b"], &["attic"]], is_apart: |_| false };
        let tree = sample(&[("p/src/lib.rs", ""), ("p/src/a.rs", ""), ("p/src/b/mod.rs", "")]);
        let findings = check_names(&tree, &package);
        assert_eq!(findings.len(), 1);
        assert!(findings[0].problem.contains("`attic`"));
    }
}
