//! Secondary indexes on a column of a table: the keys that they find, and the conditions that they serve.

use std::ops::Bound;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringViewArray};
use datafusion::arrow::error::ArrowError;
use tarn_engine::declared::Wanted;
use tarn_engine::record::Kind;
use tarn_engine::{Engine, Entry, Index, IndexError, IndexStatus, Pointer};
use tarn_engine::{IndexRange, IndexValue, Indexed, TEXT_BYTES_MAX};

use crate::table::datum::Datum;
use crate::table::declaration::{Declaration, DeclarationError, Layout, Source, quoted};
use crate::table::ranges::{Edge, Range, Ranges};
use crate::table::rows::with_cell;

/// The first byte of values and of NULLs in an index: NULL sorts after all values.
const VALUE: u8 = 1;
const NULL: u8 = 2;

/// An index on a column.
pub(crate) struct TableIndex {
    /// Its name.
    pub name: String,
    /// The name of its table.
    pub table: String,
    /// The column, by its number.
    pub column: usize,
    declaration: Arc<Declaration>,
}

impl Wanted for TableIndex {
    type Store = Engine;
    type Error = IndexError;

    fn make(self: &Arc<Self>, engine: &Engine) -> Result<(), IndexError> {
        engine.create_index(self.database(), &self.name, self.clone()).map(drop)
    }

    fn drop_from(&self, engine: &Engine) {
        engine.drop_index(self.database(), &self.name);
    }

    fn is_same_as(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl TableIndex {
    /// An index on a column of a table, if there is one row for each of its keys.
    pub(crate) fn new(
        name: String,
        table: String,
        column: usize,
        declaration: Arc<Declaration>,
    ) -> Result<TableIndex, DeclarationError> {
        match declaration.shape {
            Layout::Fields | Layout::Documents | Layout::Elements(Kind::String) => {
                Ok(TableIndex { name, table, column, declaration })
            }
            other => Err(DeclarationError::NoIndex(other.word())),
        }
    }

    /// The declaration of its table.
    pub(crate) fn declaration(&self) -> &Declaration {
        &self.declaration
    }

    /// The logical database.
    pub(crate) fn database(&self) -> u8 {
        self.declaration.database
    }

    /// The name of the column.
    pub(crate) fn column_name(&self) -> &str {
        self.declaration.schema.field(self.column).name()
    }

    /// Whether its column shows a field of a hash.
    pub(crate) fn is_of_fields(&self) -> bool {
        matches!(self.declaration.sources[self.column], Source::Field(_))
    }

    /// Its reader; `None` while it is being built, or once it is dropped.
    pub(crate) fn ready(&self, engine: &Engine) -> Option<Arc<Index>> {
        engine.index(self.database(), &self.name).filter(|index| index.is_ready())
    }

    /// The statement that makes it.
    pub(crate) fn to_sql(&self) -> String {
        let [name, table, column] = [&self.name, &self.table, self.column_name()].map(quoted);
        format!("CREATE INDEX {name} ON {table} ({column})")
    }

    /// The value of an entry, by its order.
    pub(crate) fn order_of(&self, entry: &Entry) -> Option<Vec<u8>> {
        self.with_datum(entry, |datum| datum.in_order(<[u8]>::to_vec)).flatten()
    }

    /// Whether the value of a pointer may be longer than an index takes.
    pub(crate) fn is_cut(pointer: &Pointer) -> bool {
        pointer.value_bytes().len() >= TEXT_BYTES_MAX
    }

    fn with_datum<T>(&self, entry: &Entry, work: impl FnOnce(Datum<'_>) -> T) -> Option<T> {
        let data_type = self.declaration.schema.field(self.column).data_type();
        let source = &self.declaration.sources[self.column];
        with_cell(&self.declaration, source, entry, |cell| {
            work(Datum::read(cell, data_type).unwrap_or(Datum::Null))
        })
    }

    /// The places of these values in the index, in order, NULL last.
    pub(crate) fn places_of(ranges: &Ranges) -> Vec<IndexRange> {
        let null = ranges.has_null().then(Self::places_of_null);
        ranges.ranges().iter().map(places_of_range).chain(null).collect()
    }

    /// Where all values but NULL stand.
    pub(crate) fn places_of_values() -> IndexRange {
        IndexRange { from: Bound::Unbounded, to: Bound::Excluded(IndexValue::text(&[NULL])) }
    }

    /// Where NULL stands.
    pub(crate) fn places_of_null() -> IndexRange {
        IndexRange::of(IndexValue::text(&[NULL]))
    }
}

impl Indexed for TableIndex {
    fn covers(&self, key: &[u8]) -> bool {
        self.declaration.pattern.varying(key).is_some()
    }

    fn value_of(&self, entry: &Entry) -> Option<IndexValue> {
        self.with_datum(entry, |datum| datum.in_order(value).unwrap_or_else(|| IndexValue::text(&[NULL])))
    }
}

/// A value of the column, by its order. What is longer than an index takes is cut.
fn value(order: &[u8]) -> IndexValue {
    let mut bytes = Vec::with_capacity(1 + order.len().min(TEXT_BYTES_MAX));
    bytes.push(VALUE);
    bytes.extend_from_slice(&order[..order.len().min(TEXT_BYTES_MAX)]);
    IndexValue::text(&bytes)
}

fn places_of_range(range: &Range) -> IndexRange {
    let edge = |edge: &Edge, excluded: bool| {
        // Values after a truncated one may look the same.
        if excluded && edge.value.len() < TEXT_BYTES_MAX - 1 {
            Bound::Excluded(value(&edge.value))
        } else {
            Bound::Included(value(&edge.value))
        }
    };
    IndexRange {
        from: edge(&range.from, range.from.behind),
        to: match &range.to {
            Some(to) => edge(to, !to.behind),
            None => Bound::Excluded(IndexValue::text(&[NULL])),
        },
    }
}

/// A row for each index, with how it is doing.
pub(crate) fn shown(
    indexes: &[Arc<TableIndex>],
    statuses: &[IndexStatus],
) -> Result<RecordBatch, ArrowError> {
    let text = |of: fn(&TableIndex) -> &str| -> ArrayRef {
        Arc::new(indexes.iter().map(|index| Some(of(index))).collect::<StringViewArray>())
    };
    let status_of = |index: &TableIndex| {
        statuses.iter().find(|status| status.db == index.database() && status.name == index.name)
    };
    let number = |of: fn(&IndexStatus) -> usize| -> ArrayRef {
        let of = |index: &Arc<TableIndex>| status_of(index).map(|status| of(status) as i64);
        Arc::new(indexes.iter().map(of).collect::<Int64Array>())
    };
    RecordBatch::try_from_iter([
        ("index", text(|index| &index.name)),
        ("table", text(|index| &index.table)),
        ("column", text(TableIndex::column_name)),
        ("built_permille", number(|status| status.progress_permille as usize)),
        ("keys", number(|status| status.pointers)),
        ("kept_for_views", number(|status| status.removed)),
        ("bytes", number(|status| status.bytes)),
    ])
}
