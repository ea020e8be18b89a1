//! The store, from before it is loaded: finds the engine, and reports which changes may be shown, and whether
//! keys may be changed.

use std::fmt;
use std::sync::{Arc, OnceLock};

use tarn_engine::Engine;
use tarn_engine::record::Lsn;

use crate::error::QueryError;
use crate::statement::durability::{MayShow, until_shown};

/// Finds the engine; `None` while the store is being loaded.
type Find = Box<dyn Fn() -> Option<Arc<Engine>> + Send + Sync>;

/// The rules of a server for changes of keys that are made here, and not by its commands.
pub trait Changes: Send + Sync {
    /// Whether keys may be changed now; if not, they may later.
    fn may_change(&self) -> bool;

    /// Tells those who keep copies of these keys that they have been changed, the last as `lsn`. Called while
    /// the keys are latched.
    fn tell(&self, keys: &[&[u8]], lsn: Lsn);

    /// Counts so many changes, which have been made.
    fn count(&self, changes: usize);
}

/// A handle of the store, which may be there before the store is loaded.
pub(crate) struct StoreHandle {
    find: OnceLock<Find>,
    may_show: OnceLock<Box<MayShow>>,
    changes: OnceLock<Box<dyn Changes>>,
    databases: usize,
}

impl StoreHandle {
    /// A handle that finds no store until [`StoreHandle::read_from`].
    pub(crate) fn new(databases: usize) -> StoreHandle {
        let (find, may_show, changes) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        StoreHandle { find, may_show, changes, databases }
    }

    /// Sets how the engine is found. REQUIRES: it is called once.
    pub(crate) fn read_from(&self, find: impl Fn() -> Option<Arc<Engine>> + Send + Sync + 'static) {
        let is_first = self.find.set(Box::new(find)).is_ok();
        debug_assert!(is_first, "there is one store");
    }

    /// Sets which changes may be shown; without it all may. REQUIRES: it is called once.
    pub(crate) fn show_by(&self, may_show: impl Fn(Lsn) -> Result<bool, String> + Send + Sync + 'static) {
        let is_first = self.may_show.set(Box::new(may_show)).is_ok();
        debug_assert!(is_first, "one decides what is shown");
    }

    /// Sets the rules for changes; without them keys may be changed at any time. REQUIRES: it is called once.
    pub(crate) fn change_by(&self, changes: impl Changes + 'static) {
        let is_first = self.changes.set(Box::new(changes)).is_ok();
        debug_assert!(is_first, "one decides about changes");
    }

    /// The engine, unless the store is being loaded.
    pub(crate) fn engine(&self) -> Option<Arc<Engine>> {
        self.find.get().and_then(|find| find())
    }

    /// Whether changes up to `lsn` may be shown; an error says why they cannot become durable for now.
    pub(crate) fn may_show(&self, lsn: Lsn) -> Result<bool, String> {
        self.may_show.get().map_or(Ok(true), |may_show| may_show(lsn))
    }

    /// Waits until changes up to `lsn` may be shown.
    pub(crate) async fn until_shown(&self, lsn: Lsn) -> Result<(), QueryError> {
        match self.may_show.get() {
            Some(may_show) => until_shown(may_show, lsn).await,
            None => Ok(()),
        }
    }

    /// Whether keys may be changed now; if not, they may later.
    pub(crate) fn may_change(&self) -> bool {
        self.changes.get().is_none_or(|changes| changes.may_change())
    }

    /// Tells of changed keys, as [`Changes::tell`]. REQUIRES: they are latched still.
    pub(crate) fn tell_changed(&self, keys: &[&[u8]], lsn: Lsn) {
        if let Some(changes) = self.changes.get() {
            changes.tell(keys, lsn);
        }
    }

    /// Counts changes of keys that have been made.
    pub(crate) fn count_changes(&self, number: usize) {
        if let Some(changes) = self.changes.get() {
            changes.count(number);
        }
    }

    /// Number of logical databases.
    pub(crate) fn databases(&self) -> usize {
        self.databases
    }
}

impl fmt::Debug for StoreHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a store of {} databases", self.databases)
    }
}
