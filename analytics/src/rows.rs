//! From an entry to rows.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::error::ArrowError;
use serde_json::Value;
use tarn_engine::Entry;
use tarn_engine::record::UnixMs;
use tarn_engine::value::ValueRef;

use super::cells::{Cell, Column};
use super::declaration::{Declaration, Layout, Source, Step};

/// Rows of a batch, about.
pub const BATCH_ROWS: usize = 8192;
/// Of longer collections no row is made under a latch.
const ELEMENTS_LATCHED: usize = 64;

/// A value that cannot be read as its column's type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// The column.
    pub column: String,
    /// The key.
    pub key: String,
}

/// Rows of some columns of a table, in batches.
pub struct Rows {
    declaration: Arc<Declaration>,
    /// The columns that are wanted.
    schema: SchemaRef,
    columns: Vec<Column>,
    sources: Vec<Source>,
    /// Where the field of a hash goes.
    fields: HashMap<Box<[u8]>, usize>,
    /// Whether several columns show the same field.
    shares_fields: bool,
    /// Where the fields of the last hash went, in their order: the next one has the same as a rule.
    guesses: Vec<Option<usize>>,
    rows: usize,
    now: UnixMs,
    /// Entries whose rows are made when no latch is held, and how many elements of the first have theirs.
    later: Vec<Entry>,
    later_at: usize,
    /// Values that could not be read, by column.
    failures: Vec<u64>,
    /// The first of them, if that is an error.
    refused: Option<Unreadable>,
}

impl Rows {
    /// No rows yet, of these columns; what had expired at `now` has none.
    pub fn new(declaration: Arc<Declaration>, projection: &[usize], schema: SchemaRef, now: UnixMs) -> Rows {
        let sources: Vec<Source> = projection.iter().map(|at| declaration.sources[*at].clone()).collect();
        let named = sources.iter().enumerate().filter_map(|(at, source)| match source {
            Source::Field(name) => Some((name.clone(), at)),
            _ => None,
        });
        let fields: HashMap<_, _> = named.clone().collect();
        Rows {
            shares_fields: fields.len() < named.count(),
            fields,
            columns: schema.fields().iter().map(|field| Column::of(field.data_type(), BATCH_ROWS)).collect(),
            failures: vec![0; sources.len()],
            guesses: Vec::new(),
            declaration,
            schema,
            sources,
            rows: 0,
            now,
            later: Vec::new(),
            later_at: 0,
            refused: None,
        }
    }

    /// Takes an entry. Quick, and waits for nothing: to be called under a latch.
    #[inline]
    pub fn take(&mut self, entry: &Entry) {
        let declaration = &self.declaration;
        if !declaration.shape.reads(entry.kind()) || entry.is_expired(self.now) {
            return;
        }
        if declaration.pattern.varying(entry.key()).is_none() {
            return;
        }
        if is_short(declaration.shape, entry) {
            self.add(entry, 0, usize::MAX);
        } else {
            self.later.push(entry.clone());
        }
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Makes rows of what was too long for it under a latch, up to the length of a batch. REQUIRES: no latch.
    pub fn settle(&mut self) {
        while self.rows < BATCH_ROWS
            && let Some(entry) = self.later.last().cloned()
        {
            let wanted = BATCH_ROWS - self.rows;
            let added = self.add(&entry, self.later_at, wanted);
            self.later_at += added;
            if self.later_at >= self.rows_of(&entry) {
                self.later.pop();
                self.later_at = 0;
            }
        }
    }

    /// How many rows an entry has.
    fn rows_of(&self, entry: &Entry) -> usize {
        match (self.declaration.shape, entry.value()) {
            (Layout::Elements(_), ValueRef::List(list)) => list.len(),
            (Layout::Elements(_), ValueRef::Set(set)) => set.len(),
            (Layout::Elements(_), ValueRef::ZSet(zset)) => zset.len(),
            (Layout::Elements(_), ValueRef::Hash(hash)) => hash.len(),
            _ => 1,
        }
    }

    /// Whether entries wait for [`Rows::settle`].
    pub fn waits(&self) -> bool {
        !self.later.is_empty()
    }

    /// The first value that could not be read, if that is an error.
    pub fn refused(&mut self) -> Option<Unreadable> {
        self.refused.take()
    }

    /// How many values could not be read so far.
    pub fn failures(&self) -> u64 {
        self.failures.iter().sum()
    }

    /// The rows so far.
    pub fn finish(&mut self) -> Result<RecordBatch, ArrowError> {
        let columns: Vec<ArrayRef> = self.columns.iter_mut().map(Column::finish).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(std::mem::take(&mut self.rows)));
        RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)
    }

    /// Adds the rows of an entry from the element `from` on, at most so many; how many there were.
    fn add(&mut self, entry: &Entry, from: usize, most: usize) -> usize {
        match self.declaration.shape {
            Layout::Keys => self.add_key(entry),
            Layout::Fields => self.add_hash(entry),
            Layout::Documents => self.add_document(entry),
            Layout::Elements(_) => return self.add_elements(entry, from, most),
        }
        1
    }

    fn add_key(&mut self, entry: &Entry) {
        self.rows += 1;
        for at in 0..self.sources.len() {
            let cell = match self.sources[at] {
                Source::Key => self.key_cell(entry),
                Source::Type => Cell::Bytes(Cow::Borrowed(entry.kind().name().as_bytes())),
                Source::TtlMs => match entry.expiry() {
                    Some(expiry) => Cell::Int((expiry - self.now) as i64),
                    None => Cell::Null,
                },
                Source::Bytes => Cell::Int(entry.bytes() as i64),
                _ => Cell::Null,
            };
            self.push(at, &cell, entry);
        }
    }

    fn add_hash(&mut self, entry: &Entry) {
        self.rows += 1;
        if self.sources.is_empty() {
            return;
        }
        let ValueRef::Hash(hash) = entry.value() else { return };
        if hash.len() > self.sources.len() * 4 {
            return self.add_few_fields(entry);
        }
        let mut found: [Option<&[u8]>; 32] = [None; 32];
        if self.sources.len() > found.len() || self.shares_fields {
            return self.add_few_fields(entry);
        }
        for (place, (name, value)) in hash.iter().enumerate() {
            if let Some(at) = self.place_of(place, name) {
                found[at] = Some(value);
            }
        }
        for (at, value) in found.into_iter().enumerate().take(self.sources.len()) {
            let cell = match (&self.sources[at], value) {
                (Source::Key, _) => self.key_cell(entry),
                (_, Some(value)) => Cell::Bytes(Cow::Borrowed(value)),
                (_, None) => Cell::Null,
            };
            self.push(at, &cell, entry);
        }
    }

    /// As `add_hash`, where most of the hash's fields are not wanted.
    fn add_few_fields(&mut self, entry: &Entry) {
        let ValueRef::Hash(hash) = entry.value() else { return };
        for at in 0..self.sources.len() {
            let cell = match &self.sources[at] {
                Source::Field(name) => {
                    hash.get(name).map_or(Cell::Null, |value| Cell::Bytes(Cow::Borrowed(value)))
                }
                _ => self.key_cell(entry),
            };
            self.push(at, &cell, entry);
        }
    }

    /// Where the field at `place` of a hash goes, if it is wanted.
    #[inline]
    fn place_of(&mut self, place: usize, name: &[u8]) -> Option<usize> {
        if let Some(Some(at)) = self.guesses.get(place)
            && matches!(&self.sources[*at], Source::Field(field) if **field == *name)
        {
            return Some(*at);
        }
        let at = self.fields.get(name).copied();
        if place >= self.guesses.len() {
            self.guesses.resize(place + 1, None);
        }
        self.guesses[place] = at;
        at
    }

    fn add_document(&mut self, entry: &Entry) {
        let (ValueRef::String(text) | ValueRef::Json(text)) = entry.value() else { return };
        // What is no document is no row.
        let Ok(document) = serde_json::from_slice::<Value>(&text.to_bytes()) else { return };
        self.rows += 1;
        for at in 0..self.sources.len() {
            let cell = match &self.sources[at] {
                Source::Path(steps) => cell_of(at_path(&document, steps)),
                _ => self.key_cell(entry),
            };
            self.push(at, &cell, entry);
        }
    }

    fn add_elements(&mut self, entry: &Entry, from: usize, most: usize) -> usize {
        let mut added = 0;
        let mut add = |rows: &mut Rows, index: usize, name: Cell<'_>, value: Cell<'_>| {
            rows.rows += 1;
            added += 1;
            for at in 0..rows.sources.len() {
                match rows.sources[at] {
                    Source::Name => rows.push(at, &name, entry),
                    Source::Value | Source::Score => rows.push(at, &value, entry),
                    Source::Index => rows.push(at, &Cell::Int(index as i64), entry),
                    _ => {
                        let key = rows.key_cell(entry);
                        rows.push(at, &key, entry);
                    }
                }
            }
        };
        let bytes = |bytes| Cell::Bytes(Cow::Borrowed(bytes));
        match entry.value() {
            ValueRef::String(text) | ValueRef::Json(text) => {
                add(self, 0, Cell::Null, Cell::Bytes(text.to_bytes()))
            }
            ValueRef::List(list) => {
                for (at, value) in list.iter_from(from).take(most).enumerate() {
                    add(self, from + at, Cell::Null, bytes(value));
                }
            }
            ValueRef::Set(set) => {
                for (at, member) in set.iter_from(from).take(most).enumerate() {
                    add(self, from + at, bytes(member), Cell::Null);
                }
            }
            ValueRef::ZSet(zset) => {
                for (at, (member, score)) in zset.iter_from(from).take(most).enumerate() {
                    add(self, from + at, bytes(member), Cell::Float(score));
                }
            }
            ValueRef::Hash(hash) => {
                for (at, (name, value)) in hash.iter_from(from).take(most).enumerate() {
                    add(self, from + at, bytes(name), bytes(value));
                }
            }
        }
        added
    }

    #[inline]
    fn key_cell<'e>(&self, entry: &'e Entry) -> Cell<'e> {
        let varying = self.declaration.pattern.varying(entry.key());
        Cell::Bytes(Cow::Borrowed(varying.unwrap_or_default()))
    }

    #[inline]
    fn push(&mut self, at: usize, cell: &Cell<'_>, entry: &Entry) {
        if !self.columns[at].push(cell) {
            self.failures[at] += 1;
            if self.declaration.strict && self.refused.is_none() {
                let column = self.schema.field(at).name().clone();
                self.refused = Some(Unreadable { column, key: String::from_utf8_lossy(entry.key()).into() });
            }
        }
    }
}

/// Whether the rows of an entry are few enough to be made under a latch.
fn is_short(layout: Layout, entry: &Entry) -> bool {
    match (layout, entry.value()) {
        (Layout::Documents, _) => false,
        (_, ValueRef::String(text) | ValueRef::Json(text)) => text.whole().is_some(),
        (_, ValueRef::List(list)) => list.len() <= ELEMENTS_LATCHED,
        (_, ValueRef::Set(set)) => set.len() <= ELEMENTS_LATCHED,
        (_, ValueRef::ZSet(zset)) => zset.len() <= ELEMENTS_LATCHED,
        (_, ValueRef::Hash(hash)) => hash.len() <= ELEMENTS_LATCHED,
    }
}

/// What stands at a path of a document.
fn at_path<'d>(document: &'d Value, steps: &[Step]) -> Option<&'d Value> {
    steps.iter().try_fold(document, |value, step| match step {
        Step::Member(name) => value.as_object()?.get(&**name),
        Step::Element(index) => {
            let elements = value.as_array()?;
            let at = if *index < 0 { index + elements.len() as i64 } else { *index };
            elements.get(usize::try_from(at).ok()?)
        }
    })
}

/// A value of a document as a cell: objects and arrays as their text.
fn cell_of(value: Option<&Value>) -> Cell<'_> {
    match value {
        None | Some(Value::Null) => Cell::Null,
        Some(Value::Bool(truth)) => Cell::Bool(*truth),
        Some(Value::Number(number)) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => Cell::Int(whole),
            (_, Some(real)) => Cell::Float(real),
            _ => Cell::Bytes(Cow::Owned(number.to_string().into_bytes())),
        },
        Some(Value::String(text)) => Cell::Bytes(Cow::Borrowed(text.as_bytes())),
        Some(other) => Cell::Bytes(Cow::Owned(other.to_string().into_bytes())),
    }
}
