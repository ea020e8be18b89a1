//! Arguments of commands, as `COMMAND DOCS` describes them, and their notation.
//!
//! ```text
//!   key@0              a key, of the first group of keys       start:int     also float, pattern, time
//!   key@0*             one or more                             GET           a word, named `get`
//!   count:int=COUNT?   behind a word, may be left out          approx!~      the word `~`, named `approx`
//!   limit(offset:int count:int)=LIMIT                          several arguments together
//!   where{LEFT RIGHT}                                          one of several
//!   pattern=GET?+      any number, the word before each        NX?>2.6.12    since that version
//! ```
//!
//! The marks behind a name stand in any order. `<2.8.12` says since when an argument should not be used.

use std::borrow::Cow;

/// The characters that end a name, a word or a version.
const MARKS: &[char] = &[' ', '(', ')', '{', '}', '@', '=', '!', '>', '<', '?', '*', '+'];
/// The word that is no word: an empty argument.
const EMPTY: &str = "\"\"";

/// The kind of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Any bytes.
    String,
    /// A whole number.
    Integer,
    /// A number with decimals.
    Double,
    /// The name of a key.
    Key,
    /// A glob pattern.
    Pattern,
    /// Seconds or milliseconds since 1970.
    UnixTime,
    /// A word alone.
    PureToken,
    /// One of several arguments.
    OneOf,
    /// Several arguments together.
    Block,
}

impl Kind {
    /// The name that clients know.
    pub fn name(self) -> &'static str {
        match self {
            Kind::String => "string",
            Kind::Integer => "integer",
            Kind::Double => "double",
            Kind::Key => "key",
            Kind::Pattern => "pattern",
            Kind::UnixTime => "unix-time",
            Kind::PureToken => "pure-token",
            Kind::OneOf => "oneof",
            Kind::Block => "block",
        }
    }

    /// The kind behind the colon of a name.
    fn noted(text: &str) -> Option<Kind> {
        Some(match text {
            "int" => Kind::Integer,
            "float" => Kind::Double,
            "pattern" => Kind::Pattern,
            "time" => Kind::UnixTime,
            _ => return None,
        })
    }
}

/// One argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument<'t> {
    /// Its name, in lower case.
    pub name: Cow<'t, str>,
    /// Its kind.
    pub kind: Kind,
    /// The group of keys that it belongs to, by its number.
    pub key_spec: Option<u32>,
    /// The word before it, or the word that it is.
    pub token: Option<&'t str>,
    /// The version of Redis that has it first, if that is newer than the command.
    pub since: Option<&'t str>,
    /// The version of Redis since which it should not be used.
    pub deprecated_since: Option<&'t str>,
    /// It may be left out.
    pub is_optional: bool,
    /// It may come more than once.
    pub is_multiple: bool,
    /// The word comes with it each time.
    pub repeats_token: bool,
    /// Its parts or alternatives.
    pub arguments: Vec<Argument<'t>>,
}

impl<'t> Argument<'t> {
    /// An argument that the notation begins with this head.
    fn of(head: &'t str) -> Argument<'t> {
        let noted = head.rsplit_once(':').and_then(|(name, kind)| Some((name, Kind::noted(kind)?)));
        let (name, kind) = noted.unwrap_or((head, Kind::String));
        let mut argument = Argument {
            name: Cow::Borrowed(name),
            kind,
            key_spec: None,
            token: None,
            since: None,
            deprecated_since: None,
            is_optional: false,
            is_multiple: false,
            repeats_token: false,
            arguments: Vec::new(),
        };
        if head.starts_with(|first: char| first.is_ascii_uppercase()) {
            argument.name = Cow::Owned(head.to_ascii_lowercase());
            argument.kind = Kind::PureToken;
            argument.token = Some(head);
        }
        argument
    }
}

/// The arguments that a text in the notation describes; `None` if it is none.
pub(super) fn parse(text: &str) -> Option<Vec<Argument<'_>>> {
    let mut notation = Notation { rest: text };
    let arguments = notation.arguments()?;
    notation.rest.is_empty().then_some(arguments)
}

/// The part of a text that is still to be read.
struct Notation<'t> {
    rest: &'t str,
}

impl<'t> Notation<'t> {
    /// Arguments with a blank between them, up to the end or a closing bracket, which is left.
    fn arguments(&mut self) -> Option<Vec<Argument<'t>>> {
        let mut arguments = Vec::new();
        loop {
            arguments.push(self.argument()?);
            match self.rest.strip_prefix(' ') {
                Some(rest) => self.rest = rest,
                None => return Some(arguments),
            }
        }
    }

    fn argument(&mut self) -> Option<Argument<'t>> {
        let mut argument = Argument::of(self.word()?);
        loop {
            let mark = match self.rest.chars().next() {
                None | Some(' ' | ')' | '}') => return Some(argument),
                Some(mark) => mark,
            };
            self.rest = self.rest.strip_prefix(mark)?;
            match mark {
                '(' => (argument.kind, argument.arguments) = (Kind::Block, self.arguments_until(')')?),
                '{' => (argument.kind, argument.arguments) = (Kind::OneOf, self.arguments_until('}')?),
                '@' => {
                    argument.key_spec = Some(self.word()?.parse().ok()?);
                    if argument.kind == Kind::String {
                        argument.kind = Kind::Key;
                    }
                }
                '=' => argument.token = Some(self.token()?),
                '!' => (argument.kind, argument.token) = (Kind::PureToken, Some(self.token()?)),
                '>' => argument.since = Some(self.word()?),
                '<' => argument.deprecated_since = Some(self.word()?),
                '?' => argument.is_optional = true,
                '*' => argument.is_multiple = true,
                '+' => (argument.is_multiple, argument.repeats_token) = (true, true),
                _ => return None,
            }
        }
    }

    fn arguments_until(&mut self, end: char) -> Option<Vec<Argument<'t>>> {
        let arguments = self.arguments()?;
        self.rest = self.rest.strip_prefix(end)?;
        Some(arguments)
    }

    /// The text before the next mark; `None` if there is none.
    fn word(&mut self) -> Option<&'t str> {
        let end = self.rest.find(MARKS).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        (!word.is_empty()).then_some(word)
    }

    /// A word of the command, which may begin with a mark.
    fn token(&mut self) -> Option<&'t str> {
        let first = self.rest.chars().next()?.len_utf8();
        let end = self.rest[first..].find(MARKS).map_or(self.rest.len(), |at| first + at);
        let (token, rest) = self.rest.split_at(end);
        self.rest = rest;
        Some(if token == EMPTY { "" } else { token })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use proptest::prelude::*;

    fn only(text: &str) -> Argument<'_> {
        let mut arguments = parse(text).unwrap();
        assert_eq!(arguments.len(), 1, "{text}");
        arguments.remove(0)
    }

    #[test]
    fn marks_behind_a_name_say_what_the_argument_is() {
        let key = only("key@2*");
        assert_eq!(
            (key.name.as_ref(), key.kind, key.key_spec, key.is_multiple),
            ("key", Kind::Key, Some(2), true)
        );
        let by = only("pattern:pattern@1=BY?");
        assert_eq!(
            (by.kind, by.key_spec, by.token, by.is_optional),
            (Kind::Pattern, Some(1), Some("BY"), true)
        );
        let old = only("ip:port<2.8.12");
        assert_eq!(
            (old.name.as_ref(), old.kind, old.deprecated_since),
            ("ip:port", Kind::String, Some("2.8.12"))
        );
        let again = only("prefix=PREFIX?+>6.0.0");
        assert_eq!((again.is_multiple, again.repeats_token, again.since), (true, true, Some("6.0.0")));
    }

    #[test]
    fn words_are_named_by_themselves_or_by_another_name() {
        for (text, name, token) in [
            ("KEEPTTL", "keepttl", "KEEPTTL"),
            ("LIB-NAME", "lib-name", "LIB-NAME"),
            ("equal!=", "equal", "="),
            ("approximately!~", "approximately", "~"),
            ("auto_id!*", "auto_id", "*"),
            ("empty_string!\"\"", "empty_string", ""),
        ] {
            let word = only(text);
            assert_eq!(
                (word.name.as_ref(), word.kind, word.token),
                (name, Kind::PureToken, Some(token)),
                "{text}"
            );
            assert!(!word.is_optional && !word.is_multiple);
        }
    }

    #[test]
    fn brackets_hold_parts_and_braces_alternatives() {
        let limit = only("limit(offset:int count:int)=LIMIT?");
        assert_eq!((limit.kind, limit.token, limit.arguments.len()), (Kind::Block, Some("LIMIT"), 2));
        assert!(limit.arguments.iter().all(|part| part.kind == Kind::Integer));
        let strategy = only("trim(strategy{MAXLEN MINID} operator{equal!= approximately!~}? threshold)?");
        let kinds: Vec<Kind> = strategy.arguments.iter().map(|part| part.kind).collect();
        assert_eq!(kinds, [Kind::OneOf, Kind::OneOf, Kind::String]);
        assert_eq!(strategy.arguments[1].arguments[0].token, Some("="));
        assert!(strategy.arguments[1].is_optional && strategy.is_optional);
    }

    #[test]
    fn texts_that_break_the_notation_are_none() {
        for text in
            ["", " ", "a ", " a", "a  b", "a(b", "a)", "a{b)", "a()", "a@", "a@x", "a=", "a>", "(a)", "a?b"]
        {
            assert!(parse(text).is_none(), "{text:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn no_text_makes_the_reading_panic(text in "[ -~é]{0,40}") {
            let _ = parse(&text);
        }

        #[test]
        fn marks_behind_a_name_say_the_same_in_any_order(
            order in Just(vec!["@1", "=T", "?", "*", ">7.0.0", "<7.2.0"]).prop_shuffle(),
        ) {
            let shuffled = format!("key{}", order.concat());
            prop_assert_eq!(parse(&shuffled), parse("key@1=T?*>7.0.0<7.2.0"));
            prop_assert!(parse(&shuffled).is_some());
        }
    }
}
