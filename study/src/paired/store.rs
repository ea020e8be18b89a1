//! The store, of the one thread that reads and writes.

use thiserror::Error;

use super::row::SnapRow;
use super::snapshot::Snapshot;
use super::table::{Entry, Fields, Table, batch, score};
use crate::sync::Arc;
use crate::sync::atomic::{AtomicBool, Ordering};

/// Fields of a hash at most: each is found by a look at all names.
const FIELDS_AT_MOST: usize = 1024;

/// The store does not do what was asked, and has not changed.
#[derive(Debug, PartialEq, Eq, Error)]
pub enum Refused {
    /// The key has a value of the other kind, or there is a sorted set with another key.
    #[error("the store has hashes and one sorted set; this key is of the other kind")]
    WrongKind,
    /// The hash would have too many fields.
    #[error("a hash has {FIELDS_AT_MOST} fields at most")]
    TooManyFields,
}

/// Hashes, and one sorted set, whose scores have two copies as the fields of hashes have.
pub struct Store<R: SnapRow> {
    hashes: Table<Fields<R>>,
    members: Table<R>,
    /// The key of the sorted set, once there is one.
    set: Option<Box<[u8]>>,
    /// The copy that takes the writes.
    upper: usize,
    /// A snapshot lives.
    busy: Arc<AtomicBool>,
}

impl<R: SnapRow> Default for Store<R> {
    fn default() -> Self {
        Self::new()
    }
}

impl<R: SnapRow> Store<R> {
    /// An empty one.
    pub fn new() -> Store<R> {
        let busy = Arc::new(AtomicBool::new(false));
        Store { hashes: Table::new(), members: Table::new(), set: None, upper: 0, busy }
    }

    /// The number of keys.
    pub fn len(&self) -> usize {
        self.hashes.len() + usize::from(self.set.is_some())
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes fields of a hash, which it makes if there is none. Returns how many were not there before.
    pub fn set(&mut self, key: &[u8], fields: &[(&[u8], &[u8])]) -> Result<usize, Refused> {
        if self.set.as_deref() == Some(key) {
            return Err(Refused::WrongKind);
        }
        if let Some(entry) = self.hashes.get(key) {
            let mut all = entry.lock();
            let is_new = |(field, _): &&(&[u8], &[u8])| all.iter().all(|(name, _)| **name != **field);
            // Few fields need no look at their names.
            if all.len() + fields.len() > FIELDS_AT_MOST
                && (fields.len() > FIELDS_AT_MOST
                    || all.len() + fields.iter().filter(is_new).count() > FIELDS_AT_MOST)
            {
                return Err(Refused::TooManyFields);
            }
            return Ok(set_fields(&mut all, self.upper, fields));
        }
        if fields.len() > FIELDS_AT_MOST {
            return Err(Refused::TooManyFields);
        }
        let mut all = Vec::with_capacity(fields.len());
        let made = set_fields(&mut all, self.upper, fields);
        if made > 0 {
            self.hashes.insert(key, all);
        }
        Ok(made)
    }

    /// Lets `read` see the value of a field, if there is one.
    pub fn get<T>(
        &self,
        key: &[u8],
        field: &[u8],
        read: impl FnOnce(&[u8]) -> T,
    ) -> Result<Option<T>, Refused> {
        let Some(entry) = self.hash(key)? else { return Ok(None) };
        let fields = entry.lock();
        let found = fields.iter().find(|(name, _)| **name == *field);
        Ok(found.map(|(_, row)| read(row.read())))
    }

    /// Lets `read` see the number of fields of a hash, and each with its value. 0 if there is none.
    pub fn get_all(
        &self,
        key: &[u8],
        read: impl FnOnce(usize, &mut dyn Iterator<Item = (&[u8], &[u8])>),
    ) -> Result<(), Refused> {
        match self.hash(key)? {
            Some(entry) => {
                let fields = entry.lock();
                read(fields.len(), &mut fields.iter().map(|(name, row)| (&**name, row.read())));
            }
            None => read(0, &mut std::iter::empty()),
        }
        Ok(())
    }

    fn hash(&self, key: &[u8]) -> Result<Option<&Entry<Fields<R>>>, Refused> {
        if self.set.as_deref() == Some(key) { Err(Refused::WrongKind) } else { Ok(self.hashes.get(key)) }
    }

    /// Gives a member of the sorted set a score. The first one names the set. True if it was not there
    /// before.
    pub fn add(&mut self, key: &[u8], member: &[u8], score: f64) -> Result<bool, Refused> {
        let is_other = self.set.as_deref().is_some_and(|set| set != key);
        if is_other || self.hashes.get(key).is_some() {
            return Err(Refused::WrongKind);
        }
        if self.set.is_none() {
            self.set = Some(key.into());
        }
        let value = Box::new(score.to_le_bytes());
        match self.members.get(member) {
            Some(entry) => {
                entry.lock().write(self.upper, value);
                Ok(false)
            }
            None => {
                self.members.insert(member, R::new(self.upper, value));
                Ok(true)
            }
        }
    }

    /// The key of the sorted set, if there is one.
    pub fn set_key(&self) -> Option<&[u8]> {
        self.set.as_deref()
    }

    /// The score of a member.
    pub fn score(&self, member: &[u8]) -> Option<f64> {
        self.members.get(member).map(|entry| score(entry.lock().read()))
    }

    /// Swaps the copies: the snapshot has all that was written before. `None` as long as another one lives.
    pub fn take(&mut self) -> Option<Snapshot<R>> {
        // Acquire: pairs with the Release when a snapshot is dropped.
        if self.busy.load(Ordering::Acquire) {
            return None;
        }
        self.busy.store(true, Ordering::Relaxed);
        self.upper ^= 1;
        let hashes = (self.hashes.list.clone(), self.hashes.len());
        let members = (self.members.list.clone(), self.members.len());
        Some(Snapshot::new(self.upper, hashes, members, self.set.clone(), self.busy.clone()))
    }

    /// Copies of values that are there, over all hashes.
    pub fn copies(&self) -> usize {
        let entries = batch(&self.hashes.list, 0, self.hashes.len());
        entries.iter().map(|entry| entry.lock().iter().map(|(_, row)| row.copies()).sum::<usize>()).sum()
    }
}

fn set_fields<R: SnapRow>(all: &mut Fields<R>, upper: usize, fields: &[(&[u8], &[u8])]) -> usize {
    let before = all.len();
    for (field, value) in fields {
        // Records have ten fields: a look at each name is as quick as a table.
        match all.iter_mut().find(|(name, _)| **name == **field) {
            Some((_, row)) => row.write(upper, (*value).into()),
            None => all.push(((*field).into(), R::new(upper, (*value).into()))),
        }
    }
    all.len() - before
}
