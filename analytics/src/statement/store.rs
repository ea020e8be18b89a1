//! The store, from before it is loaded: finds the engine, and reports which changes may be shown.

use std::fmt;
use std::sync::{Arc, OnceLock};

use tarn_engine::Engine;
use tarn_engine::record::Lsn;

use crate::error::QueryError;
use crate::statement::durability::{MayShow, until_shown};

/// Finds the engine; `None` while the store is being loaded.
type Find = Box<dyn Fn() -> Option<Arc<Engine>> + Send + Sync>;

/// A handle of the store, which may be there before the store is loaded.
pub(crate) struct StoreHandle {
    find: OnceLock<Find>,
    may_show: OnceLock<Box<MayShow>>,
    databases: usize,
}

impl StoreHandle {
    /// A handle that finds no store until [`StoreHandle::read_from`].
    pub(crate) fn new(databases: usize) -> StoreHandle {
        StoreHandle { find: OnceLock::new(), may_show: OnceLock::new(), databases }
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
