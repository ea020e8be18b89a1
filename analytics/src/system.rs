//! The schema `pg_catalog`: the library's tables, and what clients look for in them beyond that.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{ArrayRef, RecordBatch, StringArray, new_null_array};
use datafusion::catalog::{MemTable, SchemaProvider, TableProvider};
use datafusion::common::{Result, ScalarValue};
use datafusion::datasource::{ViewTable, provider_as_source};
use datafusion::logical_expr::LogicalPlanBuilder;
use datafusion::prelude::{ident, lit};

/// Columns of `pg_class` that the library leaves out: nobody has privileges or options of a table.
const COLUMNS: [&str; 2] = ["relacl", "reloptions"];

/// The settings that clients ask for, as PostgreSQL has them.
const SETTINGS: [(&str, &str); 2] = [("max_index_keys", "32"), ("standard_conforming_strings", "on")];

/// The schema, over that of the library.
#[derive(Debug)]
pub struct System(pub Arc<dyn SchemaProvider>);

#[async_trait]
impl SchemaProvider for System {
    fn table_names(&self) -> Vec<String> {
        self.0.table_names()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let Some(table) = self.0.table(name).await? else { return Ok(None) };
        Ok(Some(match name {
            "pg_class" => classes(&table)?,
            "pg_settings" => settings(&*table)?,
            _ => table,
        }))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.0.table_exist(name)
    }
}

fn classes(table: &Arc<dyn TableProvider>) -> Result<Arc<dyn TableProvider>> {
    let schema = table.schema();
    let known = schema.fields().iter().map(|field| ident(field.name()));
    let absent = COLUMNS.map(|name| lit(ScalarValue::Utf8(None)).alias(name));
    let plan = LogicalPlanBuilder::scan("pg_class", provider_as_source(table.clone()), None)?
        .project(known.chain(absent))?
        .build()?;
    Ok(Arc::new(ViewTable::new(plan, None)))
}

fn settings(table: &dyn TableProvider) -> Result<Arc<dyn TableProvider>> {
    let schema = table.schema();
    let columns = schema.fields().iter().map(|field| -> ArrayRef {
        match field.name().as_str() {
            "name" => Arc::new(StringArray::from_iter_values(SETTINGS.map(|(name, _)| name))),
            "setting" => Arc::new(StringArray::from_iter_values(SETTINGS.map(|(_, setting)| setting))),
            _ => new_null_array(field.data_type(), SETTINGS.len()),
        }
    });
    let rows = RecordBatch::try_new(schema.clone(), columns.collect())?;
    Ok(Arc::new(MemTable::try_new(schema, vec![vec![rows]])?))
}
