//! The declaration of a search index: its keys, and the fields that queries can name. An index holds no data;
//! each query reads the store.

use std::collections::{BTreeMap, BTreeSet};

use crate::table::declaration::{Layout, Source, Step, parse_path};

use super::error::SearchError;
use super::words::Words;

/// Key prefixes that an index may have.
const PREFIXES_MAX: usize = 64;
/// Attributes that an index may have, as in RediSearch.
const ATTRIBUTES_MAX: usize = 1024;

/// The type of value of the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Hashes.
    Hash,
    /// JSON documents.
    Json,
}

impl Kind {
    /// How keys become rows.
    pub(super) fn layout(self) -> Layout {
        match self {
            Kind::Hash => Layout::Fields,
            Kind::Json => Layout::Documents,
        }
    }

    /// As it is declared.
    pub(super) fn word(self) -> &'static str {
        match self {
            Kind::Hash => "HASH",
            Kind::Json => "JSON",
        }
    }
}

/// How an attribute is asked for.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Form {
    /// By whole tags.
    Tag {
        /// The separator of tags; `None` if the value is one tag.
        separator: Option<char>,
        /// Whether case counts.
        case_sensitive: bool,
    },
    /// By ranges.
    Numeric,
    /// By words.
    Text {
        /// As declared; scores are constant.
        weight: f64,
        /// As declared; nothing is stemmed.
        no_stem: bool,
    },
}

impl Form {
    /// As it is declared.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Form::Tag { .. } => "TAG",
            Form::Numeric => "NUMERIC",
            Form::Text { .. } => "TEXT",
        }
    }
}

/// A field or path that can be asked for.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Attribute {
    /// The field, or the path, as it was declared.
    pub identifier: String,
    /// Its name in queries.
    pub name: String,
    /// How it is asked for.
    pub form: Form,
    /// As declared; all attributes can be sorted by.
    pub sortable: bool,
    /// Whether texts are sorted as they are, not in lower case.
    pub unnormalized: bool,
    /// Whether it can only be sorted by and returned.
    pub no_index: bool,
    /// Where its values are.
    pub source: Source,
}

/// A search index.
#[derive(Clone, Debug)]
pub(super) struct Index {
    /// Its name.
    pub name: String,
    /// The type of value of its keys.
    pub kind: Kind,
    /// How its keys begin, as declared.
    pub prefixes: Vec<String>,
    /// The fields that queries can name.
    pub attributes: Vec<Attribute>,
    /// The words that declare it, its name first.
    pub words: Vec<String>,
    /// Whether it was declared to have no stop words, which no index has.
    pub says_no_stop_words: bool,
    /// Words that stand for each other, by the name of their group.
    pub synonyms: BTreeMap<String, BTreeSet<String>>,
}

impl Index {
    /// Reads what follows `FT.CREATE`.
    pub(super) fn parse(all: &[String]) -> Result<Index, SearchError> {
        let mut words = Words::new(all);
        let name = words.next("the name of the index")?.to_owned();
        let mut index = Index {
            name,
            kind: Kind::Hash,
            prefixes: Vec::new(),
            attributes: Vec::new(),
            words: all.to_vec(),
            says_no_stop_words: false,
            synonyms: BTreeMap::new(),
        };
        while !words.take("SCHEMA") {
            index.option(&mut words)?;
        }
        if index.prefixes.is_empty() {
            index.prefixes.push(String::new());
        }
        index.add(&mut words)?;
        Ok(index)
    }

    fn option(&mut self, words: &mut Words<'_>) -> Result<(), SearchError> {
        let word = words.next("SCHEMA with the fields of the index")?.to_ascii_uppercase();
        match word.as_str() {
            "ON" => {
                let kind = words.next("HASH or JSON")?;
                self.kind = match kind.to_ascii_uppercase().as_str() {
                    "HASH" => Kind::Hash,
                    "JSON" => Kind::Json,
                    _ => return refuse(format!("ON {kind} is not there: use HASH or JSON")),
                };
            }
            "PREFIX" => {
                let prefixes = words.counted("PREFIX")?;
                if prefixes.is_empty() || prefixes.len() > PREFIXES_MAX {
                    return refuse(format!(
                        "an index has 1 to {PREFIXES_MAX} prefixes, not {}",
                        prefixes.len()
                    ));
                }
                // RediSearch has it for all keys.
                let prefix = |prefix: &String| if prefix == "*" { String::new() } else { prefix.clone() };
                self.prefixes = prefixes.iter().map(prefix).collect();
            }
            // Scores are constant.
            "SCORE" => {
                words.number::<f64>("SCORE")?;
            }
            "STOPWORDS" => {
                if !words.counted("STOPWORDS")?.is_empty() {
                    return refuse(
                        "STOPWORDS are not there, every word counts: use STOPWORDS 0, or leave it out",
                    );
                }
                self.says_no_stop_words = true;
            }
            // These save memory in RediSearch; an index here holds no data.
            "NOOFFSETS" | "NOHL" | "NOFIELDS" | "NOFREQS" | "MAXTEXTFIELDS" => {}
            _ => {
                return refuse(format!(
                    "'{word}' is not there before SCHEMA: use ON HASH|JSON, PREFIX n prefix …, SCORE 1, \
                     STOPWORDS 0"
                ));
            }
        }
        Ok(())
    }

    /// Reads attributes up to the end of the words.
    pub(super) fn add(&mut self, words: &mut Words<'_>) -> Result<(), SearchError> {
        loop {
            let attribute = self.attribute(words)?;
            if self.attributes.iter().any(|other| other.name == attribute.name) {
                return refuse(format!("Duplicate field in schema - {}", attribute.name));
            }
            self.attributes.push(attribute);
            if self.attributes.len() > ATTRIBUTES_MAX {
                return refuse(format!("an index has at most {ATTRIBUTES_MAX} fields"));
            }
            if words.is_empty() {
                return Ok(());
            }
        }
    }

    fn attribute(&self, words: &mut Words<'_>) -> Result<Attribute, SearchError> {
        let identifier = words.next("a field behind SCHEMA")?.to_owned();
        let name =
            if words.take("AS") { words.next("a name behind AS")?.to_owned() } else { identifier.clone() };
        let form = words.next("TAG, NUMERIC or TEXT")?;
        let form = match form.to_ascii_uppercase().as_str() {
            "TAG" => Form::Tag { separator: (self.kind == Kind::Hash).then_some(','), case_sensitive: false },
            "NUMERIC" => Form::Numeric,
            "TEXT" => Form::Text { weight: 1.0, no_stem: false },
            _ => return refuse(format!("{form} is not there, of field {name}: use TAG, NUMERIC or TEXT")),
        };
        let source = self.source(&identifier)?;
        if matches!(source, Source::Each(_)) && form == Form::Numeric {
            return refuse(format!("a NUMERIC field is one number: the path {identifier} leads to several"));
        }
        let mut attribute = Attribute {
            identifier,
            name,
            form,
            sortable: false,
            unnormalized: false,
            no_index: false,
            source,
        };
        while attribute.option(words)? {}
        Ok(attribute)
    }

    /// The source of an attribute, of a field that is none, or of a path.
    pub(super) fn source_of(&self, word: &str) -> Result<Source, SearchError> {
        Ok(match (self.attribute_named(word), word) {
            (Some(attribute), _) => attribute.source.clone(),
            (None, "__key") => Source::WholeKey,
            (None, "$") if self.kind == Kind::Json => Source::Whole,
            (None, word) => self.source(word)?,
        })
    }

    /// Where a field, or what stands at a path, is found.
    pub(super) fn source(&self, identifier: &str) -> Result<Source, SearchError> {
        if self.kind == Kind::Hash {
            return Ok(Source::Field(identifier.as_bytes().into()));
        }
        let refused = || {
            SearchError::refused(format!(
                "'{identifier}' is no path that is there: use one such as $.address.city, $.tags[0] or \
                 $.tags[*]"
            ))
        };
        let (path, is_each) = match identifier.strip_suffix("[*]").or_else(|| identifier.strip_suffix(".*")) {
            Some(path) => (path, true),
            None => (identifier, false),
        };
        let steps = parse_path(path).ok_or_else(refused)?;
        let is_odd = |step: &Step| matches!(step, Step::Member(name) if name.contains(['*', '?', ':']));
        if !path.starts_with('$') || steps.iter().any(is_odd) {
            return Err(refused());
        }
        Ok(if is_each { Source::Each(steps) } else { Source::Path(steps) })
    }

    /// The attribute of this name.
    pub(super) fn attribute_named(&self, name: &str) -> Option<&Attribute> {
        self.attributes.iter().find(|attribute| attribute.name == name)
    }

    /// The words that a word stands for, itself among them.
    pub(super) fn synonyms_of<'i>(&'i self, word: &'i str) -> BTreeSet<&'i str> {
        let groups = self.synonyms.values().filter(|group| group.contains(word)).flatten();
        groups.map(String::as_str).chain([word]).collect()
    }

    /// How its keys begin, without those of which another is the beginning: each key has one of them.
    pub(super) fn distinct_prefixes(&self) -> Vec<&str> {
        let mut prefixes: Vec<&str> = self.prefixes.iter().map(String::as_str).collect();
        prefixes.sort_unstable();
        prefixes.dedup_by(|longer, shorter| longer.starts_with(*shorter));
        prefixes
    }
}

impl Attribute {
    /// Reads an option, if one follows.
    fn option(&mut self, words: &mut Words<'_>) -> Result<bool, SearchError> {
        let Some(word) = words.peek() else { return Ok(false) };
        match (word.as_str(), &mut self.form) {
            ("SORTABLE", _) => self.sortable = true,
            ("UNF", _) => self.unnormalized = true,
            ("NOINDEX", _) => self.no_index = true,
            // Each word is looked at in any case.
            ("WITHSUFFIXTRIE", Form::Tag { .. } | Form::Text { .. }) => {}
            ("INDEXMISSING" | "INDEXEMPTY", _) => {}
            ("CASESENSITIVE", Form::Tag { case_sensitive, .. }) => *case_sensitive = true,
            ("NOSTEM", Form::Text { no_stem, .. }) => *no_stem = true,
            ("SEPARATOR", Form::Tag { separator, .. }) => {
                words.take("SEPARATOR");
                let text = words.next("a character behind SEPARATOR")?;
                let mut letters = text.chars();
                match (letters.next(), letters.next()) {
                    (Some(letter), None) => *separator = Some(letter),
                    _ => return refuse(format!("SEPARATOR is one character, not '{text}'")),
                }
                return Ok(true);
            }
            ("WEIGHT", Form::Text { weight, .. }) => {
                words.take("WEIGHT");
                *weight = words.number("WEIGHT")?;
                return Ok(true);
            }
            ("PHONETIC", _) => {
                return refuse("PHONETIC is not there: words are compared as they are written");
            }
            _ => return Ok(false),
        }
        words.take(&word);
        Ok(true)
    }
}

fn refuse<T>(text: impl Into<String>) -> Result<T, SearchError> {
    Err(SearchError::refused(text))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn parse(text: &str) -> Result<Index, SearchError> {
        Index::parse(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn an_index_is_read_as_clients_declare_it() {
        let index = parse(
            "i ON hash PREFIX 3 a: ab b: SCORE 1.0 SCHEMA t TEXT WEIGHT 1.0 NOSTEM SORTABLE UNF n AS m \
             NUMERIC \
             SORTABLE g TAG SEPARATOR ; CASESENSITIVE",
        )
        .unwrap();
        assert_eq!((index.name.as_str(), index.kind, index.attributes.len()), ("i", Kind::Hash, 3));
        assert_eq!(index.distinct_prefixes(), ["a:", "ab", "b:"]);
        assert_eq!(index.attributes[1].name, "m");
        assert_eq!(index.attributes[2].form, Form::Tag { separator: Some(';'), case_sensitive: true });
        let of_all = parse("i PREFIX 3 b: * b:c SCHEMA t TEXT").unwrap();
        assert_eq!(of_all.distinct_prefixes(), [""]);
        let json = parse("i ON JSON SCHEMA $.tags[*] AS tags TAG $.a.b AS b NUMERIC").unwrap();
        assert!(matches!(json.attributes[0].source, Source::Each(_)));
    }

    #[test]
    fn what_is_not_there_is_refused_with_words() {
        for (text, words) in [
            ("i SCHEMA", "a field"),
            ("i ON LIST SCHEMA a TAG", "HASH or JSON"),
            ("i SCHEMA a GEO", "TAG, NUMERIC or TEXT"),
            ("i SCHEMA a TAG a TEXT", "Duplicate field"),
            ("i PREFIX 0 SCHEMA a TAG", "prefixes"),
            ("i PREFIX 9 a SCHEMA a TAG", "wants 9"),
            ("i FILTER @a>1 SCHEMA a TAG", "is not there before SCHEMA"),
            ("i TEMPORARY 10 SCHEMA a TAG", "is not there before SCHEMA"),
            ("i ON JSON SCHEMA a TAG", "no path"),
            ("i ON JSON SCHEMA $..a TAG", "no path"),
            ("i ON JSON SCHEMA $.a[*] NUMERIC", "one number"),
            ("i SCHEMA a TAG SEPARATOR ab", "one character"),
            ("i SCHEMA a NUMERIC CASESENSITIVE", "TAG, NUMERIC or TEXT"),
            ("i", "SCHEMA"),
        ] {
            let said = parse(text).unwrap_err().to_string();
            assert!(said.contains(words), "{text}: {said}");
        }
    }
}
