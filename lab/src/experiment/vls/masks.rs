//! The stores of the study: the paper's literal form with a mask in each record, wider masks, and version
//! chains.

use rand::Rng;
use rand::rngs::SmallRng;
use tarn_study::mvcc::{Every, Seen};
use tarn_study::vls::{Keep, Mask, Store, Wide};
use tarn_study::{RecordScan, Records, Shape, mvcc};

use super::cell::{Cell, Figures, Measured, Part, Variant};
use super::measure::{Running, Subject, Turn, in_turns};
use super::store::{RECORD_BYTES, Update};
use crate::error::{LabError, Result};
use crate::setting::Setting;

/// The field that is indexed: the number of the record.
const INDEXED: usize = 0;
/// Rows that a query reads before it is the turn of the next.
pub(super) const ROWS_AT_ONCE: u64 = 8192;

/// A store of the study, with the cell that says what queries read.
pub(super) struct OfStudy<'c, S>(pub(super) S, &'c Cell);

/// A filled store of the paper's literal form.
pub(super) fn of_masks<M: Mask>(cell: &Cell, keep: Keep) -> Result<OfStudy<'_, Store<M>>> {
    fill(Store::new(shape(cell)?, Some(INDEXED), keep).map_err(LabError::refused)?, cell)
}

/// A filled store of version chains.
pub(super) fn of_chains<K: mvcc::Keep>(cell: &Cell) -> Result<OfStudy<'_, mvcc::Store<K>>> {
    fill(mvcc::Store::new(shape(cell)?, Some(INDEXED)).map_err(LabError::refused)?, cell)
}

fn shape(cell: &Cell) -> Result<Shape> {
    Ok(Shape::new(cell.records as usize, RECORD_BYTES as usize)?)
}

fn fill<S: Records>(store: S, cell: &Cell) -> Result<OfStudy<'_, S>> {
    for number in 0..cell.records {
        store.write(number, &row(number)).map_err(LabError::refused)?;
    }
    Ok(OfStudy(store, cell))
}

fn row(number: u64) -> [u64; RECORD_BYTES as usize / 8] {
    let mut row = [0; RECORD_BYTES as usize / 8];
    row[INDEXED] = number;
    row
}

impl<S: Records> OfStudy<'_, S> {
    /// Begins a query.
    pub(super) fn scan(&self) -> Result<S::Scan<'_>> {
        let OfStudy(store, cell) = self;
        let from = cell.records - cell.records * u64::from(cell.share_percent) / 100;
        let scan = if cell.is_full() { store.scan() } else { store.index_scan(from, u64::MAX) };
        scan.map_err(LabError::refused)
    }

    fn turn(&self, setting: &Setting, cell: &Cell, round: u32) -> Result<(Measured, bool)> {
        // Without queries beside updates, one query runs and nothing else.
        Turn::new(self, setting, cell, cell.queries.max(1), cell.queries > 0).run(round)
    }
}

/// Reads some rows of a scan. Returns how many; fewer than [`ROWS_AT_ONCE`] at its end.
pub(super) fn read_some(scan: &mut impl RecordScan) -> u64 {
    let mut rows = 0;
    while rows < ROWS_AT_ONCE && scan.next_row().is_some() {
        rows += 1;
    }
    rows
}

impl<S: Records> Subject for OfStudy<'_, S> {
    fn begin(&self) -> Result<Running<'_>> {
        let mut scan = self.scan()?;
        Ok(Box::new(move || {
            let rows = read_some(&mut scan);
            Ok((rows, rows == ROWS_AT_ONCE))
        }))
    }

    fn writer(&self, _: usize) -> impl Update {
        ByRow(&self.0)
    }

    fn kept(&self) -> u64 {
        self.0.kept().versions as u64
    }

    fn left(&self) -> u64 {
        self.0.settle();
        self.kept()
    }
}

/// A writer of a store of the study.
pub(super) struct ByRow<'s, S>(pub(super) &'s S);

impl<S: Records> Update for ByRow<'_, S> {
    fn update(&mut self, number: u64, rng: &mut SmallRng) -> Result<()> {
        let field = 1 + rng.random_range(0..RECORD_BYTES as usize / 8 - 1);
        self.0.write_field(number, field, rng.random()).map(|_| ()).map_err(LabError::refused)
    }

    fn move_to(&mut self, number: u64, value: u64) -> Result<()> {
        self.0.write_field(number, INDEXED, value).map(|_| ()).map_err(LabError::refused)
    }

    fn remove(&mut self, number: u64) -> Result<()> {
        self.0.remove(number);
        Ok(())
    }

    fn insert(&mut self, number: u64, _: &mut SmallRng) -> Result<()> {
        self.0.write(number, &row(number)).map(|_| ()).map_err(LabError::refused)
    }
}

/// A store that keeps nothing and one with masks of 64 bits, and beside them wider masks or version chains,
/// by turns: queries beside updates, or if the cell has no queries, one without updates.
pub(super) fn measure(setting: &Setting, cell: &Cell) -> Result<Figures> {
    let off = of_masks::<u64>(cell, Keep::Nothing)?;
    let narrow = of_masks::<u64>(cell, Keep::Shared)?;
    let goes_on = |round| round < setting.repeats();
    if cell.part == Part::Masks {
        let of_128 = of_masks::<Wide<2>>(cell, Keep::Shared)?;
        let of_256 = of_masks::<Wide<4>>(cell, Keep::Shared)?;
        let of_512 = of_masks::<Wide<8>>(cell, Keep::Shared)?;
        let variants =
            [Variant::MasksOff, Variant::Masks64, Variant::Masks128, Variant::Masks256, Variant::Masks512];
        return in_turns(&variants, goes_on, |variant, round| match variant {
            Variant::MasksOff => off.turn(setting, cell, round),
            Variant::Masks64 => narrow.turn(setting, cell, round),
            Variant::Masks128 => of_128.turn(setting, cell, round),
            Variant::Masks256 => of_256.turn(setting, cell, round),
            _ => of_512.turn(setting, cell, round),
        });
    }
    let (every, seen) = (of_chains::<Every>(cell)?, of_chains::<Seen>(cell)?);
    let variants = [Variant::MasksOff, Variant::Masks64, Variant::Chains, Variant::ChainsSeen];
    in_turns(&variants, goes_on, |variant, round| match variant {
        Variant::MasksOff => off.turn(setting, cell, round),
        Variant::Masks64 => narrow.turn(setting, cell, round),
        Variant::Chains => every.turn(setting, cell, round),
        _ => seen.turn(setting, cell, round),
    })
}
