//! The outcome of a statement: its tag, its columns, and a stream of its rows.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;

use crate::rights::{Denied, Grant};

/// The outcome of a statement.
pub struct Outcome {
    /// The command tag: `SELECT`, `CREATE TABLE` and so on.
    pub tag: &'static str,
    /// The number of rows that the statement processed, if it does not return them.
    pub count: Option<usize>,
    /// The columns.
    pub schema: SchemaRef,
    /// The rows, each batch made when it is polled.
    pub rows: SendableRecordBatchStream,
    /// The right to the rows, which may end before they do; `None`: they show no keys.
    pub(crate) grant: Option<Arc<Grant>>,
}

impl Outcome {
    /// One batch as an outcome.
    pub(crate) fn of(tag: &'static str, batch: RecordBatch) -> Outcome {
        let schema = batch.schema();
        let rows = futures::stream::once(async { Ok(batch) });
        Outcome {
            tag,
            count: None,
            rows: Box::pin(RecordBatchStreamAdapter::new(schema.clone(), rows)),
            schema,
            grant: None,
        }
    }

    /// Whether the rows may be shown still.
    pub(crate) fn check(&self) -> Result<(), Denied> {
        self.grant.as_ref().map_or(Ok(()), |grant| grant.check())
    }

    /// An outcome without rows and columns.
    pub(crate) fn nothing(tag: &'static str) -> Outcome {
        Outcome::of(tag, RecordBatch::new_empty(Arc::new(Schema::empty())))
    }
}
