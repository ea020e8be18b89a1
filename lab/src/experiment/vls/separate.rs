//! Figure 11 as published: what stores of the study keep while some scans run that began together, by the way
//! in which they keep it.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

use rand::rngs::SmallRng;
use tarn_study::Records;
use tarn_study::mvcc::{Every, Seen};
use tarn_study::vls::Keep;

use super::cell::{Cell, Figures, Moment, Separate, Variant};
use super::masks::{self, ByRow, OfStudy, ROWS_AT_ONCE};
use super::measure::{UPDATES_AT_ONCE, alone_on, write};
use super::remset::looked_at;
use super::store::Update;
use crate::error::Result;
use crate::experiment::contract::SPARE_BYTES;
use crate::process::{self, beside};
use crate::setting::Setting;

/// Updates between two looks at the memory of the versions.
const UPDATES_PER_LOOK: u64 = 1024;
// Updates that come after the last look would count without having been done.
const _: () = assert!(UPDATES_PER_LOOK.is_multiple_of(UPDATES_AT_ONCE));

/// Runs the scans once in a store of each kind.
pub(super) fn measure(setting: &Setting, cell: &Cell) -> Result<Figures> {
    let (mut separate, mut preferred) = (Vec::new(), false);
    for variant in
        [Variant::Masks64, Variant::PerScan, Variant::ToTheEnd, Variant::Chains, Variant::ChainsSeen]
    {
        let (own, granted) = match variant {
            Variant::Masks64 => wave(&masks::of_masks::<u64>(cell, Keep::Shared)?, setting, cell, variant),
            Variant::PerScan => wave(&masks::of_masks::<u64>(cell, Keep::PerScan)?, setting, cell, variant),
            Variant::ToTheEnd => {
                wave(&masks::of_masks::<u64>(cell, Keep::SharedToTheEnd)?, setting, cell, variant)
            }
            Variant::Chains => wave(&masks::of_chains::<Every>(cell)?, setting, cell, variant),
            _ => wave(&masks::of_chains::<Seen>(cell)?, setting, cell, variant),
        }?;
        separate.push(own);
        preferred = granted;
    }
    Ok(Figures { separate, preferred, ..Figures::default() })
}

fn wave<S: Records>(
    store: &OfStudy<'_, S>,
    setting: &Setting,
    cell: &Cell,
    variant: Variant,
) -> Result<(Separate, bool)> {
    let (counts, begin) = (AtomicBool::new(true), Barrier::new(2));
    let most = process::available_bytes()?.saturating_sub(SPARE_BYTES) / 4 * 3;
    let update = |stops: &AtomicBool| -> Result<(f64, bool, bool)> {
        let (_pinned, preferred) = alone_on(&setting.server_cores[..1], &begin)?;
        let mut writer = Within::new(&store.0, most, stops);
        let written = write(&mut writer, cell, setting.seed, &counts, stops)?;
        Ok((written.updates_per_s(), writer.is_cut, preferred))
    };
    let (written, moments) = beside(update, || {
        begin.wait();
        let scans = (0..cell.queries).map(|_| store.scan()).collect::<Result<Vec<_>>>()?;
        let look = |ms| {
            let kept = store.0.kept();
            Moment { ms, shared: kept.versions as u64, apart: 0, bytes: kept.bytes as u64 }
        };
        looked_at(setting, look, || {
            let mut scans = scans;
            while !scans.is_empty() {
                scans.retain_mut(|scan| masks::read_some(scan) == ROWS_AT_ONCE);
            }
            Ok(())
        })
    });
    let ((updates_per_s, is_cut, preferred), moments) = (written?, moments?);
    store.0.settle();
    let left = store.0.kept().versions as u64;
    Ok((Separate { variant, moments, left, updates_per_s, is_cut }, preferred))
}

/// A writer that ends the updates when the versions take more memory than there is.
struct Within<'s, S> {
    writer: ByRow<'s, S>,
    most: u64,
    /// Ends the updates.
    stops: &'s AtomicBool,
    is_cut: bool,
    done: u64,
}

impl<'s, S: Records> Within<'s, S> {
    fn new(store: &'s S, most: u64, stops: &'s AtomicBool) -> Within<'s, S> {
        Within { writer: ByRow(store), most, stops, is_cut: false, done: 0 }
    }

    fn look(&mut self, updated: Result<()>) -> Result<()> {
        self.done += 1;
        if self.done.is_multiple_of(UPDATES_PER_LOOK) && self.writer.0.kept().bytes as u64 > self.most {
            self.is_cut = true;
            self.stops.store(true, Ordering::Relaxed);
        }
        updated
    }
}

impl<S: Records> Update for Within<'_, S> {
    fn update(&mut self, number: u64, rng: &mut SmallRng) -> Result<()> {
        let updated = self.writer.update(number, rng);
        self.look(updated)
    }

    fn move_to(&mut self, number: u64, value: u64) -> Result<()> {
        let updated = self.writer.move_to(number, value);
        self.look(updated)
    }

    fn remove(&mut self, number: u64) -> Result<()> {
        let updated = self.writer.remove(number);
        self.look(updated)
    }

    fn insert(&mut self, number: u64, rng: &mut SmallRng) -> Result<()> {
        let updated = self.writer.insert(number, rng);
        self.look(updated)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::experiment::vls::cell::{FULL, Part, Work};

    /// The updates that are counted, and those that were done, where the versions may take so many bytes.
    fn counted(rate: u32, most: u64) -> (u64, u64, bool) {
        let cell = Cell {
            part: Part::Separate,
            records: 100,
            queries: 1,
            share_percent: FULL,
            rate,
            work: Work::Field,
            writers: 1,
            threads: 1,
            quick: true,
        };
        let store = masks::of_chains::<Every>(&cell).unwrap();
        let _scan = store.scan().unwrap();
        let (counts, stops) = (AtomicBool::new(true), AtomicBool::new(false));
        let mut writer = Within::new(&store.0, most, &stops);
        let written = write(&mut writer, &cell, 7, &counts, &stops).unwrap();
        (written.done, writer.done, writer.is_cut)
    }

    #[test]
    fn updates_after_the_cut_are_neither_done_nor_counted() {
        // Every version of a record is kept: 240 bytes and more.
        for rate in [0, 1_000_000] {
            assert_eq!(counted(rate, 1), (UPDATES_PER_LOOK, UPDATES_PER_LOOK, true));
            let (counted, done, is_cut) = counted(rate, 240 * 2 * UPDATES_PER_LOOK);
            assert!(counted == done && done > UPDATES_PER_LOOK && is_cut, "{counted} of {done}");
        }
    }
}
