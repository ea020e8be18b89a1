//! The table: entries by key, in shards of some hundreds, each of which has a latch.

use std::collections::HashMap;
use std::sync::PoisonError;

use crate::sync::{Mutex, MutexGuard};

use super::positions::Position;

/// Entries of a shard, about.
const SHARD_ENTRIES: usize = 256;

#[derive(Debug)]
pub(super) struct Entry {
    pub value: Box<[u8]>,
    /// paper: `log_pos`.
    pub position: Position,
}

#[derive(Debug, Default)]
pub(super) struct Shard<S> {
    pub entries: HashMap<u64, Entry>,
    /// That of the positions.
    pub own: S,
}

#[derive(Debug)]
pub(super) struct Table<S> {
    shards: Vec<Mutex<Shard<S>>>,
}

impl<S: Default> Table<S> {
    /// A table for about so many entries.
    pub(super) fn new(entries: usize) -> Table<S> {
        let shard = || Mutex::new(Shard { entries: HashMap::new(), own: S::default() });
        Table { shards: (0..=entries / SHARD_ENTRIES).map(|_| shard()).collect() }
    }

    /// Latches the shard of a key.
    pub(super) fn latch(&self, key: u64) -> MutexGuard<'_, Shard<S>> {
        let hash = key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        lock(&self.shards[((hash * self.shards.len() as u64) >> 32) as usize])
    }

    /// Latches the shard of this number, if there is one.
    pub(super) fn latch_shard(&self, number: usize) -> Option<MutexGuard<'_, Shard<S>>> {
        self.shards.get(number).map(lock)
    }
}

/// Locks. A thread that panicked with the lock has left nothing half done that others rely on: each write is
/// complete in the log before it is in the table.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
