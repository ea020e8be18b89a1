//! Writes rows that came as texts to a Parquet file, for clients of the command `SQL`.

use std::io;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, BinaryArray, RecordBatch, RecordBatchOptions, StringArray};
use datafusion::arrow::compute::{CastOptions, can_cast_types, cast_with_options};
use datafusion::arrow::datatypes::{DataType, Field, Schema};

use super::writer::{Format, Writer};

/// Rows of a batch.
const BATCH_ROWS: usize = 8192;

/// A file of Parquet with these rows. A column is its name and its type as `DESCRIBE` says it; where texts
/// cannot be read as that, they stay what they are. `None` is NULL.
pub fn parquet_of(columns: &[(String, String)], rows: &[Vec<Option<Vec<u8>>>]) -> io::Result<Vec<u8>> {
    let types: Vec<DataType> = columns.iter().map(|(_, data_type)| type_of(data_type)).collect();
    let field =
        |((name, _), data_type): (&(String, String), &DataType)| Field::new(name, data_type.clone(), true);
    let schema = Arc::new(Schema::new(columns.iter().zip(&types).map(field).collect::<Vec<_>>()));
    let mut writer = Writer::new(Format::Parquet, &schema, Vec::new())?;
    for rows in rows.chunks(BATCH_ROWS) {
        let column = |(at, data_type): (usize, &DataType)| {
            column_of(rows.iter().map(|row| row[at].as_deref()), data_type)
        };
        let columns = types.iter().enumerate().map(column).collect::<io::Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        let batch = RecordBatch::try_new_with_options(schema.clone(), columns, &options);
        writer.write(&batch.map_err(io::Error::other)?)?;
    }
    writer.finish()
}

/// The type that a column of this type has in the file.
fn type_of(text: &str) -> DataType {
    let data_type = text.parse().unwrap_or(DataType::Utf8);
    match data_type {
        DataType::Binary | DataType::BinaryView => DataType::Binary,
        DataType::Utf8View => DataType::Utf8,
        other if can_cast_types(&DataType::Utf8, &other) && other.is_primitive() => other,
        DataType::Boolean => DataType::Boolean,
        _ => DataType::Utf8,
    }
}

fn column_of<'r>(
    cells: impl Iterator<Item = Option<&'r [u8]>>,
    data_type: &DataType,
) -> io::Result<ArrayRef> {
    if *data_type == DataType::Binary {
        return Ok(Arc::new(cells.collect::<BinaryArray>()));
    }
    let texts: StringArray = cells.map(|cell| cell.map(String::from_utf8_lossy)).collect();
    let exactly = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(&texts, data_type, &exactly).map_err(io::Error::other)
}
