//! The language of heads and comments: a subject first, and no words that the glossary replaces.
//!
//! A head says what its file is or does, so it does not begin with a question word. A doc comment names the
//! thing, so it does not begin with a free relative.

use super::Finding;
use super::source::Tree;

const RULE: &str = "prose";

/// First words that a head must not have.
const QUESTIONS: &[&str] = &["What", "Who", "How", "Which", "When"];

/// Words that comments and names of functions must not have. `docs/glossary.md` has those to write instead.
const WORDS: &[&str] = &["whoever", "anew", "needless"];

/// Lines that break one of the rules.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.rust().flat_map(|(path, file, _)| of_file(path, &file.text)).collect()
}

/// All findings of a file.
fn of_file(path: &str, text: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut add = |line: usize, problem: String| {
        found.push(Finding { path: path.to_owned(), line, rule: RULE, problem });
    };
    let mut is_in_doc = false;
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        let line = line.trim_start();
        if let Some(head) = line.strip_prefix("//!").filter(|_| index == 0) {
            let first = first_word(head);
            if QUESTIONS.contains(&first) {
                add(number, format!("the head begins with \"{first}\"; say what the file is or does"));
            }
        }
        let doc = line.strip_prefix("///");
        if doc.is_some_and(|doc| !is_in_doc && first_word(doc) == "What") {
            add(number, "the comment begins with \"What\"; name the thing".to_owned());
        }
        is_in_doc = doc.is_some();
        let words = words_of(line);
        for word in words.filter(|word| WORDS.iter().any(|old| word.eq_ignore_ascii_case(old))) {
            add(number, format!("\"{word}\" is a word to replace; see docs/glossary.md"));
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

    fn found(text: &str) -> Vec<(&'static str, usize)> {
        let kind = |problem: &str| {
            let kinds = ["head", "comment", "word"].into_iter();
            kinds.clone().find(|kind| problem.contains(&format!("{kind} "))).expect("one of the kinds")
        };
        of_file("p/src/a.rs", text).iter().map(|one| (kind(&one.problem), one.line)).collect()
    }

    #[test]
    fn a_head_does_not_begin_with_a_question_word() {
        for word in QUESTIONS {
            assert_eq!(found(&format!("//! {word} is it?\n//! {word}")), [("head", 1)]);
        }
        assert_eq!(found("//! Whole files.\n//!\n//! What follows."), []);
    }

    #[test]
    fn a_doc_comment_does_not_begin_with_what() {
        let text = "struct A {\n/// What it is.\na: u8,\n/// The number of\n/// What it is.\nb: u8,\n}";
        assert_eq!(found(text), [("comment", 2)]);
        assert_eq!(found("/// Whatever.\n// What it is.\nfn a() {}"), []);
    }

    #[test]
    fn words_to_replace_are_found_in_comments_and_in_names_of_functions() {
        let [first, second, third] = WORDS else { panic!("three words") };
        let text =
            format!("// It is {first}, {second}.\nfn a_{third}_b() {{}}\nlet a = \"{third}\";\n//! {first}s");
        assert_eq!(found(&text), [("word", 1), ("word", 1), ("word", 2)]);
    }

    #[test]
    fn every_file_is_checked() {
        let findings =
            check(&sample(&[("p/src/a.rs", "//! What it is.\n"), ("p/src/b.rs", "//! A thing.\n")]));
        let [finding] = &findings[..] else { panic!("one finding") };
        assert_eq!((finding.path.as_str(), finding.line), ("p/src/a.rs", 1));
    }
}
