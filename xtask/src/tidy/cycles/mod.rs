//! No file imports, directly or through others, a file that imports it.
//!
//! ```text
//!   use crate::log::Log;  ──resolve──>  log/mod.rs: pub use handle::Log  ──>  engine/src/log/handle.rs
//!   all imports of a package = a graph of its files; a cycle in it is a finding
//! ```
//!
//! A module and the modules below it may import each other, as long as they are in no cycle once the imports
//! between each module and its own children are left out. The root file of a package hides no cycle: imports
//! between it and its children never count. Test code is left out. An import of a module that is used as a
//! prefix (`use crate::log;` and then `log::Log`) counts where it is used. Re-exports are followed to the
//! file that defines the name (`resolver.rs`).

mod collector;
mod resolver;
#[cfg(test)]
mod resolver_tests;

use super::Finding;
use super::source::Tree;
use collector::last_name;
use resolver::Modules;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

const RULE: &str = "cycles";

/// The files of each package that lie in cycles. The number must be exact, so that it falls and never rises;
/// the aim is 0, and a package that is not listed has none.
const IN_CYCLES: &[(&str, usize)] = &[];

/// The packages with more files in cycles, or fewer, than what is written down.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    check_against(tree, IN_CYCLES)
}

/// The number of files of a package that lie in cycles.
pub(super) fn files(tree: &Tree, package: &str) -> usize {
    Graph::of(tree, package).cycles().iter().map(Vec::len).sum()
}

fn check_against(tree: &Tree, written: &[(&str, usize)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in packages(tree) {
        let graph = Graph::of(tree, &package);
        let cycles = graph.cycles();
        let files: usize = cycles.iter().map(Vec::len).sum();
        let may = written.iter().find(|(name, _)| *name == package).map_or(0, |(_, files)| *files);
        if files > may {
            let ways: Vec<String> = cycles.iter().map(|cycle| graph.told(cycle)).collect();
            let problem = format!(
                "{files} files of `{package}` lie in cycles, {may} may: {}; move what two of them need into \
                 a file below both (`cargo xtask tidy --cycles` prints all imports)",
                ways.join("; ")
            );
            findings.push(Finding { path: cycles[0][0].clone(), line: 1, rule: RULE, problem });
        } else if files < may {
            findings.push(wrong_number(format!(
                "{files} files of `{package}` lie in cycles; write that in place of {may} in `IN_CYCLES`"
            )));
        }
    }
    findings
}

fn wrong_number(problem: String) -> Finding {
    Finding { path: "xtask/src/tidy/cycles/mod.rs".into(), line: 1, rule: RULE, problem }
}

/// All cycles with their imports, for who is about to cut them, and how many files they have.
pub(super) fn print(tree: &Tree) {
    let mut totals = Vec::new();
    for package in packages(tree) {
        let graph = Graph::of(tree, &package);
        let cycles = graph.cycles();
        for cycle in &cycles {
            println!("{package}: a cycle of {} files", cycle.len());
            for (from, to, names) in graph.inside(cycle) {
                println!("    {from} -> {to}: {names}");
            }
        }
        totals.push((package, graph.files.len(), cycles.len(), cycles.iter().map(Vec::len).sum::<usize>()));
    }
    let all = totals.iter().fold((0, 0, 0), |all, one| (all.0 + one.1, all.1 + one.2, all.2 + one.3));
    totals.push(("all".to_owned(), all.0, all.1, all.2));
    println!("{:<10} {:>6} {:>7} {:>10}", "package", "files", "cycles", "in cycles");
    for (package, files, cycles, inside) in totals {
        println!("{package:<10} {files:>6} {cycles:>7} {inside:>10}");
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

/// The files of a package and their imports.
struct Graph {
    files: BTreeSet<String>,
    /// The parts of each file's module name; none for the root.
    names: BTreeMap<String, Vec<String>>,
    /// From a file to the files that it imports, and the names it takes. Imports between the root file and
    /// its children are left out.
    edges: BTreeMap<String, BTreeMap<String, BTreeSet<String>>>,
}

impl Graph {
    fn of(tree: &Tree, package: &str) -> Graph {
        let modules = Modules::of(tree, package);
        let parents = modules.parents();
        let is_child = |a: &str, b: &str| parents.get(a) == Some(&b) && !parents.contains_key(b);
        let mut graph = Graph { files: BTreeSet::new(), names: BTreeMap::new(), edges: BTreeMap::new() };
        for (at, module) in modules.iter() {
            graph.files.insert(module.path.clone());
            let name = graph.names.entry(module.path.clone()).or_insert_with(|| at.clone());
            // A file has the name of its outermost module.
            if at.len() < name.len() {
                name.clone_from(at);
            }
            for used in &module.used {
                for other in modules.files_of(at, used) {
                    let is_of_root = is_child(&module.path, other) || is_child(other, &module.path);
                    if other != module.path && !is_of_root {
                        let name = last_name(used).expect("what is found has a name").clone();
                        let to = graph.edges.entry(module.path.clone()).or_default();
                        to.entry(other.to_owned()).or_default().insert(name);
                    }
                }
            }
        }
        graph
    }

    /// Groups of files each of which imports every other, be it through others; the largest first.
    ///
    /// Imports between a module and its own children count only in a group that has files outside of the
    /// outermost module of the group.
    fn cycles(&self) -> Vec<Vec<String>> {
        let name = |file: &String| &self.names[file];
        let is_child =
            |a: &String, b: &String| name(a).split_last().is_some_and(|(_, above)| above == *name(b));
        let mut cycles = Vec::new();
        for whole in self.rings(|_, _| true) {
            let top = whole.iter().map(name).min_by_key(|name| name.len()).expect("a cycle has files");
            if whole.iter().all(|file| name(file).starts_with(top)) {
                cycles.extend(self.rings(|from, to| {
                    let is_inside = whole.contains(from) && whole.contains(to);
                    is_inside && !is_child(from, to) && !is_child(to, from)
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
        let mut open = VecDeque::from([start]);
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
    fn tests_may_import_what_they_like_and_macros_are_looked_into() {
        let tests = "pub struct B; #[cfg(test)] mod tests { use crate::a::A; }";
        let files =
            |b| [("p/src/lib.rs", "mod a; mod b;"), ("p/src/a.rs", "use crate::b::B; pub struct A;"), b];
        assert!(cycles(&files(("p/src/b.rs", tests))).is_empty());
        let in_macro = "pub struct B; fn f() { vec![crate::a::A] }";
        assert_eq!(cycles(&files(("p/src/b.rs", in_macro))).len(), 1);
    }

    #[test]
    fn small_cycles_count_beside_the_largest() {
        let files = [
            ("p/src/lib.rs", "mod a; mod b; mod c; mod d; mod e;"),
            ("p/src/a.rs", "pub struct A(crate::b::B);"),
            ("p/src/b.rs", "pub struct B(crate::c::C);"),
            ("p/src/c.rs", "pub struct C(crate::a::A);"),
            ("p/src/d.rs", "pub struct D(crate::e::E);"),
            ("p/src/e.rs", "pub struct E(crate::d::D);"),
        ];
        let findings = |written| check_against(&sample(&files), &[("p", written)]).len();
        assert_eq!([findings(3), findings(4), findings(5), findings(6)], [1, 1, 0, 1]);
    }

    #[test]
    fn the_root_file_hides_no_cycle() {
        let files = [
            ("p/src/lib.rs", "mod a; mod b; pub fn root() { a::a() }"),
            ("p/src/a.rs", "pub fn a() { crate::root(); crate::b::b() }"),
            ("p/src/b.rs", "pub fn b() { crate::a::a() }"),
        ];
        assert_eq!(cycles(&files), [["p/src/a.rs", "p/src/b.rs"]]);
        let grandchild = [
            ("p/src/lib.rs", "mod a; pub fn root() { a::one::one() }"),
            ("p/src/a/mod.rs", "pub mod one;"),
            ("p/src/a/one.rs", "pub fn one() { crate::root() }"),
        ];
        assert_eq!(cycles(&grandchild), [["p/src/a/one.rs", "p/src/lib.rs"]]);
    }

    #[test]
    fn children_may_not_import_each_other() {
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
            ("p/src/a/mod.rs", "mod one; pub use one::One; pub fn a() { crate::b::b() }"),
            ("p/src/a/one.rs", "pub struct One; fn f() { super::a() }"),
            ("p/src/b.rs", "pub fn b() -> crate::a::One { crate::a::One }"),
        ];
        assert_eq!(cycles(&files), [["p/src/a/mod.rs", "p/src/a/one.rs", "p/src/b.rs"]]);
    }
}
