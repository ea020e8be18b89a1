//! `cargo xtask measure`: numbers about a source tree, to compare two commits. Prints one row for each
//! number.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use syn::{Item, Visibility};

use crate::tidy::files_in_cycles;
use crate::tidy::source::Tree;

/// Pages whose sentences are counted.
const PAGES: &[&str] = &["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"];

/// The arguments of `cargo xtask measure`.
#[derive(Args)]
pub(crate) struct Measure {
    /// The tree to measure: a checkout of another commit, for example. By default this one.
    #[arg(value_name = "DIR")]
    tree: Option<PathBuf>,
}

impl Measure {
    /// Prints the numbers of the tree.
    pub(crate) fn run(&self, root: &Path) -> ExitCode {
        match Tree::read(self.tree.as_deref().unwrap_or(root)) {
            Ok(tree) => {
                print(&tree);
                ExitCode::SUCCESS
            }
            Err(error) => {
                eprintln!("error: {error}");
                ExitCode::FAILURE
            }
        }
    }
}

fn print(tree: &Tree) {
    println!(
        "{:<12} {:>14} {:>12} {:>16} {:>13}",
        "package", "lines in src", "test files", "files in cycles", "public items"
    );
    for package in packages(tree) {
        let folder = format!("{package}/src/");
        let of_package = |path: &str| path.starts_with(&format!("{package}/"));
        let (mut product, mut tests, mut public) = (0, 0, 0);
        for (path, text, rust) in tree.rust().filter(|(path, ..)| of_package(path)) {
            let lines = text.text.lines().count();
            if rust.is_test || !path.starts_with(&folder) {
                tests += lines;
            } else {
                product += lines;
                public += public_items(&rust.file.items);
            }
        }
        let cycles = files_in_cycles(tree, &package);
        println!("{package:<12} {product:>14} {tests:>12} {cycles:>16} {public:>13}");
    }
    println!();
    println!("files directly in server/src: {}", loose(tree, "server/src/"));
    println!("files directly in analytics/src: {}", loose(tree, "analytics/src/"));
    println!("files directly in engine/src: {}", loose(tree, "engine/src/"));
    let names = tree.files.get("Cargo.lock").map_or(0, |lock| lock.text.matches("\nname = ").count());
    println!("entries in Cargo.lock: {names}");
    for page in PAGES {
        let Some(text) = tree.files.get(*page) else { continue };
        println!("words a sentence in {page}: {:.1}", words_a_sentence(&text.text));
    }
}

/// The folders of packages, by their manifests.
fn packages(tree: &Tree) -> Vec<String> {
    let manifests = tree.files.keys().filter_map(|path| path.strip_suffix("/Cargo.toml"));
    manifests.filter(|folder| !folder.contains('/') && *folder != "fuzz").map(str::to_owned).collect()
}

fn loose(tree: &Tree, folder: &str) -> usize {
    let inside = tree.files.keys().filter_map(|path| path.strip_prefix(folder));
    inside.filter(|name| name.ends_with(".rs") && !name.contains('/')).count()
}

/// Items with `pub`, those of `impl` blocks included; `pub(crate)` is not counted.
fn public_items(items: &[Item]) -> usize {
    let is_public = |visibility: &Visibility| usize::from(matches!(visibility, Visibility::Public(_)));
    let count = |item: &Item| match item {
        Item::Const(item) => is_public(&item.vis),
        Item::Enum(item) => is_public(&item.vis),
        Item::Fn(item) => is_public(&item.vis),
        Item::Mod(item) => {
            is_public(&item.vis) + item.content.as_ref().map_or(0, |(_, items)| public_items(items))
        }
        Item::Static(item) => is_public(&item.vis),
        Item::Struct(item) => is_public(&item.vis),
        Item::Trait(item) => is_public(&item.vis),
        Item::Type(item) => is_public(&item.vis),
        Item::Use(item) => is_public(&item.vis),
        Item::Impl(item) if item.trait_.is_none() => {
            let functions = item.items.iter().filter_map(|inner| match inner {
                syn::ImplItem::Fn(function) => Some(is_public(&function.vis)),
                syn::ImplItem::Const(constant) => Some(is_public(&constant.vis)),
                _ => None,
            });
            functions.sum()
        }
        _ => 0,
    };
    items.iter().map(count).sum()
}

/// Words a sentence of a page, without its tables, code and headings.
fn words_a_sentence(page: &str) -> f64 {
    let mut is_code = false;
    let (mut words, mut sentences) = (0, 0);
    for line in page.lines() {
        if line.starts_with("```") {
            is_code = !is_code;
            continue;
        }
        let is_other = line.starts_with("    ") || line.starts_with(['|', '#']);
        if is_code || is_other {
            continue;
        }
        for word in line.split_whitespace().filter(|word| word.contains(char::is_alphanumeric)) {
            words += 1;
            let end = word.trim_end_matches(['*', '`', ')', '"', '_']);
            sentences += usize::from(end.ends_with(['.', ':', '?', '!']));
        }
    }
    f64::from(u32::try_from(words).unwrap_or(u32::MAX)) / sentences.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_code_and_headings_are_no_sentences() {
        let page = "# A title\n\nOne two three. Four `five`\nsix.\n\n| a | b |\n\n    code. code.\n";
        assert!((words_a_sentence(page) - 3.0).abs() < f64::EPSILON);
    }

    #[test]
    fn only_what_is_public_to_other_packages_is_counted() {
        let source = "pub fn a() {} pub(crate) fn b() {} fn c() {} pub struct D; impl D { pub fn e() {} }";
        assert_eq!(public_items(&syn::parse_file(source).expect("it is Rust").items), 3);
    }
}
