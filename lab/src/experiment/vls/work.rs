//! The updates of a writer: fields, moves in the index, or a mixture with removals and insertions.

use rand::Rng;
use rand::rngs::SmallRng;

use super::cell::{Cell, Work};
use super::store::Update;
use crate::error::Result;

/// Does the work of the updates of a writer.
pub(super) struct Worker<'w, U> {
    writer: &'w mut U,
    work: Work,
    records: u64,
    /// Updates so far.
    done: u64,
    /// The record that is removed and not inserted again yet.
    removed: Option<u64>,
}

impl<U: Update> Worker<'_, U> {
    pub(super) fn new<'w>(writer: &'w mut U, cell: &Cell) -> Worker<'w, U> {
        Worker { writer, work: cell.work, records: cell.records, done: 0, removed: None }
    }

    /// The next update, of this record if it is none that brings another one back.
    #[inline]
    pub(super) fn update(&mut self, number: u64, rng: &mut SmallRng) -> Result<()> {
        self.done += 1;
        match (self.work, self.done % 10) {
            (Work::Field, _) | (Work::Mixed, 4..) => self.writer.update(number, rng),
            (Work::Move, _) | (Work::Mixed, 1 | 3) => {
                self.writer.move_to(number, rng.random_range(0..self.records))
            }
            (Work::Mixed, 0) => {
                self.removed = Some(number);
                self.writer.remove(number)
            }
            (Work::Mixed, _) => match self.removed.take() {
                Some(removed) => self.writer.insert(removed, rng),
                None => self.writer.update(number, rng),
            },
        }
    }

    /// Brings back what is removed.
    pub(super) fn end(mut self, rng: &mut SmallRng) -> Result<()> {
        self.removed.take().map_or(Ok(()), |removed| self.writer.insert(removed, rng))
    }
}
