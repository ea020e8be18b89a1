//! The declared search indexes, in memory and in a file that is read at startup.
//!
//! A change holds the turn and waits for the disk; readers do not wait for that.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tarn_engine::declared::{Declared, Turn};

use crate::catalog::declared::{read_or_nothing, replace};
use crate::error::QueryError;

use super::error::SearchError;
use super::index::Index;
use super::words::Words;

/// The name of the file in the data directory: an array of arrays, each the words after an `FT.CREATE`.
pub(crate) const FILE: &str = "search.json";
/// Indexes that there may be.
const INDEXES_MAX: usize = 1000;

type Indexes = BTreeMap<String, Arc<Index>>;

/// The indexes.
pub(super) struct DeclaredIndexes {
    path: Option<PathBuf>,
    indexes: Declared<Indexes>,
}

impl DeclaredIndexes {
    /// The indexes that the file in `directory` declares; none if there is no file.
    pub(super) fn read(directory: Option<&Path>) -> Result<DeclaredIndexes, QueryError> {
        let path = directory.map(|directory| directory.join(FILE));
        let mut indexes = Indexes::new();
        if let Some(path) = &path {
            let text = read_or_nothing(path)?;
            let not_read = |why: String| QueryError::NotRead {
                path: path.display().to_string(),
                source: std::io::Error::new(std::io::ErrorKind::InvalidData, why),
            };
            let declared: Vec<Vec<String>> = match text.is_empty() {
                true => Vec::new(),
                false => serde_json::from_str(&text).map_err(|error| not_read(error.to_string()))?,
            };
            for words in declared {
                let index = Index::parse(&words).map_err(|error| not_read(error.to_string()))?;
                indexes.insert(index.name.clone(), Arc::new(index));
            }
        }
        Ok(DeclaredIndexes { path, indexes: Declared::new(indexes) })
    }

    fn write(&self, indexes: &Indexes) -> Result<(), QueryError> {
        let Some(path) = &self.path else { return Ok(()) };
        let lines: Vec<String> =
            indexes.values().map(|index| serde_json::Value::from(index.words.clone()).to_string()).collect();
        let text = format!("[\n{}\n]\n", lines.join(",\n"));
        let failed = |source| QueryError::NotKept { path: path.display().to_string(), source };
        replace(path, text.as_bytes()).map_err(failed)
    }

    /// Keeps these indexes, and shows them to everybody from now on.
    fn publish(&self, turn: &Turn<'_, Indexes>, indexes: Indexes) -> Result<(), SearchError> {
        self.write(&indexes)?;
        turn.publish(indexes);
        Ok(())
    }

    /// The index of this name.
    pub(super) fn get(&self, name: &str) -> Option<Arc<Index>> {
        self.indexes.now().get(name).cloned()
    }

    /// The names of all.
    pub(super) fn names(&self) -> Vec<String> {
        self.indexes.now().keys().cloned().collect()
    }

    /// Declares an index.
    pub(super) fn create(&self, index: Index) -> Result<(), SearchError> {
        let turn = self.indexes.turn();
        let indexes = turn.now();
        if indexes.contains_key(&index.name) {
            return Err(SearchError::IndexExists);
        }
        if indexes.len() >= INDEXES_MAX {
            return Err(SearchError::refused(format!(
                "there are {INDEXES_MAX} indexes, as many as there may be"
            )));
        }
        let mut new = Indexes::clone(&indexes);
        new.insert(index.name.clone(), Arc::new(index));
        self.publish(&turn, new)
    }

    /// Adds attributes to an index.
    pub(super) fn add(&self, name: &str, words: &mut Words<'_>) -> Result<(), SearchError> {
        let turn = self.indexes.turn();
        let indexes = turn.now();
        let mut index = Index::clone(indexes.get(name).ok_or(SearchError::UnknownIndex)?);
        index.words.extend_from_slice(words.rest());
        index.add(words)?;
        let mut new = Indexes::clone(&indexes);
        new.insert(name.to_owned(), Arc::new(index));
        self.publish(&turn, new)
    }

    /// Drops an index.
    pub(super) fn drop(&self, name: &str) -> Result<(), SearchError> {
        let turn = self.indexes.turn();
        let mut new = Indexes::clone(&turn.now());
        new.remove(name).ok_or(SearchError::UnknownIndex)?;
        self.publish(&turn, new)
    }
}
