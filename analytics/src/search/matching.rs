//! Matches texts: words and tags, in lower case, without stemming and scores.

use std::hash::Hash;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, StringViewArray};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// A pattern of a word or a tag.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Pattern {
    /// Exactly these words, in order; for a tag, the one.
    Phrase(Vec<String>),
    /// One of these words, which are sorted.
    OneOf(Vec<String>),
    /// A word that begins, ends, or has somewhere in it, this.
    Part {
        /// The text that is looked for.
        text: String,
        /// Whether something may stand before it.
        is_open_before: bool,
        /// Whether something may follow it.
        is_open_behind: bool,
    },
}

impl Pattern {
    /// Words in order.
    pub(super) fn phrase(words: Vec<String>) -> Pattern {
        Pattern::Phrase(words)
    }

    /// All of a tag.
    pub(super) fn whole(text: String) -> Pattern {
        Pattern::Phrase(vec![text])
    }

    /// One of some words.
    pub(super) fn one_of<'w>(words: impl IntoIterator<Item = &'w str>) -> Pattern {
        let mut words: Vec<String> = words.into_iter().map(str::to_owned).collect();
        words.sort_unstable();
        Pattern::OneOf(words)
    }

    /// A part of a word or tag.
    pub(super) fn part_of(text: String, is_open_before: bool, is_open_behind: bool) -> Pattern {
        Pattern::Part { text, is_open_before, is_open_behind }
    }

    /// Bytes of memory that its words take, about.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Pattern::Phrase(words) | Pattern::OneOf(words) => {
                words.iter().map(|word| word.len() + size_of::<String>()).sum()
            }
            Pattern::Part { text, .. } => text.len(),
        }
    }

    fn lowered(self) -> Pattern {
        match self {
            Pattern::Phrase(words) => {
                Pattern::Phrase(words.into_iter().map(|word| word.to_lowercase()).collect())
            }
            Pattern::OneOf(words) => {
                let words: Vec<String> = words.iter().map(|word| word.to_lowercase()).collect();
                Pattern::one_of(words.iter().map(String::as_str))
            }
            Pattern::Part { text, is_open_before, is_open_behind } => {
                Pattern::Part { text: text.to_lowercase(), is_open_before, is_open_behind }
            }
        }
    }

    fn is_word(&self, word: &str) -> bool {
        match self {
            Pattern::Phrase(words) => matches!(words.as_slice(), [only] if only == word),
            Pattern::OneOf(words) => words.binary_search_by(|one| one.as_str().cmp(word)).is_ok(),
            Pattern::Part { text, is_open_before: true, is_open_behind: true } => {
                word.contains(text.as_str())
            }
            Pattern::Part { text, is_open_before: false, .. } => word.starts_with(text.as_str()),
            Pattern::Part { text, .. } => word.ends_with(text.as_str()),
        }
    }

    fn is_in(&self, words: &[String]) -> bool {
        match self {
            Pattern::Phrase(phrase) if phrase.is_empty() => false,
            Pattern::Phrase(phrase) => words.windows(phrase.len()).any(|window| window == phrase),
            part => words.iter().any(|word| part.is_word(word)),
        }
    }
}

/// The words of a text, in lower case: what stands between blanks and punctuation, of which `_` is none.
pub(super) fn split_words(text: &str) -> Vec<String> {
    let is_between = |letter: char| {
        letter.is_whitespace() || letter == '\0' || letter.is_ascii_punctuation() && letter != '_'
    };
    text.split(is_between).filter(|word| !word.is_empty()).map(str::to_lowercase).collect()
}

/// Which values of a column match.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Rule {
    /// Those that have the words.
    Words(Pattern),
    /// Those that have one of the tags.
    Tags {
        /// The tags.
        wanted: Vec<Pattern>,
        /// The separator of tags.
        separator: Option<char>,
        /// Whether case counts.
        case_sensitive: bool,
    },
}

impl Rule {
    /// One of these tags.
    pub(super) fn tags(wanted: Vec<Pattern>, separator: Option<char>, case_sensitive: bool) -> Rule {
        let wanted = match case_sensitive {
            true => wanted,
            false => wanted.into_iter().map(Pattern::lowered).collect(),
        };
        Rule::Tags { wanted, separator, case_sensitive }
    }

    fn matches(&self, text: &str) -> bool {
        match self {
            Rule::Words(pattern) => pattern.is_in(&split_words(text)),
            Rule::Tags { wanted, separator: Some(separator), case_sensitive } => {
                text.split(*separator).any(|tag| is_tag(tag, wanted, *case_sensitive))
            }
            Rule::Tags { wanted, separator: None, case_sensitive } => is_tag(text, wanted, *case_sensitive),
        }
    }
}

fn is_tag(tag: &str, wanted: &[Pattern], case_sensitive: bool) -> bool {
    let tag = tag.trim();
    match case_sensitive {
        true => wanted.iter().any(|pattern| pattern.is_word(tag)),
        false => {
            let tag = tag.to_lowercase();
            wanted.iter().any(|pattern| pattern.is_word(&tag))
        }
    }
}

/// The tags of a value, without empty ones; `is_each`: the text is a JSON array of texts.
pub(super) fn tags_of(
    text: &str,
    separator: Option<char>,
    case_sensitive: bool,
    is_each: bool,
) -> Vec<String> {
    let texts: Vec<String> = match is_each {
        true => serde_json::from_str(text).unwrap_or_default(),
        false => vec![text.to_owned()],
    };
    let tag = |tag: &str| match case_sensitive {
        true => tag.trim().to_owned(),
        false => tag.trim().to_lowercase(),
    };
    let tags = texts.iter().flat_map(|text| match separator {
        Some(separator) => text.split(separator).map(tag).collect(),
        None => vec![tag(text)],
    });
    tags.filter(|tag| !tag.is_empty()).collect()
}

/// A function of SQL that says whether a text matches; never NULL.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Matches {
    rule: Rule,
    /// Whether texts are JSON arrays of texts (`Source::Each`).
    is_each: bool,
    signature: Signature,
}

/// Whether `column` matches. `is_each`: it has JSON arrays of texts.
pub(super) fn matches(column: Expr, rule: Rule, is_each: bool) -> Expr {
    let signature = Signature::exact(vec![DataType::Utf8View], Volatility::Immutable);
    ScalarUDF::from(Matches { rule, is_each, signature }).call(vec![column])
}

impl Matches {
    fn is_true_of(&self, text: Option<&str>) -> bool {
        let Some(text) = text else { return false };
        if !self.is_each {
            return self.rule.matches(text);
        }
        let texts: Vec<String> = serde_json::from_str(text).unwrap_or_default();
        texts.iter().any(|text| self.rule.matches(text))
    }
}

impl ScalarUDFImpl for Matches {
    fn name(&self) -> &str {
        "ft_matches"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let column: ArrayRef = args.args[0].to_array(args.number_rows)?;
        let texts: &StringViewArray = column.as_string_view();
        let found: BooleanArray = texts.iter().map(|text| Some(self.is_true_of(text))).collect();
        debug_assert_eq!(found.len(), column.len(), "a truth for each row");
        Ok(ColumnarValue::Array(Arc::new(found)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_what_stands_between_blanks_and_punctuation() {
        assert_eq!(split_words("Hello,  brave_new-WORLD!"), ["hello", "brave_new", "world"]);
        assert_eq!(split_words("Żółć É"), ["żółć", "é"]);
        let has = |text, pattern: Pattern| Rule::Words(pattern).matches(text);
        assert!(has("the quick brown fox", Pattern::phrase(split_words("quick BROWN"))));
        assert!(!has("the quick red fox", Pattern::phrase(split_words("quick fox"))));
        assert!(has("the quick", Pattern::part_of("qui".to_owned(), false, true)));
        assert!(has("the quick", Pattern::part_of("ick".to_owned(), true, false)));
        assert!(has("the quick", Pattern::part_of("uic".to_owned(), true, true)));
        assert!(!has("the quick", Pattern::part_of("uic".to_owned(), false, true)));
        assert!(!has("a", Pattern::phrase(Vec::new())));
    }

    #[test]
    fn tags_are_whole_and_in_lower_case_unless_told_otherwise() {
        let wanted = || vec![Pattern::whole("Red Wine".to_owned())];
        assert!(Rule::tags(wanted(), Some(','), false).matches("beer, red wine ,x"));
        assert!(!Rule::tags(wanted(), Some(','), true).matches("beer, red wine ,x"));
        assert!(!Rule::tags(wanted(), None, false).matches("beer,red wine"));
        assert!(!Rule::tags(wanted(), Some(','), false).matches("red,wine"));
    }
}
