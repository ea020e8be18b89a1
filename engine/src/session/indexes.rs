//! The indexes of each database: set while the gate is closed, kept through flushes and swaps.

use super::Exclusive;
use crate::index::{Index, Indexes};
use crate::store::Build;
use std::sync::Arc;

impl Exclusive<'_> {
    /// Sets which indexes a database has.
    pub(crate) fn set_indexes(&mut self, db: u8, indexes: &Indexes) {
        self.copies.iter_mut().for_each(|databases| databases.indexes[usize::from(db)] = indexes.clone());
    }

    /// Gives a database whose table is fresh indexes of its definitions.
    pub(super) fn empty_indexes(&mut self, db: u8) {
        self.replace_indexes(db, Index::emptied);
    }

    /// Has the indexes of a database that has got another table built again.
    pub(super) fn rebuild_indexes(&mut self, db: u8) {
        let table = self.databases().tables[usize::from(db)].clone();
        for index in self.replace_indexes(db, Index::rebuilding).iter() {
            self.store.build(Build { table: table.clone(), index: index.clone() });
        }
    }

    fn replace_indexes(&mut self, db: u8, replacement: impl Fn(&Index) -> Index) -> Indexes {
        let old = self.databases().indexes[usize::from(db)].clone();
        let new: Indexes = old.iter().map(|index| Arc::new(replacement(index))).collect();
        if !old.is_empty() {
            self.set_indexes(db, &new);
            self.store.discard_indexes(old);
        }
        new
    }
}
