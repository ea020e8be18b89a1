//! Watched keys (`WATCH`): detects whether a key has changed since it was watched.
//!
//! A present key is compared by the `Lsn` of its entry: every change gives it a new one, and none comes
//! twice. A missing key has none; between two looks it may come and go without a trace in the table. So a
//! client that watches a missing key registers it. A writer of a new key looks into the register, if
//! anything is in it at all.
//!
//! ```text
//!   watch: latch the segment ─ missing? register ─ unlatch
//!   write: latch the segment ─ create the key ─ registered? mark ─ unlatch
//!   look:  latch the segment ─ still missing, and not marked?
//! ```
//!
//! The latch orders the two, so that a relaxed load tells a writer whether the register is empty. Databases
//! are swapped behind the closed gate: what was there counts as changed (`Databases::swaps`), and what was
//! missing if there is such a key now.

use crate::lock::Mutex;
use crate::record::Lsn;
use crate::table::{KeyHash, KeyRef};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

type Marks = Vec<(u8, Arc<AtomicBool>)>;

/// The register of the missing keys that are watched.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    /// How many marks are in `marks`.
    registered: AtomicUsize,
    /// By key, those of all databases together.
    marks: Mutex<HashMap<Box<[u8]>, Marks>>,
}

/// A key that is watched. It is forgotten when this is dropped.
#[derive(Debug)]
pub struct Watch {
    db: u8,
    key: Box<[u8]>,
    hash: KeyHash,
    seen: Seen,
    watches: Arc<Watches>,
}

/// The state of the key when it was watched.
#[derive(Debug)]
enum Seen {
    /// An entry with this newest record, in a database that had changed places so often.
    Entry { lsn: Lsn, swaps: u64 },
    /// Nothing, or an entry whose time was over; the mark says that there has been something since.
    Nothing { created: Arc<AtomicBool> },
}

impl Watches {
    /// Marks a key that was created. REQUIRES: its segment is latched for writing.
    #[inline]
    pub(crate) fn note_created(&self, db: u8, key: &[u8]) {
        if self.registered.load(Ordering::Relaxed) != 0 {
            self.mark(db, key);
        }
    }

    #[cold]
    fn mark(&self, db: u8, key: &[u8]) {
        self.remove(key, |other_db, created| {
            let is_it = *other_db == db;
            if is_it {
                created.store(true, Ordering::Relaxed);
            }
            is_it
        });
    }

    /// Takes the marks of `key` out for which `which` says so.
    fn remove(&self, key: &[u8], which: impl Fn(&u8, &Arc<AtomicBool>) -> bool) {
        let mut marks = self.marks.lock();
        let Some(of_key) = marks.get_mut(key) else { return };
        let before = of_key.len();
        of_key.retain(|(db, created)| !which(db, created));
        self.registered.fetch_sub(before - of_key.len(), Ordering::Relaxed);
        if of_key.is_empty() {
            marks.remove(key);
        }
    }

    /// Marks the registered keys for which `exists` says that they are there now.
    pub(crate) fn mark_those(&self, exists: impl Fn(u8, &[u8]) -> bool) {
        if self.registered.load(Ordering::Relaxed) == 0 {
            return;
        }
        let registered: Vec<(u8, Box<[u8]>)> = {
            let marks = self.marks.lock();
            marks.iter().flat_map(|(key, of_key)| of_key.iter().map(|(db, _)| (*db, key.clone()))).collect()
        };
        for (db, key) in registered {
            if exists(db, &key) {
                self.mark(db, &key);
            }
        }
    }

    /// How many marks are registered.
    pub(crate) fn registered(&self) -> usize {
        self.registered.load(Ordering::Relaxed)
    }
}

impl Watch {
    /// Watches a key. `lsn` is that of its live entry, if there is one.
    ///
    /// REQUIRES: its segment is latched.
    pub(crate) fn new(watches: &Arc<Watches>, key: KeyRef<'_>, lsn: Option<Lsn>, swaps: u64) -> Watch {
        let KeyRef { db, hash, key } = key;
        let seen = match lsn {
            Some(lsn) => Seen::Entry { lsn, swaps },
            None => {
                let created = Arc::new(AtomicBool::new(false));
                watches.marks.lock().entry(key.into()).or_default().push((db, created.clone()));
                watches.registered.fetch_add(1, Ordering::Relaxed);
                Seen::Nothing { created }
            }
        };
        Watch { db, key: key.into(), hash, seen, watches: watches.clone() }
    }

    /// Its database.
    pub fn db(&self) -> u8 {
        self.db
    }

    /// The key.
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// The hash of the key.
    pub fn hash(&self) -> KeyHash {
        self.hash
    }

    /// Whether nothing has happened to the key, of which the live entry has this `Lsn` now, in a database
    /// that has changed places so often.
    ///
    /// REQUIRES: its segment is latched.
    pub(crate) fn holds(&self, now: Option<Lsn>, swaps_now: u64) -> bool {
        match (&self.seen, now) {
            (Seen::Entry { lsn, swaps }, Some(now)) => *lsn == now && *swaps == swaps_now,
            (Seen::Nothing { created }, None) => !created.load(Ordering::Relaxed),
            _ => false,
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Seen::Nothing { created } = &self.seen {
            self.watches.remove(&self.key, |_, other| Arc::ptr_eq(created, other));
        }
    }
}
