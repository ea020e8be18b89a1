//! `cargo xtask tidy`: rules of the source that no compiler checks.
//!
//! Each file of this folder has rules of one kind, and names them and their reasons at its head. A finding is
//! printed as `file:line: [rule] fault; remedy`.

mod cycles;
mod floors;
mod packages;
mod paths;
mod places;
mod prose;
mod safety;
mod shape;
pub(crate) mod source;
mod wrap;

use source::Tree;
use std::path::Path;
use std::process::ExitCode;

/// Something that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    /// The file, from the top of the tree.
    pub path: String,
    /// The line, from 1; 1 where the whole file is meant.
    pub line: usize,
    /// The rule's name.
    pub rule: &'static str,
    /// The fault, and after a semicolon the remedy.
    pub problem: String,
}

/// Breaks comments that are too wide, in the files themselves.
pub(crate) fn fix(root: &Path) -> ExitCode {
    let tree = match Tree::read(root) {
        Ok(tree) => tree,
        Err(problem) => {
            println!("{problem}");
            return ExitCode::FAILURE;
        }
    };
    for (path, file, _) in tree.rust() {
        let wrapped = wrap::wrap_comments(&file.text, shape::COLUMNS_MAX);
        if wrapped != file.text {
            println!("{path}");
            if let Err(error) = std::fs::write(root.join(path), wrapped) {
                println!("{path}: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    run(root)
}

/// Writes the tables of floors, in the files themselves.
pub(crate) fn write(root: &Path) -> ExitCode {
    let tree = match Tree::read(root) {
        Ok(tree) => tree,
        Err(problem) => {
            println!("{problem}");
            return ExitCode::FAILURE;
        }
    };
    for (path, text) in floors::corrected(&tree) {
        println!("{path}");
        if let Err(error) = std::fs::write(root.join(&path), text) {
            println!("{path}: {error}");
            return ExitCode::FAILURE;
        }
    }
    run(root)
}

/// The number of files of a package that lie in cycles of imports.
pub(crate) fn files_in_cycles(tree: &source::Tree, package: &str) -> usize {
    cycles::files(tree, package)
}

/// Prints the imports that make up cycles of files.
pub(crate) fn cycles(root: &Path) -> ExitCode {
    match Tree::read(root) {
        Ok(tree) => cycles::print(&tree),
        Err(problem) => {
            println!("{problem}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// Prints the findings.
pub(crate) fn run(root: &Path) -> ExitCode {
    if is_tidy(root) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// True if all rules hold; prints the findings.
pub(crate) fn is_tidy(root: &Path) -> bool {
    let tree = match Tree::read(root) {
        Ok(tree) => tree,
        Err(problem) => {
            println!("{problem}");
            return false;
        }
    };
    let mut findings = findings(&tree);
    findings.sort();
    for finding in &findings {
        println!("{}:{}: [{}] {}", finding.path, finding.line, finding.rule, finding.problem);
    }
    println!("{}", shape::summary(&tree));
    match findings.len() {
        0 => println!("tidy: all rules hold"),
        count => println!("tidy: {count} findings"),
    }
    findings.is_empty()
}

fn findings(tree: &Tree) -> Vec<Finding> {
    let rules: [fn(&Tree) -> Vec<Finding>; 8] = [
        cycles::check,
        floors::check,
        packages::check,
        paths::check,
        places::check,
        prose::check,
        safety::check,
        shape::check,
    ];
    rules.iter().flat_map(|rule| rule(tree)).collect()
}
