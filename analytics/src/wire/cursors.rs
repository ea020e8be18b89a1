//! The cursors of a connection: the columns of each, so that a prepared `FETCH` can be described, and the
//! format in which they are sent.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use datafusion::arrow::datatypes::Schema;
use datafusion::common::DFSchema;
use datafusion::logical_expr::{EmptyRelation, LogicalPlan};
use datafusion_postgres::pgwire::api::portal::Format;
use datafusion_postgres::pgwire::error::PgWireResult;

use super::reply::{IsBinary, coded, refusal};
use crate::error::QueryError;

/// The number of cursors that are remembered. There are never as many at once (`limits.rs`).
const CURSORS_MAX: usize = 512;

/// Cursors by their names.
#[derive(Default)]
pub(super) struct Cursors(pub HashMap<String, (LogicalPlan, IsBinary)>);

impl Cursors {
    /// A cursor is opened.
    pub(super) fn open(&mut self, name: &str, schema: &Schema, is_binary: IsBinary) -> PgWireResult<()> {
        if self.0.len() >= CURSORS_MAX {
            self.0.clear();
        }
        let schema = DFSchema::try_from(schema.clone()).map_err(|error| refusal(QueryError::from(error)))?;
        let plan =
            LogicalPlan::EmptyRelation(EmptyRelation { produce_one_row: false, schema: Arc::new(schema) });
        self.0.insert(name.to_owned(), (plan, is_binary));
        Ok(())
    }

    /// A plan with the columns of a cursor.
    pub(super) fn described(&self, name: &str) -> Option<LogicalPlan> {
        self.0.get(name).map(|(plan, _)| plan.clone())
    }

    /// Rows of a cursor are wanted in a format.
    pub(super) fn fetch(&self, name: &str, format: &Format) -> PgWireResult<()> {
        let Some((_, is_binary)) = self.0.get(name) else { return Ok(()) };
        let wants_binary = match format {
            Format::UnifiedText => false,
            Format::UnifiedBinary => true,
            Format::Individual(each) if each.iter().all(|format| *format == 0) => false,
            Format::Individual(each) if each.iter().all(|format| *format == 1) => true,
            Format::Individual(_) => {
                return Err(coded("0A000", "FETCH with columns in different formats is not there yet"));
            }
        };
        is_binary.store(wants_binary, Ordering::Relaxed);
        Ok(())
    }
}
