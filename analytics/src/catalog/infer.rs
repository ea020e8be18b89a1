//! `infer('user:*')`: a table function of one row, the declaration that would fit a sample of those keys.
//!
//! The sample is taken from one view in the order of the table, which is that of the hashes of keys, so it is
//! a random one. It ends after a limited number of keys of the pattern, or of all keys.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{ArrayRef, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::{Session, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use tarn_engine::{END, Engine, Entry};

use crate::error::QueryError;
use crate::rights::{Keys, TableKeys};
use crate::statement::instant::{Needs, Planned};
use crate::statement::query::Query;
use crate::statement::scan_context::ScanContext;
use crate::statement::store::StoreHandle;
use crate::table::declaration::Pattern;
use crate::table::sample::Sample;

/// Keys of the pattern that are looked at.
const KEYS_MAX: u64 = 10_000;
/// Keys that are passed, of the pattern or not.
const VISITED_MAX: u64 = 1_000_000;

/// The function.
#[derive(Debug)]
pub(crate) struct Infer(pub Arc<StoreHandle>);

impl TableFunctionImpl for Infer {
    fn call_with_args(&self, arguments: TableFunctionArgs<'_, '_>) -> Result<Arc<dyn TableProvider>> {
        let text = match arguments.exprs().first() {
            Some(Expr::Literal(value, _)) => value.try_as_str().flatten().map(str::to_owned),
            _ => None,
        };
        let database = match arguments.exprs().get(1..).unwrap_or_default() {
            [] => Some(0),
            [Expr::Literal(ScalarValue::Int64(Some(database)), _)] => u8::try_from(*database).ok(),
            _ => None,
        };
        let database = database.filter(|database| usize::from(*database) < self.0.databases());
        let (Some(text), Some(database)) = (text, database) else {
            return plan_err!(
                "infer takes a key pattern such as 'user:*', and may take the number of a database"
            );
        };
        let pattern: Pattern = text.parse().map_err(QueryError::from)?;
        let schema = Arc::new(Schema::new(vec![Field::new("declaration", DataType::Utf8, false)]));
        Ok(Arc::new(Proposed { store: self.0.clone(), text, pattern, database, schema }))
    }
}

/// The row of such a call.
#[derive(Debug)]
pub(crate) struct Proposed {
    store: Arc<StoreHandle>,
    text: String,
    pattern: Pattern,
    database: u8,
    schema: SchemaRef,
}

impl Proposed {
    /// The keys that it takes its sample of.
    pub(crate) fn keys(&self) -> TableKeys {
        let (prefix, suffix) = self.pattern.ends();
        let keys = Keys::Between(prefix.into(), suffix.into());
        TableKeys { table: "infer".to_owned(), keys, database: self.database }
    }
}

#[async_trait]
impl TableProvider for Proposed {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let engine = self.store.engine().ok_or(QueryError::Loading)?;
        let ScanContext { instant, query, grant, .. } = &*ScanContext::of(state)?;
        grant.scan(self.keys()).map_err(QueryError::from)?;
        let sampler = Sampler {
            engine,
            planned: Arc::new(instant.plan(self.database, Needs::Walk((0, 1)))),
            query: query.clone(),
            text: self.text.clone(),
            pattern: self.pattern.clone(),
            database: self.database,
            schema: self.schema.clone(),
        };
        let parts: Vec<Arc<dyn PartitionStream>> = vec![Arc::new(sampler)];
        let plan = StreamingTableExec::try_new(self.schema.clone(), parts, projection, [], false, limit)?;
        Ok(Arc::new(plan))
    }
}

/// Takes the sample.
#[derive(Clone)]
struct Sampler {
    engine: Arc<Engine>,
    planned: Arc<Planned>,
    query: Arc<Query>,
    text: String,
    pattern: Pattern,
    database: u8,
    schema: SchemaRef,
}

impl fmt::Debug for Sampler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sampler: {}", self.text)
    }
}

impl PartitionStream for Sampler {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let (sampler, schema) = (self.clone(), self.schema.clone());
        let row = futures::stream::once(async move {
            let declaration: ArrayRef = Arc::new(StringArray::from(vec![sampler.propose().await?]));
            Ok(RecordBatch::try_new(sampler.schema.clone(), vec![declaration])?)
        });
        Box::pin(RecordBatchStreamAdapter::new(schema, row))
    }
}

impl Sampler {
    async fn propose(&self) -> Result<String, QueryError> {
        let mut reading = self.planned.read(&self.engine).await?;
        let mut sample = Sample::new(&self.text, self.pattern.clone(), self.database);
        let (mut visited, mut at) = (0, Some(0));
        while at.is_some() && sample.len() < KEYS_MAX && visited < VISITED_MAX {
            if let Some(reason) = self.query.stopped() {
                return Err(reason);
            }
            // Within a part they are only taken, which shares what is long.
            let (now, mut taken) = (reading.now, Vec::new());
            let mut take = |entry: &Entry| {
                visited += 1;
                if self.pattern.varying(entry.key()).is_some() && !entry.is_expired(now) {
                    taken.push(entry.clone());
                }
            };
            at = match (reading.once(), at) {
                (Some(view), _) => view.step(&mut take)?.map(|part| part.end),
                (None, Some(from)) => reading.view().read_at(self.database, from..END, &mut take)?,
                (None, None) => None,
            };
            taken.iter().for_each(|entry| sample.add(entry));
            // Others have their turn.
            tokio::task::yield_now().await;
        }
        let found = sample.len();
        let mut said = vec![format!("{found} keys of '{}' were looked at", self.text)];
        if at.is_some() && visited >= VISITED_MAX {
            said.push(format!("the search ended after {visited} keys: there may be more of them"));
        } else if at.is_some() {
            said.push(format!("these are a sample: {visited} keys were passed, and there are more"));
        }
        if found == 0 {
            said.push("there is nothing to declare".to_owned());
        }
        Ok(sample.proposal(&said))
    }
}
