//! Paths in the code spans of the documentation: each must lead to a file or a folder of the tree.
//!
//! ```text
//!   `server/src/serve.rs`   begins with a top folder: must be there
//!   `saver.rs`              follows in the same paragraph, item or row: must be somewhere in server/
//!   `log/block.rs`          must be the end of some path
//!   `docs/design/0005`      the number of a page stands for the page
//! ```
//!
//! README, ARCHITECTURE, CONTRIBUTING and the pages of `docs/` are read. Drawings and code between fences are
//! not. A `*` stands for any part of a name.

use super::Finding;
use super::source::Tree;
use std::collections::BTreeSet;

const RULE: &str = "path";

/// Pages beside those of `docs/`.
const PAGES: &[&str] = &["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"];

/// All paths that lead nowhere.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let tops: BTreeSet<&str> =
        tree.files.keys().filter_map(|path| path.split_once('/')).map(|(top, _)| top).collect();
    let is_page = |path: &str| PAGES.contains(&path) || path.starts_with("docs/") && path.ends_with(".md");
    let pages = tree.files.iter().filter(|(path, _)| is_page(path));
    pages.flat_map(|(path, page)| check_page(tree, &tops, path, &page.text)).collect()
}

fn check_page(tree: &Tree, tops: &BTreeSet<&str>, page: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut is_fenced = false;
    // Top folders of the paths that the paragraph, item or row has named so far.
    let mut named: BTreeSet<&str> = BTreeSet::new();
    for (index, line) in text.lines().enumerate() {
        let is_fence = line.trim_start().starts_with("```");
        is_fenced ^= is_fence;
        if is_fence || line.trim().is_empty() || line.trim_start().starts_with(['|', '-', '*']) {
            named.clear();
        }
        if is_fence || is_fenced {
            continue;
        }
        for span in line.split('`').skip(1).step_by(2).filter(|span| is_path(span)) {
            let top = span.split_once('/').map(|(top, _)| top).filter(|top| tops.contains(top));
            let is_there = match top {
                Some(top) => {
                    named.insert(top);
                    exists(tree, span)
                }
                None => !span.ends_with(".rs") || is_end_of_a_path(tree, &named, span),
            };
            if !is_there {
                let problem = format!("`{span}` is not in the tree; correct the path, or add the file");
                findings.push(Finding { path: page.to_owned(), line: index + 1, rule: RULE, problem });
            }
        }
    }
    findings
}

/// True if a span has the form of a path, and not of a command, a type or a key.
fn is_path(span: &str) -> bool {
    let is_name = |one: char| one.is_ascii_alphanumeric() || "._-*/".contains(one);
    span.chars().all(is_name) && !span.starts_with('/') && (span.contains('/') || span.ends_with(".rs"))
}

/// True for a file, a folder, or the number of a page.
fn exists(tree: &Tree, path: &str) -> bool {
    let path = path.trim_end_matches('/');
    let folder = format!("{path}/");
    let page = format!("{path}-");
    let is_number =
        path.rsplit('/').next().is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
    tree.files.keys().any(|file| {
        file == path
            || file.starts_with(&folder)
            || is_number && file.starts_with(&page)
            || path.contains('*') && matches(path, file)
    })
}

/// True if an abbreviated path is the end of a path of the tree. A name alone is looked up in the top folders
/// `named` before it, if there are any.
fn is_end_of_a_path(tree: &Tree, named: &BTreeSet<&str>, name: &str) -> bool {
    let end = format!("/{name}");
    let is_named = |file: &str| file.split_once('/').is_some_and(|(top, _)| named.contains(top));
    let is_anywhere = named.is_empty() || name.contains('/');
    tree.files.keys().any(|file| file.ends_with(&end) && (is_anywhere || is_named(file)))
}

/// True if a path fits a pattern, in which `*` stands for any characters.
fn matches(pattern: &str, path: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().expect("a split has at least one part");
    let Some(mut rest) = path.strip_prefix(first) else { return false };
    let mut last = "";
    for part in parts {
        let Some((_, after)) = rest.split_once(part) else { return false };
        (rest, last) = (after, part);
    }
    rest.is_empty() || last.is_empty() || path.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::source::sample;

    fn lines(page: &str, text: &str) -> Vec<usize> {
        let files = [
            (page, text),
            ("engine/src/log/mod.rs", ""),
            ("engine/src/log/block.rs", ""),
            ("server/src/serve.rs", ""),
            ("docs/design/0005-flags.md", ""),
        ];
        check(&sample(&files)).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_path_that_leads_nowhere_is_found() {
        let text = "`engine/src/log/` and `engine/src/log/block.rs`, `engine/src`\n\
                    `engine/src/gone.rs`\n`engine/gone/`\n";
        assert_eq!(lines("README.md", text), [2, 3]);
        assert_eq!(lines("docs/a.md", text), [2, 3]);
        assert_eq!(lines("CHANGELOG.md", text), []);
    }

    #[test]
    fn an_abbreviation_is_looked_up_where_its_paragraph_is() {
        assert_eq!(lines("docs/a.md", "`engine/src/log/mod.rs`, `block.rs`, `log/block.rs`"), []);
        assert_eq!(lines("docs/a.md", "`engine/src/log/mod.rs`,\n`serve.rs`\n\n`serve.rs`"), [2]);
        assert_eq!(lines("docs/a.md", "`gone.rs` of `engine/src/`\n`src/gone.rs`"), [1, 2]);
        assert_eq!(
            lines("docs/a.md", "| `server/src/serve.rs` |\n| `block.rs` |\n- `server/`\n- `block.rs`"),
            []
        );
    }

    #[test]
    fn numbers_of_pages_and_patterns_stand_for_files() {
        assert_eq!(lines("docs/a.md", "`docs/design/0005`, `docs/design/*.md`, `engine/*/log/mod.rs`"), []);
        assert_eq!(lines("docs/a.md", "`docs/design/0006`\n`docs/design/*.txt`"), [1, 2]);
    }

    #[test]
    fn fences_commands_and_other_words_are_left_alone() {
        let text =
            "```\n`engine/gone.rs`\n```\n`cargo test -p engine/x`, `application/json`, `FT.*`, `/engine/x`";
        assert_eq!(lines("docs/a.md", text), []);
    }
}
