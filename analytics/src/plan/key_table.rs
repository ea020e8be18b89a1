//! A table over keys, as the planner sees it.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider, TableProviderFactory};
use datafusion::common::stats::Precision;
use datafusion::common::{Result, Statistics};
use datafusion::logical_expr::{CreateExternalTable, Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;

use crate::error::QueryError;
use crate::plan::access::Access;
use crate::plan::estimate;
use crate::plan::scan::{KeyScan, Wanted};
use crate::rights::{Keys, TableKeys};
use crate::statement::scan_context::ScanContext;
use crate::statement::store::StoreHandle;
use crate::table::condition::{all_of, asked_by};
use crate::table::declaration::Declaration;
use crate::table::index::TableIndex;

/// A table over keys.
pub(crate) struct KeyTable {
    name: String,
    declaration: Arc<Declaration>,
    indexes: Arc<[Arc<TableIndex>]>,
    store: Arc<StoreHandle>,
    /// Whether it leaves out keys that the user of a statement must not read. Others are not read at all by
    /// who must not read all of their keys.
    leaves_out: bool,
}

impl KeyTable {
    /// A table of this name, of the keys of a store.
    pub(crate) fn new(name: String, declaration: Arc<Declaration>, store: Arc<StoreHandle>) -> KeyTable {
        KeyTable { name, declaration, indexes: Arc::new([]), store, leaves_out: false }
    }

    /// The same table, but of those of its keys that the user of a statement may read.
    pub(crate) fn of_visible_keys(self) -> KeyTable {
        KeyTable { leaves_out: true, ..self }
    }

    /// The same table, with these indexes.
    pub(crate) fn with_indexes(&self, indexes: Vec<Arc<TableIndex>>) -> KeyTable {
        let (name, declaration, store) = (self.name.clone(), self.declaration.clone(), self.store.clone());
        KeyTable { name, declaration, indexes: indexes.into(), store, leaves_out: self.leaves_out }
    }

    /// Its keys, as rights are about them.
    pub(crate) fn keys(&self) -> TableKeys {
        let keys = if self.leaves_out { Keys::Visible } else { keys_of(&self.declaration) };
        TableKeys { table: self.name.clone(), keys, database: self.declaration.database }
    }

    /// Its indexes.
    pub(crate) fn indexes(&self) -> &[Arc<TableIndex>] {
        &self.indexes
    }

    /// Whether there is an index on a column that can be read.
    pub(crate) fn has_index_on(&self, column: &str) -> bool {
        let Some(engine) = self.store.engine() else { return false };
        let is_it = |index: &&Arc<TableIndex>| index.column_name() == column;
        self.indexes.iter().filter(is_it).any(|index| index.ready(&engine).is_some())
    }

    /// Its declaration.
    pub(crate) fn declaration(&self) -> &Arc<Declaration> {
        &self.declaration
    }
}

/// All keys of a declaration.
pub(crate) fn keys_of(declaration: &Declaration) -> Keys {
    let (prefix, suffix) = declaration.pattern.ends();
    Keys::Between(prefix.into(), suffix.into())
}

impl fmt::Debug for KeyTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyTable: {}", self.name)
    }
}

#[async_trait]
impl TableProvider for KeyTable {
    fn schema(&self) -> SchemaRef {
        self.declaration.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let engine = self.store.engine().ok_or(QueryError::Loading)?;
        let context = ScanContext::of(state)?;
        let visible = context.grant.scan(self.keys()).map_err(QueryError::from)?;
        let all = || (0..self.declaration.sources.len()).collect();
        let projection = projection.cloned().unwrap_or_else(all);
        let declaration = self.declaration.clone();
        let conditions = all_of(filters, &declaration.schema);
        let threads = state.config().target_partitions();
        let mut access = Access::of(&declaration, &conditions, &self.indexes, &engine, threads);
        if access.asks_for_missing_fields() && context.instant.may_be_timed(declaration.database) {
            access = Access::of(&declaration, &conditions, &[], &engine, threads);
        }
        let (table, indexes) = (self.name.clone(), self.indexes.clone());
        let wanted = Wanted { table, declaration, visible, projection, conditions, limit, access, indexes };
        Ok(Arc::new(KeyScan::new(engine, &context, wanted)?))
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let schema = &self.declaration.schema;
        let of = |filter: &&Expr| match asked_by(filter, schema) {
            Some(asked) if asked.exact => TableProviderFilterPushDown::Exact,
            Some(_) => TableProviderFilterPushDown::Inexact,
            None => TableProviderFilterPushDown::Unsupported,
        };
        Ok(filters.iter().map(of).collect())
    }

    fn statistics(&self) -> Option<Statistics> {
        let rows = estimate::rows_of(&self.declaration, &self.indexes, &*self.store.engine()?);
        let mut statistics = Statistics::new_unknown(&self.declaration.schema);
        statistics.num_rows = Precision::Inexact(rows);
        Some(statistics)
    }
}

/// Makes tables of `CREATE EXTERNAL TABLE`.
#[derive(Debug)]
pub(crate) struct KeyTables(pub Arc<StoreHandle>);

#[async_trait]
impl TableProviderFactory for KeyTables {
    async fn create(
        &self,
        _: &dyn Session,
        statement: &CreateExternalTable,
    ) -> Result<Arc<dyn TableProvider>> {
        let declaration =
            Declaration::of_statement(statement, self.0.databases()).map_err(QueryError::from)?;
        let name = statement.name.table().to_owned();
        Ok(Arc::new(KeyTable::new(name, Arc::new(declaration), self.0.clone())))
    }
}
