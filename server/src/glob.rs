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
}
