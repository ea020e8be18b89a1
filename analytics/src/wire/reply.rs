//! What a statement answers, as the protocol has it.

use std::iter;
use std::sync::Arc;

use datafusion::arrow::array::{Array as _, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, StringArray};
use datafusion::arrow::datatypes::{Float32Type, Float64Type, Schema};
use datafusion::error::DataFusionError;
use datafusion::sql::sqlparser::parser::ParserError;
use datafusion_postgres::arrow_pg::datatypes::{arrow_schema_to_pg_fields, encode_recordbatch};
use datafusion_postgres::pgwire::api::portal::Format;
use datafusion_postgres::pgwire::api::results::{FieldFormat, FieldInfo, QueryResponse, Response, Tag};
use datafusion_postgres::pgwire::error::{ErrorInfo, PgWireError, PgWireResult};
use datafusion_postgres::pgwire::messages::data::DataRow;
use datafusion_postgres::pgwire::types::format::FormatOptions;
use futures::StreamExt;
use futures::stream;

use super::names::described;
use crate::error::{QueryError, sqlstate};
use crate::session::Outcome;

/// An answer with its rows in a format.
pub fn response(outcome: Outcome, format: &Format, options: FormatOptions) -> PgWireResult<Response> {
    if let Some(count) = outcome.count {
        return Ok(Response::Execution(Tag::new(outcome.tag).with_rows(count)));
    }
    if outcome.schema.fields().is_empty() && outcome.tag != "SELECT" {
        return Ok(Response::Execution(Tag::new(outcome.tag)));
    }
    let schema = described(&outcome.schema);
    let fields = Arc::new(arrow_schema_to_pg_fields(&schema, format, Some(Arc::new(options)))?);
    let of_rows = fields.clone();
    let rows = outcome.rows.flat_map(move |batch| {
        let rows: Box<dyn Iterator<Item = PgWireResult<DataRow>> + Send + Sync> = match batch {
            Ok(batch) => encode_recordbatch(of_rows.clone(), with_numbers_written(&of_rows, batch)),
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

/// A batch whose floating-point numbers are written as PostgreSQL writes them, where text is wanted.
fn with_numbers_written(fields: &[FieldInfo], batch: RecordBatch) -> RecordBatch {
    let is_text = |at: usize| fields.get(at).is_some_and(|field| field.format() == FieldFormat::Text);
    let written = |(at, column): (usize, &ArrayRef)| -> ArrayRef {
        if !is_text(at) {
            return column.clone();
        }
        if let Some(numbers) = column.as_primitive_opt::<Float64Type>() {
            let texts =
                numbers.iter().map(|number| number.map(|number| number_text(&format!("{number:e}"), 15)));
            return Arc::new(texts.collect::<StringArray>());
        }
        if let Some(numbers) = column.as_primitive_opt::<Float32Type>() {
            let texts =
                numbers.iter().map(|number| number.map(|number| number_text(&format!("{number:e}"), 6)));
            return Arc::new(texts.collect::<StringArray>());
        }
        column.clone()
    };
    let columns: Vec<ArrayRef> = batch.columns().iter().enumerate().map(written).collect();
    let schema = batch.schema();
    let fields = schema.fields().iter().zip(&columns);
    let fields =
        fields.map(|(field, column)| field.as_ref().clone().with_data_type(column.data_type().clone()));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(schema, columns, &rows).unwrap_or(batch)
}

/// A number of the form `1.25e-7` as PostgreSQL writes it: with an exponent only where it is small, or has
/// more than `digits` digits before the point.
fn number_text(scientific: &str, digits: i32) -> String {
    let (sign, rest) = scientific.split_at(usize::from(scientific.starts_with('-')));
    let Some((mantissa, exponent)) = rest.split_once('e') else {
        return if rest == "inf" { format!("{sign}Infinity") } else { rest.to_owned() };
    };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if exponent < -4 || exponent >= digits {
        let mark = if exponent < 0 { '-' } else { '+' };
        return format!("{sign}{mantissa}e{mark}{:02}", exponent.abs());
    }
    let figures = mantissa.replace('.', "");
    if exponent < 0 {
        return format!("{sign}0.{}{figures}", "0".repeat((-exponent - 1) as usize));
    }
    let whole = exponent as usize + 1;
    if figures.len() <= whole {
        return format!("{sign}{figures}{}", "0".repeat(whole - figures.len()));
    }
    format!("{sign}{}.{}", &figures[..whole], &figures[whole..])
}

/// An error with PostgreSQL's code for it.
pub fn refusal(error: QueryError) -> PgWireError {
    coded(sqlstate(&error), &error.to_string())
}

/// An error of our own.
pub fn coded(code: &str, message: &str) -> PgWireError {
    let level = if matches!(code, "57P03" | "25P03") { "FATAL" } else { "ERROR" };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_postgresql_writes_them() {
        let cases = [
            (300.0, "300"),
            (0.0, "0"),
            (-0.0, "-0"),
            (120.5, "120.5"),
            (-1.25, "-1.25"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (0.1 + 0.2, "0.30000000000000004"),
            (123_456_789_012_345.0, "123456789012345"),
            (1e14, "100000000000000"),
            (1e15, "1e+15"),
            (-1.5e300, "-1.5e+300"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "Infinity"),
            (f64::NEG_INFINITY, "-Infinity"),
        ];
        for (number, text) in cases {
            assert_eq!(number_text(&format!("{number:e}"), 15), text);
        }
        assert_eq!(number_text(&format!("{:e}", 1e6_f32), 6), "1e+06");
        assert_eq!(number_text(&format!("{:e}", 1.1_f32), 6), "1.1");
    }
}
