//! Rules for a reader's first view: heads, lengths and widths of files and functions.
//!
//! A file says what it is in its first line, and stays below 900 lines (100-300 are aimed at); a function
//! stays below 100 lines (70 fit a screen); a line stays within 110 columns.

use super::Finding;
use super::source::{Rust, Tree};
use syn::spanned::Spanned;
use syn::visit::{Visit, visit_impl_item_fn, visit_item_fn, visit_trait_item_fn};
use syn::{Block, Signature};

const FILE_LINES_MAX: usize = 900;
const FUNCTION_LINES_MAX: usize = 100;
const FUNCTION_LINES_AIM: usize = 70;
/// The widest line that is allowed.
pub(super) const COLUMNS_MAX: usize = 110;

/// All findings of this kind.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, file, rust) in tree.rust() {
        let mut find =
            |line, rule, problem| findings.push(Finding { path: path.to_owned(), line, rule, problem });
        if !file.text.starts_with("//!") {
            find(1, "head", "the file does not open with `//!`; say in a sentence what it is".to_owned());
        }
        let lines = file.text.lines().count();
        if lines > FILE_LINES_MAX {
            find(
                1,
                "file-length",
                format!("{lines} lines, {FILE_LINES_MAX} are allowed; give the second noun a file"),
            );
        }
        for (index, line) in file.text.lines().enumerate() {
            let columns = line.chars().count();
            if columns > COLUMNS_MAX {
                find(
                    index + 1,
                    "width",
                    format!(
                        "{columns} columns, {COLUMNS_MAX} are allowed; break it (comments: `tidy --fix`)"
                    ),
                );
            }
        }
        for function in functions(rust).iter().filter(|function| function.lines > FUNCTION_LINES_MAX) {
            let (name, lines) = (&function.name, function.lines);
            let problem = format!(
                "`{name}` has {lines} lines, {FUNCTION_LINES_MAX} are allowed; take a step of it out"
            );
            find(function.line, "function-length", problem);
        }
    }
    findings
}

/// The longest file and function, to be known before they are too long.
pub(super) fn summary(tree: &Tree) -> String {
    let longest_file = tree.rust().map(|(path, file, _)| (file.text.lines().count(), path)).max();
    let all = tree.rust().flat_map(|(path, _, rust)| functions(rust).into_iter().map(move |one| (one, path)));
    let all: Vec<(Function, &str)> = all.collect();
    let longest_function = all.iter().max_by_key(|(function, _)| function.lines);
    let over = all.iter().filter(|(function, _)| function.lines > FUNCTION_LINES_AIM).count();
    let mut lines = Vec::new();
    if let Some((count, path)) = longest_file {
        lines.push(format!("longest file: {path}, {count} lines of {FILE_LINES_MAX}"));
    }
    if let Some((function, path)) = longest_function {
        let Function { name, line, lines: count } = function;
        lines.push(format!(
            "longest function: {path}:{line} `{name}`, {count} lines of {FUNCTION_LINES_MAX}; \
             {over} have more than {FUNCTION_LINES_AIM}"
        ));
    }
    lines.join("\n")
}

/// A function and how many lines it takes, its documentation not counted.
struct Function {
    name: String,
    line: usize,
    lines: usize,
}

fn functions(rust: &Rust) -> Vec<Function> {
    let mut visitor = Functions { found: Vec::new() };
    visitor.visit_file(&rust.file);
    visitor.found
}

struct Functions {
    found: Vec<Function>,
}

impl Functions {
    fn add(&mut self, signature: &Signature, block: &Block) {
        let (first, last) = (signature.span().start().line, block.span().end().line);
        self.found.push(Function { name: signature.ident.to_string(), line: first, lines: last + 1 - first });
    }
}

impl<'ast> Visit<'ast> for Functions {
    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.add(&function.sig, &function.block);
        visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.add(&function.sig, &function.block);
        visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        if let Some(block) = &function.default {
            self.add(&function.sig, block);
        }
        visit_trait_item_fn(self, function);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::source::sample;

    fn rules(text: &str) -> Vec<(&'static str, usize)> {
        check(&sample(&[("server/src/a.rs", text)]))
            .iter()
            .map(|finding| (finding.rule, finding.line))
            .collect()
    }

    #[test]
    fn a_file_opens_with_its_head() {
        assert_eq!(rules("//! What it is.\n"), []);
        assert_eq!(rules("// What it is.\n"), [("head", 1)]);
        assert_eq!(rules(""), [("head", 1)]);
    }

    #[test]
    fn long_files_are_found() {
        let text = |lines: usize| format!("//! Head.\n{}", "// line\n".repeat(lines - 1));
        assert_eq!(rules(&text(FILE_LINES_MAX)), []);
        assert_eq!(rules(&text(FILE_LINES_MAX + 1)), [("file-length", 1)]);
    }

    #[test]
    fn wide_lines_are_found_by_characters_not_bytes() {
        let text = |columns: usize| format!("//! Head.\n// {}\n", "ä".repeat(columns - 3));
        assert_eq!(rules(&text(COLUMNS_MAX)), []);
        assert_eq!(rules(&text(COLUMNS_MAX + 1)), [("width", 2)]);
    }

    #[test]
    fn long_functions_are_found_wherever_they_are() {
        let body = |lines: usize| format!("fn f() {{\n{}}}\n", "    g();\n".repeat(lines - 2));
        let (good, bad) = (body(FUNCTION_LINES_MAX), body(FUNCTION_LINES_MAX + 1));
        assert_eq!(rules(&format!("//! Head.\n{good}")), []);
        assert_eq!(rules(&format!("//! Head.\n{bad}")), [("function-length", 2)]);
        assert_eq!(rules(&format!("//! Head.\nimpl A {{\n{bad}}}\n")), [("function-length", 3)]);
        assert_eq!(rules(&format!("//! Head.\ntrait A {{\n{bad}}}\n")), [("function-length", 3)]);
        let documented = format!("//! Head.\n{}{good}", "/// Doc.\n".repeat(50));
        assert_eq!(rules(&documented), []);
    }
}
