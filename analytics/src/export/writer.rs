//! Encodes batches of rows as the bytes of a file.

use std::io::{self, Write};
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::csv;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::json;
use datafusion::error::DataFusionError;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::basic::{Compression, ZstdLevel};
use datafusion::parquet::file::properties::WriterProperties;
use tarn_engine::lock::Mutex;

/// Bytes of rows that are gathered before they are written: a row group of Parquet.
const GROUP_BYTES: usize = 16 << 20;

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// Columns, compressed.
    Parquet,
    /// Comma-separated, with a line of names; NULL is an empty cell.
    Csv,
    /// An object a line.
    Json,
}

impl Format {
    /// That of a file of this name.
    pub(super) fn of_name(name: &str) -> Option<Format> {
        let (stem, extension) = name.rsplit_once('.')?;
        match extension.to_ascii_lowercase().as_str() {
            _ if stem.is_empty() => None,
            "parquet" => Some(Format::Parquet),
            "csv" => Some(Format::Csv),
            "json" => Some(Format::Json),
            _ => None,
        }
    }
}

/// Keeps the error that the system gave: libraries pass on its words alone.
struct Noting<W> {
    inner: W,
    failed: Arc<Mutex<Option<io::Error>>>,
}

impl<W> Noting<W> {
    fn note<T>(&self, done: io::Result<T>) -> io::Result<T> {
        done.map_err(|error| {
            let told = error.raw_os_error().map_or_else(|| error.kind().into(), io::Error::from_raw_os_error);
            *self.failed.lock() = Some(error);
            told
        })
    }
}

impl<W: Write> Write for Noting<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let done = self.inner.write(bytes);
        self.note(done)
    }

    fn flush(&mut self) -> io::Result<()> {
        let done = self.inner.flush();
        self.note(done)
    }
}

enum Inner<W: Write + Send> {
    Parquet(Box<ArrowWriter<Noting<W>>>),
    Csv(Box<csv::Writer<Noting<W>>>),
    Json(json::LineDelimitedWriter<Noting<W>>),
}

/// Writes batches in a format.
pub(super) struct Writer<W: Write + Send> {
    inner: Inner<W>,
    failed: Arc<Mutex<Option<io::Error>>>,
}

impl<W: Write + Send> Writer<W> {
    /// Begins to write rows of these columns.
    pub(super) fn new(format: Format, schema: &SchemaRef, to: W) -> io::Result<Writer<W>> {
        let failed = Arc::new(Mutex::new(None));
        let to = Noting { inner: to, failed: failed.clone() };
        let inner = match format {
            Format::Parquet => {
                let compression = Compression::ZSTD(ZstdLevel::default());
                let properties = WriterProperties::builder().set_compression(compression).build();
                let writer = ArrowWriter::try_new(to, schema.clone(), Some(properties));
                Inner::Parquet(Box::new(writer.map_err(io::Error::other)?))
            }
            Format::Csv => Inner::Csv(Box::new(csv::WriterBuilder::new().with_header(true).build(to))),
            Format::Json => Inner::Json(json::WriterBuilder::new().with_explicit_nulls(true).build(to)),
        };
        let mut writer = Writer { inner, failed };
        // The names of the columns are there even if no row is.
        writer.write(&RecordBatch::new_empty(schema.clone()))?;
        Ok(writer)
    }

    /// Writes rows.
    pub(super) fn write(&mut self, batch: &RecordBatch) -> io::Result<()> {
        let done = match &mut self.inner {
            Inner::Parquet(writer) => {
                let full = |writer: &ArrowWriter<_>| writer.in_progress_size() >= GROUP_BYTES;
                let written = writer.write(batch);
                let flushed = written.and_then(|()| if full(writer) { writer.flush() } else { Ok(()) });
                flushed.map_err(DataFusionError::from)
            }
            Inner::Csv(writer) => writer.write(batch).map_err(DataFusionError::from),
            Inner::Json(writer) => writer.write(batch).map_err(DataFusionError::from),
        };
        done.map_err(|error| self.reason(error))
    }

    /// Writes what is still to be written, and returns what it was written to.
    pub(super) fn finish(self) -> io::Result<W> {
        let failed = self.failed.clone();
        let done = match self.inner {
            Inner::Parquet(writer) => writer.into_inner().map_err(DataFusionError::from),
            Inner::Csv(writer) => Ok(writer.into_inner()),
            Inner::Json(mut writer) => {
                let finished = writer.finish().map_err(DataFusionError::from);
                finished.map(|()| writer.into_inner())
            }
        };
        let mut to = done.map_err(|error| reason(&failed, error))?;
        to.flush()?;
        Ok(to.inner)
    }

    fn reason(&self, error: DataFusionError) -> io::Error {
        reason(&self.failed, error)
    }
}

/// The error of the system, or else of the library.
fn reason(failed: &Mutex<Option<io::Error>>, error: DataFusionError) -> io::Error {
    failed.lock().take().unwrap_or_else(|| io::Error::other(error.strip_backtrace()))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use datafusion::arrow::array::{ArrayRef, Int64Array};

    /// A disk with room for this many bytes.
    struct Small(usize);

    impl Write for Small {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let taken = bytes.len().min(self.0);
            if taken == 0 && !bytes.is_empty() {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.0 -= taken;
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_full_disk_is_an_error_wherever_it_is_full() {
        let numbers: ArrayRef = Arc::new((0..10_000).collect::<Int64Array>());
        let batch = RecordBatch::try_from_iter([("n", numbers)]).unwrap();
        for format in [Format::Parquet, Format::Csv, Format::Json] {
            let write = |room| {
                let mut writer = Writer::new(format, &batch.schema(), Small(room))?;
                writer.write(&batch)?;
                writer.finish()
            };
            let all = usize::MAX - write(usize::MAX).unwrap().0;
            for room in [0, 1, 100, all / 2, all - 1] {
                let error = write(room).err().unwrap_or_else(|| panic!("{format:?} has {room} of {all}"));
                assert_eq!(error.kind(), io::ErrorKind::StorageFull, "{format:?}, {room} of {all}: {error}");
            }
            assert_eq!(write(all).unwrap().0, 0);
        }
    }

    #[test]
    fn the_format_is_that_of_the_name() {
        for (name, format) in [
            ("x.parquet", Some(Format::Parquet)),
            ("x.y.CSV", Some(Format::Csv)),
            ("x.json", Some(Format::Json)),
            (".csv", None),
            ("csv", None),
            ("x.txt", None),
            ("x.", None),
        ] {
            assert_eq!(Format::of_name(name), format, "{name}");
        }
    }
}
