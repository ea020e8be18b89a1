//! The write set of a running transaction: its changes, which neither the log nor the table has yet.
//!
//! ```text
//!   command ──reads──> overlay: copies of the entries that it has changed ──(not there)──> table
//!      └──its batch──> applied to the copies, and kept for the one group that the log gets at the end
//! ```
//!
//! A command answers with changes and does not see them applied; the next command of the same transaction has
//! to. So each changed key has a copy of its entry here, which the changes were applied to by the same code
//! as they will be in the table. The copy of a large collection shares its nodes until they are written to.
//! The `Lsn`s in the copies are made up; they end with the overlay.

use crate::record::{Change, Lsn, UnixMs};
use crate::table::{Applied, Entry, KeyHash, KeyRef, Retired};
use hashbrown::HashTable;

/// The keys that a transaction has changed, of all databases.
pub(crate) struct Overlay {
    /// The databases up to the last one with a change: most transactions need one of many.
    databases: Vec<Database>,
    /// The number of all of them.
    databases_count: usize,
    /// Given to the newest change.
    lsn: Lsn,
    /// Bytes of memory that keys took when they were shadowed. Large values are shared, and not copied.
    copied_bytes: usize,
}

/// The changed keys of one database.
struct Database {
    /// The database whose table shows wherever there is no shadow; `None`: it was flushed.
    below: Option<u8>,
    shadows: HashTable<Shadow>,
}

impl Database {
    /// One without changes.
    fn untouched(db: usize) -> Database {
        Database { below: Some(db as u8), shadows: HashTable::new() }
    }
}

/// A key as the transaction sees it.
pub(crate) struct Shadow {
    key: Box<[u8]>,
    entry: Option<Entry>,
    below: Below,
}

/// The state of a key in the table.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Below {
    Nothing,
    Entry,
    /// An entry whose time is over. Who writes to the key must delete it before.
    Expired,
}

impl Shadow {
    /// The entry, if the key is there.
    pub(crate) fn entry(&self) -> Option<&Entry> {
        self.entry.as_ref()
    }

    /// Keys more than the table has, of one; an expired one counts until it is deleted.
    fn keys_more(&self) -> i64 {
        let is_there = self.entry.is_some() || self.below == Below::Expired;
        i64::from(is_there) - i64::from(self.below != Below::Nothing)
    }
}

/// Deletes of a key that a change of it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Deletes {
    /// The table has an expired entry there.
    pub(crate) before: bool,
    /// The change takes the key away with its last element, or leaves fields whose time is over alone.
    pub(crate) behind: bool,
}

/// Applies a change to the copy of an entry. Returns whether it took the key away with its last element.
pub(crate) fn apply_to_copy(copy: &mut Option<Entry>, key: &[u8], change: &Change<'_>, lsn: Lsn) -> bool {
    // What the copy no longer needs is not what the log no longer needs: that is told by the table.
    let mut retired = Retired::default();
    match (&mut *copy, change) {
        (entry, Change::Delete) => *entry = None,
        (None, change) => *copy = Entry::create(key, change, lsn),
        (Some(entry), change) => match entry.apply(change, lsn, &mut retired) {
            Ok(Applied::Kept) => {}
            Ok(Applied::Emptied) => {
                *copy = None;
                return true;
            }
            Err(_) => debug_assert!(false, "a command checks the kind before it changes an entry"),
        },
    }
    false
}

fn rehash(shadow: &Shadow) -> u64 {
    KeyHash::of(&shadow.key).0
}

impl Overlay {
    /// An overlay without changes. No entry below has a newer record than `newest`.
    pub(crate) fn new(databases: usize, newest: Lsn) -> Overlay {
        Overlay { databases: Vec::new(), databases_count: databases, lsn: newest, copied_bytes: 0 }
    }

    /// A database, to be changed.
    fn database(&mut self, db: u8) -> &mut Database {
        let (there, db) = (self.databases.len(), usize::from(db));
        self.databases.extend((there..db + 1).map(Database::untouched));
        &mut self.databases[db]
    }

    /// The key as the transaction sees it, if it was shadowed.
    pub(crate) fn find(&self, KeyRef { db, hash, key }: KeyRef<'_>) -> Option<&Shadow> {
        self.databases.get(usize::from(db))?.shadows.find(hash.0, |shadow| *shadow.key == *key)
    }

    /// Bytes of memory that keys took when they were shadowed.
    pub(crate) fn copied_bytes(&self) -> usize {
        self.copied_bytes
    }

    /// The database whose table shows where nothing is shadowed; `None`: nothing does.
    pub(crate) fn below(&self, db: u8) -> Option<u8> {
        self.databases.get(usize::from(db)).map_or(Some(db), |database| database.below)
    }

    /// Shadows a key, of which the table has `entry`; `next` is the change that follows, if one does. What it
    /// puts another value in the place of is not copied. REQUIRES: the key has no shadow yet.
    pub(crate) fn shadow(
        &mut self,
        key: KeyRef<'_>,
        entry: Option<&Entry>,
        next: Option<&Change<'_>>,
        now: UnixMs,
    ) {
        let KeyRef { db, hash, key } = key;
        let below = match entry {
            None => Below::Nothing,
            Some(entry) if entry.is_expired(now) => Below::Expired,
            Some(entry) => {
                if next.is_none() {
                    // The looks that follow are at the copy. Who changes it has been counted as he looked.
                    entry.note_look();
                }
                Below::Entry
            }
        };
        use Change::{Delete, Image, Prepared, Put};
        let is_replaced = matches!(next, Some(Put { .. } | Image { .. } | Prepared { .. } | Delete));
        let entry = entry.filter(|_| below == Below::Entry && !is_replaced).cloned();
        let copied = entry.as_ref().filter(|entry| !entry.is_large()).map_or(0, Entry::bytes_about);
        self.copied_bytes += size_of::<Shadow>() + key.len() + copied;
        let shadow = Shadow { key: key.into(), entry, below };
        self.database(db).shadows.insert_unique(hash.0, shadow, rehash);
    }

    /// Applies a change to a shadow. Returns which deletes have to stand around it.
    ///
    /// A hash that has no field left but such whose time is over at `now` is gone: the commands that follow
    /// must find no key to write to, and nobody deletes it before them as before a lone command.
    ///
    /// REQUIRES: the key has a shadow.
    pub(crate) fn apply(&mut self, key: KeyRef<'_>, change: &Change<'_>, now: UnixMs) -> Deletes {
        let KeyRef { db, hash, key } = key;
        self.lsn = self.lsn.after(1);
        let lsn = self.lsn;
        let shadow = self.database(db).shadows.find_mut(hash.0, |shadow| *shadow.key == *key);
        let shadow = shadow.expect("a key is shadowed before it is changed");
        let mut empties = apply_to_copy(&mut shadow.entry, key, change, lsn);
        if shadow.entry.as_ref().is_some_and(|entry| entry.is_spent(now)) {
            (shadow.entry, empties) = (None, true);
        }
        let deletes_before = shadow.below == Below::Expired;
        if deletes_before {
            shadow.below = Below::Entry;
        }
        Deletes { before: deletes_before, behind: empties }
    }

    /// A database has lost all its keys; `None`: every database has.
    pub(crate) fn flush(&mut self, db: Option<u8>) {
        let flushed = db.map_or(0..self.databases_count, |db| usize::from(db)..usize::from(db) + 1);
        for db in flushed {
            *self.database(db as u8) = Database { below: None, shadows: HashTable::new() };
        }
    }

    /// Two databases have changed places.
    pub(crate) fn swap(&mut self, a: u8, b: u8) {
        self.database(a.max(b));
        self.databases.swap(usize::from(a), usize::from(b));
    }

    /// The entries of a database that are shadowed and there.
    pub(crate) fn entries(&self, db: u8) -> impl Iterator<Item = &Entry> {
        let database = self.databases.get(usize::from(db));
        database.into_iter().flat_map(|database| database.shadows.iter()).filter_map(Shadow::entry)
    }

    /// How many keys the database has more than the table below.
    pub(crate) fn keys_more(&self, db: u8) -> i64 {
        let database = self.databases.get(usize::from(db));
        database.map_or(0, |database| database.shadows.iter().map(Shadow::keys_more).sum())
    }
}
