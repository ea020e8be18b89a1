//! `cargo xtask tidy --fix`: breaks comment lines that are too wide, which rustfmt leaves as they are.
//!
//! Words that do not fit go to the next line of the same comment. They go to a new line before text that must
//! not be joined: an empty line, an item of a list, a table, a heading, indented text. Drawings and code
//! between fences stay as they are; a person has to change them.

/// The text, with comments of at most `columns_max` columns.
pub(super) fn wrap_comments(text: &str, columns_max: usize) -> String {
    let mut out: Vec<String> = Vec::new();
    // The rest of the line before: its comment sign with indentation, and the words.
    let mut carried: Option<(String, String)> = None;
    let mut is_fenced = false;
    for line in text.lines() {
        let comment = split_comment(line);
        let mut line = line.to_owned();
        if let Some((sign, words)) = carried.take() {
            match comment {
                Some((its_sign, its_words))
                    if its_sign.trim_end() == sign.trim_end() && can_be_joined(its_words) =>
                {
                    line = format!("{sign}{words} {}", its_words.trim_start());
                }
                _ => carried = push_wrapped(&mut out, format!("{sign}{words}"), columns_max),
            }
        }
        while let Some((sign, words)) = carried.take() {
            carried = push_wrapped(&mut out, format!("{sign}{words}"), columns_max);
        }
        let is_fence = split_comment(&line).is_some_and(|(_, words)| words.trim_start().starts_with("```"));
        is_fenced ^= is_fence;
        if is_fenced || is_fence || split_comment(&line).is_none() {
            out.push(line);
        } else {
            carried = push_wrapped(&mut out, line, columns_max);
        }
    }
    while let Some((sign, words)) = carried.take() {
        carried = push_wrapped(&mut out, format!("{sign}{words}"), columns_max);
    }
    let end = if text.ends_with('\n') { "\n" } else { "" };
    out.join("\n") + end
}

/// Adds a comment line as far as it fits; the rest, with the sign that the next line needs.
fn push_wrapped(out: &mut Vec<String>, line: String, columns_max: usize) -> Option<(String, String)> {
    if line.chars().count() <= columns_max {
        out.push(line);
        return None;
    }
    let (sign, words) = split_comment(&line).unwrap_or(("", &line));
    let indent = words.len() - words.trim_start().len();
    let hanging = if words.trim_start().starts_with("- ") { indent + 2 } else { indent };
    let limit = line.char_indices().nth(columns_max).map_or(line.len(), |(at, _)| at);
    let first_word = sign.len() + indent + 2;
    let Some(at) = line.get(first_word..=limit).and_then(|part| part.rfind(' ')) else {
        out.push(line.clone());
        return None;
    };
    let at = first_word + at;
    out.push(line[..at].trim_end().to_owned());
    Some((format!("{sign}{}", " ".repeat(hanging)), line[at..].trim().to_owned()))
}

/// Indentation and sign of a comment that is alone on its line, and its words.
fn split_comment(line: &str) -> Option<(&str, &str)> {
    let start = line.len() - line.trim_start().len();
    let length = ["//!", "///", "//"].iter().find(|sign| line[start..].starts_with(**sign))?.len();
    Some(line.split_at(start + length))
}

/// True if words may be joined to the line before, as the continuation of a paragraph.
fn can_be_joined(words: &str) -> bool {
    let text = words.strip_prefix(' ').unwrap_or(words);
    let starts = ["- ", "* ", "|", "#", "```", "SAFETY:", "paper:"];
    let is_numbered = text.split_once(". ").is_some_and(|(number, _)| number.parse::<u32>().is_ok());
    !text.is_empty() && !is_numbered && !starts.iter().any(|start| text.trim_start().starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_goes_to_the_next_line() {
        let text = "//! one two three four\n//! five\nfn f() {}\n";
        assert_eq!(wrap_comments(text, 18), "//! one two three\n//! four five\nfn f() {}\n");
        assert_eq!(wrap_comments(text, 80), text);
    }

    #[test]
    fn it_goes_on_as_long_as_it_must() {
        let text = "    /// a b c d e f\n    /// g h i\n\n    /// x\n";
        let wrapped = "    /// a b c d\n    /// e f g h\n    /// i\n\n    /// x\n";
        assert_eq!(wrap_comments(text, 15), wrapped);
        assert_eq!(wrap_comments("// a b c d e f", 8), "// a b c\n// d e f");
    }

    #[test]
    fn lists_headings_and_empty_lines_are_not_joined() {
        let text = "//! one two three\n//!\n//! - four five six\n//! - seven\n";
        assert_eq!(
            wrap_comments(text, 13),
            "//! one two\n//! three\n//!\n//! - four\n//!   five\n//!   six\n//! - seven\n"
        );
        assert_eq!(wrap_comments("/// one two three\n/// 1. a\n", 13), "/// one two\n/// three\n/// 1. a\n");
    }

    #[test]
    fn drawings_code_and_long_words_stay() {
        let text = "//! ```text\n//! one two three four\n//! ```\n//! four\n";
        assert_eq!(wrap_comments(text, 12), text);
        assert_eq!(wrap_comments("let wide = 1 + 2 + 3;\n", 10), "let wide = 1 + 2 + 3;\n");
        assert_eq!(wrap_comments("// averylongwordindeed\n", 10), "// averylongwordindeed\n");
    }
}
