//! The schema `pg_catalog`: the library's tables, and additions that clients expect.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use async_trait::async_trait;
use datafusion::arrow::array::{
    ArrayRef, Int32Array, RecordBatch, StringArray, TimestampNanosecondArray, new_null_array,
};
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::catalog::{MemTable, SchemaProvider, Session, TableProvider};
use datafusion::common::{Result, ScalarValue};
use datafusion::datasource::{ViewTable, provider_as_source};
use datafusion::logical_expr::{Expr, LogicalPlanBuilder, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::{ident, lit};

use crate::catalog::settings::DATABASE;
use crate::statement::activity::Texts;
use crate::statement::query::{Queries, Query};
use crate::statement::scan_context::ScanContext;

/// The table of statements that run.
const ACTIVITY: &str = "pg_stat_activity";

/// Columns of `pg_class` that the library leaves out: nobody has privileges or options of a table.
const COLUMNS: [&str; 2] = ["relacl", "reloptions"];

/// The settings that clients ask for, as PostgreSQL has them.
const SETTINGS: [(&str, &str); 2] = [("max_index_keys", "32"), ("standard_conforming_strings", "on")];

/// The schema, over that of the library, with the statements that run.
pub(crate) struct System(pub Arc<dyn SchemaProvider>, pub Arc<Queries>);

impl fmt::Debug for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pg_catalog over {:?}", self.0)
    }
}

#[async_trait]
impl SchemaProvider for System {
    fn table_names(&self) -> Vec<String> {
        let mut names = self.0.table_names();
        if !self.0.table_exist(ACTIVITY) {
            names.push(ACTIVITY.to_owned());
        }
        names
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if name == ACTIVITY {
            return Ok(Some(Arc::new(Activity::of(self.1.clone())?)));
        }
        let Some(table) = self.0.table(name).await? else { return Ok(None) };
        Ok(Some(match name {
            "pg_class" => classes(&table)?,
            "pg_settings" => settings(&*table)?,
            _ => table,
        }))
    }

    fn table_exist(&self, name: &str) -> bool {
        name == ACTIVITY || self.0.table_exist(name)
    }
}

/// `pg_stat_activity`: the statements that run when it is read, with the texts that its reader may know.
struct Activity {
    queries: Arc<Queries>,
    schema: SchemaRef,
}

impl Activity {
    fn of(queries: Arc<Queries>) -> Result<Activity> {
        let schema = rows_of(&[], &|_| String::new())?.schema();
        Ok(Activity { queries, schema })
    }
}

impl fmt::Debug for Activity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(ACTIVITY)
    }
}

#[async_trait]
impl TableProvider for Activity {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
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
        let context = ScanContext::of(state)?;
        let texts = Texts::for_user_of(context.query.owner());
        let rows = rows_of(&self.queries.running(), &|query| texts.of(query))?;
        let table = MemTable::try_new(self.schema.clone(), vec![vec![rows]])?;
        table.scan(state, projection, filters, limit).await
    }
}

/// Statements as rows, each with the text that `text` gives it.
fn rows_of(running: &[Arc<Query>], text: &dyn Fn(&Query) -> String) -> Result<RecordBatch> {
    let texts = |of: &dyn Fn(&Query) -> Option<String>| -> ArrayRef {
        Arc::new(running.iter().map(|query| of(query)).collect::<StringArray>())
    };
    let none = || texts(&|_| None);
    let pids: ArrayRef = Arc::new(running.iter().map(|query| Some(query.pid())).collect::<Int32Array>());
    let zeros: ArrayRef = Arc::new(running.iter().map(|_| Some(0)).collect::<Int32Array>());
    let now =
        chrono::DateTime::<chrono::Utc>::from(SystemTime::now()).naive_utc().and_utc().timestamp_nanos_opt();
    let begun = running.iter().map(|query| {
        let age = i64::try_from(query.age().as_nanos()).unwrap_or(i64::MAX);
        now.and_then(|now| now.checked_sub(age))
    });
    let begun: ArrayRef = Arc::new(begun.collect::<TimestampNanosecondArray>().with_timezone("+00:00"));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("datid", zeros.clone()),
        ("datname", texts(&|_| Some(DATABASE.to_owned()))),
        ("pid", pids),
        ("leader_pid", new_null_array(&DataType::Int32, running.len())),
        ("usesysid", zeros),
        ("usename", texts(&|query| Some(query.owner().whose.name().unwrap_or("default").to_owned()))),
        ("application_name", texts(&|_| Some(String::new()))),
        ("client_addr", none()),
        ("client_hostname", none()),
        ("client_port", new_null_array(&DataType::Int32, running.len())),
        ("backend_start", begun.clone()),
        ("xact_start", begun.clone()),
        ("query_start", begun.clone()),
        ("state_change", begun),
        ("wait_event_type", none()),
        ("wait_event", none()),
        ("state", texts(&|_| Some("active".to_owned()))),
        ("backend_xid", none()),
        ("backend_xmin", none()),
        ("query_id", new_null_array(&DataType::Int64, running.len())),
        ("query", texts(&|query| Some(text(query)))),
        ("backend_type", texts(&|_| Some("client backend".to_owned()))),
    ];
    Ok(RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, column)| (name, column, true)),
    )?)
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
