//! Names and places: each folder has a subject, no path is of one machine, each link leads somewhere, and
//! `results/` has results of the laboratory alone.

use super::Finding;
use super::source::Tree;
use std::path::Path;

/// Folders that would hold whatever found no better place.
const FORBIDDEN_FOLDERS: &[&str] = &["common", "util", "utils", "misc", "core", "helpers"];

/// Folders at the root that exist on one machine only.
const HOMES: &[&str] = &["home", "root", "Users"];

/// All findings of this kind.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, file) in &tree.files {
        if path.starts_with("results/") && !is_result(tree, path) {
            let problem = "no result of `tarn lab reproduce`: results/MACHINE/ has manifest.json, and of \
                           each experiment NAME.jsonl.zst, NAME.csv and NAME.html";
            findings.push(Finding { path: path.clone(), line: 1, rule: "results", problem: problem.into() });
        }
        if let Some(folder) = path.split('/').rev().skip(1).find(|folder| FORBIDDEN_FOLDERS.contains(folder))
        {
            let problem = format!("a folder called `{folder}` says nothing; name it for what is in it");
            findings.push(Finding { path: path.clone(), line: 1, rule: "folder-name", problem });
        }
        for (index, line) in file.text.lines().enumerate() {
            if names_a_machine(line, &tree.root) {
                let problem = "a path of one machine; write it from the top of the tree";
                findings.push(Finding {
                    path: path.clone(),
                    line: index + 1,
                    rule: "machine-path",
                    problem: problem.into(),
                });
            }
            if path.ends_with(".md") {
                findings.extend(dead_links(tree, path, line, index + 1));
            }
        }
    }
    findings
}

/// True for a file that `tarn lab reproduce` writes. A table and a report have the data that they show beside
/// them.
fn is_result(tree: &Tree, path: &str) -> bool {
    let [_, machine, file] = path.split('/').collect::<Vec<_>>()[..] else { return false };
    let shown = file.strip_suffix(".csv").or(file.strip_suffix(".html"));
    let has_data = |name: &str| tree.files.contains_key(&format!("results/{machine}/{name}.jsonl.zst"));
    file == "manifest.json" || file.ends_with(".jsonl.zst") || shown.is_some_and(has_data)
}

/// True if a line contains the path of this clone, or a path into a home folder.
fn names_a_machine(line: &str, root: &str) -> bool {
    let is_path_here =
        |at: usize| !line[..at].ends_with(|one: char| one.is_alphanumeric() || "~.}_-*".contains(one));
    let names_home = HOMES.iter().any(|home| {
        let home = format!("/{home}/");
        line.match_indices(&home).any(|(at, _)| {
            let rest = &line[at + home.len()..];
            is_path_here(at) && rest.starts_with(|one: char| one.is_ascii_alphanumeric() || one == '.')
        })
    });
    names_home || line.contains(root)
}

/// Links of Markdown to files that are not there.
fn dead_links(tree: &Tree, path: &str, line: &str, number: usize) -> Vec<Finding> {
    let folder = Path::new(path).parent().unwrap_or(Path::new(""));
    let targets = line.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
    let is_local = |target: &&str| !target.is_empty() && !target.contains(':') && !target.contains(' ');
    let is_there = |target: &str| {
        let resolved = normal(&folder.join(target));
        tree.files.contains_key(&resolved)
            || tree.files.keys().any(|file| file.starts_with(&format!("{resolved}/")))
    };
    let dead = targets.filter(is_local).filter(|target| !is_there(target));
    let finding = |target: &str| Finding {
        path: path.to_owned(),
        line: number,
        rule: "link",
        problem: format!("`{target}` is not in the tree; mend the link, or add the file"),
    };
    dead.map(finding).collect()
}

/// A path without `.` and `..`.
fn normal(path: &Path) -> String {
    let mut parts: Vec<String> = Vec::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => _ = parts.pop(),
            std::path::Component::Normal(name) => parts.push(name.to_string_lossy().into_owned()),
            _ => {}
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::source::sample;

    fn rules(path: &str, text: &str) -> Vec<(&'static str, usize)> {
        check(&sample(&[(path, text)])).iter().map(|finding| (finding.rule, finding.line)).collect()
    }

    #[test]
    fn folders_have_a_subject() {
        assert_eq!(rules("server/src/util/mod.rs", ""), [("folder-name", 1)]);
        assert_eq!(rules("server/src/utility/mod.rs", ""), []);
        assert_eq!(rules("server/src/core.rs", ""), []);
    }

    #[test]
    fn paths_of_a_machine_are_found() {
        let home = ["/ho", "me/somebody/tarn"].concat();
        assert_eq!(rules("docs/a.txt", &format!("good\nsee {home}")), [("machine-path", 2)]);
        assert_eq!(rules("docs/a.txt", "built in /nowhere/target"), [("machine-path", 1)]);
        let below = ["docs/ho", "me/"].concat();
        assert_eq!(rules("docs/a.txt", &format!("under {below} or $HOME/.cache")), []);
    }

    #[test]
    fn results_are_those_of_the_laboratory() {
        let names =
            ["manifest.json", "vls.jsonl.zst", "vls.csv", "vls.html", "vtc.csv", "notes.txt", "a/b.csv"];
        let paths = names.map(|name| format!("results/some/{name}"));
        let tree = sample(&paths.each_ref().map(|path| (path.as_str(), "")));
        let found: Vec<_> = check(&tree).into_iter().map(|finding| (finding.path, finding.rule)).collect();
        let wrong =
            ["a/b.csv", "notes.txt", "vtc.csv"].map(|name| (format!("results/some/{name}"), "results"));
        assert_eq!(found, wrong);
    }

    #[test]
    fn links_lead_somewhere() {
        assert_eq!(
            rules("docs/a.md", "[a](a.md) [b](../docs/a.md#part) [web](https://example.org) [c](../docs)"),
            []
        );
        assert_eq!(rules("docs/a.md", "first\n[gone](b.md)"), [("link", 2)]);
    }
}
