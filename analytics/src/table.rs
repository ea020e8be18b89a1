//! A table over keys, as the planner sees it.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider, TableProviderFactory};
use datafusion::common::stats::Precision;
use datafusion::common::{Result, Statistics};
use datafusion::logical_expr::{CreateExternalTable, Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;

use super::declaration::Declaration;
use super::error::QueryError;
use super::scan::{KeyScan, Wanted};
use super::session::{Current, Store};

/// A table over keys.
pub struct KeyTable {
    name: String,
    declaration: Arc<Declaration>,
    store: Arc<Store>,
}

impl KeyTable {
    /// A table of this name, of the keys of a store.
    pub fn new(name: String, declaration: Arc<Declaration>, store: Arc<Store>) -> KeyTable {
        KeyTable { name, declaration, store }
    }

    /// What it is.
    pub fn declaration(&self) -> &Arc<Declaration> {
        &self.declaration
    }
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
        _filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let engine = self.store.engine().ok_or(QueryError::Loading)?;
        let (instant, query) = Current::of(state)?;
        let all = || (0..self.declaration.sources.len()).collect();
        let projection = projection.cloned().unwrap_or_else(all);
        let planned = instant.plan(self.declaration.database);
        let wanted = Wanted { declaration: self.declaration.clone(), projection, limit };
        Ok(Arc::new(KeyScan::new(self.name.clone(), engine, planned, query, wanted)?))
    }

    fn statistics(&self) -> Option<Statistics> {
        let keys = self.store.engine()?.keyspace().get(usize::from(self.declaration.database))?.0;
        let mut statistics = Statistics::new_unknown(&self.declaration.schema);
        statistics.num_rows = Precision::Inexact(keys);
        Some(statistics)
    }
}

/// Makes tables of `CREATE EXTERNAL TABLE`.
#[derive(Debug)]
pub struct KeyTables(pub Arc<Store>);

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
