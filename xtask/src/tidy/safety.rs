//! The rule for `unsafe`: only in the files that ARCHITECTURE.md names, each with the fact that makes it
//! sound.
//!
//! ARCHITECTURE.md names them as items (`- \`engine/src/x.rs\`: why`) under a heading with the word "unsafe".
//! `// SAFETY:` is on one of the three lines above.

use super::Finding;
use super::source::Tree;
use proc_macro2::{TokenStream, TokenTree};

/// The number of lines above an `unsafe` within which its reason may begin.
const REASON_LINES_MAX: usize = 3;

/// Every `unsafe` that is not allowed, or not explained.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let allowed = allowed_files(tree);
    let mut findings = Vec::new();
    for (path, file, rust) in tree.rust() {
        let mut lines = Vec::new();
        find_unsafe(rust.tokens.clone(), &mut lines);
        let texts: Vec<&str> = file.text.lines().collect();
        for line in lines {
            if !allowed.iter().any(|allowed| allowed == path) {
                let problem = "`unsafe` in a file that ARCHITECTURE.md does not name; do without";
                findings.push(Finding {
                    path: path.to_owned(),
                    line,
                    rule: "unsafe",
                    problem: problem.into(),
                });
            }
            let above = &texts[line.saturating_sub(REASON_LINES_MAX + 1)..line];
            if !above.iter().any(|text| text.contains("// SAFETY:")) {
                let problem =
                    "`unsafe` without `// SAFETY:`; say which fact makes it sound, and who keeps it true";
                findings.push(Finding {
                    path: path.to_owned(),
                    line,
                    rule: "safety-comment",
                    problem: problem.into(),
                });
            }
        }
    }
    findings
}

/// The paths in backquotes that begin the items under the heading.
fn allowed_files(tree: &Tree) -> Vec<String> {
    let Some(page) = tree.files.get("ARCHITECTURE.md") else { return Vec::new() };
    let mut is_inside = false;
    let mut files = Vec::new();
    for line in page.text.lines() {
        if line.starts_with('#') {
            is_inside = line.to_lowercase().contains("unsafe");
        } else if let Some(rest) = line.strip_prefix("- `").filter(|_| is_inside) {
            files.extend(rest.split('`').next().map(str::to_owned));
        }
    }
    files
}

fn find_unsafe(tokens: TokenStream, lines: &mut Vec<usize>) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => find_unsafe(group.stream(), lines),
            TokenTree::Ident(name) if name == "unsafe" => lines.push(name.span().start().line),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::source::sample;

    const PAGE: &str = "# Architecture\n\n## Where `unsafe` is\n\n- `engine/src/a.rs`: reads a page\n\n\
                        ## Else\n\n- `engine/src/b.rs`\n";

    fn rules(path: &str, text: &str) -> Vec<(&'static str, usize)> {
        let tree = sample(&[("ARCHITECTURE.md", PAGE), (path, text)]);
        check(&tree).iter().map(|finding| (finding.rule, finding.line)).collect()
    }

    #[test]
    fn a_named_file_with_its_reason_is_fine() {
        assert_eq!(
            rules("engine/src/a.rs", "fn f() {\n    // SAFETY: nobody else has it.\n    unsafe { g() }\n}"),
            []
        );
        assert_eq!(rules("engine/src/b.rs", "// unsafe in a comment\nconst A: &str = \"unsafe\";"), []);
    }

    #[test]
    fn other_files_and_missing_reasons_are_found() {
        let text = "fn f() {\n    // SAFETY: nobody else has it.\n    unsafe { g() }\n}";
        assert_eq!(rules("engine/src/b.rs", text), [("unsafe", 3)]);
        assert_eq!(rules("engine/src/a.rs", "\nunsafe fn f() {}"), [("safety-comment", 2)]);
        assert_eq!(rules("engine/src/a.rs", "m! { unsafe { g() } }"), [("safety-comment", 1)]);
    }
}
