//! Exclusive access to the store: flushes and swaps databases, and switches the log on and off.

use super::latched::{Access, Latched};
use crate::gate::Closed;
use crate::log::{Appender, Group};
use crate::record::{Batch, Lsn, UnixMs, Write};
use crate::store::{CommitError, Databases, Discarded, Store};
use crate::table::{KeyHash, KeyRef, Readers, Table};
use crate::upheaval::Upheavals;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

/// A thread that has the store for itself.
pub struct Exclusive<'e> {
    pub(super) store: &'e Store,
    /// The databases as each lock of the gate protects them: all copies are the same.
    pub(super) copies: Closed<'e, Databases>,
}

impl<'e> Exclusive<'e> {
    /// Closes the gate: waits until every worker is out and keeps them out. While it waits for one that is
    /// slow, the others go on.
    ///
    /// REQUIRES: the caller is not inside the gate.
    pub(crate) fn close(store: &'e Store) -> Exclusive<'e> {
        Exclusive { store, copies: store.close() }
    }

    /// As `close`, but `None` if a thread stays inside for longer: for a caller that has something else to
    /// do, and tries again a moment later, having `waited` this long altogether.
    ///
    /// REQUIRES: the caller is not inside the gate.
    pub(crate) fn try_close(store: &'e Store, waited: Duration) -> Option<Exclusive<'e>> {
        Some(Exclusive { store, copies: store.try_close(waited)? })
    }

    /// The databases, which the gate protects.
    pub(crate) fn databases(&self) -> &Databases {
        &self.copies[0]
    }

    /// Logs all changes from now on; `false`, and nothing has changed, if one is newer already than where the
    /// log begins.
    ///
    /// REQUIRES: there is no log.
    pub(crate) fn start_logging(&mut self, log: &Appender) -> bool {
        let (newest, base) = (self.store.last_lsn(self.databases()), log.last());
        if newest > base {
            return false;
        }
        self.store.validity().clear();
        self.store.validity().begin(Upheavals::default(), base);
        self.store.preparations().refuse_up_to(base);
        self.copies.iter_mut().for_each(|databases| databases.log = Some(log.clone()));
        true
    }

    /// Logs nothing any more.
    pub(crate) fn stop_logging(&mut self) {
        self.store.set_newest_unlogged(self.store.last_lsn(self.databases()));
        self.copies.iter_mut().for_each(|databases| databases.log = None);
        self.store.validity().clear();
    }

    /// As `Session::latch`; nobody else holds any latch.
    pub fn latch<'s>(&'s self, keys: &'s [KeyRef<'s>], access: Access, now: UnixMs) -> Latched<'s> {
        Latched::new(self.store, self.databases(), keys, access, now)
    }

    /// Appends `batch` to the log as one atomic group and applies it, whatever it writes. Returns the `Lsn`
    /// of its last write. On an error nothing has changed. The memory of flushed databases is freed in the
    /// background.
    pub fn commit(&mut self, batch: &Batch<'_>, group: &mut Group) -> Result<Lsn, CommitError> {
        let is_key = |write: &Write<'_>| matches!(write, Write::Key { .. });
        let batch = match batch.iter().all(is_key) {
            true => self.latch(&[], Access::Write, self.store.now()).with_deletes(batch),
            // A transaction, which has them, or a command that takes no element away.
            false => Cow::Borrowed(batch),
        };
        let (mut lsn, readers) = self.store.append(self.databases(), &batch, group, false)?;
        if !batch.iter().all(is_key) {
            // A replay forgets the parts there, as they may be those of another database from then on.
            self.store.preparations().refuse_up_to(lsn);
        }
        for run in batch.chunk_by(|a, b| is_key(a) && is_key(b)) {
            match &run[0] {
                Write::Flush { db } => {
                    self.store.validity().note_upheaval(lsn, &run[0]);
                    self.flush(*db, lsn);
                }
                Write::Swap { a, b } => {
                    self.store.validity().note_upheaval(lsn, &run[0]);
                    self.swap(*a, *b, lsn);
                }
                Write::Key { .. } => self.apply(run, lsn, readers),
            }
            lsn = lsn.after(run.len() as u64);
        }
        Ok(Lsn(lsn.0 - 1))
    }

    /// Applies changes of keys. Those who come in see all of them or none, as the gate is closed.
    fn apply(&self, writes: &[Write<'_>], first: Lsn, readers: Readers<'_>) {
        let keys = writes.iter().filter_map(|write| match write {
            Write::Key { db, key, .. } => Some(KeyRef::of(*db, key)),
            _ => None,
        });
        let keys: Vec<_> = keys.collect();
        let mut latched = self.latch(&keys, Access::Write, self.store.now());
        latched.apply(writes, first, readers);
        latched.release();
    }

    fn swap(&mut self, a: u8, b: u8, lsn: Lsn) {
        let (tables, now) = (&self.databases().tables, self.store.now());
        self.store.watches().mark_those(|db, key| {
            let other = if db == a { b } else { a };
            let hash = KeyHash::of(key);
            let moves = db == a || db == b;
            moves && {
                let (_, segment) = tables[other as usize].read_of(hash);
                segment.find(hash, key).is_some_and(|entry| !entry.is_expired(now))
            }
        });
        for databases in &mut self.copies {
            databases.tables.swap(a as usize, b as usize);
            databases.swaps[a as usize] += 1;
            databases.swaps[b as usize] += 1;
            databases.floors[a as usize] = lsn;
            databases.floors[b as usize] = lsn;
        }
        if a != b {
            [a, b].into_iter().for_each(|db| self.rebuild_indexes(db));
        }
    }

    fn flush(&mut self, db: Option<u8>, lsn: Lsn) {
        let all = 0..self.databases().tables.len();
        let which = db.map_or(all, |db| db as usize..db as usize + 1);
        for index in which {
            let fresh = Arc::new(Table::default());
            let mut old = None;
            for databases in &mut self.copies {
                old = Some(std::mem::replace(&mut databases.tables[index], fresh.clone()));
                databases.floors[index] = lsn;
            }
            if let Some(table) = old {
                self.store.discard(Discarded::Table(table));
            }
            self.empty_indexes(index as u8);
        }
    }
}
