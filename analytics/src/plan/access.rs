//! Access paths: a scan finds its rows by their keys, by an index, or by walking the whole table.

use std::fmt;
use std::sync::Arc;

use tarn_engine::{Direction, Engine, Entry, IndexRange, IndexScan, KeyCounts, Pointer, View};

use crate::error::QueryError;
use crate::statement::instant::Needs;
use crate::table::condition::Condition;
use crate::table::declaration::{Declaration, Source};
use crate::table::index::TableIndex;

/// More keys than this are not looked up one by one.
const KEYS_MAX: usize = 10_000;
/// Of more keys whose values are cut at the same place no order is made.
const CUT_MAX: usize = 10_000;
/// Finding a row by an index costs about as much as looking at this many rows.
const ROWS_FOR_ONE: usize = 5;

/// The minimum number of keys of a part.
const KEYS_OF_PART: usize = 50_000;
/// Each takes one of the numbers that all views share.
const PARTS_MAX: usize = 8;

/// The parts in which the walk of a database is made, by so many threads at most.
pub(crate) fn parts_of(keys: usize, threads: usize) -> usize {
    (keys / KEYS_OF_PART).min(threads).clamp(1, PARTS_MAX)
}

/// How a scan finds its rows.
#[derive(Clone)]
pub(crate) enum Access {
    /// It looks at all keys, in this many parts in parallel.
    Walk(u8),
    /// By these keys.
    Keys(Arc<[Vec<u8>]>),
    /// By an index.
    Index(Arc<Lookup>),
}

/// The part of an index that is read.
pub(crate) struct Lookup {
    /// The index.
    pub index: Arc<TableIndex>,
    /// Where, in this order.
    pub places: Vec<IndexRange>,
    /// In which direction.
    pub direction: Direction,
    /// Whether the order matters.
    pub in_order: bool,
    /// Whether it finds NULL.
    pub finds_null: bool,
    /// How many keys it finds, about.
    pub keys: usize,
}

impl Lookup {
    /// The next pointers; where the order matters, with all that look the same as the last.
    pub(crate) fn next_pointers(
        &self,
        view: &View,
        scan: &mut IndexScan,
        most: usize,
    ) -> Result<Vec<Pointer>, QueryError> {
        let mut pointers = view.next_pointers(scan, most)?;
        while self.in_order && pointers.last().is_some_and(TableIndex::is_cut) {
            if pointers.len() > CUT_MAX {
                return Err(QueryError::NoOrder(self.index.column_name().to_owned()));
            }
            let more = view.next_pointers(scan, most)?;
            if more.is_empty() {
                break;
            }
            pointers.extend(more);
        }
        Ok(pointers)
    }

    /// Whether some of these pointers do not tell the order of their rows, and it matters.
    pub(crate) fn has_cut(&self, pointers: &[Pointer]) -> bool {
        self.in_order && pointers.iter().any(TableIndex::is_cut)
    }

    /// The entries of these pointers, by their whole values.
    pub(crate) fn in_full_order(&self, view: &View, pointers: &[Pointer]) -> Result<Vec<Entry>, QueryError> {
        let keys: Vec<&[u8]> = pointers.iter().map(Pointer::key).collect();
        let mut entries = Vec::with_capacity(keys.len());
        view.read_keys(self.index.database(), &keys, usize::MAX, |at, entry| {
            entries.push((at, entry.clone()));
        })?;
        for run in entries.chunk_by_mut(|(a, _), (b, _)| {
            pointers[*a].value_bytes() == pointers[*b].value_bytes() && TableIndex::is_cut(&pointers[*a])
        }) {
            run.sort_by_cached_key(|(_, entry)| self.index.order_of(entry));
            if self.direction == Direction::Descending {
                run.reverse();
            }
        }
        Ok(entries.into_iter().map(|(_, entry)| entry).collect())
    }
}

impl Access {
    /// The best access path for rows that meet all conditions, for this number of threads.
    pub(crate) fn of(
        declaration: &Declaration,
        conditions: &[Condition],
        indexes: &[Arc<TableIndex>],
        engine: &Engine,
        threads: usize,
    ) -> Access {
        if let Some(keys) = keys_of(declaration, conditions) {
            return Access::Keys(keys.into());
        }
        let KeyCounts { keys, timed, .. } = counts_of(declaration.database, engine);
        let mut worth = keys / ROWS_FOR_ONE;
        let mut best = Access::Walk(parts_of(keys, threads) as u8);
        for index in indexes {
            let on_it = conditions.iter().find(|condition| condition.column == index.column);
            let (Some(condition), Some(ready)) = (on_it, index.ready(engine)) else { continue };
            if condition.ranges.has_null() && timed > 0 && index.is_of_fields() {
                continue;
            }
            let places = TableIndex::places_of(&condition.ranges);
            let mut found = 0;
            for place in &places {
                if found > worth {
                    break;
                }
                found += ready.estimate(place, worth - found + 1);
            }
            if found <= worth {
                worth = found;
                let (index, direction) = (index.clone(), Direction::Ascending);
                best = Access::Index(Arc::new(Lookup {
                    index,
                    places,
                    direction,
                    in_order: false,
                    finds_null: condition.ranges.has_null(),
                    keys: found,
                }));
            }
        }
        best
    }

    /// In the order of a column, if there is an index on it and nothing better to go by.
    pub(crate) fn in_order_of(
        &self,
        column: usize,
        descending: bool,
        nulls_first: bool,
        conditions: &[Condition],
        indexes: &[Arc<TableIndex>],
        engine: &Engine,
    ) -> Option<Access> {
        let on_others = conditions.iter().any(|condition| condition.column != column);
        if on_others || matches!(self, Access::Keys(_)) {
            return None;
        }
        let index = indexes.iter().find(|index| index.column == column && index.ready(engine).is_some())?;
        let mut places = match conditions.first() {
            Some(condition) => TableIndex::places_of(&condition.ranges),
            None => vec![TableIndex::places_of_values(), TableIndex::places_of_null()],
        };
        let null_is_there = conditions.first().is_none_or(|condition| condition.ranges.has_null());
        let counts = counts_of(index.database(), engine);
        if null_is_there && counts.timed > 0 && index.is_of_fields() {
            return None;
        }
        let null = null_is_there.then(|| places.pop()).flatten();
        if descending {
            places.reverse();
        }
        if nulls_first {
            places.splice(0..0, null);
        } else {
            places.extend(null);
        }
        let direction = if descending { Direction::Descending } else { Direction::Ascending };
        let keys = match self {
            Access::Index(lookup) => lookup.keys,
            _ => counts.keys,
        };
        let index = index.clone();
        let (in_order, finds_null) = (true, null_is_there);
        Some(Access::Index(Arc::new(Lookup { index, places, direction, in_order, finds_null, keys })))
    }

    /// Whether an index is to say which rows lack a field of a hash. It does not say so of a field that is
    /// there, and whose time is over.
    pub(crate) fn asks_for_missing_fields(&self) -> bool {
        matches!(self, Access::Index(lookup) if lookup.finds_null && lookup.index.is_of_fields())
    }

    /// The needs of a scan for its views, one for each part.
    pub(crate) fn needs(&self) -> Vec<Needs> {
        match self {
            Access::Walk(parts) => (0..*parts).map(|number| Needs::Walk((number, *parts))).collect(),
            Access::Keys(_) => vec![Needs::Keys],
            Access::Index(_) => vec![Needs::Index],
        }
    }
}

/// The keys of a database by number. A field whose time is over is NULL while an index has its value still:
/// where there may be one, an index does not say which rows have NULL.
fn counts_of(database: u8, engine: &Engine) -> KeyCounts {
    engine.keyspace().get(usize::from(database)).copied().unwrap_or_default()
}

/// The keys, if conditions name them one by one.
fn keys_of(declaration: &Declaration, conditions: &[Condition]) -> Option<Vec<Vec<u8>>> {
    let is_key = |condition: &&Condition| {
        declaration.sources[condition.column] == Source::Key && declaration.is_text(condition.column)
    };
    let points = conditions.iter().find(is_key)?.ranges.points()?;
    let keys = || points.iter().map(|varying| declaration.pattern.key_of(varying)).collect();
    (points.len() <= KEYS_MAX).then(keys)
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Access::Walk(1) => f.write_str("all keys"),
            Access::Walk(parts) => write!(f, "all keys in {parts} parts"),
            Access::Keys(keys) => write!(f, "{} keys by name", keys.len()),
            Access::Index(lookup) => {
                write!(f, "index {}", lookup.index.name)?;
                match (lookup.in_order, lookup.direction) {
                    (true, Direction::Descending) => f.write_str(" in descending order"),
                    (true, Direction::Ascending) => f.write_str(" in order"),
                    (false, _) => Ok(()),
                }
            }
        }
    }
}
