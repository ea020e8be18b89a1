//! Estimates the number of rows of a table, for the order of joins.

use std::sync::Arc;

use tarn_engine::record::Kind;
use tarn_engine::value::ValueRef;
use tarn_engine::{Engine, Entry};

use crate::table::declaration::{Declaration, Layout};
use crate::table::index::TableIndex;

/// By an index, which has all keys of its table, or by a look at a few keys. Where a key goes is decided by
/// its hash, so those that are next to each other are as good as any others.
pub(crate) fn rows_of(declaration: &Declaration, indexes: &[Arc<TableIndex>], engine: &Engine) -> usize {
    if let Some(index) = indexes.iter().find_map(|index| index.ready(engine)) {
        return index.len();
    }
    let keys = engine.keyspace().get(usize::from(declaration.database)).map_or(0, |counts| counts.keys);
    let (mut visited, mut rows) = (0, 0);
    engine.live(declaration.database).step(&mut |entry: &Entry| {
        visited += 1;
        let is_of_it =
            declaration.shape.reads(entry.kind()) && declaration.pattern.varying(entry.key()).is_some();
        rows += if is_of_it { rows_for(declaration.shape, entry) } else { 0 };
    });
    (keys as f64 * rows as f64 / f64::from(visited.max(1))) as usize
}

fn rows_for(shape: Layout, entry: &Entry) -> usize {
    match shape {
        Layout::Elements(Kind::String) | Layout::Keys | Layout::Fields | Layout::Documents => 1,
        Layout::Elements(_) | Layout::Points | Layout::Entries => match entry.value() {
            // Consumer groups are elements of it, too.
            ValueRef::Stream(stream) => stream.len(),
            _ => entry.count(),
        },
    }
}
