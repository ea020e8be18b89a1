//! The cells of the experiment.

use super::Options;
use super::cell::{Cell, Part, Variant};
use crate::load::KeyChoice;
use crate::server::PeerName;
use crate::setting::{Setting, is_asked};
use crate::shortage::Shortage;
use crate::ycsb::Requests;

/// Records of the thesis, in millions.
const SIZES_M: [f64; 6] = [2.0, 4.0, 6.0, 8.0, 10.0, 12.0];
/// Without `--full` every other size of that …
const STEP: usize = 2;
/// … and this share of it.
const SHARE: f64 = 0.02;
/// Updates among the requests, in percent.
const UPDATES: [u32; 5] = [10, 30, 50, 70, 90];
/// Limits of memory by the raw data, in percent. The thesis has 2.7 to 16 times as much memory as data, of
/// which its server needs about twice as much; servers of today need half of that.
const RATIOS: [u32; 3] = [150, 200, 300];
/// The same with `--quick`.
const RATIOS_QUICK: [u32; 1] = [200];
/// Where nothing else is said.
const UPDATES_USUAL: u32 = 50;

/// A variant, and the peer that stands in its place.
pub(super) type Who = (Variant, Option<PeerName>);

/// The variants that are asked for and there, and the peers: a log only where it can be made shorter.
pub(super) fn variants(setting: &Setting, own: &Options) -> Vec<Who> {
    let is_there =
        |variant: &Variant| is_asked(&own.variants, variant) && setting.has(variant.traits().product);
    let variants = Variant::ALL.into_iter().filter(is_there).map(|variant| (variant, None));
    let peers = setting.peers().flat_map(|own| {
        let log = own.dialect.rewrites().then_some((Variant::RedisAof, own.peer));
        std::iter::once((Variant::RedisRdb, own.peer)).chain(log)
    });
    variants.chain(peers).collect()
}

/// The sizes of stores, smallest first.
pub(super) fn sizes(setting: &Setting, own: &Options) -> Vec<u64> {
    setting.sizes(&match (&own.sizes[..], own.full, setting.options.quick) {
        ([], true, _) => SIZES_M.to_vec(),
        ([], _, true) => vec![SIZES_M[0]],
        ([], _, _) => SIZES_M.into_iter().skip(1).step_by(STEP).map(|size| size * SHARE).collect(),
        (own, _, _) => own.to_vec(),
    })
}

/// The cells, by part and size and then by variant, so that disturbances of the machine affect all alike.
pub(super) fn cells(setting: &Setting, own: &Options, variants: &[Who]) -> Vec<Cell> {
    let sizes = sizes(setting, own);
    let Some(&largest) = sizes.last() else { return Vec::new() };
    let mut cells = Vec::new();
    let mut add = |part, records, update_percent, access, shortage| {
        for &(variant, peer) in variants.iter().filter(|(own, _)| is_measured(part, *own, update_percent)) {
            let (ycsb, quick) = (Requests::WholeRecords, setting.options.quick);
            cells.push(Cell { part, variant, peer, records, update_percent, access, shortage, ycsb, quick });
        }
    };
    for part in Part::ALL.into_iter().filter(|part| is_asked(&own.only, part)) {
        match part {
            Part::Checkpoints => {
                sizes.iter().for_each(|&size| add(part, size, UPDATES_USUAL, KeyChoice::Zipfian, None));
                let shares = UPDATES.into_iter().filter(|&share| share != UPDATES_USUAL);
                let shares = shares.filter(|share| !setting.options.quick || *share == UPDATES[0]);
                // The thesis varies them near its largest store.
                shares.for_each(|share| add(part, largest, share, KeyChoice::Zipfian, None));
            }
            Part::Short => {
                let usual = if setting.options.quick { &RATIOS_QUICK[..] } else { &RATIOS };
                let shortages = own.short.shortages(usual, &setting.dir);
                for (limit, share) in short_cells(&shortages, setting.options.quick) {
                    add(part, largest, share, KeyChoice::Zipfian, Some(limit));
                }
            }
            Part::Alone => sizes.iter().for_each(|&size| add(part, size, 100, KeyChoice::Uniform, None)),
            Part::Latency => add(part, largest, UPDATES_USUAL, KeyChoice::Zipfian, None),
            Part::Files => {
                sizes.iter().for_each(|&size| add(part, size, UPDATES_USUAL, KeyChoice::Zipfian, None))
            }
            Part::Positions => {
                sizes.iter().for_each(|&size| add(part, size, UPDATES_USUAL, KeyChoice::Zipfian, None));
            }
            Part::Writes => {
                add(part, sizes[0], 100, KeyChoice::Zipfian, None);
                add(part, sizes[0], 100, KeyChoice::Uniform, None);
            }
        }
    }
    cells
}

/// The limits, each with a share of updates; where memory is least, with the least and the most, too.
fn short_cells(limits: &[Shortage], quick: bool) -> Vec<(Shortage, u32)> {
    let mut cells: Vec<_> = limits.iter().map(|limit| (*limit, UPDATES_USUAL)).collect();
    let least = limits.iter().min_by_key(|limit| limit.percent).filter(|_| !quick);
    let ends = [UPDATES[0], UPDATES[UPDATES.len() - 1]];
    cells.extend(least.into_iter().flat_map(|limit| ends.map(|share| (*limit, share))));
    cells
}

/// True if a part measures a variant at this share of updates.
fn is_measured(part: Part, variant: Variant, update_percent: u32) -> bool {
    let is_in_process = matches!(variant, Variant::Ordinals | Variant::PublishedOrdinals | Variant::Lsns);
    match part {
        Part::Positions => is_in_process,
        _ if is_in_process => false,
        // Without a checkpoint one share of updates says all; without a bound it is the same as with one.
        Part::Checkpoints => {
            update_percent == UPDATES_USUAL
                || !matches!(variant, Variant::Off | Variant::None | Variant::VtcFast)
        }
        Part::Short => {
            matches!(variant, Variant::Vtc | Variant::Snapshot | Variant::RedisRdb | Variant::RedisAof)
        }
        Part::Alone => matches!(variant, Variant::VtcFast | Variant::RedisRdb),
        Part::Latency => true,
        Part::Files => !matches!(variant, Variant::Off | Variant::VtcFast),
        Part::Writes => matches!(variant, Variant::None | Variant::Vtc | Variant::RedisAof),
    }
}
