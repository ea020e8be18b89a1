//! Glob patterns as `KEYS`, `SCAN MATCH`, `CONFIG GET` and `PSUBSCRIBE` have them.
//!
//! `*` stands for any bytes, `?` for one byte, `[a-z]` and `[^a-z]` for one byte in or not in a class, `\x`
//! for `x`. Every token but `*` takes exactly one byte, so on a mismatch it suffices to let the last `*` take
//! one byte more: the time is at most pattern times text, whatever the pattern.

/// Whether the whole of `text` matches `pattern`. No pattern but the empty one matches the empty text, as in
/// Redis: callers for which `*` means all ask [`is_everything`] first.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    run(pattern, text, false)
}

/// Like [`matches()`], but ASCII letters match in either case.
pub fn matches_ignoring_case(pattern: &[u8], text: &[u8]) -> bool {
    run(pattern, text, true)
}

/// Whether `pattern` is the single `*`, which commands take for "all" without matching.
pub fn is_everything(pattern: &[u8]) -> bool {
    pattern == b"*"
}

/// Whether `pattern` has a byte with a meaning other than itself.
pub fn is_pattern(pattern: &[u8]) -> bool {
    pattern.iter().any(|b| b"*?[\\".contains(b))
}

/// Whether `pattern` matches every text that begins with `prefix` and ends with `suffix`, whatever stands
/// between, if anything. Only a star takes what stands between: so it is false for some patterns that match
/// them all the same, such as `[ab]*` with `[^ab]*` beside it, or `*?` without a suffix. It is never true
/// where one of the texts does not match, but for the empty text, which `*` means as well here
/// ([`is_everything`]).
pub fn covers(pattern: &[u8], prefix: &[u8], suffix: &[u8]) -> bool {
    if prefix.is_empty() && suffix.is_empty() {
        return is_everything(pattern);
    }
    // As `run`, over a text that has what stands between as one token, `None`.
    let token = |at: usize| match at.checked_sub(prefix.len()) {
        None => Some(prefix[at]),
        Some(0) => None,
        Some(behind) => Some(suffix[behind - 1]),
    };
    let (mut p, mut t) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while t <= prefix.len() + suffix.len() {
        if pattern.get(p) == Some(&b'*') {
            p += 1;
            retry = Some((p, t + 1));
            continue;
        }
        if p < pattern.len()
            && let Some(byte) = token(t)
        {
            let (hit, width) = match_byte(&pattern[p..], byte, false);
            if hit {
                p += width;
                t += 1;
                continue;
            }
        }
        let Some((after_star, from)) = retry else { return false };
        (p, t) = (after_star, from);
        retry = Some((after_star, from + 1));
    }
    pattern[p..].iter().all(|&b| b == b'*')
}

fn run(pattern: &[u8], text: &[u8], fold: bool) -> bool {
    // Redis lets nothing but the empty pattern match the empty text, not even `*`.
    if text.is_empty() {
        return pattern.is_empty();
    }
    let (mut p, mut t) = (0, 0);
    // After the last `*`: where the pattern goes on, and where the text does if the star takes one byte more.
    let mut retry: Option<(usize, usize)> = None;
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
            p += 1;
            if p == pattern.len() {
                // It takes all that is left.
                return true;
            }
            retry = Some((p, t + 1));
            continue;
        }
        if p < pattern.len() {
            let (hit, width) = match_byte(&pattern[p..], text[t], fold);
            if hit {
                p += width;
                t += 1;
                continue;
            }
        }
        let Some((after_star, from)) = retry else { return false };
        (p, t) = (after_star, from);
        retry = Some((after_star, from + 1));
    }
    pattern[p..].iter().all(|&b| b == b'*')
}

/// Matches one byte against the token at the start of `pattern` (not `*`, not empty); also gives its width.
fn match_byte(pattern: &[u8], byte: u8, fold: bool) -> (bool, usize) {
    match pattern {
        [b'?', ..] => (true, 1),
        [b'[', class @ ..] => {
            let (hit, width) = match_class(class, byte, fold);
            (hit, width + 1)
        }
        [b'\\', literal, ..] => (same(*literal, byte, fold), 2),
        [literal, ..] => (same(*literal, byte, fold), 1),
        [] => (false, 0),
    }
}

/// Matches one byte against a class, given without its `[`. A class that is not closed ends with the pattern.
fn match_class(class: &[u8], byte: u8, fold: bool) -> (bool, usize) {
    let negated = class.first() == Some(&b'^');
    let mut at = usize::from(negated);
    let mut hit = false;
    loop {
        match &class[at..] {
            [] => break,
            [b']', ..] => {
                at += 1;
                break;
            }
            // An escaped byte of a class keeps its case, also where the rest does not.
            [b'\\', literal, ..] => {
                hit |= *literal == byte;
                at += 2;
            }
            [a, b'-', z, ..] => {
                hit |= in_range(*a.min(z), *a.max(z), byte, fold);
                at += 3;
            }
            [literal, ..] => {
                hit |= same(*literal, byte, fold);
                at += 1;
            }
        }
    }
    (hit != negated, at)
}

fn in_range(low: u8, high: u8, byte: u8, fold: bool) -> bool {
    if fold {
        let range = low.to_ascii_lowercase()..=high.to_ascii_lowercase();
        return range.contains(&byte.to_ascii_lowercase());
    }
    (low..=high).contains(&byte)
}

fn same(a: u8, b: u8, fold: bool) -> bool {
    a == b || fold && a.eq_ignore_ascii_case(&b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, yes: &[&str], no: &[&str]) {
        for text in yes {
            assert!(matches(pattern.as_bytes(), text.as_bytes()), "{pattern} should match {text}");
        }
        for text in no {
            assert!(!matches(pattern.as_bytes(), text.as_bytes()), "{pattern} should not match {text}");
        }
    }

    #[test]
    fn tokens_mean_what_they_say() {
        check("h?llo", &["hello", "h\u{7f}llo"], &["hllo", "helllo"]);
        check("h*llo", &["hllo", "heeeello", "hllollo"], &["hell", "xhllo"]);
        check("h[ae]llo", &["hello", "hallo"], &["hillo", "hllo"]);
        check("h[^e]llo", &["hallo", "hbllo"], &["hello"]);
        check("h[b-a]llo", &["hallo", "hbllo"], &["hcllo"]);
        check(r"h\?llo", &["h?llo"], &["hello"]);
        check(r"[\]\^-]x", &["]x", "^x", "-x"], &["\\x"]);
        check("", &[""], &["a"]);
        check("a**b***", &["ab", "axxb", "abx"], &["b", "ba"]);
    }

    #[test]
    fn patterns_that_end_early_are_taken_as_redis_takes_them() {
        check("[abc", &["a", "c"], &["d", "[abc"]);
        check("[^", &["a"], &[""]);
        check("*", &["a"], &[""]);
        check("[]", &[], &["", "]", "a"]);
        check("[^]", &["a", "]"], &[""]);
        check("[a-]", &["a", "]", "^"], &["-", "b"]);
        check("x\\", &["x\\"], &["x"]);
    }

    #[test]
    fn case_is_folded_on_request_but_not_in_an_escaped_byte_of_a_class() {
        assert!(matches_ignoring_case(b"HeL[A-M]o*", b"hello"));
        assert!(matches_ignoring_case(b"\\H", b"h"));
        assert!(!matches_ignoring_case(b"[\\H]", b"h"));
        assert!(!matches(b"HELLO", b"hello"));
    }

    /// 40 stars against 20,000 bytes would take longer than the age of the world without the bound.
    #[test]
    fn many_stars_do_not_take_for_ever() {
        let pattern = "a*".repeat(40) + "b";
        assert!(!matches(pattern.as_bytes(), &[b'a'; 20_000]));
    }

    /// Up to `len` of these tokens in a row, nothing among them.
    fn rows_of(tokens: &[&str], len: usize) -> Vec<String> {
        let mut all = vec![String::new()];
        let mut newest = all.clone();
        for _ in 0..len {
            newest =
                newest.iter().flat_map(|row| tokens.iter().map(move |token| row.clone() + token)).collect();
            all.extend_from_slice(&newest);
        }
        all
    }

    #[test]
    fn a_pattern_that_covers_a_table_matches_each_of_its_keys() {
        let ends = rows_of(&["a", "b"], 2);
        let between = rows_of(&["a", "b", "c"], 3);
        let mut covered = 0;
        for pattern in rows_of(&["a", "b", "*", "?", "[ab]", "[^a]", "\\a"], 4) {
            // Such a star takes what no other token takes, so here it is known which ones cover.
            let is_plain = !pattern.contains(['?', '[', '\\']);
            for (prefix, suffix) in
                ends.iter().flat_map(|prefix| ends.iter().map(move |suffix| (prefix, suffix)))
            {
                if prefix.is_empty() && suffix.is_empty() {
                    continue;
                }
                let covers = covers(pattern.as_bytes(), prefix.as_bytes(), suffix.as_bytes());
                if !covers && !is_plain {
                    continue;
                }
                let matches =
                    |part: &String| matches(pattern.as_bytes(), format!("{prefix}{part}{suffix}").as_bytes());
                assert_eq!(covers, between.iter().all(matches), "{pattern} for {prefix}*{suffix}");
                covered += usize::from(covers);
            }
        }
        assert!(covered > 1000, "{covered} are too few to mean something");
    }

    #[test]
    fn patterns_of_rules_cover_tables_below_them() {
        for (pattern, prefix, suffix, covers_it) in [
            ("flight:*", "flight:", "", true),
            ("flight:*", "flight:eu:", ":x", true),
            ("flight:*", "flight", "", false),
            ("flight:*", "fl", "ght:1", false),
            ("f*t:*", "flight:", "", true),
            ("*:x", "flight:", ":x", true),
            ("*:x", "flight:", "x", false),
            ("flight:?*", "flight:", "", false),
            ("flight:[0-9]*", "flight:1", "", true),
            ("flight:[0-9]*", "flight:", "", false),
            ("flight:1", "flight:", "", false),
            ("f*", "", "f", false),
            ("**", "f", "", true),
            ("*", "", "", true),
            ("**", "", "", false),
            ("?*", "", "", false),
            ("", "", "", false),
            ("", "a", "", false),
            ("[", "a", "", false),
            ("a[*", "a", "", false),
            ("a\\*", "a", "", false),
            ("a\\**", "a*", "", true),
        ] {
            assert_eq!(
                covers(pattern.as_bytes(), prefix.as_bytes(), suffix.as_bytes()),
                covers_it,
                "{pattern} {prefix}*{suffix}"
            );
        }
    }
}
