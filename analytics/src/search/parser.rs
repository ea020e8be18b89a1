//! The query language, as RediSearch's DIALECT 2 reads it.
//!
//! ```text
//!   any    = all { "|" all }
//!   all    = part { part }
//!   part   = "-" part | "(" any ")" | "*" | "ismissing(@" name ")" | [ "@" name { "|" name } ":" ] value
//!   value  = "{" tag { "|" tag } "}" | "[" bound bound "]" | "(" any ")" | "\"" word … "\"" | word
//! ```
//!
//! A word may begin or end with `*`; `$name` stands for a parameter; a backslash takes away the meaning of
//! what follows it.

use std::collections::HashMap;

use super::error::SearchError;
use super::matching::{Pattern, split_words};

/// Bytes of a query.
const QUERY_BYTES_MAX: usize = 1 << 20;
/// Parts of a query; alternatives of a tag count, too.
const PARTS_MAX: usize = 4096;
/// The beginning of the function that asks for keys without a field.
const IS_MISSING: &str = "ismissing(@";
/// Brackets within brackets.
const DEPTH_MAX: usize = 64;

/// A query.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Query {
    /// Every key.
    All,
    /// Keys that the other query does not match.
    Not(Box<Query>),
    /// Keys that all of these match.
    And(Vec<Query>),
    /// Keys that one of these matches.
    Or(Vec<Query>),
    /// Words, in fields of these names or in any.
    Words(Option<Vec<String>>, Pattern),
    /// Tags of a field.
    Tags(String, Vec<Pattern>),
    /// A range of a field.
    Range(String, Bound, Bound),
    /// Keys without this field.
    Missing(String),
}

/// An end of a range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bound {
    /// The number.
    pub number: f64,
    /// Whether the number itself is outside.
    pub is_exclusive: bool,
}

/// Values by the names that a query has for them.
pub(super) type Parameters = HashMap<String, String>;

/// Reads a query.
pub(super) fn parse(text: &str, parameters: &Parameters) -> Result<Query, SearchError> {
    if text.len() > QUERY_BYTES_MAX {
        return Err(SearchError::refused(format!("a query has at most {QUERY_BYTES_MAX} bytes")));
    }
    let mut parser = Parser { text, at: 0, parameters, parts: 0, depth: 0 };
    parser.skip_blanks();
    if parser.peek().is_none() {
        return Err(parser.refused("the query is empty: use * for all keys"));
    }
    let query = parser.any(None)?;
    match parser.peek() {
        None => Ok(query),
        Some(')') => Err(parser.refused("there is no '(' for this ')'")),
        Some(_) => Err(parser.unknown()),
    }
}

/// Reads an end of a range: `5`, `(5`, `inf`, `-inf`.
pub(super) fn parse_bound(text: &str) -> Option<Bound> {
    let (number, is_exclusive) = match text.strip_prefix('(') {
        Some(number) => (number, true),
        None => (text, false),
    };
    let number: f64 = number.parse().ok()?;
    (!number.is_nan()).then_some(Bound { number, is_exclusive })
}

struct Parser<'q> {
    text: &'q str,
    at: usize,
    parameters: &'q Parameters,
    parts: usize,
    depth: usize,
}

/// The fields that words are looked for in.
type Fields<'f> = Option<&'f [String]>;

impl Parser<'_> {
    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn bump(&mut self) -> Option<char> {
        let letter = self.peek()?;
        self.at += letter.len_utf8();
        Some(letter)
    }

    fn take(&mut self, letter: char) -> bool {
        let is_next = self.peek() == Some(letter);
        if is_next {
            self.bump();
        }
        is_next
    }

    fn skip_blanks(&mut self) {
        while self.peek().is_some_and(char::is_whitespace) {
            self.bump();
        }
    }

    fn refused(&self, why: impl std::fmt::Display) -> SearchError {
        // As RediSearch begins, which clients look for.
        SearchError::refused(format!("Syntax error at offset {}: {why}", self.at))
    }

    /// Refuses the text at this place.
    fn unknown(&self) -> SearchError {
        let said = match self.peek() {
            None => return self.refused("the query ends too early"),
            Some('%') => "fuzzy words (%word%) are not there".to_owned(),
            Some('~') => "optional parts (~) are not there: scores are constant".to_owned(),
            Some('=') => "=> with attributes or vectors is not there".to_owned(),
            Some(letter) => {
                format!("'{letter}' has no meaning here; write \\{letter} for the character itself")
            }
        };
        self.refused(format!(
            "{said}. There are *, words, pre*, \"phrases\", @field:word, @field:{{tag|tag}}, \
             @field:[low high], -not, \
             a|b, brackets and $parameters"
        ))
    }

    fn count(&mut self) -> Result<(), SearchError> {
        self.parts += 1;
        if self.parts > PARTS_MAX {
            return Err(self.refused(format!("a query has at most {PARTS_MAX} parts")));
        }
        Ok(())
    }

    fn any(&mut self, fields: Fields<'_>) -> Result<Query, SearchError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.refused(format!("there are more than {DEPTH_MAX} brackets within each other")));
        }
        let mut found = vec![self.all(fields)?];
        while self.take('|') {
            found.push(self.all(fields)?);
        }
        self.depth -= 1;
        Ok(one_or(found, Query::Or))
    }

    fn all(&mut self, fields: Fields<'_>) -> Result<Query, SearchError> {
        let mut found = Vec::new();
        loop {
            self.skip_blanks();
            match self.peek() {
                None | Some('|' | ')') if found.is_empty() => return Err(self.unknown()),
                None | Some('|' | ')') => return Ok(one_or(found, Query::And)),
                Some(_) => found.push(self.part(fields)?),
            }
        }
    }

    fn part(&mut self, fields: Fields<'_>) -> Result<Query, SearchError> {
        self.count()?;
        let mut is_negated = false;
        while self.take('-') {
            is_negated = !is_negated;
            self.skip_blanks();
        }
        let part = match self.peek() {
            Some('@') => self.field()?,
            _ if self.text[self.at..].starts_with(IS_MISSING) => self.missing()?,
            Some('*') if self.text[self.at + 1..].chars().next().is_none_or(ends_star) => {
                self.bump();
                Query::All
            }
            _ => self.value(fields)?,
        };
        Ok(if is_negated { Query::Not(Box::new(part)) } else { part })
    }

    fn missing(&mut self) -> Result<Query, SearchError> {
        self.at += IS_MISSING.len();
        let mut name = String::new();
        loop {
            match self.bump() {
                Some(')') if !name.is_empty() => return Ok(Query::Missing(name)),
                Some('\\') => name.extend(self.bump()),
                Some(letter) if letter != ')' && !letter.is_whitespace() => name.push(letter),
                _ => return Err(self.refused("it is ismissing(@field)")),
            }
        }
    }

    fn field(&mut self) -> Result<Query, SearchError> {
        let mut names = Vec::new();
        self.bump();
        loop {
            names.push(self.name()?);
            self.skip_blanks();
            if self.take(':') {
                break;
            }
            if !self.take('|') {
                return Err(self.refused("a ':' is wanted behind the name of a field"));
            }
            self.skip_blanks();
            self.take('@');
        }
        self.skip_blanks();
        let single = |parser: &Self| match names.as_slice() {
            [name] => Ok(name.clone()),
            _ => Err(parser.refused("tags and ranges are of one field")),
        };
        match self.peek() {
            Some('{') => {
                let name = single(self)?;
                Ok(Query::Tags(name, self.tags()?))
            }
            Some('[') => {
                let name = single(self)?;
                self.bump();
                let low = self.bound()?;
                let high = self.bound()?;
                self.skip_blanks();
                if !self.take(']') {
                    return Err(self.refused("a range is [low high]; vectors and places are not there"));
                }
                Ok(Query::Range(name, low, high))
            }
            _ => self.value(Some(&names)),
        }
    }

    fn name(&mut self) -> Result<String, SearchError> {
        let mut name = String::new();
        while let Some(letter) = self.peek() {
            match letter {
                '\\' => {
                    self.bump();
                    name.extend(self.bump());
                }
                ':' | '|' | '@' => break,
                letter if letter.is_whitespace() => break,
                letter if is_special(letter) && !matches!(letter, '.' | '-' | '/') => {
                    return Err(self.unknown());
                }
                letter => {
                    name.push(letter);
                    self.bump();
                }
            }
        }
        if name.is_empty() {
            return Err(self.refused("the name of a field is wanted behind @"));
        }
        Ok(name)
    }

    fn value(&mut self, fields: Fields<'_>) -> Result<Query, SearchError> {
        let pattern = match self.peek() {
            Some('(') => {
                self.bump();
                let inner = self.any(fields)?;
                if !self.take(')') {
                    return Err(self.refused("a ')' is missing"));
                }
                return Ok(inner);
            }
            Some('"') => Pattern::phrase(split_words(&self.quoted()?)),
            _ => self.word()?,
        };
        Ok(Query::Words(fields.map(<[String]>::to_vec), pattern))
    }

    /// Reads the text between double quotes.
    fn quoted(&mut self) -> Result<String, SearchError> {
        self.bump();
        let mut text = String::new();
        loop {
            match self.bump() {
                None => return Err(self.refused("a '\"' is missing")),
                Some('"') => return Ok(text),
                Some('\\') => text.extend(self.bump()),
                Some(letter) => text.push(letter),
            }
        }
    }

    fn word(&mut self) -> Result<Pattern, SearchError> {
        if self.peek() == Some('$') {
            return Ok(Pattern::phrase(split_words(self.parameter()?)));
        }
        let is_open_before = self.take('*');
        let mut text = String::new();
        while let Some(letter) = self.peek() {
            match letter {
                '\\' => {
                    self.bump();
                    text.extend(self.bump());
                }
                letter if letter.is_whitespace() || is_special(letter) => break,
                letter => {
                    text.push(letter);
                    self.bump();
                }
            }
        }
        let is_open_behind = self.take('*');
        if text.is_empty() || self.peek().is_some_and(|next| !ends_word(next)) {
            return Err(self.unknown());
        }
        let words = split_words(&text);
        Ok(match (is_open_before, is_open_behind, words.as_slice()) {
            (false, false, _) => Pattern::phrase(words),
            (before, behind, [word]) => Pattern::part_of(word.clone(), before, behind),
            _ => return Err(self.refused("only one word can begin or end with *")),
        })
    }

    fn parameter(&mut self) -> Result<&str, SearchError> {
        self.bump();
        let from = self.at;
        while self.peek().is_some_and(|letter| letter.is_alphanumeric() || letter == '_') {
            self.bump();
        }
        let name = &self.text[from..self.at];
        match self.parameters.get(name) {
            Some(value) => Ok(value),
            None => Err(self.refused(format!("No such parameter `{name}`: PARAMS has none of this name"))),
        }
    }

    fn bound(&mut self) -> Result<Bound, SearchError> {
        self.skip_blanks();
        let refused = |parser: &Self, text: &str| {
            parser.refused(format!("'{text}' is no end of a range: use a number, (number, inf or -inf"))
        };
        let is_exclusive = self.take('(');
        self.skip_blanks();
        let is_negative = self.take('-');
        let text = match self.peek() {
            Some('$') => self.parameter()?.to_owned(),
            _ => {
                let from = self.at;
                while self.peek().is_some_and(|letter| letter.is_alphanumeric() || "+-.".contains(letter)) {
                    self.bump();
                }
                self.text[from..self.at].to_owned()
            }
        };
        let mut bound = parse_bound(&text).ok_or_else(|| refused(self, &text))?;
        bound.is_exclusive |= is_exclusive;
        if is_negative {
            bound.number = -bound.number;
        }
        Ok(bound)
    }

    fn tags(&mut self) -> Result<Vec<Pattern>, SearchError> {
        self.bump();
        let mut tags = Vec::new();
        loop {
            self.count()?;
            tags.push(self.tag()?);
            match self.bump() {
                Some('|') => {}
                Some('}') => return Ok(tags),
                _ => return Err(self.refused("a '}' is missing behind tags")),
            }
        }
    }

    fn tag(&mut self) -> Result<Pattern, SearchError> {
        self.skip_blanks();
        if matches!(self.peek(), Some('"' | '$')) {
            let text = match self.peek() {
                Some('"') => self.quoted()?,
                _ => self.parameter()?.to_owned(),
            };
            self.skip_blanks();
            return Ok(Pattern::whole(text.trim().to_owned()));
        }
        let is_open_before = self.take('*');
        let mut text = String::new();
        // Blanks at the end are no part of a tag, unless they are written as such.
        let mut end = 0;
        while let Some(letter) = self.peek() {
            match letter {
                '\\' => {
                    self.bump();
                    text.extend(self.bump());
                    end = text.len();
                }
                '|' | '}' | '*' => break,
                '{' | '"' | '$' | '%' => return Err(self.unknown()),
                letter => {
                    text.push(letter);
                    self.bump();
                    if !letter.is_whitespace() {
                        end = text.len();
                    }
                }
            }
        }
        let is_open_behind = self.take('*');
        self.skip_blanks();
        text.truncate(end);
        if text.is_empty() {
            return Err(self.refused("a tag is wanted here, such as {red|green}"));
        }
        Ok(match (is_open_before, is_open_behind) {
            (false, false) => Pattern::whole(text),
            (before, behind) => Pattern::part_of(text, before, behind),
        })
    }
}

fn one_or(mut queries: Vec<Query>, many: fn(Vec<Query>) -> Query) -> Query {
    match queries.len() {
        1 => queries.remove(0),
        _ => many(queries),
    }
}

/// Whether a `*` before this stands for all keys.
fn ends_star(letter: char) -> bool {
    letter.is_whitespace() || matches!(letter, ')' | '|')
}

/// Whether a word may end before this.
fn ends_word(letter: char) -> bool {
    letter.is_whitespace() || matches!(letter, '|' | ')' | '(' | '@' | '"')
}

/// Whether a character is something else than a part of a word.
fn is_special(letter: char) -> bool {
    letter.is_ascii_punctuation() && letter != '_'
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Result<Query, SearchError> {
        let parameters = [("tag", "a b"), ("low", "5"), ("word", "Two words")];
        let owned = parameters.map(|(name, value)| (name.to_owned(), value.to_owned()));
        parse(text, &owned.into_iter().collect())
    }

    fn word(fields: Option<&str>, text: &str) -> Query {
        let fields = fields.map(|names| names.split('|').map(str::to_owned).collect());
        Query::Words(fields, Pattern::phrase(split_words(text)))
    }

    fn range(low: f64, is_above: bool, high: f64, is_below: bool) -> Query {
        let bound = |number, is_exclusive| Bound { number, is_exclusive };
        Query::Range("f".to_owned(), bound(low, is_above), bound(high, is_below))
    }

    #[test]
    fn queries_are_read_as_dialect_2_reads_them() {
        let (a, b, c) = (word(None, "a"), word(None, "b"), word(None, "c"));
        let both = Query::And(vec![a.clone(), b.clone()]);
        for (text, query) in [
            ("*", Query::All),
            ("( * )", Query::All),
            ("a", a.clone()),
            ("a b | c", Query::Or(vec![both.clone(), c.clone()])),
            ("a (b|c)", Query::And(vec![a.clone(), Query::Or(vec![b.clone(), c.clone()])])),
            ("-a b", Query::And(vec![Query::Not(Box::new(a.clone())), b.clone()])),
            ("-(a b)", Query::Not(Box::new(both.clone()))),
            ("@f:a b", Query::And(vec![word(Some("f"), "a"), b.clone()])),
            ("@f : (a b)", Query::And(vec![word(Some("f"), "a"), word(Some("f"), "b")])),
            ("@f|g:a", word(Some("f|g"), "a")),
            ("\"Exact  Phrase\"", word(None, "exact phrase")),
            ("foo\\-bar", word(None, "foo bar")),
            ("$word", word(None, "two words")),
            ("ismissing(@a\\ b)", Query::Missing("a b".to_owned())),
            ("pre*", Query::Words(None, Pattern::part_of("pre".to_owned(), false, true))),
            ("*fix", Query::Words(None, Pattern::part_of("fix".to_owned(), true, false))),
            ("@f:[1 2]", range(1.0, false, 2.0, false)),
            ("@f:[(1 (2]", range(1.0, true, 2.0, true)),
            ("@f:[-inf +inf]", range(f64::NEG_INFINITY, false, f64::INFINITY, false)),
            ("@f:[-1.5e3 (-$low]", range(-1500.0, false, -5.0, true)),
        ] {
            assert_eq!(read(text).unwrap(), query, "{text}");
        }
    }

    #[test]
    fn tags_are_whole_whatever_they_hold() {
        let tags = |text: &str| match read(&format!("@f:{{{text}}}")).unwrap() {
            Query::Tags(_, tags) => tags,
            other => panic!("{other:?}"),
        };
        let whole = |text: &str| Pattern::whole(text.to_owned());
        assert_eq!(tags("a|b c | d"), [whole("a"), whole("b c"), whole("d")]);
        assert_eq!(tags("$tag"), [whole("a b")]);
        assert_eq!(tags("a\\|b\\ "), [whole("a|b ")]);
        assert_eq!(tags("\"a|b\" | x@y.z-1"), [whole("a|b"), whole("x@y.z-1")]);
        assert_eq!(tags("pre*"), [Pattern::part_of("pre".to_owned(), false, true)]);
    }

    #[test]
    fn what_cannot_be_read_is_an_error_that_says_where() {
        for (text, words) in [
            ("", "use * for all keys"),
            ("a)", "no '('"),
            ("(a", "a ')' is missing"),
            ("a |", "offset 3"),
            ("@f", "a ':' is wanted"),
            ("@:a", "name of a field"),
            ("@f:{}", "a tag is wanted"),
            ("@f:{a", "'}' is missing"),
            ("@f:[1]", "no end of a range"),
            ("@f:[1 2 km]", "places are not there"),
            ("@f:[a b]", "no end of a range"),
            ("%a%", "fuzzy"),
            ("~a", "optional"),
            ("a=>{$weight:2}", "=> with attributes"),
            ("foo-bar", "write \\-"),
            ("$none", "No such parameter"),
            ("\"a", "is missing"),
            ("@a|b:{x}", "of one field"),
        ] {
            let said = read(text).unwrap_err().to_string();
            assert!(said.contains(words), "{text}: {said}");
        }
        assert!(read(&"(".repeat(100_000)).unwrap_err().to_string().contains("brackets"));
        assert!(read(&"a ".repeat(10_000)).unwrap_err().to_string().contains("parts"));
        assert!(read(&"@a:".repeat(10_000)).is_err());
        assert!(read(&"a".repeat(2 << 20)).unwrap_err().to_string().contains("bytes"));
        read(&"-".repeat(10_001)).unwrap_err();
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(text in "[-a-c@:{}|()\\[\\]\"*$\\\\~% 0-9.+é\u{0}]{0,80}") {
            let _ = read(&text);
        }

        #[test]
        fn nothing_of_any_letters_makes_it_panic(text in ".{0,40}") {
            let _ = read(&text);
        }
    }
}
