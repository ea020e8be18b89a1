//! The indexes that declarations ask for, from before the store is loaded.

use std::sync::Arc;

use tarn_engine::IndexError;
use tarn_engine::declared::WantedIndexes;

use crate::error::QueryError;
use crate::statement::store::StoreHandle;
use crate::table::index::TableIndex;

/// Makes and drops indexes in a store, and remembers those that are wanted before it is loaded.
pub(crate) struct RequestedIndexes {
    store: Arc<StoreHandle>,
    wanted: WantedIndexes<TableIndex>,
}

impl RequestedIndexes {
    /// No indexes yet.
    pub(crate) fn new(store: Arc<StoreHandle>) -> RequestedIndexes {
        RequestedIndexes { store, wanted: WantedIndexes::default() }
    }

    /// Makes an index, or remembers it until the store is loaded.
    pub(crate) fn want(&self, index: Arc<TableIndex>) -> Result<(), QueryError> {
        self.make_all();
        Ok(self.wanted.want(index, || self.store.engine())?)
    }

    /// Drops an index.
    pub(crate) fn drop(&self, index: &TableIndex) {
        self.wanted.want_no_more(index, || self.store.engine());
    }

    /// If the store is loaded now, makes the indexes that were requested before. Only the first call after
    /// the load does so.
    pub(crate) fn make_all(&self) {
        let failed = |index: &TableIndex, error: IndexError| {
            tracing::error!("The index {} is not there: {error}", index.name);
        };
        self.wanted.make_all(|| self.store.engine(), failed);
    }
}
