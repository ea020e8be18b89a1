//! The language of heads and comments: a subject first, and no words that the glossary replaces.
//!
//! A head says what its file is or does, so it does not begin with a question word. A doc comment names the
//! thing, so it does not begin with a free relative. A package that does not follow yet has a number for each
//! rule, which may only fall.

use super::Finding;
use super::source::Tree;
use std::collections::BTreeMap;

const RULE: &str = "prose";

/// First words that a head must not have.
const QUESTIONS: &[&str] = &["What", "Who", "How", "Which", "When"];

/// Words that comments and names of functions must not have. `docs/glossary.md` has those to write instead.
const WORDS: &[&str] = &["whoever", "anew", "needless"];

/// The findings of one package, or the number of them that it may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    /// Heads that begin with a question word.
    heads: usize,
    /// Doc comments that begin with "What".
    docs: usize,
    /// Words to replace.
    words: usize,
}

/// The counts of packages that do not follow yet. A lower count is to be written down here; none goes up, and
/// a package that is not listed has none.
const LEFT: &[(&str, Counts)] = &[
    ("analytics", Counts { heads: 1, docs: 0, words: 2 }),
    ("server", Counts { heads: 21, docs: 145, words: 17 }),
];

/// Lines of packages that have more findings than are written down, or the numbers to write down.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut packages: BTreeMap<&str, Vec<(Kind, Finding)>> = BTreeMap::new();
    for (path, file, _) in tree.rust() {
        let package = path.split('/').next().expect("a split has at least one part");
        packages.entry(package).or_default().extend(of_file(path, &file.text));
    }
    packages.into_iter().flat_map(|(package, found)| compare(package, found)).collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Head,
    Doc,
    Word,
}

/// The findings that a package may not have, or one that asks for a lower number.
fn compare(package: &str, found: Vec<(Kind, Finding)>) -> Vec<Finding> {
    let written =
        LEFT.iter().find(|(name, _)| *name == package).map_or(Counts::default(), |(_, counts)| *counts);
    let mut findings = Vec::new();
    for (kind, may) in [(Kind::Head, written.heads), (Kind::Doc, written.docs), (Kind::Word, written.words)] {
        let own: Vec<&Finding> =
            found.iter().filter(|(one, _)| *one == kind).map(|(_, finding)| finding).collect();
        let has = own.len();
        if has > may {
            let note = if may == 0 {
                String::new()
            } else {
                format!(" ({package} has {has} such lines, {may} may be)")
            };
            findings.extend(
                own.into_iter()
                    .map(|one| Finding { problem: format!("{}{note}", one.problem), ..one.clone() }),
            );
        } else if has < may {
            let problem =
                format!("{package} has {has} findings of kind {kind:?}, not {may}; write that down here");
            findings.push(Finding { path: "xtask/src/tidy/prose.rs".into(), line: 1, rule: RULE, problem });
        }
    }
    findings
}

/// All findings of a file.
fn of_file(path: &str, text: &str) -> Vec<(Kind, Finding)> {
    let mut found = Vec::new();
    let mut add = |kind, line: usize, problem: String| {
        found.push((kind, Finding { path: path.to_owned(), line, rule: RULE, problem }));
    };
    let mut is_in_doc = false;
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        let line = line.trim_start();
        if let Some(head) = line.strip_prefix("//!").filter(|_| index == 0) {
            let first = first_word(head);
            if QUESTIONS.contains(&first) {
                add(
                    Kind::Head,
                    number,
                    format!("the head begins with \"{first}\"; say what the file is or does"),
                );
            }
        }
        let doc = line.strip_prefix("///");
        if doc.is_some_and(|doc| !is_in_doc && first_word(doc) == "What") {
            add(Kind::Doc, number, "the comment begins with \"What\"; name the thing".to_owned());
        }
        is_in_doc = doc.is_some();
        let words = words_of(line);
        for word in words.filter(|word| WORDS.iter().any(|old| word.eq_ignore_ascii_case(old))) {
            add(Kind::Word, number, format!("\"{word}\" is a word to replace; see docs/glossary.md"));
        }
    }
    found
}

fn first_word(comment: &str) -> &str {
    comment.trim_start().split(|one: char| !one.is_alphanumeric()).next().unwrap_or_default()
}

/// The words of a comment that is alone on its line, or of the name of a function.
fn words_of(line: &str) -> impl Iterator<Item = &str> {
    let name = || line.split_once("fn ")?.1.split(|one: char| !one.is_alphanumeric() && one != '_').next();
    let text = if line.starts_with("//") { line } else { name().unwrap_or_default() };
    text.split(|one: char| !one.is_alphabetic()).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::source::sample;

    fn found(text: &str) -> Vec<(Kind, usize)> {
        of_file("p/src/a.rs", text).into_iter().map(|(kind, finding)| (kind, finding.line)).collect()
    }

    #[test]
    fn a_head_does_not_begin_with_a_question_word() {
        for word in QUESTIONS {
            assert_eq!(found(&format!("//! {word} is it?\n//! {word}")), [(Kind::Head, 1)]);
        }
        assert_eq!(found("//! Whole files.\n//!\n//! What follows."), []);
    }

    #[test]
    fn a_doc_comment_does_not_begin_with_what() {
        let text = "struct A {\n/// What it is.\na: u8,\n/// The number of\n/// What it is.\nb: u8,\n}";
        assert_eq!(found(text), [(Kind::Doc, 2)]);
        assert_eq!(found("/// Whatever.\n// What it is.\nfn a() {}"), []);
    }

    #[test]
    fn words_to_replace_are_found_in_comments_and_in_names_of_functions() {
        let [first, second, third] = WORDS else { panic!("three words") };
        let text =
            format!("// It is {first}, {second}.\nfn a_{third}_b() {{}}\nlet a = \"{third}\";\n//! {first}s");
        assert_eq!(found(&text), [(Kind::Word, 1), (Kind::Word, 1), (Kind::Word, 2)]);
    }

    #[test]
    fn a_package_without_a_number_has_no_such_lines() {
        let findings =
            check(&sample(&[("p/src/a.rs", "//! What it is.\n"), ("p/src/b.rs", "//! A thing.\n")]));
        let [finding] = &findings[..] else { panic!("one finding") };
        assert_eq!((finding.path.as_str(), finding.line), ("p/src/a.rs", 1));
    }

    #[test]
    fn a_number_may_only_fall() {
        let finding = Finding { path: "p/src/a.rs".into(), line: 1, rule: RULE, problem: "a; b".into() };
        let Some((package, counts)) = LEFT.iter().find(|(_, counts)| counts.docs > 0) else { return };
        let docs = |count| vec![(Kind::Doc, finding.clone()); count];
        let own =
            |count| compare(package, docs(count)).into_iter().filter(|one| one.path == finding.path).count();
        assert_eq!((own(counts.docs), own(counts.docs + 1)), (0, counts.docs + 1));
        let lower = compare(package, docs(counts.docs - 1));
        assert!(lower.iter().any(|one| one.problem.contains("of kind Doc")));
    }
}
