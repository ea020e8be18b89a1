//! Entries by key. The index belongs to the thread that serves; the list of entries, in the order in which
//! they were made, is what a snapshot walks along.

use std::borrow::Borrow;
use std::collections::HashSet;
use std::hash::{Hash, Hasher};
use std::sync::PoisonError;

use crate::sync::{Arc, Mutex, MutexGuard};

/// A key, and what it has.
pub(super) struct Entry<T> {
    pub(super) key: Box<[u8]>,
    content: Mutex<T>,
}

impl<T> Entry<T> {
    pub(super) fn lock(&self) -> MutexGuard<'_, T> {
        // A panic within is a broken invariant of a row, which later reads would meet again.
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Fields of a hash, and their values.
pub(super) type Fields<R> = Vec<(Box<[u8]>, R)>;

/// The score of a member, from the bytes of its value.
pub(super) fn score(bytes: &[u8]) -> f64 {
    f64::from_le_bytes(bytes.try_into().expect("a score has eight bytes"))
}

/// All entries, in the order in which they were made.
pub(super) type List<T> = Arc<Mutex<Vec<Arc<Entry<T>>>>>;

/// Clones entries of a list from `from` on.
pub(super) fn batch<T>(list: &List<T>, from: usize, to: usize) -> Vec<Arc<Entry<T>>> {
    list.lock().unwrap_or_else(PoisonError::into_inner)[from..to].to_vec()
}

/// An entry that its key finds.
struct ByKey<T>(Arc<Entry<T>>);

impl<T> Borrow<[u8]> for ByKey<T> {
    fn borrow(&self) -> &[u8] {
        &self.0.key
    }
}

impl<T> Hash for ByKey<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.key.hash(state);
    }
}

impl<T> PartialEq for ByKey<T> {
    fn eq(&self, other: &ByKey<T>) -> bool {
        self.0.key == other.0.key
    }
}

impl<T> Eq for ByKey<T> {}

/// Entries by key.
pub(super) struct Table<T> {
    index: HashSet<ByKey<T>>,
    pub(super) list: List<T>,
}

impl<T> Table<T> {
    pub(super) fn new() -> Table<T> {
        Table { index: HashSet::new(), list: Arc::new(Mutex::new(Vec::new())) }
    }

    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    pub(super) fn get(&self, key: &[u8]) -> Option<&Entry<T>> {
        self.index.get(key).map(|entry| &*entry.0)
    }

    /// Adds an entry. REQUIRES: the key has none.
    pub(super) fn insert(&mut self, key: &[u8], content: T) {
        let entry = Arc::new(Entry { key: key.into(), content: Mutex::new(content) });
        self.list.lock().unwrap_or_else(PoisonError::into_inner).push(entry.clone());
        self.index.insert(ByKey(entry));
    }
}
