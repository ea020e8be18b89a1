//! What a statement answers, as the protocol has it.

use std::iter;
use std::sync::Arc;

use datafusion::error::DataFusionError;
use datafusion::sql::sqlparser::parser::ParserError;
use datafusion_postgres::arrow_pg::datatypes::{arrow_schema_to_pg_fields, encode_recordbatch};
use datafusion_postgres::pgwire::api::portal::Format;
use datafusion_postgres::pgwire::api::results::{QueryResponse, Response, Tag};
use datafusion_postgres::pgwire::error::{ErrorInfo, PgWireError, PgWireResult};
use datafusion_postgres::pgwire::messages::data::DataRow;
use datafusion_postgres::pgwire::types::format::FormatOptions;
use futures::StreamExt;
use futures::stream;

use crate::error::{QueryError, sqlstate};
use crate::session::Outcome;

/// An answer with its rows in a format.
pub fn response(outcome: Outcome, format: &Format, options: FormatOptions) -> PgWireResult<Response> {
    if outcome.schema.fields().is_empty() && outcome.tag != "SELECT" {
        return Ok(Response::Execution(Tag::new(outcome.tag)));
    }
    let fields = Arc::new(arrow_schema_to_pg_fields(&outcome.schema, format, Some(Arc::new(options)))?);
    let of_rows = fields.clone();
    let rows = outcome.rows.flat_map(move |batch| {
        let rows: Box<dyn Iterator<Item = PgWireResult<DataRow>> + Send + Sync> = match batch {
            Ok(batch) => encode_recordbatch(of_rows.clone(), batch),
            Err(error) => Box::new(iter::once(Err(refusal(QueryError::from(error))))),
        };
        stream::iter(rows)
    });
    let mut response = QueryResponse::new(fields, rows);
    if outcome.tag != "SELECT" {
        response.set_command_tag(outcome.tag);
    }
    Ok(Response::Query(response))
}

/// An error with PostgreSQL's code for it.
pub fn refusal(error: QueryError) -> PgWireError {
    coded(sqlstate(&error), &error.to_string())
}

/// An error of our own.
pub fn coded(code: &str, message: &str) -> PgWireError {
    let level = if code == "57P03" { "FATAL" } else { "ERROR" };
    PgWireError::UserError(Box::new(ErrorInfo::new(level.to_owned(), code.to_owned(), message.to_owned())))
}

/// Gives an error that a library passed on the code that it has.
pub fn recode(error: &mut PgWireError) {
    let PgWireError::ApiError(inner) = error else { return };
    let inner = std::mem::replace(inner, Box::new(std::fmt::Error));
    *error = match inner.downcast::<DataFusionError>() {
        Ok(inner) => refusal(QueryError::DataFusion(*inner)),
        Err(inner) => match inner.downcast::<QueryError>() {
            Ok(inner) => refusal(*inner),
            Err(inner) if inner.is::<ParserError>() => coded("42601", &inner.to_string()),
            Err(inner) => PgWireError::ApiError(inner),
        },
    };
}
