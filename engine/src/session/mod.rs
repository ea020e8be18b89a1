//! A thread's access to the keys: through the gate, then by latching the segments of the keys it names.
//!
//! ```text
//!   enter(worker) ──> Session ──latch(keys)──> Latched ──commit(batch)──> appended, applied, unlatched
//!   close_gate()  ──> Exclusive: every worker is out; databases may be flushed and swapped
//! ```
//!
//! The gate is one reader-writer lock per thread, so that entering costs no shared cache line; a thread that
//! needs the store alone takes them all, in order. Order of everything that is locked: gate, segments by
//! (database, index), the log's appender.

mod emptied;
mod exclusive;
mod indexes;
mod keyspace;
mod latched;
mod superseded;
mod transaction;

use crate::lock::{RwLockReadGuard, rank};
use crate::record::UnixMs;
pub use crate::store::Copied;
use crate::store::{Databases, Store};
use crate::table::{KeyHash, KeyRef};
pub use exclusive::Exclusive;
pub use latched::{Access, Latched};
use std::time::Duration;
use superseded::Superseded;

/// A worker inside the gate.
pub struct Session<'e> {
    store: &'e Store,
    databases: RwLockReadGuard<'e, Databases, rank::Gate>,
    superseded: Superseded,
    /// Whether what it commits is sent off at its end.
    departs: bool,
}

impl<'e> Session<'e> {
    pub(crate) fn new(
        store: &'e Store,
        databases: RwLockReadGuard<'e, Databases, rank::Gate>,
        departs: bool,
    ) -> Session<'e> {
        Session { store, databases, superseded: Superseded::default(), departs }
    }

    /// Latches the segments of `keys`. With `Access::Write`, keys among them that are expired are deleted
    /// first.
    pub fn latch<'s>(&'s self, keys: &'s [KeyRef<'s>], access: Access, now: UnixMs) -> Latched<'s> {
        self.latch_within(keys, access, now, None).expect("it waits as long as it takes")
    }

    /// As `latch`; `None` if one of the latches would take longer than the limit.
    #[inline(always)]
    pub fn latch_within<'s>(
        &'s self,
        keys: &'s [KeyRef<'s>],
        access: Access,
        now: UnixMs,
        limit: Option<Duration>,
    ) -> Option<Latched<'s>> {
        let mut latched = Latched::within(self.store, &self.databases, keys, access, now, limit)?;
        latched.superseded = Some(&self.superseded);
        Some(latched)
    }

    /// As `latch`, where only the places of keys are at hand: each look-up hashes its key, unless
    /// [`Latched::know`] tells the hashes.
    pub fn latch_places<'s>(&'s self, places: &[(u8, KeyHash)], access: Access, now: UnixMs) -> Latched<'s> {
        self.latch_places_within(places, access, now, None).expect("it waits as long as it takes")
    }

    /// As `latch_places`; `None` if one of the latches would take longer than the limit.
    pub fn latch_places_within<'s>(
        &'s self,
        places: &[(u8, KeyHash)],
        access: Access,
        now: UnixMs,
        limit: Option<Duration>,
    ) -> Option<Latched<'s>> {
        let mut latched = Latched::of_places(self.store, &self.databases, places, access, now, limit)?;
        latched.superseded = Some(&self.superseded);
        Some(latched)
    }

    /// The databases as this worker sees them.
    pub(crate) fn databases(&self) -> &Databases {
        &self.databases
    }

    /// Whether a look at a key of a database waits for memory: a core's own cache does not hold its entries.
    pub fn is_beyond_cache(&self, db: u8) -> bool {
        self.databases.tables[db as usize].is_beyond_cache()
    }

    /// Brings the entries of keys with these hashes into the processor's cache.
    pub fn fetch(&self, db: u8, hashes: impl Iterator<Item = KeyHash>) {
        self.databases.tables[db as usize].fetch(hashes);
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        self.superseded.mark(self.store.validity());
        if let (true, Some(log)) = (self.departs, &self.databases.log) {
            log.depart();
        }
    }
}
