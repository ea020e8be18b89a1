//! Finds cycles of imports: no file imports, directly or through others, a file that imports it.
//!
//! ```text
//!   use crate::log::Log;  ──resolve──>  log/mod.rs: pub use handle::Log  ──>  engine/src/log/handle.rs
//!   all imports of a package = a graph of its files; a cycle in it is a finding
//! ```
//!
//! A module and its own children may import each other; two children of it may not. Test code is left out.
//! An import of a module that is used as a prefix (`use crate::log;` and then `log::Log`) counts where it is
//! used. Re-exports are followed to the file that defines the name.

use super::Finding;
use super::source::{Tree, is_for_tests};
use proc_macro2::{TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use syn::visit::{Visit, visit_item_mod, visit_path};
use syn::{Item, ItemMod, ItemUse, Macro, Path, UseTree};

const RULE: &str = "cycles";

/// Files in the largest cycle that a package still has. A smaller cycle lowers the number here; none goes
/// up, and a package that is not listed has no cycle.
const LARGEST: &[(&str, usize)] = &[];

/// The packages whose largest cycle is larger, or smaller, than the number that is written down.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in packages(tree) {
        let graph = Graph::of(tree, &package);
        let cycles = graph.cycles();
        let largest = cycles.first().map_or(0, Vec::len);
        let written = LARGEST.iter().find(|(name, _)| *name == package).map_or(0, |(_, files)| *files);
        if largest > written {
            let cycle = &cycles[0];
            let problem = format!(
                "{largest} files import each other in a cycle, {written} may: {}; move what two of them need \
                 into a file below both",
                graph.told(cycle)
            );
            findings.push(Finding { path: cycle[0].clone(), line: 1, rule: RULE, problem });
        } else if largest < written {
            let problem =
                format!("the largest cycle of `{package}` has {largest} files; write that down here");
            findings.push(Finding { path: "xtask/src/tidy/cycles.rs".into(), line: 1, rule: RULE, problem });
        }
    }
    findings
}

/// Prints all cycles, for an engineer who is about to cut them.
pub fn print(tree: &Tree) {
    for package in packages(tree) {
        let graph = Graph::of(tree, &package);
        let cycles = graph.cycles();
        let files: usize = cycles.iter().map(Vec::len).sum();
        println!("{package}: {} files, {} cycles with {files} of them", graph.modules.len(), cycles.len());
        for cycle in &cycles {
            println!("  {} files", cycle.len());
            for (from, to, names) in graph.inside(cycle) {
                println!("    {from} -> {to}: {names}");
            }
        }
    }
}

/// Folders with `src/lib.rs` or `src/main.rs`.
fn packages(tree: &Tree) -> BTreeSet<String> {
    let root = |path: &str| {
        let package = path.strip_suffix("/src/lib.rs").or_else(|| path.strip_suffix("/src/main.rs"))?;
        (!package.contains('/')).then(|| package.to_owned())
    };
    tree.rust().filter_map(|(path, _, _)| root(path)).collect()
}

/// The name of a module: its parents' names and its own; empty for the root of the package.
type Name = Vec<String>;

/// The names of a module that matter for resolving imports.
#[derive(Default)]
struct Module {
    path: String,
    /// Items that it defines.
    defines: BTreeSet<String>,
    /// Names that it imports, and from where.
    imports: BTreeMap<String, Name>,
    /// Modules of which it imports all names.
    globs: Vec<Name>,
    /// Paths that its code uses, as they are written, with the names of the modules they are used in.
    used: Vec<Name>,
}

struct Graph {
    modules: BTreeMap<Name, Module>,
    /// From a file to the files that it imports, and the names it takes.
    edges: BTreeMap<String, BTreeMap<String, BTreeSet<String>>>,
}

impl Graph {
    fn of(tree: &Tree, package: &str) -> Graph {
        let mut modules = BTreeMap::new();
        let source = format!("{package}/src/");
        for (path, _, rust) in tree.rust() {
            let Some(inside) = path.strip_prefix(&source) else { continue };
            if !rust.is_test {
                let name = module_name(inside);
                let mut collector = Collector { module: Module::default() };
                collector.module.path = path.to_owned();
                collector.visit_file(&rust.file);
                modules.insert(name, collector.module);
            }
        }
        let mut graph = Graph { modules, edges: BTreeMap::new() };
        graph.link();
        graph
    }

    fn link(&mut self) {
        let mut edges: BTreeMap<String, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
        for (at, module) in &self.modules {
            for used in &module.used {
                let Some(other) = self.resolve(at, used, 0) else { continue };
                let other = &self.modules[&other].path;
                if *other != module.path {
                    let name = used.last().expect("a path has a segment").clone();
                    let to = edges.entry(module.path.clone()).or_default();
                    to.entry(other.clone()).or_default().insert(name);
                }
            }
        }
        self.edges = edges;
    }

    /// The module that defines the name of a path, as written in module `at`; `None` for names of another
    /// package, or a module itself.
    fn resolve(&self, at: &Name, path: &[String], depth: usize) -> Option<Name> {
        // Two globs may name each other.
        if depth > 16 {
            return None;
        }
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => self.resolve_in(&Name::new(), rest, depth),
            "self" => self.resolve_in(at, rest, depth),
            "super" => {
                let parent = at.split_last()?.1.to_vec();
                if rest.first().is_some_and(|next| next == "super") {
                    return self.resolve(&parent, rest, depth + 1);
                }
                self.resolve_in(&parent, rest, depth)
            }
            _ => self.resolve_in(at, path, depth),
        }
    }

    /// The same for a path that begins in module `at`.
    fn resolve_in(&self, at: &Name, path: &[String], depth: usize) -> Option<Name> {
        let module = self.modules.get(at)?;
        let (first, rest) = path.split_first()?;
        let mut child = at.clone();
        child.push(first.clone());
        if self.modules.contains_key(&child) {
            return if rest.is_empty() { None } else { self.resolve_in(&child, rest, depth) };
        }
        if module.defines.contains(first) {
            return Some(at.clone());
        }
        if let Some(target) = module.imports.get(first) {
            let whole: Name = target.iter().chain(rest).cloned().collect();
            // A name that a macro or the prelude also has.
            return if whole == path { None } else { self.resolve(at, &whole, depth + 1) };
        }
        module.globs.iter().find_map(|glob| {
            let whole: Name = glob.iter().chain(path).cloned().collect();
            self.resolve(at, &whole, depth + 1)
        })
    }

    /// Groups of files each of which imports every other, be it through others; the largest first.
    ///
    /// A module and the modules below it may import each other as long as they are in no cycle once the
    /// imports between each module and its own children are left out.
    fn cycles(&self) -> Vec<Vec<String>> {
        let names: BTreeMap<&str, &Name> =
            self.modules.iter().map(|(name, module)| (module.path.as_str(), name)).collect();
        let name = |file: &String| names[file.as_str()];
        let mut cycles = Vec::new();
        for whole in self.rings(|_, _| true) {
            let top = whole.iter().map(name).min_by_key(|name| name.len()).expect("a cycle has files");
            if whole.iter().all(|file| name(file).starts_with(top)) {
                cycles.extend(self.rings(|from, to| {
                    let is_inside = whole.contains(from) && whole.contains(to);
                    is_inside && !is_child(name(from), name(to)) && !is_child(name(to), name(from))
                }));
            } else {
                cycles.push(whole);
            }
        }
        cycles.sort_by_key(|cycle| std::cmp::Reverse(cycle.len()));
        cycles
    }

    /// Groups of files each of which leads to every other by imports that count.
    fn rings(&self, counts: impl Fn(&String, &String) -> bool) -> Vec<Vec<String>> {
        let reached: BTreeMap<&String, BTreeSet<&String>> =
            self.edges.keys().map(|file| (file, self.reach(file, &counts))).collect();
        let leads_to = |from: &String, to: &String| reached.get(from).is_some_and(|there| there.contains(to));
        let mut rings: Vec<Vec<String>> = Vec::new();
        for file in self.edges.keys() {
            if !leads_to(file, file) || rings.iter().any(|ring| ring.contains(file)) {
                continue;
            }
            let both = |other: &&String| leads_to(file, other) && leads_to(other, file);
            rings.push(self.edges.keys().filter(both).cloned().collect());
        }
        rings
    }

    /// The files that a file leads to by imports that count.
    fn reach<'g>(
        &'g self,
        file: &'g String,
        counts: &impl Fn(&String, &String) -> bool,
    ) -> BTreeSet<&'g String> {
        let mut reached = BTreeSet::new();
        let mut open = vec![file];
        while let Some(next) = open.pop() {
            for other in self.edges.get(next).into_iter().flat_map(BTreeMap::keys) {
                if counts(next, other) && reached.insert(other) {
                    open.push(other);
                }
            }
        }
        reached
    }

    /// The imports between files of a cycle.
    fn inside<'g>(&'g self, cycle: &'g [String]) -> impl Iterator<Item = (&'g str, &'g str, String)> {
        cycle.iter().flat_map(move |from| {
            let to = self.edges[from].iter().filter(|(to, _)| cycle.contains(to));
            to.map(move |(to, names)| {
                (from.as_str(), to.as_str(), names.iter().cloned().collect::<Vec<_>>().join(", "))
            })
        })
    }

    /// A shortest way around.
    fn told(&self, cycle: &[String]) -> String {
        let start = &cycle[0];
        let mut came: BTreeMap<&String, &String> = BTreeMap::new();
        let mut open = std::collections::VecDeque::from([start]);
        while let Some(next) = open.pop_front() {
            for other in self.edges[next].keys().filter(|other| cycle.contains(other)) {
                if other == start {
                    let mut way = vec![start.as_str(), next.as_str()];
                    let mut at = next;
                    while let Some(before) = came.get(at) {
                        way.push(before);
                        at = before;
                    }
                    way.reverse();
                    return way.join(" -> ");
                }
                if !came.contains_key(other) {
                    came.insert(other, next);
                    open.push_back(other);
                }
            }
        }
        cycle.join(", ")
    }
}

fn is_child(parent: &Name, module: &Name) -> bool {
    module.split_last().is_some_and(|(_, above)| *above == **parent)
}

/// The module in a file below `src/`.
fn module_name(inside: &str) -> Name {
    let path = inside.trim_end_matches(".rs");
    let mut name: Name = path.split('/').map(str::to_owned).collect();
    if name.last().is_some_and(|last| last == "mod") || matches!(path, "lib" | "main") {
        name.pop();
    }
    name
}

/// Gathers the definitions and uses of a file. Modules within it count as the file itself.
struct Collector {
    module: Module,
}

impl Collector {
    fn import(&mut self, prefix: &Name, tree: &UseTree) {
        let with = |ident: &syn::Ident| {
            let mut path = prefix.clone();
            path.push(ident.to_string());
            path
        };
        match tree {
            UseTree::Path(path) => self.import(&with(&path.ident), &path.tree),
            UseTree::Name(name) if name.ident == "self" => {
                if let Some(last) = prefix.last() {
                    self.name(last.clone(), prefix.clone());
                }
            }
            UseTree::Name(name) => self.name(name.ident.to_string(), with(&name.ident)),
            UseTree::Rename(rename) => self.name(rename.rename.to_string(), with(&rename.ident)),
            UseTree::Group(group) => group.items.iter().for_each(|item| self.import(prefix, item)),
            UseTree::Glob(_) => self.module.globs.push(prefix.clone()),
        }
    }

    fn name(&mut self, name: String, path: Name) {
        self.module.used.push(path.clone());
        self.module.imports.insert(name, path);
    }

    /// Paths that begin with `crate` or `super` in the arguments of a macro.
    fn tokens(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut at = 0;
        while at < tokens.len() {
            match &tokens[at] {
                TokenTree::Group(group) => self.tokens(group.stream()),
                TokenTree::Ident(first) => {
                    let mut path = vec![first.to_string()];
                    while let [TokenTree::Punct(a), TokenTree::Punct(b), TokenTree::Ident(next), ..] =
                        &tokens[at + 1..]
                        && a.as_char() == ':'
                        && b.as_char() == ':'
                    {
                        path.push(next.to_string());
                        at += 3;
                    }
                    if path.len() > 1 {
                        self.module.used.push(path);
                    }
                }
                _ => {}
            }
            at += 1;
        }
    }
}

impl<'ast> Visit<'ast> for Collector {
    fn visit_item(&mut self, item: &'ast Item) {
        let name = match item {
            Item::Const(item) => Some(&item.ident),
            Item::Enum(item) => Some(&item.ident),
            Item::Fn(item) => Some(&item.sig.ident),
            Item::Macro(item) => item.ident.as_ref(),
            Item::Static(item) => Some(&item.ident),
            Item::Struct(item) => Some(&item.ident),
            Item::Trait(item) => Some(&item.ident),
            Item::Type(item) => Some(&item.ident),
            Item::Union(item) => Some(&item.ident),
            Item::Mod(item) if item.content.is_some() => Some(&item.ident),
            _ => None,
        };
        if let Some(name) = name {
            self.module.defines.insert(name.to_string());
        }
        syn::visit::visit_item(self, item);
    }

    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        if module.content.is_some() && !is_for_tests(&module.attrs) {
            visit_item_mod(self, module);
        }
    }

    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        if !is_for_tests(&function.attrs) {
            syn::visit::visit_item_fn(self, function);
        }
    }

    fn visit_item_impl(&mut self, block: &'ast syn::ItemImpl) {
        if !is_for_tests(&block.attrs) {
            syn::visit::visit_item_impl(self, block);
        }
    }

    fn visit_item_use(&mut self, import: &'ast ItemUse) {
        if !is_for_tests(&import.attrs) {
            self.import(&Name::new(), &import.tree);
        }
    }

    fn visit_path(&mut self, path: &'ast Path) {
        if path.segments.len() > 1 {
            self.module.used.push(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        }
        visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        self.tokens(call.tokens.clone());
        syn::visit::visit_macro(self, call);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::source::sample;

    fn cycles(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        Graph::of(&sample(files), "p").cycles()
    }

    #[test]
    fn files_that_import_each_other_are_a_cycle() {
        let files = [
            ("p/src/lib.rs", "mod a; mod b; mod c;"),
            ("p/src/a.rs", "use crate::b::B; pub struct A;"),
            ("p/src/b.rs", "use crate::c; pub struct B(c::C);"),
            ("p/src/c.rs", "pub struct C; fn f() -> Option<super::a::A> { None }"),
        ];
        assert_eq!(cycles(&files), [["p/src/a.rs", "p/src/b.rs", "p/src/c.rs"]]);
        let findings = check(&sample(&files));
        assert_eq!(findings.len(), 1);
        assert!(findings[0].problem.contains("p/src/a.rs -> p/src/b.rs -> p/src/c.rs -> p/src/a.rs"));
    }

    #[test]
    fn re_exports_lead_to_the_file_that_defines_the_name() {
        let files = [
            ("p/src/lib.rs", "mod a; mod log; pub use log::Log;"),
            ("p/src/a.rs", "use crate::Log; pub fn a() {}"),
            ("p/src/log/mod.rs", "mod handle; mod other; pub use handle::*;"),
            ("p/src/log/handle.rs", "pub struct Log; fn f() { crate::a::a() }"),
            ("p/src/log/other.rs", "use crate::a::a;"),
        ];
        assert_eq!(cycles(&files), [["p/src/a.rs", "p/src/log/handle.rs"]]);
    }

    #[test]
    fn a_module_and_its_children_may_import_each_other() {
        let files = [
            ("p/src/lib.rs", "mod a;"),
            ("p/src/a/mod.rs", "mod one; mod two; pub struct A(one::One);"),
            ("p/src/a/one.rs", "use super::two::Two; pub struct One;"),
            ("p/src/a/two.rs", "use super::A; pub struct Two;"),
        ];
        assert_eq!(cycles(&files), Vec::<Vec<String>>::new());
    }

    #[test]
    fn children_of_one_module_may_not() {
        let files = [
            ("p/src/lib.rs", "mod a;"),
            ("p/src/a/mod.rs", "mod one; mod two; pub struct A(one::One);"),
            ("p/src/a/one.rs", "use super::{A, two::Two}; pub struct One;"),
            ("p/src/a/two.rs", "use super::one::One; pub struct Two;"),
        ];
        assert_eq!(cycles(&files), [["p/src/a/one.rs", "p/src/a/two.rs"]]);
    }

    #[test]
    fn a_module_may_not_import_its_child_by_way_of_a_file_elsewhere() {
        let files = [
            ("p/src/lib.rs", "mod a; mod b;"),
            ("p/src/a/mod.rs", "pub mod one; pub struct A(crate::b::B);"),
            ("p/src/a/one.rs", "use super::A; pub struct One;"),
            ("p/src/b.rs", "use crate::a::one::One; pub struct B;"),
        ];
        assert_eq!(cycles(&files), [["p/src/a/mod.rs", "p/src/a/one.rs", "p/src/b.rs"]]);
    }

    #[test]
    fn tests_may_import_what_they_like_and_macros_are_looked_into() {
        let tests = "pub struct B; #[cfg(test)] mod tests { use crate::a::A; }";
        let files =
            |b| [("p/src/lib.rs", "mod a; mod b;"), ("p/src/a.rs", "use crate::b::B; pub struct A;"), b];
        assert!(cycles(&files(("p/src/b.rs", tests))).is_empty());
        let in_macro = "pub struct B; fn f() { vec![crate::a::A] }";
        assert_eq!(cycles(&files(("p/src/b.rs", in_macro))).len(), 1);
    }
}
