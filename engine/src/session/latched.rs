//! Latched segments, through which one command reads and changes keys.

use super::superseded::Superseded;
use crate::index;
use crate::log::Group;
use crate::overlay::Overlay;
use crate::record::{Batch, Change, Lsn, Stamped, UnixMs, Write};
use crate::store::{CommitError, Copied, Databases, Store};
use crate::table::latch::{ReadLatch, WriteLatch};
use crate::table::{Entry, KeyHash, KeyRef, Over, Placed, Readers, Retired, Segment, Table, touch_all};
use crate::value::usage::{self, Tracked, Use};
use smallvec::SmallVec;
use std::borrow::Borrow;
use std::cell::Cell;
use std::collections::HashSet;
use std::time::Duration;

/// Keys among which the hash of one is looked for, before it is hashed again.
const NEAR: usize = 8;

/// Of fewer keys of a command the entries are not fetched before it runs: the processor overlaps the looks.
const FETCHED_MIN: usize = 4;
/// Of more only these: they stay in a core's own cache until then.
const FETCHED_MAX: usize = 256;

/// Fields of a hash that a command takes away at most before it runs, as their time is over. It sees none of
/// the others either; the expirer takes them.
const FIELDS_EXPIRED_MAX: usize = 64;

/// Whether latched keys are only looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Shared latches; nothing can be committed.
    Read,
    /// Exclusive latches.
    Write,
}

pub(super) enum Latch<'s> {
    Read(ReadLatch<'s>),
    Write(WriteLatch<'s>),
}

impl Latch<'_> {
    #[inline]
    pub(super) fn segment(&self) -> &Segment {
        match self {
            Latch::Read(segment) => segment,
            Latch::Write(segment) => segment,
        }
    }
}

pub(super) struct Held<'s> {
    db: u8,
    index: usize,
    pub(super) latch: Latch<'s>,
}

/// The latches of one command by place. Not a `SmallVec`, which would tie commands to one exact lifetime.
pub(super) enum Holding<'s> {
    None,
    One(Held<'s>),
    Many(Vec<Held<'s>>),
}

impl<'s> Holding<'s> {
    #[inline]
    pub(super) fn as_slice(&self) -> &[Held<'s>] {
        match self {
            Holding::None => &[],
            Holding::One(held) => std::slice::from_ref(held),
            Holding::Many(held) => held,
        }
    }

    /// Latches the segments of keys; `None` if one of the latches would take longer than the limit.
    #[inline]
    fn of<P: Placed>(
        databases: &'s Databases,
        keys: &[P],
        access: Access,
        limit: Option<Duration>,
    ) -> Option<Holding<'s>> {
        let [only] = keys else { return Holding::of_many(databases, keys, access, limit) };
        let (db, hash) = only.place();
        let table = &databases.tables[db as usize];
        loop {
            let index = table.index_of(hash);
            let latch = lock(table, index, access, limit)?;
            // A split may have moved the hash away before the latch was there.
            if table.index_of(hash) == index {
                return Some(Holding::One(Held { db, index, latch }));
            }
        }
    }

    fn of_many<P: Placed>(
        databases: &'s Databases,
        keys: &[P],
        access: Access,
        limit: Option<Duration>,
    ) -> Option<Holding<'s>> {
        if keys.is_empty() {
            return Some(Holding::None);
        }
        let place = |key: &P| {
            let (db, hash) = key.place();
            (db, databases.tables[db as usize].index_of(hash))
        };
        let latch = |(db, index): (u8, usize)| {
            let latch = lock(&databases.tables[db as usize], index, access, limit)?;
            Some(Held { db, index, latch })
        };
        loop {
            let mut places: SmallVec<[(u8, usize); 8]> = keys.iter().map(place).collect();
            places.sort_unstable();
            places.dedup();
            let holding = Holding::Many(places.into_iter().map(latch).collect::<Option<_>>()?);
            // One of the keys may have moved meanwhile.
            let is_held = |(db, hash)| holding.position(databases, db, hash).is_some();
            if keys.iter().all(|key| is_held(key.place())) {
                return Some(holding);
            }
        }
    }

    #[inline]
    fn position(&self, databases: &Databases, db: u8, hash: KeyHash) -> Option<usize> {
        let index = databases.tables[db as usize].index_of(hash);
        match self.as_slice() {
            [held] => (held.index == index && held.db == db).then_some(0),
            held => held.binary_search_by(|held| (held.db, held.index).cmp(&(db, index))).ok(),
        }
    }

    #[inline]
    fn as_mut_slice(&mut self) -> &mut [Held<'s>] {
        match self {
            Holding::None => &mut [],
            Holding::One(held) => std::slice::from_mut(held),
            Holding::Many(held) => held,
        }
    }
}

/// Latched segments: what one command may see and change.
pub struct Latched<'s> {
    pub(super) store: &'s Store,
    pub(super) databases: &'s Databases,
    pub(super) held: Holding<'s>,
    /// Keys whose hashes are known: those that the command declares.
    keys: &'s [KeyRef<'s>],
    /// Which of `keys` was looked for last.
    at: Cell<usize>,
    pub(super) now: UnixMs,
    /// How long it waits for each latch.
    pub(super) limit: Option<Duration>,
    seen: Cell<Lsn>,
    met_expired: Cell<bool>,
    /// Look-ups that found a live entry, and that did not.
    lookups: Cell<(u64, u64)>,
    /// Whether a look at an entry counts as a use of it.
    notes_uses: Cell<bool>,
    /// The note of use that the next change of a key leaves.
    given_use: Cell<Option<(u8, KeyHash, Use)>>,
    /// Where replaced records are kept for a while; `None`: they are marked at once.
    pub(super) superseded: Option<&'s Superseded>,
    /// The changes of the running transaction so far.
    pub(super) overlay: Option<Box<Overlay>>,
    /// The keys that the segments were latched for, where builds check it: a segment has many keys, so most
    /// that a command forgets to declare would be found there. `None`: a segment was latched for itself.
    #[cfg(debug_assertions)]
    declared: Option<HashSet<(u8, u64)>>,
}

/// Whether two keys are equal. Those of one request are the same bytes of its arguments.
#[inline]
fn is_same(one: &[u8], other: &[u8]) -> bool {
    std::ptr::eq(one, other) || one == other
}

#[inline]
fn lock(table: &Table, index: usize, access: Access, limit: Option<Duration>) -> Option<Latch<'_>> {
    match access {
        Access::Read => table.read_within(index, limit).map(Latch::Read),
        Access::Write => table.write_within(index, limit).map(Latch::Write),
    }
}

/// The newest change that a look at any of these keys reveals: that their databases were flushed or swapped.
#[inline]
fn floor_of<P: Placed>(databases: &Databases, keys: &[P]) -> Lsn {
    let floor = |key: &P| databases.floors[key.place().0 as usize];
    match keys {
        [only] => floor(only),
        _ => keys.iter().map(floor).max().unwrap_or(Lsn::ZERO),
    }
}

impl<'s> Latched<'s> {
    /// Latches the segments of `keys`, of which `databases` has the tables.
    pub(crate) fn new(
        store: &'s Store,
        databases: &'s Databases,
        keys: &'s [KeyRef<'s>],
        access: Access,
        now: UnixMs,
    ) -> Latched<'s> {
        Latched::within(store, databases, keys, access, now, None).expect("it waits as long as it takes")
    }

    /// As `new`; `None` if one of the latches would take longer than the limit. Inlined, so that it is made
    /// where the caller keeps it: each request needs one, of some 200 bytes.
    #[inline(always)]
    pub(crate) fn within(
        store: &'s Store,
        databases: &'s Databases,
        keys: &'s [KeyRef<'s>],
        access: Access,
        now: UnixMs,
        limit: Option<Duration>,
    ) -> Option<Latched<'s>> {
        let held = Holding::of(databases, keys, access, limit)?;
        let mut latched = Latched::of(store, databases, held, floor_of(databases, keys), now, limit);
        latched.keys = keys;
        latched.declare(keys);
        if keys.len() >= FETCHED_MIN {
            latched.fetch(&keys[..keys.len().min(FETCHED_MAX)]);
        }
        Some(latched)
    }

    /// Brings the entries of latched keys into the processor's cache, sixteen side by side, if the table is
    /// not there: else the look for each would wait for memory by itself. REQUIRES: there is a key.
    fn fetch(&self, keys: &[KeyRef<'_>]) {
        if !self.databases.tables[keys[0].db as usize].is_beyond_cache() {
            return;
        }
        for keys in keys.chunks(16) {
            let entry = |key: &KeyRef<'_>| {
                let position = self.position(key.db, key.hash)?;
                self.held.as_slice()[position].latch.segment().guess(key.hash)
            };
            let entries: SmallVec<[Option<&Entry>; 16]> = keys.iter().map(entry).collect();
            touch_all(entries.iter().copied().flatten());
        }
    }

    /// As `within`, without knowing the hash of any key that is looked for.
    pub(crate) fn of_places<P: Placed>(
        store: &'s Store,
        databases: &'s Databases,
        keys: &[P],
        access: Access,
        now: UnixMs,
        limit: Option<Duration>,
    ) -> Option<Latched<'s>> {
        let held = Holding::of(databases, keys, access, limit)?;
        let mut latched = Latched::of(store, databases, held, floor_of(databases, keys), now, limit);
        latched.declare(keys);
        Some(latched)
    }

    /// Latches that are held, with nothing looked at yet but what `seen` says.
    #[inline(always)]
    fn of(
        store: &'s Store,
        databases: &'s Databases,
        held: Holding<'s>,
        seen: Lsn,
        now: UnixMs,
        limit: Option<Duration>,
    ) -> Latched<'s> {
        Latched {
            store,
            databases,
            held,
            keys: &[],
            at: Cell::new(0),
            now,
            limit,
            seen: Cell::new(seen),
            met_expired: Cell::new(false),
            lookups: Cell::default(),
            notes_uses: Cell::new(false),
            given_use: Cell::new(None),
            superseded: None,
            overlay: None,
            #[cfg(debug_assertions)]
            declared: None,
        }
    }

    /// Says which keys it is for, and no others of their segments: a build that checks it remembers them.
    #[inline]
    fn declare<P: Placed>(&mut self, keys: &[P]) {
        #[cfg(debug_assertions)]
        {
            self.declared = Some(keys.iter().map(|key| (key.place().0, key.place().1.0)).collect());
        }
        let _ = keys;
    }

    #[inline]
    pub(super) fn position(&self, db: u8, hash: KeyHash) -> Option<usize> {
        self.held.position(self.databases, db, hash)
    }

    /// Tells the hashes of keys that are latched.
    pub fn know(&mut self, keys: &'s [KeyRef<'s>]) {
        self.keys = keys;
    }

    /// A key with its hash, which is known of keys that the command declares.
    #[inline]
    pub(super) fn key_ref<'k>(&self, db: u8, key: &'k [u8]) -> KeyRef<'k> {
        let hash = match self.keys {
            [] => None,
            [only] => is_same(only.key, key).then_some(only.hash),
            _ => self.known(key),
        };
        KeyRef { db, hash: hash.unwrap_or_else(|| KeyHash::of(key)), key }
    }

    /// The hash of one of many keys. A command looks at its keys in the order in which it declares them, and
    /// changes them in this order: so the key is near the one before. One that is far costs another hash, not
    /// a search.
    fn known(&self, key: &[u8]) -> Option<KeyHash> {
        let (last, len) = (self.at.get(), self.keys.len());
        for step in 0..len.min(NEAR) {
            let index = if last + step < len { last + step } else { last + step - len };
            if is_same(self.keys[index].key, key) {
                self.at.set(index);
                return Some(self.keys[index].hash);
            }
        }
        None
    }

    /// Whether a key is among those that were latched, as far as this build knows them.
    fn declares(&self, db: u8, hash: KeyHash) -> bool {
        #[cfg(debug_assertions)]
        if let Some(declared) = &self.declared {
            return declared.contains(&(db, hash.0));
        }
        let _ = (db, hash);
        true
    }

    /// Number of logical databases.
    pub fn databases(&self) -> usize {
        self.databases.tables.len()
    }

    /// Whether changes are logged.
    pub fn is_logged(&self) -> bool {
        self.databases.log.is_some()
    }

    /// Says that the command looked at many keys.
    pub fn see_all(&self) {
        self.see(self.newest());
    }

    /// The newest change of the store.
    pub fn newest(&self) -> Lsn {
        self.store.last_lsn(self.databases)
    }

    /// The store.
    pub fn store(&self) -> &'s Store {
        self.store
    }

    /// The time that this command takes for now.
    pub const fn now(&self) -> UnixMs {
        self.now
    }

    /// The newest `Lsn` that the entries looked at so far reveal.
    pub fn seen(&self) -> Lsn {
        self.seen.get()
    }

    /// Whether a key was looked for that is expired and still takes room: readers leave that to somebody who
    /// may write. `false` while such keys are left where they are.
    pub fn met_expired(&self) -> bool {
        self.met_expired.get() && !self.store.expiry().is_held()
    }

    /// Whether the looks that follow count as uses of the entries: those of a client's command do.
    pub fn note_uses(&self, on: bool) {
        self.notes_uses.set(on);
    }

    /// Has the next change of a key leave this note of its use. Of several keys of a transaction that holds
    /// for the last.
    pub fn give_use(&self, db: u8, key: &[u8], used: Use) {
        self.given_use.set(Some((db, self.key_ref(db, key).hash, used)));
    }

    /// Says that the command looked at more than its latched keys.
    pub fn see(&self, lsn: Lsn) {
        self.seen.set(self.seen.get().max(lsn));
    }

    /// The live entry of `key`; `None` if there is none or it is expired.
    ///
    /// REQUIRES: `key` is among the keys that were latched.
    #[inline]
    pub fn get(&self, db: u8, key: &[u8]) -> Option<&Entry> {
        self.find(self.key_ref(db, key))
    }

    /// As `get`, where the hash is known.
    #[inline]
    pub fn find(&self, key: KeyRef<'_>) -> Option<&Entry> {
        if let Some(overlay) = &self.overlay
            && let Some(shadow) = overlay.find(key)
        {
            let (found, missed) = self.lookups.get();
            let there = u64::from(shadow.entry().is_some());
            self.lookups.set((found + there, missed + 1 - there));
            return shadow.entry();
        }
        let KeyRef { db, hash, key } = key;
        let position = self.position(db, hash).expect("a command looks only at keys that it declared");
        debug_assert!(self.declares(db, hash), "a command looks at a key that it has not declared");
        let segment = self.held.as_slice()[position].latch.segment();
        let (found, missed) = self.lookups.get();
        match segment.find(hash, key) {
            Some(entry) if !entry.is_expired(self.now) => {
                self.lookups.set((found + 1, missed));
                if self.notes_uses.get() {
                    entry.note_look();
                }
                self.see(entry.lsn());
                Some(entry)
            }
            Some(entry) => {
                self.met_expired.set(true);
                self.lookups.set((found, missed + 1));
                // That its time is over follows from its newest record.
                self.see(entry.lsn());
                None
            }
            None => {
                self.lookups.set((found, missed + 1));
                self.see(segment.removed());
                None
            }
        }
    }

    /// Whether there is nothing at `key`, not even a hash of whose fields all are over: who deletes that
    /// tells so.
    ///
    /// REQUIRES: as `get`.
    pub fn is_gone(&self, db: u8, key: &[u8]) -> bool {
        let key = self.key_ref(db, key);
        if let Some(shadow) = self.overlay.as_ref().and_then(|overlay| overlay.find(key)) {
            return shadow.entry().is_none();
        }
        let position = self.position(key.db, key.hash);
        let position = position.expect("a command looks only at keys that it declared");
        let entry = self.held.as_slice()[position].latch.segment().find(key.hash, key.key);
        entry.is_none_or(|entry| entry.is_expired(self.now) && !entry.is_spent(self.now))
    }

    /// A copy of a latched entry, to be read when the latch is released.
    pub fn copy(&self, entry: &Entry) -> Copied {
        self.store.copy_of(entry)
    }

    /// How many look-ups found a live entry, and how many did not.
    pub fn lookups(&self) -> (u64, u64) {
        self.lookups.get()
    }

    /// Hands the live entry of any key to `look`, latching its segment for that long if it is not held.
    ///
    /// REQUIRES: this command has the store for itself (the gate is closed): else two commands could wait for
    /// each other.
    pub fn peek<T>(&self, db: u8, key: &[u8], look: impl FnOnce(Option<&Entry>) -> T) -> T {
        let found = self.key_ref(db, key);
        let mut below = db;
        if let Some(overlay) = &self.overlay {
            match (overlay.find(found), overlay.below(db)) {
                (Some(shadow), _) => return look(shadow.entry()),
                (None, None) => return look(None),
                (None, Some(other)) => below = other,
            }
        }
        self.with_segment(below, found.hash, |segment| {
            let entry = segment.find(found.hash, key);
            self.see(entry.map_or(segment.removed(), Entry::lsn).max(self.databases.floors[below as usize]));
            let live = entry.filter(|entry| !entry.is_expired(self.now));
            live.filter(|_| self.notes_uses.get()).into_iter().for_each(Entry::note_look);
            look(live)
        })
    }

    /// Deletes those of the latched keys that are expired, and the first fields of hashes that are, so that a
    /// write meets only live entries. Returns of how many keys.
    pub fn expire(&mut self, keys: &[KeyRef<'_>], group: &mut Group) -> Result<usize, CommitError> {
        let may_expire = |held: &Held<'_>| {
            let segment = held.latch.segment();
            segment.expiring() > 0 || segment.timed() > 0
        };
        if !self.held.as_slice().iter().any(may_expire) {
            return Ok(0);
        }
        let (mut over, mut named) = (Vec::new(), HashSet::new());
        for &KeyRef { db, hash, key } in keys {
            let position = self.position(db, hash).expect("keys to expire are latched");
            let entry = self.held.as_slice()[position].latch.segment().find(hash, key);
            let part = entry.and_then(|entry| entry.over(self.now, FIELDS_EXPIRED_MAX));
            // A key may be named twice, and goes once.
            if let Some(part) = part.filter(|_| named.insert((db, key))) {
                over.push(((db, key), part));
            }
        }
        self.delete_over(&over, group)?;
        Ok(over.len())
    }

    /// The entry of a latched key, even if its time is over, without the changes of a transaction.
    fn latched_entry(&self, db: u8, key: &[u8]) -> Option<&Entry> {
        let KeyRef { hash, .. } = self.key_ref(db, key);
        let position = self.position(db, hash)?;
        self.held.as_slice()[position].latch.segment().find(hash, key)
    }

    /// Deletes what is over of latched keys.
    pub(crate) fn delete_over<K: Borrow<[u8]>>(
        &mut self,
        over: &[((u8, K), Over)],
        group: &mut Group,
    ) -> Result<(), CommitError> {
        if over.is_empty() {
            return Ok(());
        }
        let mut batch = Batch::new();
        for ((db, key), part) in over {
            let key: &[u8] = key.borrow();
            let write = |change| Write::Key { db: *db, key: key.into(), change };
            match part {
                Over::Key | Over::AllFields(_) => batch.push(write(Change::Delete)),
                Over::Fields(fields) => {
                    let removals = fields.iter().map(|field| Change::HashRemove { field: (&**field).into() });
                    batch.extend(removals.map(write));
                }
            }
        }
        // That fields go by themselves is no use of their hash.
        let used = over.iter().map(|((db, key), part)| match part {
            Over::Fields(_) => self.latched_entry(*db, key.borrow()).and_then(Entry::used),
            Over::Key | Over::AllFields(_) => None,
        });
        let used: SmallVec<[Option<Use>; 4]> = used.collect();
        let lsn = self.commit(&batch, group)?;
        for (((db, key), _), used) in over.iter().zip(used) {
            let Some(used) = used else { continue };
            self.latched_entry(*db, key.borrow()).into_iter().for_each(|entry| entry.set_used(used));
        }
        for ((db, key), part) in over {
            self.store.expiry().note_expired((*db, key.borrow()), part, lsn);
        }
        Ok(())
    }

    /// Appends `batch` to the log as one atomic group and applies it. Returns the `Lsn` of its last write.
    ///
    /// REQUIRES: the keys are latched for writing. On an error nothing has changed.
    pub fn commit(&mut self, batch: &Batch<'_>, group: &mut Group) -> Result<Lsn, CommitError> {
        let batch = self.with_deletes(batch);
        let (first, readers) = self.store.append(self.databases, &batch, group, self.superseded.is_some())?;
        Ok(self.apply(&batch, first, readers))
    }

    /// As `commit`, for changes of one key that say again what it has: that is no use of it.
    ///
    /// REQUIRES: as `commit`.
    pub(crate) fn commit_again(
        &mut self,
        (db, key): (u8, &[u8]),
        batch: &Batch<'_>,
        group: &mut Group,
    ) -> Result<Lsn, CommitError> {
        let used = self.latched_entry(db, key).and_then(Entry::used);
        let lsn = self.commit(batch, group)?;
        if let (Some(used), Some(entry)) = (used, self.latched_entry(db, key)) {
            entry.set_used(used);
        }
        Ok(lsn)
    }

    /// Applies changes of keys that the log has taken, the first of them as `first`, and keeps what
    /// `readers` still need. Returns the `Lsn` of the last.
    pub(super) fn apply(&mut self, writes: &[Write<'_>], first: Lsn, readers: Readers<'_>) -> Lsn {
        self.at.set(0);
        let mut retired = Retired::default();
        let mut lsn = first;
        // A command that looked at its keys has been counted as a use of them.
        let counts = self.lookups.get() == (0, 0) && usage::tracked() == Tracked::Frequency;
        for write in writes {
            let Write::Key { db, key, change } = write else {
                debug_assert!(false, "databases are flushed and swapped behind a closed gate");
                continue;
            };
            let (key, write) = (self.key_ref(*db, key), Stamped { lsn, change });
            let position = self.position(key.db, key.hash);
            let position = position.expect("a command changes only keys that it declared");
            debug_assert!(
                self.declares(key.db, key.hash),
                "a command changes a key that it has not declared"
            );
            let held = &mut self.held.as_mut_slice()[position];
            let Latch::Write(segment) = &mut held.latch else {
                panic!("a command that writes latches for writing");
            };
            let table = &self.databases.tables[key.db as usize];
            let waiting = table.waiting(readers, key.hash);
            let indexes = &self.databases.indexes[key.db as usize];
            let (effect, fits) = if !indexes.is_empty() {
                let apply = |segment: &mut Segment| segment.apply(key, write, waiting, &mut retired);
                let (applied, kept) = index::maintained(indexes, segment, key, write, apply);
                retired.kept.add_all(kept);
                applied
            } else {
                segment.apply(key, write, waiting, &mut retired)
            };
            debug_assert!(fits, "a command checks the kind before it changes an entry: {change:?}");
            if counts && effect.keys == 0 && matches!(change, Change::Put { .. }) {
                segment.find(key.hash, key.key).into_iter().for_each(Entry::note_look);
            }
            if let Some((_, _, used)) =
                self.given_use.get().filter(|given| (given.0, given.1) == (key.db, key.hash))
            {
                segment.find(key.hash, key.key).into_iter().for_each(|entry| entry.set_used(used));
            }
            if effect.timed < 0 {
                table.note_untimed(lsn);
            }
            table.note(held.index, effect);
            if self.store.rewrite_cursor().concerns(key.hash) {
                let base = segment.find(key.hash, key.key).and_then(Entry::renewable_base);
                self.store.rewrite_cursor().follow(base, change);
            }
            if effect.keys > 0 {
                self.store.watches().note_created(key.db, key.key);
            }
            lsn = lsn.after(1);
        }
        if self.databases.log.is_some() {
            match self.superseded {
                Some(superseded) => superseded.extend(&retired.lsns, self.store.validity()),
                None => self.store.validity().invalidate(&retired.lsns),
            }
        }
        self.store.views().note_kept(retired.kept);
        self.store.discard_values(retired.garbage);
        let last = Lsn(lsn.0 - 1);
        self.see(last);
        last
    }

    /// Tells when the next entry of the one latched segment is due. Used by the expirer and the evictor.
    pub(crate) fn set_due(&mut self, due: Option<UnixMs>) {
        if let [held] = self.held.as_slice() {
            self.databases.tables[held.db as usize].set_due(held.index, due);
        }
    }

    /// Latches one segment by its place, for the expirer; `None` if that would take longer than the limit.
    pub(crate) fn of_segment(
        store: &'s Store,
        databases: &'s Databases,
        (db, index): (u8, usize),
        now: UnixMs,
        limit: Duration,
    ) -> Option<Self> {
        let latch = Latch::Write(databases.tables[db as usize].write_within(index, Some(limit))?);
        let held = Holding::One(Held { db, index, latch });
        Some(Latched::of(store, databases, held, Lsn::ZERO, now, None))
    }

    /// The one latched segment, for the expirer and the evictor.
    pub(crate) fn segment(&self) -> &Segment {
        self.held.as_slice()[0].latch.segment()
    }

    /// Unlatches, then makes tables larger that the latched segments show to be crowded.
    pub fn release(self) {
        let crowded = self.held.as_slice().iter().find_map(|held| {
            let table = &self.databases.tables[held.db as usize];
            table.is_crowded(held.latch.segment().len()).then_some(table)
        });
        drop(self.held);
        if let Some(table) = crowded {
            // A segment for each few hundred keys keeps pace even when a command inserted many.
            table.grow(4);
        }
    }
}
