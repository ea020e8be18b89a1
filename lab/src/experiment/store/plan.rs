//! The cells of the experiment.

use super::Options;
use super::cell::{Cell, Data, Kind, Pace, Part, Variant};
use crate::setting::Setting;

/// Records of the paper, in millions.
const SIZES_M: [f64; 4] = [1.0, 2.0, 4.0, 8.0];
/// The share of that without `--full`.
const SHARE: f64 = 0.25;
/// Updates among the requests, where nothing else is said.
const UPDATES: u32 = 50;
/// Updates among the requests of figures 13, 14, 16 and 17.
pub(super) const PAPER_UPDATES: u32 = 10;
/// Those of figure 15, at the largest size.
const PAPER_UPDATES_BEYOND: [u32; 4] = [20, 30, 40, 50];

/// The sizes of stores of records, smallest first.
pub(super) fn sizes(setting: &Setting, own: &Options) -> Vec<Data> {
    let share = if own.full || !own.sizes.is_empty() { 1.0 } else { SHARE };
    let millions = if own.sizes.is_empty() { SIZES_M.to_vec() } else { own.sizes.clone() };
    let millions =
        if setting.options.quick { vec![millions[0], millions[millions.len() - 1]] } else { millions };
    let millions: Vec<f64> = millions.into_iter().map(|size| size * share).collect();
    setting.sizes(&millions).into_iter().map(|count| Data { kind: Kind::Records, count }).collect()
}

/// The giants at this scale. The numbers of lists and of smaller hashes shrink; the largest hash and the
/// string only with `--scale` and `--quick`.
pub(super) fn giants(setting: &Setting, own: &Options) -> Vec<Data> {
    let share = if own.full { 1.0 } else { SHARE };
    let data = |kind| {
        let count = match kind {
            Kind::Lists => setting.scaled((50_000.0 * share) as u64),
            Kind::Hash500 => setting.scaled((20_000.0 * share) as u64),
            Kind::Hash10k => setting.scaled((1_000.0 * share) as u64).div_euclid(10).max(1) * 10,
            Kind::Hash5m => setting.scaled(5_000_000),
            Kind::String => setting.scaled(512).min(512),
            Kind::Records => setting.scaled(1),
        };
        Data { kind, count }
    };
    Kind::GIANTS.into_iter().map(data).collect()
}

/// The paces at which a part measures a variant.
fn paces(part: Part, variant: Variant) -> &'static [Pace] {
    match part {
        // A forked child has one pace.
        _ if variant.forks() => &[Pace::Fast],
        Part::Overwrite | Part::Giants => &[Pace::Quiet],
        Part::Time => &[Pace::Fast],
        Part::Saturated | Part::Latency | Part::Figures => &[Pace::Quiet, Pace::Fast],
    }
}

/// The cells of some data, by part and then by variant, so that disturbances of the machine affect all
/// variants alike.
pub(super) fn cells(
    setting: &Setting,
    data: Data,
    is_largest: bool,
    variants: &[Variant],
    parts: &[Part],
) -> Vec<Cell> {
    let mut cells = Vec::new();
    let of_this = |part: &&Part| (**part == Part::Giants) == (data.kind != Kind::Records);
    for &part in parts.iter().filter(of_this) {
        for &variant in variants {
            // Of a store without changes, an incremental checkpoint has nothing to write.
            if part == Part::Time && variant == Variant::TarnIncremental {
                continue;
            }
            for &pace in paces(part, variant) {
                let update_percent = match part {
                    Part::Figures => PAPER_UPDATES,
                    Part::Overwrite | Part::Giants => 100,
                    Part::Time => 0,
                    Part::Saturated | Part::Latency => UPDATES,
                };
                let cell = Cell { part, variant, pace, data, update_percent, quick: setting.options.quick };
                cells.push(cell);
                if part == Part::Figures && is_largest && (variant.forks() || pace == Pace::Quiet) {
                    let beyond = PAPER_UPDATES_BEYOND.iter();
                    cells.extend(beyond.map(|&update_percent| Cell { update_percent, ..cell }));
                }
            }
        }
    }
    cells
}
