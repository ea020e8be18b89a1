//! The cells of the experiment.

use super::Options;
use super::cell::{Cell, Data, Kind, Pace, Part, Variant, Who};
use crate::setting::Setting;
use crate::ycsb::Requests;

/// Records of the paper, in millions.
const SIZES_M: [f64; 5] = [1.0, 2.0, 4.0, 8.0, 16.0];
/// Records of its figure 15. Without `--full` no store is larger than …
const FIGURE_15_M: f64 = 8.0;
/// … this share of that.
const SHARE: f64 = 0.25;
/// Updates among the requests, where nothing else is said.
const UPDATES: u32 = 50;
/// Updates among the requests of figures 13, 14, 16 and 17.
pub(super) const PAPER_UPDATES: u32 = 10;
/// Those of figure 15.
const PAPER_UPDATES_BEYOND: [u32; 4] = [20, 30, 40, 50];

/// The sizes of stores of records, smallest first.
pub(super) fn sizes(setting: &Setting, own: &Options) -> Vec<Data> {
    let smaller = SIZES_M.into_iter().filter(|size| *size <= FIGURE_15_M).map(|size| size * SHARE);
    let mut millions: Vec<f64> = match (&own.sizes[..], own.full) {
        ([], true) => SIZES_M.to_vec(),
        ([], false) => smaller.collect(),
        (own, _) => own.to_vec(),
    };
    millions.sort_by(f64::total_cmp);
    let millions =
        if setting.options.quick { vec![millions[0], millions[millions.len() - 1]] } else { millions };
    setting.sizes(&millions).into_iter().map(|count| Data { kind: Kind::Records, count }).collect()
}

/// The size for figure 15: the paper's, or the one next below it.
pub(super) fn figure_15(setting: &Setting, sizes: &[Data]) -> Option<Data> {
    let most = setting.scaled((FIGURE_15_M * 1e6) as u64);
    sizes.iter().rev().find(|data| data.count <= most).or(sizes.first()).copied()
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
        // A forked child has one pace, and so has the published store.
        _ if !variant.has_paces() => &[Pace::Fast],
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
    has_figure_15: bool,
    variants: &[Who],
    parts: &[Part],
) -> Vec<Cell> {
    let mut cells = Vec::new();
    let of_this = |part: &&Part| (**part == Part::Giants) == (data.kind != Kind::Records);
    for &part in parts.iter().filter(of_this) {
        for &(variant, peer) in variants.iter().filter(|(variant, _)| variant.has_part(part)) {
            for &pace in paces(part, variant) {
                let update_percent = match part {
                    Part::Figures => PAPER_UPDATES,
                    Part::Overwrite | Part::Giants => 100,
                    Part::Time => 0,
                    Part::Saturated | Part::Latency => UPDATES,
                };
                let (ycsb, quick) = (Requests::WholeRecords, setting.options.quick);
                let cell = Cell { part, variant, peer, pace, data, update_percent, ycsb, quick };
                cells.push(cell);
                if part == Part::Figures && has_figure_15 && (!variant.has_paces() || pace == Pace::Quiet) {
                    let beyond = PAPER_UPDATES_BEYOND.iter();
                    cells.extend(beyond.map(|&update_percent| Cell { update_percent, ..cell }));
                }
            }
        }
    }
    cells
}
