//! Making and dropping indexes, and the thread that builds them.
//!
//! ```text
//!   create_index   gate closed ── from here on writers maintain it ── gate open ── built, part after part
//! ```
//!
//! Which index is of which database is protected by the gate, as which table is. A database keeps its
//! definitions: when its table is flushed, the fresh one has empty indexes, and when it changes places with
//! another, its indexes are built anew from the table that is there now. Views that are open go on reading
//! the table of their instant by the indexes that it had.

use crate::engine::{Discarded, Engine};
use crate::index::{Index, IndexStatus, Indexed, Indexes};
use crate::session::Exclusive;
use crate::table::Table;
use crossbeam_channel::{Receiver, Sender};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Why an index was not made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IndexError {
    /// The database has one of this name.
    #[error("database {0} has an index \"{1}\" already; drop it first, or choose another name")]
    Exists(u8, String),
    /// There is no such database.
    #[error("there is no database {0}; see the directive databases")]
    NoDatabase(u8),
}

/// An index that is to be built.
pub(crate) struct Build {
    table: Arc<Table>,
    index: Arc<Index>,
}

/// Who builds: what it is sent, it does in turn; it ends with `None`.
pub(crate) type Builder = Sender<Option<Build>>;

/// Builds what comes until it is told to end.
pub(crate) fn build_all(builds: &Receiver<Option<Build>>, stop: &AtomicBool) {
    while let Ok(Some(Build { table, index })) = builds.recv() {
        index.build(&table, || !stop.load(Ordering::Relaxed));
    }
}

impl Engine {
    /// Makes an index of a database. It is built in the background: views that are opened when it is ready
    /// can read it. Waits until every worker is out of the gate.
    ///
    /// REQUIRES: the caller is not inside the gate.
    pub fn create_index(
        &self,
        db: u8,
        name: &str,
        indexed: Arc<dyn Indexed>,
    ) -> Result<Arc<Index>, IndexError> {
        let mut exclusive = self.close_gate();
        let world = exclusive.world();
        let Some(present) = world.indexes.get(usize::from(db)) else {
            return Err(IndexError::NoDatabase(db));
        };
        if present.iter().any(|index| index.name() == name) {
            return Err(IndexError::Exists(db, name.to_owned()));
        }
        let index = Arc::new(Index::new(name, indexed));
        let all = present.iter().chain([&index]).cloned().collect();
        let build = Build { table: world.tables[usize::from(db)].clone(), index: index.clone() };
        exclusive.set_indexes(db, &all);
        drop(exclusive);
        self.build(build);
        Ok(index)
    }

    /// Drops an index, ready or not; `false` if there is none of that name. Views that read it go on. Waits
    /// until every worker is out of the gate: so whatever an open view sees is in it.
    ///
    /// REQUIRES: the caller is not inside the gate.
    pub fn drop_index(&self, db: u8, name: &str) -> bool {
        let mut exclusive = self.close_gate();
        let Some(present) = exclusive.world().indexes.get(usize::from(db)).cloned() else { return false };
        let (gone, left): (Vec<_>, Vec<_>) = present.iter().cloned().partition(|index| index.name() == name);
        exclusive.set_indexes(db, &left.into());
        drop(exclusive);
        let is_there = !gone.is_empty();
        self.discard_indexes(gone.into());
        is_there
    }

    /// An index of a database, as it is now.
    pub fn index(&self, db: u8, name: &str) -> Option<Arc<Index>> {
        let background = self.background();
        background.indexes.get(usize::from(db))?.iter().find(|index| index.name() == name).cloned()
    }

    /// Whether there is any index.
    pub fn has_indexes(&self) -> bool {
        self.background().indexes.iter().any(|of_db| !of_db.is_empty())
    }

    /// All indexes, and how they are doing.
    pub fn indexes(&self) -> Vec<IndexStatus> {
        let indexes = self.background().indexes.clone();
        let of_db = |(db, indexes): (usize, &Indexes)| {
            indexes.iter().map(|index| index.status(db as u8)).collect::<Vec<_>>()
        };
        indexes.iter().enumerate().flat_map(of_db).collect()
    }

    fn build(&self, build: Build) {
        // The builder ends only with the background threads, and then nothing is to be built any more.
        let _ = self.builder().send(Some(build));
    }

    /// Hands indexes that are of no database any more to the reaper.
    fn discard_indexes(&self, indexes: Indexes) {
        if !indexes.is_empty() {
            indexes.iter().for_each(|index| index.note_dropped());
            self.discard(Discarded::Indexes(indexes));
        }
    }
}

impl Exclusive<'_> {
    fn set_indexes(&mut self, db: u8, indexes: &Indexes) {
        self.worlds.iter_mut().for_each(|world| world.indexes[usize::from(db)] = indexes.clone());
    }

    /// Gives a database whose table is fresh indexes of its definitions.
    pub(crate) fn empty_indexes(&mut self, db: u8) {
        self.replace_indexes(db, Index::anew_of_nothing);
    }

    /// Has the indexes of a database that has got another table be built anew.
    pub(crate) fn rebuild_indexes(&mut self, db: u8) {
        let table = self.world().tables[usize::from(db)].clone();
        for index in self.replace_indexes(db, Index::anew).iter() {
            self.engine.build(Build { table: table.clone(), index: index.clone() });
        }
    }

    fn replace_indexes(&mut self, db: u8, anew: impl Fn(&Index) -> Index) -> Indexes {
        let old = self.world().indexes[usize::from(db)].clone();
        let new: Indexes = old.iter().map(|index| Arc::new(anew(index))).collect();
        if !old.is_empty() {
            self.set_indexes(db, &new);
            self.engine.discard_indexes(old);
        }
        new
    }
}
