//! Transactions: each command sees the changes of those before it, and the log gets one group.
//!
//! ```text
//!   Session::latch ────────┐                  ┌─ run a command ─ stage its batch ─┐
//!                          ├──> begin ──────> └──────────── for each ─────────────┘ ──> end ──> commit
//!   Exclusive::transact ───┘      (behind a closed gate: prepare the keys of each command first)
//! ```
//!
//! Behind a closed gate no latch is held from command to command, as databases may be flushed and swapped
//! there: the keys of each command are copied to the overlay before it runs.

use super::latched::Holding;
use super::{Access, Exclusive, Latched};
use crate::overlay::Overlay;
use crate::record::{Batch, Change, Lsn, UnixMs, Write};
use crate::table::{Entry, KeyHash, KeyRef, Segment};
use crate::watch::Watch;

impl Exclusive<'_> {
    /// Begins a transaction that sees the whole store.
    pub fn transact(&self, now: UnixMs) -> Latched<'_> {
        let mut latched = self.latch(&[], Access::Write, now);
        latched.begin();
        latched
    }
}

impl Latched<'_> {
    /// Begins a transaction: from now on, keys are shown as the batches that were staged leave them.
    pub fn begin(&mut self) {
        let newest = self.store.last_lsn(self.databases);
        self.overlay = Some(Box::new(Overlay::new(self.databases.tables.len(), newest)));
    }

    /// Ends it. What was staged is still to be committed, as one batch.
    pub fn end(&mut self) {
        self.overlay = None;
    }

    /// Makes keys ready for a command of a transaction behind a closed gate.
    ///
    /// REQUIRES: it was begun by `Exclusive::transact`.
    pub fn prepare(&mut self, keys: &[KeyRef<'_>]) {
        for key in keys {
            self.shadow(*key, None);
        }
    }

    /// Bytes of memory that the keys took which the transaction has copied, also to look at them.
    pub fn copied_bytes(&self) -> usize {
        self.overlay.as_ref().map_or(0, |overlay| overlay.copied_bytes())
    }

    /// Lets the commands that follow see `batch`, and adds it to `staged`.
    ///
    /// REQUIRES: a transaction has begun.
    pub fn stage<'a>(&mut self, batch: Batch<'a>, staged: &mut Batch<'a>) {
        for write in batch {
            let mut behind = None;
            match &write {
                Write::Key { db, key, change } => {
                    let place = self.key_ref(*db, key);
                    self.shadow(place, Some(change));
                    let overlay = self.overlay.as_mut().expect("a transaction has begun");
                    let deletes = overlay.apply(place, change, self.now);
                    let delete = || Write::Key { db: *db, key: key.clone(), change: Change::Delete };
                    staged.extend(deletes.before.then(delete));
                    behind = deletes.behind.then(delete);
                }
                Write::Flush { db } => self.overlay.as_mut().expect("a transaction has begun").flush(*db),
                Write::Swap { a, b } => self.overlay.as_mut().expect("a transaction has begun").swap(*a, *b),
            }
            staged.push(write);
            staged.extend(behind);
        }
    }

    /// Copies a key to the overlay, if it is not there yet, for a change that follows if one does. Its newest
    /// record counts as seen.
    fn shadow(&mut self, key: KeyRef<'_>, next: Option<&Change<'_>>) {
        let mut overlay = self.overlay.take().expect("a transaction has begun");
        if overlay.find(key).is_none() {
            match overlay.below(key.db) {
                None => overlay.shadow(key, None, next, self.now),
                Some(below) => self.with_segment(below, key.hash, |segment| {
                    let entry = segment.find(key.hash, key.key);
                    self.see(entry.map_or(segment.removed(), Entry::lsn).max(self.floor(below)));
                    overlay.shadow(key, entry, next, self.now);
                }),
            }
        }
        self.overlay = Some(overlay);
    }

    /// Hands a segment to `look`: one that is latched, or behind a closed gate any.
    pub(super) fn with_segment<T>(&self, db: u8, hash: KeyHash, look: impl FnOnce(&Segment) -> T) -> T {
        match self.position(db, hash) {
            Some(position) => look(self.held.as_slice()[position].latch.segment()),
            None => {
                debug_assert!(matches!(self.held, Holding::None), "a command latches all its keys at once");
                look(&self.databases.tables[db as usize].read_of(hash).1)
            }
        }
    }

    /// The newest flush or swap of a database.
    fn floor(&self, db: u8) -> Lsn {
        self.databases.floors[db as usize]
    }

    /// Watches a key.
    ///
    /// REQUIRES: `key` is among the keys that were latched.
    pub fn watch(&self, db: u8, key: &[u8]) -> Watch {
        let key = self.key_ref(db, key);
        let lsn = self.find(key).map(Entry::lsn);
        Watch::new(self.store.watches(), key, lsn, self.databases.swaps[db as usize])
    }

    /// Whether nothing has happened to a key since it was watched.
    ///
    /// REQUIRES: it is among the keys that were latched, or the gate is closed.
    pub fn is_unchanged(&self, watch: &Watch) -> bool {
        let live = self.with_segment(watch.db(), watch.hash(), |segment| {
            let entry = segment.find(watch.hash(), watch.key());
            entry.filter(|entry| !entry.is_expired(self.now)).map(Entry::lsn)
        });
        watch.holds(live, self.databases.swaps[watch.db() as usize])
    }
}
