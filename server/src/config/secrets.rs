//! Hides passwords in messages that show words of a configuration, or one as a whole.
//!
//! A mistake in a line is often a mistake in its name, so a name is taken for that of a sensitive directive
//! even where it is quoted, misspelt, or grown together with its value.

use std::fmt;

use super::args::{is_space, join_args, split_args};
use super::directive::{Directive, HIDDEN};
use super::directives::{directives, find_directive, nearest_name};
use super::foreign::REFUSED_ORDERS;
use super::settings::{Config, Orders};
use super::tls::TlsSettings;

/// A line, or a word of one, as a message may show it: as it is, or up to the name of the first sensitive
/// directive in it.
pub(super) fn without_secrets(line: &[u8]) -> String {
    let unquoted = |word: &[u8]| word.iter().copied().filter(|b| !b"'\"".contains(b)).collect::<Vec<u8>>();
    let in_pieces: Vec<Vec<u8>> = line.split(|&b| is_space(b)).map(unquoted).collect();
    // An escape may hide the name in what a line means, or in how it is written.
    let readings = split_args(line).into_iter().chain([in_pieces]);
    readings.into_iter().find_map(hide).unwrap_or_else(|| String::from_utf8_lossy(line).into_owned())
}

/// The words up to the name of the first sensitive directive; `None` if there is none.
fn hide(words: Vec<Vec<u8>>) -> Option<String> {
    // Quotes may have made one word of a name and its value.
    let pieces = words.iter().flat_map(|word| word.split(|&b| is_space(b)).map(<[u8]>::to_vec));
    let words: Vec<Vec<u8>> = pieces.collect();
    let name_of = |(i, word): (usize, &Vec<u8>)| Some((i, sensitive_name(word, i == 0)?));
    let (before, name) = words.iter().enumerate().find_map(name_of)?;
    let mut shown = String::from_utf8_lossy(&join_args(&words[..before])).into_owned();
    if before > 0 {
        shown.push(' ');
    }
    Some(shown + &name + HIDDEN)
}

/// The beginning of `word` that says whose value comes next, and what parts them, if that value must not be
/// shown.
fn sensitive_name(word: &[u8], leads: bool) -> Option<String> {
    let word: Vec<u8> = word.iter().copied().skip_while(|&b| b == b'-').collect();
    let lower = word.to_ascii_lowercase();
    let end_of = |row: &Directive| {
        let name = row.name.as_bytes();
        lower.windows(name.len()).position(|part| part == name).map(|at| at + name.len())
    };
    let is_name = |b: &u8| b.is_ascii_alphanumeric() || b"-_".contains(b);
    let head = &lower[..lower.iter().position(|b| !is_name(b)).unwrap_or(lower.len())];
    // Orders say what users may do, passwords included, and by which names commands are called, which some
    // keep to themselves.
    let is_own = |order: &str| order.as_bytes() == head;
    let orders = REFUSED_ORDERS.iter().map(|(order, _)| *order).chain(["user", "rename-command"]);
    let is_order = || orders.clone().any(is_own);
    let is_sensitive = |name: &str| find_directive(name.as_bytes()).is_some_and(|row| row.sensitive);
    let len = match directives().filter(|row| row.sensitive).filter_map(end_of).min() {
        Some(len) => len,
        None if find_directive(head).is_some() => return None,
        None if leads && is_order() || nearest_name(head).is_some_and(is_sensitive) => head.len(),
        None => return None,
    };
    let separator = if word.get(len) == Some(&b'=') { "=" } else { " " };
    Some(String::from_utf8_lossy(&word[..len]).into_owned() + separator)
}

/// Passwords are in several of its fields, and in fields of these.
impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config").finish_non_exhaustive()
    }
}

impl fmt::Debug for TlsSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsSettings").finish_non_exhaustive()
    }
}

impl fmt::Debug for Orders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Orders").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_configuration_as_a_whole_is_not_shown() {
        let config = Config::default();
        let shown = format!("{config:?} {:?} {:?}", config.tls, config.orders);
        assert_eq!(shown, "Config { .. } TlsSettings { .. } Orders { .. }");
    }

    #[test]
    fn however_it_is_written_no_password_is_shown() {
        let cases = [
            ("requirepass s3cret", "requirepass ..."),
            ("REQUIREPASS=s3cret", "REQUIREPASS=..."),
            ("\"requirepass\" s3cret x", "requirepass ..."),
            ("'masterauth' s3cret", "masterauth ..."),
            ("requirepass \"s3cret", "requirepass ..."),
            ("\"requirepass s3cret", "requirepass ..."),
            ("requirepass\"s3cret\"", "requirepass ..."),
            ("\"\\x72equirepass\" s3cret", "requirepass ..."),
            ("\"\\requirepass-s3cret\"", "\\requirepass ..."),
            ("requirepas s3cret", "requirepas ..."),
            ("requierpass=s3cret", "requierpass=..."),
            ("-requirepass=s3cret", "requirepass=..."),
            ("port 7000 requirepass s3cret", "port 7000 requirepass ..."),
            ("tls-key-file-pass s3cret", "tls-key-file-pass ..."),
            ("user alice on >s3cret", "user ..."),
        ];
        for (line, shown) in cases {
            assert_eq!(without_secrets(line.as_bytes()), shown, "{line}");
        }
    }

    #[test]
    fn what_is_no_secret_is_shown_as_it_was_written() {
        for line in ["port  \"7000\" x", "tls-key-file a", "dir user", "prot 7000", "a \"b", ""] {
            assert_eq!(without_secrets(line.as_bytes()), line);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        #[test]
        fn nothing_behind_the_name_is_shown(
            before in prop::collection::vec(prop::sample::select(&b" \t\"'\\x=-("[..]), 0..6),
            between in prop::collection::vec(prop::sample::select(&b" \t\"'=-:"[..]), 1..4),
            after in prop::collection::vec(prop::sample::select(&b" \"'\\x"[..]), 0..6),
        ) {
            let line = [&before, &b"requirepass"[..], &between, b"s3cret", &after].concat();
            prop_assert!(!without_secrets(&line).contains("s3cret"));
        }
    }
}
