//! Paths in JSON documents, as `JSON.*` commands take them.
//!
//! ```text
//!   $  .store  ['book']  [0,-1]  [1:4:2]  [*]  .*  ..price  [?(@.price < 10)]
//!      child   child     places  slice    all  all descend  filter
//! ```
//!
//! A path that does not begin with `$.`, `$[` or is `$` is a *legacy* path: `.` is the root, `.a` and `a` are
//! `$.a`; commands reply with one value then instead of an array. Names behind a dot are what RedisJSON
//! takes, which is more than RFC 9535 does; what stands in a filter is read by `serde_json_path`, which
//! follows the RFC, so `=~` is none of its operators, and `$` does not stand in a filter.
//!
//! A path may be anything: its length and its nesting are bounded here, and so is what a filter may cost.

use serde_json_path::JsonPath;

/// Longest path.
const PATH_BYTES_MAX: usize = 16 << 10;
/// Longest filter.
const FILTER_BYTES_MAX: usize = 1 << 10;
/// Most brackets that are open at once in a filter: what reads it calls itself, and tries again.
const FILTER_DEPTH_MAX: usize = 8;

/// A path that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("ERR Path error at byte {at}: {what}")]
pub struct PathError {
    /// Where, in the path as it was given.
    at: usize,
    /// The problem.
    what: String,
}

/// A selector of a segment, for the values of an object or an array.
#[derive(Clone, Debug)]
pub enum Selector {
    /// The member of this name.
    Name(String),
    /// The element at this place, counted from the end if negative.
    Index(i64),
    /// Elements from the first place up to the second, in steps.
    Slice(Option<i64>, Option<i64>, usize),
    /// All members or elements.
    All,
    /// Those of which the filter is true; a whole path `$[?…]` to be applied to what holds them.
    Filter(Box<JsonPath>),
}

/// One step of a path.
#[derive(Clone, Debug)]
pub struct Segment {
    /// Whether it is tried on all that is below, too.
    pub descends: bool,
    /// Its selectors, at least one.
    pub selectors: Vec<Selector>,
}

/// A path, read.
#[derive(Clone, Debug)]
pub struct Path {
    /// As it was given.
    pub original: String,
    /// As it was given, beginning with `$`: errors tell it so.
    pub full: String,
    /// Whether it lacks a `$`.
    pub is_legacy: bool,
    /// Its segments; none for the root.
    pub segments: Vec<Segment>,
}

impl Path {
    /// Reads a path.
    pub fn parse(bytes: &[u8]) -> Result<Path, PathError> {
        let error = |what: &str| PathError { at: 0, what: what.to_owned() };
        if bytes.len() > PATH_BYTES_MAX {
            return Err(error("the path is too long"));
        }
        let original = std::str::from_utf8(bytes).map_err(|_| error("a path is UTF-8 text"))?;
        let is_legacy = !(original == "$" || original.starts_with("$.") || original.starts_with("$["));
        let full = match original {
            _ if !is_legacy => original.to_owned(),
            "." => "$".to_owned(),
            _ if original.starts_with('.') => format!("${original}"),
            _ => format!("$.{original}"),
        };
        let added = full.len() - original.len().min(full.len());
        let segments = Reader { text: &full, at: 1 }
            .segments()
            .map_err(|PathError { at, what }| PathError { at: at.saturating_sub(added), what })?;
        Ok(Path { original: original.to_owned(), full, is_legacy, segments })
    }

    /// Whether it is the whole document.
    pub fn is_root(&self) -> bool {
        self.segments.is_empty()
    }

    /// The path before the last segment, and its name, if it has one: where a member may be made. `None` for
    /// the root, and if it does not say one place by names and numbers alone.
    pub fn new_member(&self) -> Option<(&[Segment], Option<&str>)> {
        let is_one = |segment: &Segment| {
            !segment.descends && matches!(segment.selectors[..], [Selector::Name(_) | Selector::Index(_)])
        };
        let (last, above) = self.segments.split_last().filter(|_| self.segments.iter().all(is_one))?;
        match &last.selectors[..] {
            [Selector::Name(name)] => Some((above, Some(name))),
            _ => Some((above, None)),
        }
    }
}

/// Reads the text of a path from `at` on.
struct Reader<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Reader<'t> {
    fn error<T>(&self, what: impl Into<String>) -> Result<T, PathError> {
        Err(PathError { at: self.at, what: what.into() })
    }

    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn takes(&mut self, token: &str) -> bool {
        let takes = self.rest().starts_with(token);
        self.at += if takes { token.len() } else { 0 };
        takes
    }

    fn skip_blanks(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start_matches(' ').len();
    }

    fn segments(mut self) -> Result<Vec<Segment>, PathError> {
        let mut segments = Vec::new();
        while self.at < self.text.len() {
            let descends = self.takes("..");
            let has_dot = descends || self.takes(".");
            let selectors = if self.takes("[") {
                self.bracket()?
            } else if !has_dot {
                return self.error("'.' or '[' is expected");
            } else if self.takes("*") {
                vec![Selector::All]
            } else {
                vec![Selector::Name(self.bare_name()?)]
            };
            segments.push(Segment { descends, selectors });
        }
        Ok(segments)
    }

    /// A name behind a dot.
    fn bare_name(&mut self) -> Result<String, PathError> {
        let is_in_name = |c: char| c.is_ascii_alphanumeric() || !c.is_ascii() || "-_`~+#%$^/:".contains(c);
        let len = self.rest().find(|c| !is_in_name(c)).unwrap_or(self.rest().len());
        if len == 0 {
            return self.error("a name, '*' or '[' is expected; others stand in quotes, in brackets");
        }
        let name = self.rest()[..len].to_owned();
        self.at += len;
        Ok(name)
    }

    /// Parses the selectors in brackets, and the closing bracket.
    fn bracket(&mut self) -> Result<Vec<Selector>, PathError> {
        let mut selectors = Vec::new();
        loop {
            self.skip_blanks();
            selectors.push(self.selector()?);
            self.skip_blanks();
            if self.takes("]") {
                return Ok(selectors);
            }
            if !self.takes(",") {
                return self.error("']' or ',' is expected");
            }
        }
    }

    fn selector(&mut self) -> Result<Selector, PathError> {
        match self.rest().chars().next() {
            Some('*') => {
                self.at += 1;
                Ok(Selector::All)
            }
            Some(quote @ ('\'' | '"')) => self.quoted_name(quote).map(Selector::Name),
            Some('?') => self.filter(),
            _ => self.places(),
        }
    }

    /// A name in quotes; a backslash stands before a quote or a backslash that belongs to it.
    fn quoted_name(&mut self, quote: char) -> Result<String, PathError> {
        let mut name = String::new();
        let mut chars = self.rest().char_indices().skip(1);
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' => match chars.next() {
                    Some((_, escaped @ ('\\' | '\'' | '"'))) => name.push(escaped),
                    _ => return self.error("a backslash stands before a quote or a backslash"),
                },
                c if c == quote => {
                    self.at += at + 1;
                    return Ok(name);
                }
                c => name.push(c),
            }
        }
        self.error("the name has no closing quote")
    }

    /// A place, or a slice.
    fn places(&mut self) -> Result<Selector, PathError> {
        let start = self.number()?;
        self.skip_blanks();
        if !self.takes(":") {
            return match start {
                Some(index) => Ok(Selector::Index(index)),
                None => self.error("a number, a slice, a name in quotes, '*' or '?' is expected"),
            };
        }
        self.skip_blanks();
        let end = self.number()?;
        self.skip_blanks();
        let mut step = 1;
        if self.takes(":") {
            self.skip_blanks();
            step = match self.number()? {
                None => 1,
                Some(step) => match usize::try_from(step) {
                    Ok(step) if step > 0 => step,
                    _ => return self.error("the step of a slice is a number from 1 on"),
                },
            };
        }
        Ok(Selector::Slice(start, end, step))
    }

    fn number(&mut self) -> Result<Option<i64>, PathError> {
        let rest = self.rest();
        let digits = rest.strip_prefix('-').unwrap_or(rest);
        let len = rest.len() - digits.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        if len == 0 {
            return Ok(None);
        }
        let Ok(number) = rest[..len].parse() else { return self.error("the number is none, or too large") };
        self.at += len;
        Ok(Some(number))
    }

    /// A filter, up to the bracket or the comma behind it.
    fn filter(&mut self) -> Result<Selector, PathError> {
        let len = self.filter_len()?;
        let text = &self.rest()[..len];
        match JsonPath::parse(&format!("$[{text}]")) {
            Ok(filter) => {
                self.at += len;
                Ok(Selector::Filter(Box::new(filter)))
            }
            Err(error) => self.error(format!("the filter is none of RFC 9535: {}", error.message())),
        }
    }

    /// How long the filter is; refuses what could take long to read or to try.
    fn filter_len(&self) -> Result<usize, PathError> {
        let (mut open, mut descents, mut before) = (0, 0, ' ');
        let mut chars = self.rest().char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                _ if at > FILTER_BYTES_MAX => return self.error("the filter is too long"),
                '\'' | '"' => {
                    while let Some((_, quoted)) = chars.next().filter(|(_, quoted)| *quoted != c) {
                        if quoted == '\\' {
                            chars.next();
                        }
                    }
                }
                '(' | '[' if open == FILTER_DEPTH_MAX => {
                    return self.error("the filter has too many brackets within brackets");
                }
                '(' | '[' => open += 1,
                ']' | ',' if open == 0 => return Ok(at),
                ')' | ']' => open = usize::saturating_sub(open, 1),
                '.' if before == '.' => descents += 1,
                '$' => return self.error("'$' in a filter is not supported: compare with '@' and constants"),
                _ => {}
            }
            if descents > 1 {
                return self.error("a filter may descend by '..' once");
            }
            before = c;
        }
        self.error("the filter has no closing bracket")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    /// Text of the pieces that paths are made of, in any order.
    fn pathlike() -> impl Strategy<Value = String> {
        const PIECES: [&str; 40] = [
            "$",
            ".",
            "..",
            "[",
            "]",
            "*",
            "?",
            "(",
            ")",
            "@",
            "'",
            "\"",
            "\\",
            ",",
            ":",
            "-",
            "0",
            "1",
            "-1",
            "a",
            "b",
            " ",
            "<",
            ">=",
            "==",
            "!=",
            "&&",
            "||",
            "!",
            "1.5",
            "null",
            "true",
            "length(",
            "match(",
            "é",
            "~",
            "9223372036854775808",
            "@.a",
            "['a']",
            "[?(@.a==1)]",
        ];
        prop::collection::vec(prop::sample::select(&PIECES[..]), 0..30).prop_map(|pieces| pieces.concat())
    }

    /// Reads a path, and if it is one, tries it.
    fn try_out(bytes: &[u8]) {
        let document = json!({"a": [1, {"a": "b", "b": [[], {}]}, null], "b": {"a": 1.5}, "é": true});
        if let Ok(path) = Path::parse(bytes) {
            let found = path.select(&document);
            let places: std::collections::HashSet<_> =
                found.iter().map(|value| std::ptr::from_ref(*value)).collect();
            assert_eq!(places.len(), found.len(), "each value once");
            assert!(path.segments.is_empty() == path.is_root());
        }
    }

    proptest! {
        #[test]
        fn nothing_is_read_that_makes_it_panic(
            path in pathlike(),
            bytes in prop::collection::vec(any::<u8>(), 0..40),
        ) {
            try_out(path.as_bytes());
            try_out(format!("${path}").as_bytes());
            try_out(format!("$[?{path}]").as_bytes());
            try_out(format!("$[?@.a == {path}]").as_bytes());
            try_out(&bytes);
            try_out(&[&b"$["[..], &bytes].concat());
        }
    }

    #[test]
    fn what_nests_or_repeats_as_much_as_it_may_is_read_or_refused_soon() {
        let pieces =
            ["(", "[", "!", "@[?", "length(", "match(@.a,", "@.a&&", "value(", "!(", "..", "*", "@.", "'"];
        for piece in pieces {
            for count in [1, 7, 8, 9, 100, 5_000] {
                let (many, closed) = (piece.repeat(count), ")".repeat(count));
                for filter in [many.clone(), format!("{many}@.a{closed}"), format!("{many}@.a")] {
                    try_out(format!("$[?{filter}]").as_bytes());
                    try_out(format!("$[?({filter})]").as_bytes());
                }
                try_out(many.as_bytes());
                try_out(format!("$.{many}").as_bytes());
            }
        }
        assert!(Path::parse("$.a".repeat(PATH_BYTES_MAX).as_bytes()).is_err());
    }

    #[test]
    fn a_path_without_a_dollar_is_a_legacy_one() {
        for (text, full, is_legacy) in [
            ("$", "$", false),
            (".", "$", true),
            ("$.a", "$.a", false),
            ("$[0]", "$[0]", false),
            (".a", "$.a", true),
            ("a.b", "$.a.b", true),
            ("[0]", "$.[0]", true),
            ("$a", "$.$a", true),
        ] {
            let path = Path::parse(text.as_bytes()).unwrap();
            assert_eq!((path.full.as_str(), path.is_legacy, path.original.as_str()), (full, is_legacy, text));
        }
    }
}
