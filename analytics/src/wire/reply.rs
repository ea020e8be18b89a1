//! Encodes the outcome of a statement for the protocol.

use std::iter;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::arrow::array::{
    Array as _, ArrayRef, AsArray, BinaryArray, RecordBatch, RecordBatchOptions, StringArray,
};
use datafusion::arrow::datatypes::{DataType, Decimal128Type, Float32Type, Float64Type, Schema};
use datafusion::error::DataFusionError;
use datafusion::sql::sqlparser::parser::ParserError;
use datafusion_postgres::arrow_pg::datatypes::{arrow_schema_to_pg_fields, encode_recordbatch, into_pg_type};
use datafusion_postgres::pgwire::api::portal::Format;
use datafusion_postgres::pgwire::api::results::{FieldFormat, FieldInfo, QueryResponse, Response, Tag};
use datafusion_postgres::pgwire::error::{ErrorInfo, PgWireError, PgWireResult};
use datafusion_postgres::pgwire::messages::data::DataRow;
use datafusion_postgres::pgwire::types::format::FormatOptions;
use futures::StreamExt;
use futures::stream;

use super::names::described;
use crate::error::{QueryError, sqlstate};
use crate::exact::{moment_texts, number_text};
use crate::rights::Grant;
use crate::statement::outcome::Outcome;

/// Sets the format of a cursor's rows from now on: text or binary.
pub(super) type IsBinary = Arc<AtomicBool>;

/// The rows of a cursor, each in the format that is wanted when it is fetched.
pub(super) fn cursor_rows(
    outcome: Outcome,
    options: FormatOptions,
    is_binary: IsBinary,
) -> PgWireResult<QueryResponse> {
    let schema = described(&outcome.schema);
    let options = Arc::new(options);
    let fields = |format| arrow_schema_to_pg_fields(&schema, format, Some(options.clone())).map(Arc::new);
    let (texts, binary) = (fields(&Format::UnifiedText)?, fields(&Format::UnifiedBinary)?);
    let (described, grant) = (texts.clone(), outcome.grant.clone());
    let rows = outcome.rows.flat_map(move |batch| {
        let (texts, binary, is_binary) = (texts.clone(), binary.clone(), is_binary.clone());
        let rows: Box<dyn Iterator<Item = PgWireResult<DataRow>> + Send + Sync> = match batch {
            Ok(batch) => Box::new((0..batch.num_rows()).flat_map(move |row| {
                let fields = if is_binary.load(Ordering::Relaxed) { &binary } else { &texts };
                encode_recordbatch(fields.clone(), as_written(fields, batch.slice(row, 1)))
            })),
            Err(error) => Box::new(iter::once(Err(refusal(QueryError::from(error))))),
        };
        stream::iter(rows)
    });
    Ok(QueryResponse::new(described, rows.map(while_granted(grant))))
}

/// Passes a row on while it may be shown. Rows of a batch wait here for the client to fetch them.
fn while_granted(
    grant: Option<Arc<Grant>>,
) -> impl FnMut(PgWireResult<DataRow>) -> PgWireResult<DataRow> + Send {
    move |row| match grant.as_ref().map_or(Ok(()), |grant| grant.check()) {
        Ok(()) => row,
        Err(denied) => Err(refusal(denied.into())),
    }
}

/// An answer with its rows in a format: the one that was described to the client, if one was.
pub(super) fn response(
    outcome: Outcome,
    told: Option<&Schema>,
    format: &Format,
    options: FormatOptions,
) -> PgWireResult<Response> {
    if let Some(count) = outcome.count {
        return Ok(Response::Execution(Tag::new(outcome.tag).with_rows(count)));
    }
    if outcome.schema.fields().is_empty() && outcome.tag != "SELECT" {
        return Ok(Response::Execution(Tag::new(outcome.tag)));
    }
    let schema = described(&outcome.schema);
    if let Some(told) = told {
        check_told(told, &schema)?;
    }
    let fields = Arc::new(arrow_schema_to_pg_fields(&schema, format, Some(Arc::new(options)))?);
    let (of_rows, grant) = (fields.clone(), outcome.grant.clone());
    let rows = outcome.rows.flat_map(move |batch| {
        let rows: Box<dyn Iterator<Item = PgWireResult<DataRow>> + Send + Sync> = match batch {
            Ok(batch) => encode_recordbatch(of_rows.clone(), as_written(&of_rows, batch)),
            Err(error) => Box::new(iter::once(Err(refusal(QueryError::from(error))))),
        };
        stream::iter(rows)
    });
    let mut response = QueryResponse::new(fields, rows.map(while_granted(grant)));
    if outcome.tag != "SELECT" {
        response.set_command_tag(outcome.tag);
    }
    Ok(Response::Query(response))
}

/// Refuses an answer whose types differ from those that were described to the client.
fn check_told(told: &Schema, schema: &Schema) -> PgWireResult<()> {
    for (told, field) in told.fields().iter().zip(schema.fields()) {
        let (told_type, field_type) = (into_pg_type(told.data_type())?, into_pg_type(field.data_type())?);
        let has_alias = !told.metadata().is_empty() || !field.metadata().is_empty();
        if told_type != field_type && !has_alias && *told.data_type() != DataType::Null {
            let name = field.name();
            let message = format!(
                "column \"{name}\" was described as {told_type} and is {field_type}; \
                 give its parameters types"
            );
            return Err(coded("0A000", &message));
        }
    }
    Ok(())
}

/// A batch whose numbers and moments are as PostgreSQL has them: the library does not write floating-point
/// numbers so, nor decimals of all digits, nor the zone of a moment.
fn as_written(fields: &[FieldInfo], batch: RecordBatch) -> RecordBatch {
    let is_text = |at: usize| fields.get(at).is_some_and(|field| field.format() == FieldFormat::Text);
    let written = |(at, column): (usize, &ArrayRef)| -> ArrayRef {
        if let Some(numbers) = column.as_primitive_opt::<Decimal128Type>() {
            let scale = numbers.scale();
            return match is_text(at) {
                true => {
                    let texts = numbers.iter().map(|number| number.map(|number| decimal_text(number, scale)));
                    Arc::new(texts.collect::<StringArray>())
                }
                false => {
                    let bytes =
                        numbers.iter().map(|number| number.map(|number| decimal_bytes(number, scale)));
                    Arc::new(bytes.collect::<BinaryArray>())
                }
            };
        }
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
        moment_texts(column).map_or_else(|| column.clone(), |texts| Arc::new(texts))
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

fn decimal_text(number: i128, scale: i8) -> String {
    let sign = if number < 0 { "-" } else { "" };
    let (digits, places) = (number.unsigned_abs().to_string(), scale.max(0) as usize);
    let digits =
        format!("{digits:0>width$}{}", "0".repeat(scale.min(0).unsigned_abs() as usize), width = places + 1);
    let (before, behind) = digits.split_at(digits.len() - places);
    if places == 0 { format!("{sign}{before}") } else { format!("{sign}{before}.{behind}") }
}

/// A decimal as the protocol has it: groups of four digits, of which none is zero at either end.
fn decimal_bytes(number: i128, scale: i8) -> Vec<u8> {
    let text = decimal_text(number.checked_abs().unwrap_or(i128::MAX), scale);
    let (before, behind) = text.split_once('.').unwrap_or((&text, ""));
    let (whole, rest) = (before.len().div_ceil(4), behind.len().div_ceil(4));
    let digits = format!("{before:0>width$}{behind:0<rest$}", width = whole * 4, rest = rest * 4);
    let groups = digits
        .as_bytes()
        .chunks(4)
        .map(|group| group.iter().fold(0_i16, |value, digit| value * 10 + i16::from(digit - b'0')));
    let groups: Vec<i16> = groups.collect();
    let first = groups.iter().position(|group| *group != 0).unwrap_or(groups.len());
    let end = groups.iter().rposition(|group| *group != 0).map_or(first, |last| last + 1);
    let weight = if first == end { 0 } else { whole as i16 - 1 - first as i16 };
    let sign: i16 = if number < 0 { 0x4000 } else { 0 };
    let head = [(end - first) as i16, weight, sign, i16::from(scale.max(0))];
    head.iter().chain(&groups[first..end]).flat_map(|number| number.to_be_bytes()).collect()
}

/// An error with PostgreSQL's code for it.
pub(super) fn refusal(error: QueryError) -> PgWireError {
    coded(sqlstate(&error), &error.to_string())
}

/// An error of our own.
pub(super) fn coded(code: &str, message: &str) -> PgWireError {
    let level = if matches!(code, "57P03" | "25P03") { "FATAL" } else { "ERROR" };
    of_level(level, code, message)
}

/// An error behind which the connection ends.
pub(super) fn fatal(code: &str, message: &str) -> PgWireError {
    of_level("FATAL", code, message)
}

fn of_level(level: &str, code: &str, message: &str) -> PgWireError {
    PgWireError::UserError(Box::new(ErrorInfo::new(level.to_owned(), code.to_owned(), message.to_owned())))
}

/// Gives an error that a library passed on the code that it has.
pub(super) fn recode(error: &mut PgWireError) {
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
    fn decimals_are_sent_as_postgresql_sends_them() {
        let sent = |number, scale| {
            let bytes = decimal_bytes(number, scale);
            bytes.chunks(2).map(|pair| i16::from_be_bytes([pair[0], pair[1]])).collect::<Vec<_>>()
        };
        assert_eq!(sent(0, 2), [0, 0, 0, 2]);
        assert_eq!(sent(5, 1), [1, -1, 0, 1, 5000]);
        assert_eq!(sent(-123_456_789, 4), [3, 1, 0x4000, 4, 1, 2345, 6789]);
        assert_eq!(sent(10_000, 0), [1, 1, 0, 0, 1]);
        assert_eq!(sent(1, 8), [1, -2, 0, 8, 1]);
        assert_eq!(decimal_text(-5, 3), "-0.005");
        assert_eq!(decimal_text(i128::from(i64::MAX) * 10, 0), "92233720368547758070");
    }
}
