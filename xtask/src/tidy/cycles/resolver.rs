//! The modules of a package, and the file that defines what a path names.
//!
//! ```text
//!   crate::log::Log ──> log/mod.rs: pub use handle::Log ──> log/handle.rs: pub struct Log
//! ```
//!
//! It follows imports, re-exports, globs (those of an enum too) and inline modules. It knows no macros: what
//! a macro expands to is not there, and `macro_rules!` has no textual scope.

use super::collector::{Module, Name, collect};
use crate::tidy::source::Tree;
use std::collections::{BTreeMap, BTreeSet};

/// The longest path that is followed. Imports may name each other in a circle.
const SEGMENTS_MAX: usize = 24;

/// The meanings of a path.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Found {
    Module(Name),
    /// The module that defines the item, and the item.
    Item(Name, String),
}

/// All modules of a package.
pub(super) struct Modules {
    by_name: BTreeMap<Name, Module>,
}

impl Modules {
    /// Reads the files of a package, those for tests left out.
    pub(super) fn of(tree: &Tree, package: &str) -> Modules {
        let source = format!("{package}/src/");
        let has_library = tree.files.contains_key(&format!("{source}lib.rs"));
        let mut by_name = BTreeMap::new();
        for (path, _, rust) in tree.rust() {
            if let Some(inside) = path.strip_prefix(&source)
                && !rust.is_test
            {
                collect(&mut by_name, module_name(inside, has_library), path, &rust.file);
            }
        }
        Modules { by_name }
    }

    /// Each module with its name.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Name, &Module)> {
        self.by_name.iter()
    }

    /// The file of the parent module of each file; the root of a package has none.
    pub(super) fn parents(&self) -> BTreeMap<&str, &str> {
        let mut parents = BTreeMap::new();
        for (name, module) in &self.by_name {
            let above = name.split_last().and_then(|(_, above)| self.by_name.get(above));
            // An inline module has its parent in its own file.
            if let Some(parent) = above.filter(|parent| parent.path != module.path) {
                parents.insert(module.path.as_str(), parent.path.as_str());
            }
        }
        parents
    }

    /// The files that define what a path names, as it stands in module `at`. There is none for what is of
    /// another package, or a module itself; a module counts where it is the beginning of a longer path.
    pub(super) fn files_of(&self, at: &Name, path: &[String]) -> BTreeSet<&str> {
        let mut search = Search { modules: &self.by_name, found: BTreeSet::new(), asked: BTreeSet::new() };
        search.resolve(at, path);
        let files = search.found.into_iter().filter_map(|found| match found {
            Found::Item(module, _) => Some(self.by_name[&module].path.as_str()),
            Found::Module(_) => None,
        });
        files.collect()
    }
}

/// The module in a file below `src/`. Beside `lib.rs`, a `main.rs` is a crate of its own, which nobody
/// imports.
fn module_name(inside: &str, has_library: bool) -> Name {
    let path = inside.trim_end_matches(".rs");
    let mut name: Name = path.split('/').map(str::to_owned).collect();
    let is_root = path == "lib" || path == "main" && !has_library;
    if is_root || name.last().is_some_and(|last| last == "mod") {
        name.pop();
    }
    name
}

/// The search for what one path names.
struct Search<'m> {
    modules: &'m BTreeMap<Name, Module>,
    found: BTreeSet<Found>,
    /// The searches that were begun: the module, the path, and the module that asked.
    asked: BTreeSet<(Name, Name, Name)>,
}

impl Search<'_> {
    /// Adds what a path names that stands in module `at`. Returns whether there is anything.
    fn resolve(&mut self, at: &Name, path: &[String]) -> bool {
        let mut from = at.clone();
        let mut rest = path;
        while let Some((first, others)) = rest.split_first() {
            match first.as_str() {
                "crate" => from.clear(),
                "super" => _ = from.pop(),
                "self" => {}
                _ => break,
            }
            rest = others;
        }
        self.find(&from, rest, at)
    }

    /// Adds what the path names within `module`, as far as `viewer` sees it. Returns whether there is
    /// anything.
    fn find(&mut self, module: &Name, path: &[String], viewer: &Name) -> bool {
        let modules = self.modules;
        let Some(inside) = modules.get(module) else { return false };
        let Some((first, rest)) = path.split_first() else {
            self.found.insert(Found::Module(module.clone()));
            return true;
        };
        if first == "self" {
            return self.find(module, rest, viewer);
        }
        let is_new = self.asked.insert((module.clone(), path.to_vec(), viewer.clone()));
        if path.len() > SEGMENTS_MAX || !is_new {
            return false;
        }
        let sees = |is_public: bool| is_public || viewer.starts_with(module);
        let mut has_found = false;

        let mut child = module.clone();
        child.push(first.clone());
        if modules.contains_key(&child) {
            has_found |= self.find(&child, rest, viewer);
            // Only the last segment may name a function, too, that has the name of the module.
            if !rest.is_empty() {
                return has_found;
            }
        }
        if inside.items.get(first).is_some_and(|item| sees(item.is_public)) {
            self.found.insert(Found::Item(module.clone(), first.clone()));
            return true;
        }
        for import in inside.imports.get(first).into_iter().flatten() {
            // `use work::work`: the first is never the import itself, but a module or another package.
            let is_itself = import.path.first() == Some(first);
            if sees(import.is_public) && (!is_itself || modules.contains_key(&child)) {
                let whole: Name = import.path.iter().chain(rest).cloned().collect();
                has_found |= self.resolve(module, &whole);
            }
        }
        if !has_found && !inside.imports.contains_key(first) {
            for glob in inside.globs.iter().filter(|glob| sees(glob.is_public)) {
                has_found |= self.find_in_glob(module, &glob.path, path);
            }
        }
        has_found
    }

    /// Adds what a path names by way of `use glob::*`, which stands in `module`.
    fn find_in_glob(&mut self, module: &Name, glob: &[String], path: &[String]) -> bool {
        let mut search = Search { modules: self.modules, found: BTreeSet::new(), asked: self.asked.clone() };
        search.resolve(module, glob);
        let mut has_found = false;
        for target in search.found {
            has_found |= match target {
                Found::Module(target) => self.find(&target, path, module),
                Found::Item(home, item) if self.modules[&home].items[&item].variants.contains(&path[0]) => {
                    self.found.insert(Found::Item(home, item));
                    true
                }
                Found::Item(..) => false,
            };
        }
        has_found
    }
}
