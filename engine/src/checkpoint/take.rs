//! Takes a checkpoint: writes the entries of a view to a file.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use super::error::CheckpointError;
use super::pace::{Pace, Pacer, Progress};
use super::source::Source;
use super::writer::Blocks;
use crate::record::Lsn;
use crate::table::{Entry, Table, Visitor};
use crate::view::View;

/// The store as it was at a checkpoint, as far as it matters for the next.
pub(super) struct Base {
    pub(super) cut: Lsn,
    /// A database that has another table by now was flushed or swapped.
    tables: Vec<Weak<Table>>,
}

impl Base {
    pub(super) fn of(view: &View) -> Base {
        let tables = (0..view.databases()).map(|db| Arc::downgrade(view.table(db as u8))).collect();
        Base { cut: view.cut(), tables }
    }

    pub(super) fn at(cut: Lsn, tables: &[Arc<Table>]) -> Base {
        Base { cut, tables: tables.iter().map(Arc::downgrade).collect() }
    }

    /// Whether this database has the table that it had.
    fn has(&self, view: &View, db: u8) -> bool {
        self.tables.get(usize::from(db)).is_some_and(|table| std::ptr::eq(table.as_ptr(), &**view.table(db)))
    }
}

/// Puts entries into blocks.
struct Dump<'w, 'f> {
    blocks: &'w mut Blocks<'f>,
    db: u8,
    /// Older entries, up to this `Lsn`, are left out, but for ranges in which keys were removed since.
    since: Lsn,
    whole: bool,
    keys: u64,
}

impl Visitor for Dump<'_, '_> {
    fn part(&mut self, from: u64, end: u64, removed: Lsn) {
        self.whole = self.since == Lsn::ZERO || removed > self.since;
        self.blocks.range(self.db, self.whole, from, end);
    }

    fn visit(&mut self, entry: &Entry) {
        self.keys += 1;
        if self.whole || entry.lsn() > self.since {
            self.blocks.entry(entry);
        }
    }
}

/// Walks `view` and puts it into `blocks`: all, or what has changed since `base`.
pub(super) fn dump(
    mut view: View,
    base: Option<&Base>,
    pace: Pace,
    progress: &Progress,
    source: &dyn Source,
    blocks: &mut Blocks<'_>,
) -> Result<(), CheckpointError> {
    let mut pacer = Pacer::new(pace, progress, source);
    while let Some(db) = view.next_db() {
        let since = base.filter(|base| base.has(&view, db)).map_or(Lsn::ZERO, |base| base.cut);
        let mut dump = Dump { blocks, db, since, whole: true, keys: 0 };
        view.step(&mut dump)?;
        progress.keys.fetch_add(dump.keys, Ordering::Relaxed);
        blocks.settle();
        if blocks.has_failed() {
            // What has failed says so itself.
            return Ok(());
        }
        pacer.rest_if_due()?;
    }
    Ok(())
}
