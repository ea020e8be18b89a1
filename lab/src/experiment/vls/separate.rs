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
use super::measure::{alone_on, write};
use super::remset::looked_at;
use super::store::Update;
use crate::error::Result;
use crate::experiment::contract::SPARE_BYTES;
use crate::process::{self, beside};
use crate::setting::Setting;

/// Updates between two looks at the memory of the versions.
const UPDATES_PER_LOOK: u64 = 1024;

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
    let (counts, begin, is_cut) = (AtomicBool::new(true), Barrier::new(2), AtomicBool::new(false));
    let most = process::available_bytes()?.saturating_sub(SPARE_BYTES) / 4 * 3;
    let update = |stops: &_| -> Result<(f64, bool)> {
        let (_pinned, preferred) = alone_on(&setting.server_cores[..1], &begin)?;
        let mut writer = Within { writer: ByRow(&store.0), store: &store.0, most, is_cut: &is_cut, done: 0 };
        let written = write(&mut writer, cell, setting.seed, &counts, stops)?;
        Ok((written.updates_per_s, preferred))
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
    let ((updates_per_s, preferred), moments) = (written?, moments?);
    store.0.settle();
    let left = store.0.kept().versions as u64;
    let is_cut = is_cut.into_inner();
    Ok((Separate { variant, moments, left, updates_per_s, is_cut }, preferred))
}

/// A writer that ceases while the versions take more memory than there is.
struct Within<'s, S> {
    writer: ByRow<'s, S>,
    store: &'s S,
    most: u64,
    is_cut: &'s AtomicBool,
    done: u64,
}

impl<S: Records> Within<'_, S> {
    fn ceases(&mut self) -> bool {
        self.done += 1;
        if self.done.is_multiple_of(UPDATES_PER_LOOK) && self.store.kept().bytes as u64 > self.most {
            self.is_cut.store(true, Ordering::Relaxed);
        }
        self.is_cut.load(Ordering::Relaxed)
    }
}

impl<S: Records> Update for Within<'_, S> {
    fn update(&mut self, number: u64, rng: &mut SmallRng) -> Result<()> {
        if self.ceases() { Ok(()) } else { self.writer.update(number, rng) }
    }

    fn move_to(&mut self, number: u64, value: u64) -> Result<()> {
        if self.ceases() { Ok(()) } else { self.writer.move_to(number, value) }
    }

    fn remove(&mut self, number: u64) -> Result<()> {
        if self.ceases() { Ok(()) } else { self.writer.remove(number) }
    }

    fn insert(&mut self, number: u64, rng: &mut SmallRng) -> Result<()> {
        if self.ceases() { Ok(()) } else { self.writer.insert(number, rng) }
    }
}
