//! The first rows of an order, which `FT.SEARCH` shows, of all rows that a plan makes.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Float64Type};
use datafusion::execution::memory_pool::MemoryReservation;
use futures::StreamExt;

use crate::error::QueryError;
use crate::statement::outcome::Outcome;
use crate::table::declaration::Source;
use crate::table::hash_row;

use super::error::SearchError;
use super::index::{Form, Kind};
use super::table::Table;
use super::tree::{REPLY_BYTES_MAX, Tree, trees_of};

/// The parts of a key that are shown.
pub(super) enum Content {
    /// Nothing but its name.
    None,
    /// All fields of the hash, or the document.
    Whole,
    /// These fields or paths, by these names.
    Some(Vec<(Source, String)>),
}

/// The keys that a reply shows, and what it shows of each.
pub(super) struct Selection {
    /// The parts of each key that are shown.
    pub content: Content,
    /// The attribute that keys are sorted by, and whether in descending order.
    pub sort: Option<(String, bool)>,
    /// The number of keys that are skipped.
    pub offset: usize,
    /// The number of keys that are shown after them.
    pub shown: usize,
}

/// The columns of the plan: the key, what is sorted by, and what is shown.
pub(super) struct Columns {
    /// Their names.
    pub names: Vec<String>,
    /// Whether there is a column to sort by, and of numbers.
    sorts: Option<Sorts>,
    /// The name of the value that is shown first, for documents that are sorted.
    prefix: Option<String>,
    /// Whether keys hold documents.
    is_json: bool,
}

/// The kind of sort key.
#[derive(Clone, Copy, PartialEq)]
enum Sorts {
    Numbers,
    Texts,
    TextsInLowerCase,
}

impl Columns {
    /// The columns that a command needs.
    pub(super) fn of(selection: &Selection, table: &mut Table<'_>) -> Columns {
        let mut columns = Columns {
            names: vec![table.key()],
            sorts: None,
            prefix: None,
            is_json: table.index.kind == Kind::Json,
        };
        if selection.offset + selection.shown == 0 {
            return columns;
        }
        let index = table.index;
        if let Some(attribute) = selection.sort.as_ref().and_then(|(name, _)| index.attribute_named(name)) {
            columns.names.push(table.value(attribute));
            columns.sorts = Some(match attribute.form {
                Form::Numeric => Sorts::Numbers,
                _ if attribute.unnormalized => Sorts::Texts,
                _ => Sorts::TextsInLowerCase,
            });
            let is_document = index.kind == Kind::Json && matches!(selection.content, Content::Whole);
            columns.prefix = is_document.then(|| attribute.name.clone());
        }
        match &selection.content {
            Content::None => {}
            Content::Whole => columns.names.push(table.want(Source::Whole, DataType::BinaryView)),
            Content::Some(fields) => {
                let shown = fields.iter().map(|(source, _)| table.want(source.clone(), DataType::BinaryView));
                columns.names.extend(shown);
            }
        }
        columns
    }
}

/// Where a key stands.
#[derive(PartialEq)]
enum Rank {
    Number(f64),
    Text(String),
    /// Without the field: after all others.
    Missing,
}

impl Rank {
    fn compare(&self, other: &Rank, descends: bool) -> Ordering {
        let order = match (self, other) {
            (Rank::Missing, Rank::Missing) => return Ordering::Equal,
            (Rank::Missing, _) => return Ordering::Greater,
            (_, Rank::Missing) => return Ordering::Less,
            (Rank::Number(a), Rank::Number(b)) => a.total_cmp(b),
            (Rank::Text(a), Rank::Text(b)) => a.cmp(b),
            (Rank::Number(_), Rank::Text(_)) => Ordering::Less,
            (Rank::Text(_), Rank::Number(_)) => Ordering::Greater,
        };
        if descends { order.reverse() } else { order }
    }
}

/// A key that may be shown.
pub(super) struct Row {
    rank: Rank,
    descends: bool,
    /// The key.
    pub key: Vec<u8>,
    /// The fields that are shown of it.
    pub fields: Vec<(Tree, Tree)>,
    bytes: usize,
}

impl Ord for Row {
    fn cmp(&self, other: &Row) -> Ordering {
        self.rank.compare(&other.rank, self.descends).then_with(|| self.key.cmp(&other.key))
    }
}

impl PartialOrd for Row {
    fn partial_cmp(&self, other: &Row) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Row {
    fn eq(&self, other: &Row) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Row {}

/// The first rows of an order.
pub(super) struct TopK {
    most: usize,
    /// The last of them is on top.
    heap: BinaryHeap<Row>,
    bytes: usize,
    reservation: MemoryReservation,
}

impl TopK {
    /// Room for this many rows, none yet.
    pub(super) fn new(most: usize, reservation: MemoryReservation) -> TopK {
        TopK { most, heap: BinaryHeap::new(), bytes: 0, reservation }
    }

    /// Takes all rows; how many there were.
    pub(super) async fn take_all(
        &mut self,
        mut outcome: Outcome,
        selection: &Selection,
        columns: &Columns,
    ) -> Result<i64, SearchError> {
        let mut total = 0;
        while let Some(batch) = outcome.rows.next().await {
            let batch = batch.map_err(QueryError::from)?;
            total += batch.num_rows() as i64;
            for at in 0..batch.num_rows() {
                self.take(&batch, at, selection, columns)?;
            }
            self.reservation.try_resize(self.bytes)?;
        }
        Ok(total)
    }

    fn take(
        &mut self,
        batch: &RecordBatch,
        at: usize,
        selection: &Selection,
        columns: &Columns,
    ) -> Result<(), SearchError> {
        let descends = selection.sort.as_ref().is_some_and(|(_, descends)| *descends);
        let key = bytes_at(batch.column(0), at).unwrap_or_default();
        let rank = columns.sorts.map_or(Rank::Missing, |sorts| rank_of(batch.column(1), at, sorts));
        let mut row = Row { rank, descends, key: key.to_vec(), fields: Vec::new(), bytes: 0 };
        let is_full = self.heap.len() == self.most;
        if is_full && self.heap.peek().is_some_and(|last| *last < row) {
            return Ok(());
        }
        row.fields = fields_of(batch, at, selection, columns);
        row.bytes = size_of::<Row>()
            + row.key.len()
            + row.fields.iter().map(|(name, value)| name.bytes() + value.bytes()).sum::<usize>();
        self.bytes += row.bytes;
        self.heap.push(row);
        if is_full && let Some(last) = self.heap.pop() {
            self.bytes -= last.bytes;
        }
        if self.bytes > REPLY_BYTES_MAX {
            return Err(SearchError::refused(format!(
                "the reply takes more than {REPLY_BYTES_MAX} bytes: ask for fewer keys by LIMIT, or \
                 fields by RETURN"
            )));
        }
        Ok(())
    }

    /// The rows after the first `offset`, in order.
    pub(super) fn rows(self, offset: usize) -> Vec<Row> {
        let mut rows = self.heap.into_sorted_vec();
        rows.drain(..offset.min(rows.len()));
        rows
    }
}

fn bytes_at(column: &ArrayRef, at: usize) -> Option<&[u8]> {
    let column = column.as_binary_view();
    (!column.is_null(at)).then(|| column.value(at))
}

fn rank_of(column: &ArrayRef, at: usize, sorts: Sorts) -> Rank {
    if column.is_null(at) {
        return Rank::Missing;
    }
    match sorts {
        // There is one zero.
        Sorts::Numbers => Rank::Number(column.as_primitive::<Float64Type>().value(at) + 0.0),
        Sorts::Texts => Rank::Text(column.as_string_view().value(at).to_owned()),
        Sorts::TextsInLowerCase => Rank::Text(column.as_string_view().value(at).to_lowercase()),
    }
}

fn fields_of(batch: &RecordBatch, at: usize, selection: &Selection, columns: &Columns) -> Vec<(Tree, Tree)> {
    let first = 1 + usize::from(columns.sorts.is_some());
    let mut fields = Vec::new();
    if let Some(name) = &columns.prefix
        && let Ok(mut values) = trees_of(&batch.column(1).slice(at, 1))
        && let Some(value) = values.pop().filter(|value| *value != Tree::Null)
    {
        fields.push((Tree::text(name.as_str()), value));
    }
    let bulk = |bytes: &[u8]| Tree::Bulk(bytes.to_vec());
    match &selection.content {
        Content::None => {}
        Content::Whole => {
            let cell = bytes_at(batch.column(first), at).unwrap_or_default();
            match columns.is_json {
                true => fields.push((Tree::text("$"), bulk(cell))),
                false => fields.extend(hash_row::fields(cell).map(|(name, value)| (bulk(name), bulk(value)))),
            }
        }
        Content::Some(shown) => {
            for (place, (_, name)) in shown.iter().enumerate() {
                if let Some(value) = bytes_at(batch.column(first + place), at) {
                    fields.push((Tree::text(name.as_str()), bulk(value)));
                }
            }
        }
    }
    fields
}
