//! The declared search indexes with their aliases and synonyms, and the dictionaries, in memory and in a file
//! that is read at startup.
//!
//! A change holds the turn and waits for the disk; readers do not wait for that.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use tarn_engine::declared::{Declared, Turn};

use crate::catalog::declared::{read_or_nothing, replace};
use crate::error::QueryError;

use super::error::SearchError;
use super::index::Index;
use super::words::Words;

/// The name of the file in the data directory: an array. An element is an array, the words after an
/// `FT.CREATE`, or an object: `{"alias", "index"}`, `{"dictionary", "terms"}` or `{"synonyms", "group",
/// "terms"}`, of which the first is the name of an index that stands before.
pub(crate) const FILE: &str = "search.json";
/// Indexes that there may be, and aliases, and dictionaries.
const INDEXES_MAX: usize = 1000;
/// Bytes of the terms of all dictionaries, and of the synonyms of all indexes: a change writes them all.
const TERMS_BYTES_MAX: usize = 4 << 20;
/// Bytes of the name of an index, an alias, a dictionary, or a group of synonyms.
const NAME_BYTES_MAX: usize = 1024;
/// Bytes of the words that declare an index.
const INDEX_BYTES_MAX: usize = 1 << 20;

/// Terms.
pub(super) type Terms = BTreeSet<String>;

/// All that is declared.
#[derive(Clone, Default)]
struct All {
    indexes: BTreeMap<String, Arc<Index>>,
    /// The name of the index of each alias.
    aliases: BTreeMap<String, String>,
    dictionaries: BTreeMap<String, Arc<Terms>>,
}

impl All {
    fn index(&self, name: &str) -> Option<&Arc<Index>> {
        self.indexes.get(name).or_else(|| self.indexes.get(self.aliases.get(name)?))
    }

    /// Takes an element of the file.
    fn take(&mut self, element: &Value) -> Result<(), SearchError> {
        let refused = || SearchError::refused(format!("{element} declares nothing"));
        let texts = |value: &Value| -> Option<Vec<String>> {
            value.as_array()?.iter().map(|text| text.as_str().map(str::to_owned)).collect()
        };
        let text = |name: &str| element.get(name).and_then(Value::as_str).map(str::to_owned);
        if let Some(words) = texts(element) {
            let index = Index::parse(&words)?;
            self.indexes.insert(index.name.clone(), Arc::new(index));
        } else if let (Some(alias), Some(index)) = (text("alias"), text("index")) {
            self.aliases.insert(alias, index);
        } else {
            let terms = element.get("terms").and_then(texts).ok_or_else(refused)?.into_iter().collect();
            match (text("dictionary"), text("synonyms"), text("group")) {
                (Some(name), None, None) => _ = self.dictionaries.insert(name, Arc::new(terms)),
                (None, Some(name), Some(group)) => {
                    let index = self.indexes.get_mut(&name).ok_or_else(refused)?;
                    Arc::make_mut(index).synonyms.insert(group, terms);
                }
                _ => return Err(refused()),
            }
        }
        Ok(())
    }

    /// The elements of the file.
    fn elements(&self) -> impl Iterator<Item = Value> {
        let indexes = self.indexes.values().map(|index| Value::from(index.words.clone()));
        let aliases = self.aliases.iter().map(|(alias, index)| json!({"alias": alias, "index": index}));
        let dictionary =
            |(name, terms): (&String, &Arc<Terms>)| json!({"dictionary": name, "terms": **terms});
        let synonyms = self.indexes.values().flat_map(|index| {
            let group = |(group, terms)| json!({"synonyms": index.name, "group": group, "terms": terms});
            index.synonyms.iter().map(group)
        });
        indexes.chain(aliases).chain(self.dictionaries.iter().map(dictionary)).chain(synonyms)
    }
}

/// The indexes and what belongs to them.
pub(super) struct DeclaredIndexes {
    path: Option<PathBuf>,
    declared: Declared<All>,
}

impl DeclaredIndexes {
    /// The declarations of the file in `directory`; none if there is no file.
    pub(super) fn read(directory: Option<&Path>) -> Result<DeclaredIndexes, QueryError> {
        let path = directory.map(|directory| directory.join(FILE));
        let mut all = All::default();
        if let Some(path) = &path {
            let text = read_or_nothing(path)?;
            let not_read = |why: String| QueryError::NotRead {
                path: path.display().to_string(),
                source: std::io::Error::new(std::io::ErrorKind::InvalidData, why),
            };
            let elements: Vec<Value> = match text.is_empty() {
                true => Vec::new(),
                false => serde_json::from_str(&text).map_err(|error| not_read(error.to_string()))?,
            };
            elements
                .iter()
                .try_for_each(|element| all.take(element))
                .map_err(|error| not_read(error.to_string()))?;
        }
        Ok(DeclaredIndexes { path, declared: Declared::new(all) })
    }

    fn write(&self, all: &All) -> Result<(), QueryError> {
        let Some(path) = &self.path else { return Ok(()) };
        let lines: Vec<String> = all.elements().map(|element| element.to_string()).collect();
        let text = format!("[\n{}\n]\n", lines.join(",\n"));
        let failed = |source| QueryError::NotKept { path: path.display().to_string(), source };
        replace(path, text.as_bytes()).map_err(failed)
    }

    /// Keeps what is declared now, and shows it to everybody from now on.
    fn publish(&self, turn: &Turn<'_, All>, all: All) -> Result<(), SearchError> {
        self.write(&all)?;
        turn.publish(all);
        Ok(())
    }

    /// The index of this name or alias.
    pub(super) fn get(&self, name: &str) -> Option<Arc<Index>> {
        self.declared.now().index(name).cloned()
    }

    /// The names of all.
    pub(super) fn names(&self) -> Vec<String> {
        self.declared.now().indexes.keys().cloned().collect()
    }

    /// Declares an index.
    pub(super) fn create(&self, index: Index) -> Result<(), SearchError> {
        check_name(&index.name)?;
        check_words(&index)?;
        let turn = self.declared.turn();
        let mut new = All::clone(&turn.now());
        if new.index(&index.name).is_some() {
            return Err(SearchError::IndexExists);
        }
        check_count(new.indexes.len(), "indexes")?;
        new.indexes.insert(index.name.clone(), Arc::new(index));
        self.publish(&turn, new)
    }

    /// Adds attributes to an index.
    pub(super) fn add(&self, name: &str, words: &mut Words<'_>) -> Result<(), SearchError> {
        self.change(name, |index| {
            index.words.extend_from_slice(words.rest());
            check_words(index)?;
            index.add(words)
        })
    }

    fn change(
        &self,
        name: &str,
        change: impl FnOnce(&mut Index) -> Result<(), SearchError>,
    ) -> Result<(), SearchError> {
        let turn = self.declared.turn();
        let mut new = All::clone(&turn.now());
        let mut index = Index::clone(new.index(name).ok_or(SearchError::UnknownIndex)?);
        change(&mut index)?;
        new.indexes.insert(index.name.clone(), Arc::new(index));
        self.publish(&turn, new)
    }

    /// Drops an index and its aliases; returns its name.
    pub(super) fn drop(&self, name: &str) -> Result<String, SearchError> {
        let turn = self.declared.turn();
        let mut new = All::clone(&turn.now());
        let name = new.index(name).ok_or(SearchError::UnknownIndex)?.name.clone();
        new.indexes.remove(&name);
        new.aliases.retain(|_, index| *index != name);
        self.publish(&turn, new)?;
        Ok(name)
    }

    /// Makes a name an alias of an index. It must not be one yet, unless it may be moved.
    pub(super) fn add_alias(&self, alias: &str, index: &str, may_move: bool) -> Result<(), SearchError> {
        check_name(alias)?;
        let turn = self.declared.turn();
        let mut new = All::clone(&turn.now());
        if !new.indexes.contains_key(index) {
            return Err(SearchError::NoAliasOf);
        }
        if new.indexes.contains_key(alias) || !may_move && new.aliases.contains_key(alias) {
            return Err(SearchError::AliasExists);
        }
        check_count(new.aliases.len(), "aliases")?;
        new.aliases.insert(alias.to_owned(), index.to_owned());
        self.publish(&turn, new)
    }

    /// Makes a name an alias no longer.
    pub(super) fn delete_alias(&self, alias: &str) -> Result<(), SearchError> {
        let turn = self.declared.turn();
        let mut new = All::clone(&turn.now());
        new.aliases.remove(alias).ok_or(SearchError::NoAlias)?;
        self.publish(&turn, new)
    }

    /// Adds words to a group of synonyms of an index.
    pub(super) fn add_synonyms(&self, name: &str, group: &str, terms: &[String]) -> Result<(), SearchError> {
        check_name(group)?;
        let turn = self.declared.turn();
        let mut new = All::clone(&turn.now());
        let name = new.index(name).ok_or(SearchError::UnknownIndex)?.name.clone();
        let index = new.indexes.get_mut(&name).map(Arc::make_mut).ok_or(SearchError::UnknownIndex)?;
        let known = index.synonyms.entry(group.to_owned()).or_default();
        known.extend(terms.iter().map(|term| term.to_lowercase()));
        let groups = new.indexes.values().flat_map(|index| &index.synonyms);
        check_bytes(groups.flat_map(|(group, terms)| terms.iter().chain([group])))?;
        self.publish(&turn, new)
    }

    /// The terms of a dictionary.
    pub(super) fn dictionary(&self, name: &str) -> Option<Arc<Terms>> {
        self.declared.now().dictionaries.get(name).cloned()
    }

    /// Adds terms to a dictionary, and makes it if it is missing; returns how many are new.
    pub(super) fn add_terms(&self, name: &str, terms: &[String]) -> Result<usize, SearchError> {
        check_name(name)?;
        let turn = self.declared.turn();
        let mut new = All::clone(&turn.now());
        if !new.dictionaries.contains_key(name) {
            check_count(new.dictionaries.len(), "dictionaries")?;
        }
        let known = Arc::make_mut(new.dictionaries.entry(name.to_owned()).or_default());
        let added = terms.iter().filter(|term| known.insert((*term).clone())).count();
        check_bytes(new.dictionaries.values().flat_map(|terms| terms.iter()))?;
        self.publish(&turn, new)?;
        Ok(added)
    }

    /// Removes terms of a dictionary, and the dictionary with the last one; returns how many were there.
    pub(super) fn delete_terms(&self, name: &str, terms: &[String]) -> Result<usize, SearchError> {
        let turn = self.declared.turn();
        let mut new = All::clone(&turn.now());
        let Some(known) = new.dictionaries.get_mut(name).map(Arc::make_mut) else { return Ok(0) };
        let deleted = terms.iter().filter(|term| known.remove(*term)).count();
        if known.is_empty() {
            new.dictionaries.remove(name);
        }
        self.publish(&turn, new)?;
        Ok(deleted)
    }
}

fn check_count(there: usize, what: &str) -> Result<(), SearchError> {
    match there < INDEXES_MAX {
        true => Ok(()),
        false => {
            Err(SearchError::refused(format!("there are {INDEXES_MAX} {what}, as many as there may be")))
        }
    }
}

fn check_name(name: &str) -> Result<(), SearchError> {
    match name.len() <= NAME_BYTES_MAX {
        true => Ok(()),
        false => Err(SearchError::refused(format!("a name has at most {NAME_BYTES_MAX} bytes"))),
    }
}

fn check_words(index: &Index) -> Result<(), SearchError> {
    let bytes: usize = index.words.iter().map(|word| word.len() + size_of::<String>()).sum();
    match bytes <= INDEX_BYTES_MAX {
        true => Ok(()),
        false => {
            Err(SearchError::refused(format!("an index is declared by at most {INDEX_BYTES_MAX} bytes")))
        }
    }
}

fn check_bytes<'t>(all: impl Iterator<Item = &'t String>) -> Result<(), SearchError> {
    let bytes: usize = all.map(|term| term.len() + size_of::<String>()).sum();
    match bytes <= TERMS_BYTES_MAX {
        true => Ok(()),
        false => Err(SearchError::refused(format!("the terms have more than {TERMS_BYTES_MAX} bytes"))),
    }
}
