//! The paper's literal form, with a mask in each record, and the cost of wider masks.

use rand::Rng;
use rand::rngs::SmallRng;
use tarn_study::Shape;
use tarn_study::vls::{Keep, Mask, Store};

use super::cell::{Cell, Figures, Variant};
use super::measure::{Running, Subject, Turn, in_turns};
use super::store::{RECORD_BYTES, Update};
use crate::error::{LabError, Result};
use crate::setting::Setting;

/// The field that is indexed: the number of the record.
const INDEXED: usize = 0;
/// Rows that a query reads before it is the turn of the next.
const ROWS_AT_ONCE: u64 = 8192;

/// A store, with the cell that says what queries read.
struct OfWidth<'c, M: Mask>(Store<M>, &'c Cell);

impl<M: Mask> OfWidth<'_, M> {
    fn fill(cell: &Cell, keep: Keep) -> Result<OfWidth<'_, M>> {
        let shape = Shape::new(cell.records as usize, RECORD_BYTES as usize)?;
        let store = Store::new(shape, Some(INDEXED), keep).map_err(LabError::refused)?;
        let mut row = vec![0; shape.fields];
        for number in 0..cell.records {
            row[INDEXED] = number;
            store.write(number, &row).map_err(LabError::refused)?;
        }
        Ok(OfWidth(store, cell))
    }
}

impl<M: Mask> Subject for OfWidth<'_, M> {
    fn begin(&self) -> Result<Running<'_>> {
        let OfWidth(store, cell) = self;
        let from = cell.records - cell.records * u64::from(cell.share_percent) / 100;
        let scan = if cell.is_full() { store.scan() } else { store.index_scan(from, u64::MAX) };
        let mut scan = scan.map_err(LabError::refused)?;
        Ok(Box::new(move || {
            let mut rows = 0;
            while rows < ROWS_AT_ONCE && scan.next_row().is_some() {
                rows += 1;
            }
            Ok((rows, rows == ROWS_AT_ONCE))
        }))
    }

    fn writer(&self) -> impl Update {
        &self.0
    }

    fn kept(&self) -> u64 {
        0
    }

    fn left(&self) -> u64 {
        self.0.wait_until_reset();
        self.0.remset_size().versions as u64
    }
}

impl<M: Mask> Update for &Store<M> {
    fn update(&mut self, number: u64, rng: &mut SmallRng) -> Result<()> {
        let field = 1 + rng.random_range(0..RECORD_BYTES as usize / 8 - 1);
        self.write_field(number, field, rng.random()).map(|_| ()).map_err(LabError::refused)
    }
}

/// The same for stores that keep nothing, and with masks of 64 and of 128 bits, by turns: queries beside
/// updates, or if the cell has no queries, one without updates.
pub(super) fn measure(setting: &Setting, cell: &Cell) -> Result<Figures> {
    let off = OfWidth::<u64>::fill(cell, Keep::Nothing)?;
    let narrow = OfWidth::<u64>::fill(cell, Keep::Shared)?;
    let wide = OfWidth::<u128>::fill(cell, Keep::Shared)?;
    let (queries, updates) = (cell.queries.max(1), cell.queries > 0);
    let variants = [Variant::MasksOff, Variant::Masks64, Variant::Masks128];
    in_turns(
        &variants,
        |round| round < setting.repeats(),
        |variant, round| match variant {
            Variant::MasksOff => Turn::new(&off, setting, cell, queries, updates).run(round),
            Variant::Masks64 => Turn::new(&narrow, setting, cell, queries, updates).run(round),
            _ => Turn::new(&wide, setting, cell, queries, updates).run(round),
        },
    )
}
