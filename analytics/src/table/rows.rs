//! Makes rows out of an entry.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::ops::RangeInclusive;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::arrow::error::ArrowError;
use serde_json::Value;
use tarn_engine::Entry;
use tarn_engine::record::{Kind, UnixMs};
use tarn_engine::value::geohash::Point;
use tarn_engine::value::stream::StreamEntry;
use tarn_engine::value::{HashRef, ValueRef, is_same};

use crate::rights::VisibleKeys;
use crate::table::cells::Column;
use crate::table::condition::Condition;
use crate::table::datum::{Cell, Datum, digits_of};
use crate::table::declaration::{Declaration, Layout, Source, Step};
use crate::table::hash_row;
use crate::table::ranges::Ranges;

/// Rows of a batch, about.
pub(crate) const BATCH_ROWS: usize = 8192;
/// Bytes of a batch, about: of large values there are fewer rows.
const BATCH_BYTES: usize = 8 << 20;
/// Of longer collections no row is made while a part of a view is read, unless they are in one allocation,
/// which bounds them.
const ELEMENTS_IN_PART: usize = 64;
/// Fields of a hash that are found in one pass through it.
const FIELDS_MAX: usize = 32;

/// One of this many entries is measured for how far into it the wanted fields reach.
const LOOK_EACH: u64 = 64;
/// Bytes of an entry in which its key is, as a rule: those in the first line of the processor's cache, of
/// which the allocation has four.
const FRONT_BYTES: usize = 60;
/// So many ranges of numbers are looked at one by one.
const RANGES_FEW: usize = 4;
/// So many fields of an entry of a stream are remembered by their places.
const PLACES_MAX: usize = FIELDS_MAX * 4;
/// Bytes of a name that is remembered.
const NAME_BYTES_MAX: usize = 256;

/// A value that cannot be read as its column's type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unreadable {
    /// The column.
    pub column: String,
    /// The key.
    pub key: String,
}

/// Rows of some columns of a table, in batches: those that meet all conditions.
pub(crate) struct Rows {
    declaration: Arc<Declaration>,
    /// The keys that have rows; `None`: all of the declaration.
    visible: Option<VisibleKeys>,
    /// The wanted columns.
    schema: SchemaRef,
    /// The columns that are read: the wanted ones, and after them those that only conditions use.
    slots: Vec<Slot>,
    made: Made,
    /// Where the field of a hash or of an entry of a stream goes.
    fields: HashMap<Box<[u8]>, usize>,
    /// Whether several columns show the same field.
    shares_fields: bool,
    /// The fields of the last one and where they went, in their order: the next has the same as a rule.
    guesses: Vec<(Vec<u8>, Option<usize>)>,
    /// Entries that were taken so far.
    taken: u64,
    now: UnixMs,
    /// Rows of a batch, about.
    batch: usize,
    /// Whether rows have to come in the order of their entries.
    in_order: bool,
    /// Bytes from the front of an entry in which all is that is wanted, about.
    reach: usize,
    /// Entries whose rows are made behind the part of the view, and how many elements of the first have
    /// theirs.
    later: VecDeque<Entry>,
    later_at: usize,
}

/// A column that is looked at.
struct Slot {
    name: String,
    source: Source,
    data_type: DataType,
}

/// Rows that are made.
struct Made {
    columns: Vec<Column>,
    conditions: Vec<SlotCondition>,
    rows: usize,
    /// Bytes of texts in them.
    bytes: usize,
    /// Values that could not be read; texts are looked at when their batch is finished.
    failures: u64,
    strict: bool,
    /// The first of them, if that is an error.
    refused: Option<Unreadable>,
}

/// A condition on what a slot shows.
struct SlotCondition {
    slot: usize,
    ranges: Ranges,
    /// The same, if it is a column of `BIGINT` and they are few.
    numbers: Option<Vec<RangeInclusive<i64>>>,
}

/// The bytes that a hash has in a field, if it has that field.
type Field<'e> = Option<&'e [u8]>;

impl Made {
    /// Makes a row of what the slots show, unless a condition does not hold.
    #[inline]
    fn row<'e>(&mut self, slots: &[Slot], entry: &Entry, cell: impl Fn(usize) -> Cell<'e>) {
        self.row_of_fields(slots, entry, |_| None, cell);
    }

    /// The same where slots may show fields, which are read without a cell where that is possible; `cell` is
    /// asked for the others.
    #[inline]
    fn row_of_fields<'e>(
        &mut self,
        slots: &[Slot],
        entry: &Entry,
        field: impl Fn(usize) -> Option<Field<'e>>,
        cell: impl Fn(usize) -> Cell<'e>,
    ) {
        for at in 0..self.conditions.len() {
            let SlotCondition { slot, numbers, .. } = &self.conditions[at];
            let slot = *slot;
            let found = field(slot);
            if let (Some(numbers), Some(Some(bytes))) = (numbers, found)
                && let Some(number) = digits_of(bytes)
            {
                if numbers.iter().any(|range| range.contains(&number)) {
                    continue;
                }
                return;
            }
            let datum = self.read(&slots[slot], found.map_or_else(|| cell(slot), field_cell), entry);
            if !self.conditions[at].ranges.contain(&datum) {
                return;
            }
        }
        self.rows += 1;
        for (slot, at) in slots.iter().zip(0..self.columns.len()) {
            let found = field(at);
            if found.is_some_and(|field| self.push_field(at, field)) {
                continue;
            }
            let datum = self.read(slot, found.map_or_else(|| cell(at), field_cell), entry);
            self.bytes += datum.bytes();
            self.columns[at].push(&datum);
        }
    }

    /// Adds a field to a column if nothing can be wrong with it, or nobody is told what is: an error names
    /// the key.
    #[inline]
    fn push_field(&mut self, at: usize, field: Field<'_>) -> bool {
        match (&mut self.columns[at], field) {
            (column, None) => column.push(&Datum::Null),
            (Column::Text(column), Some(bytes)) if !self.strict => {
                self.bytes += bytes.len();
                column.append_value(bytes);
            }
            (Column::Int64(column), Some(bytes)) => match digits_of(bytes) {
                Some(number) => column.append_value(number),
                None => return false,
            },
            _ => return false,
        }
        true
    }

    #[inline]
    fn read<'e>(&mut self, slot: &Slot, cell: Cell<'e>, entry: &Entry) -> Datum<'e> {
        match Datum::read(cell, &slot.data_type) {
            Some(datum) => datum,
            None => {
                self.note_unreadable(slot, entry);
                Datum::Null
            }
        }
    }

    #[cold]
    fn note_unreadable(&mut self, slot: &Slot, entry: &Entry) {
        self.failures += 1;
        if self.strict && self.refused.is_none() {
            let key = String::from_utf8_lossy(entry.key()).into();
            self.refused = Some(Unreadable { column: slot.name.clone(), key });
        }
    }
}

impl Rows {
    /// No rows yet, of the columns in `projection`, where all conditions hold, in batches of
    /// `batch` rows. Keys that had expired at `now` have no rows.
    pub(crate) fn new(
        declaration: Arc<Declaration>,
        projection: &[usize],
        conditions: &[Condition],
        schema: SchemaRef,
        now: UnixMs,
        batch: usize,
    ) -> Rows {
        let mut looked_at = projection.to_vec();
        let mut slot_of = |column: usize| {
            looked_at.iter().position(|at| *at == column).unwrap_or_else(|| {
                looked_at.push(column);
                looked_at.len() - 1
            })
        };
        let condition = |it: &Condition| SlotCondition {
            slot: slot_of(it.column),
            numbers: match declaration.schema.field(it.column).data_type() {
                DataType::Int64 if it.ranges.ranges().len() <= RANGES_FEW => Some(it.ranges.numbers()),
                _ => None,
            },
            ranges: it.ranges.clone(),
        };
        let conditions = conditions.iter().map(condition).collect();
        let slot = |at: &usize| {
            let field = declaration.schema.field(*at);
            let source = declaration.sources[*at].clone();
            Slot { name: field.name().clone(), source, data_type: field.data_type().clone() }
        };
        let slots: Vec<_> = looked_at.iter().map(slot).collect();
        let named = slots.iter().enumerate().filter_map(|(at, slot)| match &slot.source {
            Source::Field(name) => Some((name.clone(), at)),
            _ => None,
        });
        let fields: HashMap<_, _> = named.clone().collect();
        Rows {
            shares_fields: fields.len() < named.count(),
            fields,
            made: Made {
                columns: schema.fields().iter().map(|it| Column::of(it.data_type(), batch)).collect(),
                conditions,
                rows: 0,
                bytes: 0,
                failures: 0,
                strict: declaration.strict,
                refused: None,
            },
            guesses: Vec::new(),
            declaration,
            visible: None,
            schema,
            slots,
            taken: 0,
            now,
            batch,
            in_order: false,
            reach: FRONT_BYTES,
            later: VecDeque::new(),
            later_at: 0,
        }
    }

    /// The rows are to come in the order of their entries. Those are found one by one, and may be few: until
    /// one has been measured, all lines of an entry are wanted.
    pub(crate) fn in_order(self) -> Rows {
        Rows { in_order: true, reach: usize::MAX, ..self }
    }

    /// No other keys have rows.
    pub(crate) fn of_visible(self, visible: Option<VisibleKeys>) -> Rows {
        Rows { visible, ..self }
    }

    /// Takes an entry. Quick, and waits for nothing: to be called while a part of a view is read.
    #[inline]
    pub(crate) fn take(&mut self, entry: &Entry) {
        let declaration = &self.declaration;
        if !declaration.shape.reads(entry.kind()) || entry.is_expired(self.now) {
            return;
        }
        if declaration.pattern.varying(entry.key()).is_none() {
            return;
        }
        if self.visible.as_ref().is_some_and(|visible| !visible.has(entry.key())) {
            return;
        }
        if self.taken.is_multiple_of(LOOK_EACH) {
            let least = if self.taken == 0 { FRONT_BYTES } else { self.reach };
            self.reach = self.reach_of(entry).max(least);
        }
        self.taken += 1;
        if self.slots.is_empty() && matches!(declaration.shape, Layout::Keys | Layout::Fields) {
            // One row, of which nothing is wanted: it is only counted.
            self.made.rows += 1;
            return;
        }
        let waits_its_turn = self.in_order && !self.later.is_empty();
        if is_short(declaration.shape, entry) && !waits_its_turn && !self.is_heavy() {
            self.add(entry, 0, usize::MAX);
        } else {
            self.later.push_back(entry.clone());
        }
    }

    /// Bytes from the front of an entry that are read, about.
    pub(crate) fn reach(&self) -> usize {
        self.reach
    }

    #[cold]
    fn reach_of(&self, entry: &Entry) -> usize {
        let of_slot = |slot: &Slot| match (&slot.source, entry.value()) {
            (Source::Field(name), ValueRef::Hash(hash)) if self.looks_up(hash) => {
                entry.reach_of(hash.get(name)?)
            }
            (Source::Key, _)
                if !matches!(
                    self.declaration.shape,
                    Layout::Elements(_) | Layout::Points | Layout::Entries
                ) =>
            {
                None
            }
            _ => Some(usize::MAX),
        };
        self.slots.iter().filter_map(of_slot).chain(entry.reach_of(entry.key())).max().unwrap_or_default()
    }

    /// Whether it passes over keys that the user must not read.
    pub(crate) fn leaves_out(&self) -> bool {
        self.visible.is_some()
    }

    /// How many entries were taken so far.
    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }

    /// Rows of a batch, about.
    pub(crate) fn batch(&self) -> usize {
        self.batch
    }

    /// How many rows there are.
    pub(crate) fn len(&self) -> usize {
        self.made.rows
    }

    /// Makes rows of what was too long for it in a part of a view, up to the length of a batch. REQUIRES: no
    /// part is being read.
    pub(crate) fn settle(&mut self) {
        while self.made.rows < self.batch
            && !self.is_heavy()
            && let Some(entry) = self.later.front().cloned()
        {
            // A few at a time, as they may be large.
            let wanted = (self.batch - self.made.rows).min(ELEMENTS_IN_PART);
            let added = self.add(&entry, self.later_at, wanted);
            self.later_at += added;
            if added < wanted || self.later_at >= self.elements_of(&entry) {
                self.later.pop_front();
                self.later_at = 0;
            }
        }
    }

    /// Whether the rows so far are as large as a batch may be, however few.
    pub(crate) fn is_heavy(&self) -> bool {
        self.made.bytes >= BATCH_BYTES
    }

    /// How many rows an entry has, if conditions are left aside.
    fn elements_of(&self, entry: &Entry) -> usize {
        match (self.declaration.shape, entry.value()) {
            (Layout::Elements(_) | Layout::Entries, ValueRef::Stream(stream)) => stream.len(),
            (Layout::Elements(_), ValueRef::List(list)) => list.len(),
            (Layout::Elements(_), ValueRef::Set(set)) => set.len(),
            (Layout::Elements(_) | Layout::Points, ValueRef::ZSet(zset)) => zset.len(),
            (Layout::Elements(_), ValueRef::Hash(hash)) => hash.places(),
            _ => 1,
        }
    }

    /// Whether entries wait for [`Rows::settle`].
    pub(crate) fn waits(&self) -> bool {
        !self.later.is_empty()
    }

    /// The first value that could not be read, if that is an error.
    pub(crate) fn refused(&mut self) -> Option<Unreadable> {
        self.made.refused.take()
    }

    /// How many values could not be read so far, without the texts of a batch that is not finished.
    pub(crate) fn failures(&self) -> u64 {
        self.made.failures
    }

    /// The rows so far.
    pub(crate) fn finish(&mut self) -> Result<RecordBatch, ArrowError> {
        let (mut columns, mut unreadable) = (Vec::<ArrayRef>::new(), 0);
        for column in &mut self.made.columns {
            let (column, of_column) = column.finish();
            columns.push(column);
            unreadable += of_column;
        }
        self.made.failures += unreadable;
        self.made.bytes = 0;
        let options = RecordBatchOptions::new().with_row_count(Some(std::mem::take(&mut self.made.rows)));
        RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)
    }

    /// Adds the rows of the elements of an entry from `from` on, at most `most`; returns the number of
    /// elements.
    fn add(&mut self, entry: &Entry, from: usize, most: usize) -> usize {
        match self.declaration.shape {
            Layout::Keys => self.add_key(entry),
            Layout::Fields => self.add_hash(entry),
            Layout::Documents => self.add_document(entry),
            Layout::Entries => return self.add_entries(entry, from, most),
            Layout::Elements(Kind::Stream) => return self.add_fields(entry, from, most),
            Layout::Elements(_) | Layout::Points => return self.add_elements(entry, from, most),
        }
        1
    }

    fn add_key(&mut self, entry: &Entry) {
        let (slots, now) = (&self.slots, self.now);
        let declaration = &self.declaration;
        self.made.row(slots, entry, |at| match slots[at].source {
            Source::Type => bytes(entry.kind().name().as_bytes()),
            Source::TtlMs => entry.expiry().map_or(Cell::Null, |expiry| Cell::Int((expiry - now) as i64)),
            Source::Bytes => Cell::Int(entry.bytes() as i64),
            _ => key_cell(declaration, entry),
        });
    }

    /// Whether fields are looked up by their names, not found in one pass through the hash.
    #[inline]
    fn looks_up(&self, hash: HashRef<'_>) -> bool {
        hash.len() > self.slots.len() * 4 || self.slots.len() > FIELDS_MAX || self.shares_fields
    }

    fn add_hash(&mut self, entry: &Entry) {
        let Some(hash) = entry.hash().map(|hash| hash.at(self.now)) else { return };
        if self.looks_up(hash) {
            let (slots, declaration) = (&self.slots, &self.declaration);
            let field = |at: usize| match &slots[at].source {
                Source::Field(name) => Some(hash.get(name)),
                _ => None,
            };
            let now = self.now;
            let other = |at: usize| other_cell(declaration, &slots[at].source, entry, now);
            return self.made.row_of_fields(slots, entry, field, other);
        }
        let mut found: [Option<&[u8]>; FIELDS_MAX] = [None; FIELDS_MAX];
        if !self.fields.is_empty() {
            let (guesses, fields) = (&mut self.guesses, &self.fields);
            let mut place = 0;
            hash.for_each(|name, value| {
                if let Some(at) = where_to(guesses, fields, place, name) {
                    found[at] = Some(value);
                }
                place += 1;
            });
        }
        let (slots, declaration) = (&self.slots, &self.declaration);
        let field = |at: usize| matches!(slots[at].source, Source::Field(_)).then_some(found[at]);
        let now = self.now;
        let other = |at: usize| other_cell(declaration, &slots[at].source, entry, now);
        self.made.row_of_fields(slots, entry, field, other);
    }

    fn add_document(&mut self, entry: &Entry) {
        // A value that is not a document makes no row.
        let Some(document) = document_of(entry) else { return };
        let (slots, declaration, now) = (&self.slots, &self.declaration, self.now);
        self.made.row(slots, entry, |at| match &slots[at].source {
            Source::Path(steps) => cell_of(at_path(&document, steps)),
            Source::Each(steps) => texts_of(at_path(&document, steps)),
            source => other_cell(declaration, source, entry, now),
        });
    }

    fn add_entries(&mut self, entry: &Entry, from: usize, most: usize) -> usize {
        let ValueRef::Stream(stream) = entry.value() else { return 0 };
        let looks_up = self.slots.len() > FIELDS_MAX || self.shares_fields;
        let mut added = 0;
        for element in stream.iter_at(from).take(most) {
            let mut found: [Option<&[u8]>; FIELDS_MAX] = [None; FIELDS_MAX];
            if !looks_up && !self.fields.is_empty() {
                let (guesses, fields) = (&mut self.guesses, &self.fields);
                for (place, (name, value)) in element.fields.iter().enumerate() {
                    if let Some(at) = where_to(guesses, fields, place, name) {
                        found[at].get_or_insert(value);
                    }
                }
            }
            let (slots, declaration) = (&self.slots, &self.declaration);
            let first = |wanted: &[u8]| element.fields.iter().find(|(name, _)| is_same(name, wanted));
            let field = |at: usize| match &slots[at].source {
                Source::Field(name) if looks_up => Some(first(name).map(|(_, value)| value)),
                Source::Field(_) => Some(found[at]),
                _ => None,
            };
            let other = |at: usize| {
                id_cell(&slots[at].source, element).unwrap_or_else(|| key_cell(declaration, entry))
            };
            self.made.row_of_fields(slots, entry, field, other);
            added += 1;
        }
        added
    }

    /// Adds a row for each field of the entries of a stream.
    fn add_fields(&mut self, entry: &Entry, from: usize, most: usize) -> usize {
        let ValueRef::Stream(stream) = entry.value() else { return 0 };
        let (slots, declaration, made) = (&self.slots, &self.declaration, &mut self.made);
        let mut added = 0;
        for element in stream.iter_at(from).take(most) {
            for (name, value) in element.fields.iter() {
                made.row(slots, entry, |at| match &slots[at].source {
                    Source::Name => bytes(name),
                    Source::Value => bytes(value),
                    source => id_cell(source, element).unwrap_or_else(|| key_cell(declaration, entry)),
                });
            }
            added += 1;
        }
        added
    }

    fn add_elements(&mut self, entry: &Entry, from: usize, most: usize) -> usize {
        let now = self.now;
        let (slots, declaration, made) = (&self.slots, &self.declaration, &mut self.made);
        let mut added = 0;
        let mut add = |name: Option<&[u8]>, value: Cell<'_>| {
            let index = from + added;
            added += 1;
            made.row(slots, entry, |at| match slots[at].source {
                Source::Name => name.map_or(Cell::Null, bytes),
                Source::Value | Source::Score => value.borrowed(),
                Source::Longitude => point_cell(&value, |point| point.longitude),
                Source::Latitude => point_cell(&value, |point| point.latitude),
                Source::Index => Cell::Int(index as i64),
                _ => key_cell(declaration, entry),
            });
        };
        match entry.value() {
            ValueRef::String(text) | ValueRef::Json(text) => add(None, Cell::Bytes(text.to_bytes())),
            ValueRef::List(list) => list.iter_from(from).take(most).for_each(|it| add(None, bytes(it))),
            ValueRef::Set(set) => {
                set.iter_from(from).take(most).for_each(|member| add(Some(member), Cell::Null));
            }
            ValueRef::ZSet(zset) => {
                let members = zset.iter_from(from).take(most);
                members.for_each(|(member, score)| add(Some(member), Cell::Float(score)));
            }
            ValueRef::Stream(_) => {}
            ValueRef::Hash(hash) => {
                let end = hash.places().min(from.saturating_add(most));
                let fields = hash.at(now).iter_range(from..end);
                fields.for_each(|(name, value)| add(Some(name), bytes(value)));
                // Fields that are hidden have places, too.
                return end.saturating_sub(from);
            }
        }
        added
    }
}

/// Where the field at `place` goes, if it is wanted.
#[inline]
fn where_to(
    guesses: &mut Vec<(Vec<u8>, Option<usize>)>,
    fields: &HashMap<Box<[u8]>, usize>,
    place: usize,
    name: &[u8],
) -> Option<usize> {
    match guesses.get(place) {
        Some((known, at)) if is_same(known, name) => *at,
        _ => guess(guesses, fields, place, name),
    }
}

/// The same; to be guessed from now on.
#[cold]
fn guess(
    guesses: &mut Vec<(Vec<u8>, Option<usize>)>,
    fields: &HashMap<Box<[u8]>, usize>,
    place: usize,
    name: &[u8],
) -> Option<usize> {
    let at = fields.get(name).copied();
    if name.len() <= NAME_BYTES_MAX && place < PLACES_MAX {
        if place >= guesses.len() {
            // Names in between were too long. An empty one may be wanted, too.
            guesses.resize_with(place + 1, || (Vec::new(), fields.get(&b""[..]).copied()));
        }
        let (known, goes_to) = &mut guesses[place];
        known.clear();
        known.extend_from_slice(name);
        *goes_to = at;
    }
    at
}

#[inline]
fn bytes(bytes: &[u8]) -> Cell<'_> {
    Cell::Bytes(Cow::Borrowed(bytes))
}

#[inline]
fn key_cell<'e>(declaration: &Declaration, entry: &'e Entry) -> Cell<'e> {
    bytes(declaration.pattern.varying(entry.key()).unwrap_or_default())
}

/// A cell that shows the ID of an entry of a stream, or a part of it.
fn id_cell(source: &Source, element: StreamEntry<'_>) -> Option<Cell<'static>> {
    let text = |text: String| Cell::Bytes(Cow::Owned(text.into_bytes()));
    match source {
        Source::Id => Some(text(element.id.to_string())),
        Source::Ms => Some(Cell::Time(element.id.ms)),
        Source::Seq => Some(i64::try_from(element.id.seq).map_or_else(
            // A `DECIMAL` has room for it.
            |_| text(element.id.seq.to_string()),
            Cell::Int,
        )),
        _ => None,
    }
}

/// A cell that shows a coordinate of the point that a score stands for.
fn point_cell(score: &Cell<'_>, coordinate: impl Fn(Point) -> f64) -> Cell<'static> {
    match score {
        Cell::Float(score) => {
            Point::told_by(*score).map_or(Cell::Unreadable, |it| Cell::Float(coordinate(it)))
        }
        _ => Cell::Null,
    }
}

/// A cell that shows a field.
fn field_cell(field: Field<'_>) -> Cell<'_> {
    field.map_or(Cell::Null, bytes)
}

/// A cell that shows the key, or its whole value as of `now`.
fn other_cell<'e>(declaration: &Declaration, source: &Source, entry: &'e Entry, now: UnixMs) -> Cell<'e> {
    match (source, entry.value()) {
        (Source::WholeKey, _) => bytes(entry.key()),
        (Source::Type, _) => bytes(entry.kind().name().as_bytes()),
        (Source::Whole, ValueRef::Hash(hash)) => {
            Cell::Bytes(Cow::Owned(hash_row::of_hash(hash.at(now).iter())))
        }
        (Source::Whole, ValueRef::String(text) | ValueRef::Json(text)) => Cell::Bytes(text.to_bytes()),
        _ => key_cell(declaration, entry),
    }
}

fn document_of(entry: &Entry) -> Option<Value> {
    let (ValueRef::String(text) | ValueRef::Json(text)) = entry.value() else { return None };
    serde_json::from_slice(&text.to_bytes()).ok()
}

/// Hands what a column shows of an entry to `work`, where an entry has one row; `None` if it has none.
pub(crate) fn with_cell<T>(
    declaration: &Declaration,
    source: &Source,
    entry: &Entry,
    work: impl FnOnce(Cell<'_>) -> T,
) -> Option<T> {
    if !declaration.shape.reads(entry.kind()) {
        return None;
    }
    let document = match declaration.shape {
        Layout::Documents => Some(document_of(entry)?),
        _ => None,
    };
    let cell = match (source, entry.value()) {
        (Source::Key, _) => key_cell(declaration, entry),
        (Source::Field(name), ValueRef::Hash(hash)) => hash.get(name).map_or(Cell::Null, bytes),
        (Source::Path(steps), _) => cell_of(document.as_ref().and_then(|it| at_path(it, steps))),
        (Source::Value, ValueRef::String(text)) => Cell::Bytes(text.to_bytes()),
        _ => Cell::Null,
    };
    Some(work(cell))
}

/// Whether the rows of an entry are few enough to be made while a part of a view is read.
fn is_short(layout: Layout, entry: &Entry) -> bool {
    if layout != Layout::Documents && !entry.is_large() {
        return true;
    }
    match (layout, entry.value()) {
        (Layout::Documents, _) => false,
        (_, ValueRef::String(text) | ValueRef::Json(text)) => text.whole().is_some(),
        (_, ValueRef::List(list)) => list.len() <= ELEMENTS_IN_PART,
        (_, ValueRef::Set(set)) => set.len() <= ELEMENTS_IN_PART,
        (_, ValueRef::ZSet(zset)) => zset.len() <= ELEMENTS_IN_PART,
        (_, ValueRef::Hash(hash)) => hash.len() <= ELEMENTS_IN_PART,
        // An entry may have any number of fields.
        (_, ValueRef::Stream(_)) => false,
    }
}

/// The value at a path of a document.
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
pub(crate) fn cell_of(value: Option<&Value>) -> Cell<'_> {
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

/// A value of a document, or each element of an array, as a JSON array of texts.
fn texts_of(value: Option<&Value>) -> Cell<'static> {
    let text = |value: &Value| match value {
        Value::Null => None,
        Value::String(text) => Some(Value::String(text.clone())),
        other => Some(Value::String(other.to_string())),
    };
    let texts: Vec<Value> = match value {
        None | Some(Value::Null) => return Cell::Null,
        Some(Value::Array(elements)) => elements.iter().filter_map(text).collect(),
        Some(other) => text(other).into_iter().collect(),
    };
    Cell::Bytes(Cow::Owned(Value::Array(texts).to_string().into_bytes()))
}
