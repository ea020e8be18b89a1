//! The cells of the experiment.

use super::Options;
use super::cell::{Cell, Memory, Model, Part};
use crate::dialect::Dialect;
use crate::server::{Product, Subject};
use crate::setting::{Setting, is_asked};
use crate::shortage::{Means, Shortage};
use crate::ycsb::{Requests, Values};

/// Records of the study, in millions: 1, 4 and 8 GB of raw data.
const SIZES_M: [f64; 3] = [1.0, 4.0, 8.0];
/// The share of that without `--full`.
const SHARE: f64 = 0.04;
/// Limits of memory by the raw data, in percent: with the overhead of the study's server, 1 GB of memory for
/// 1 GB of data is half of what is needed, and 2 GB are hardly enough. Servers of today need half of that.
const RATIOS: [u32; 2] = [50, 100];
/// The same with `--quick`.
const RATIOS_QUICK: [u32; 1] = [75];
/// Client threads of the study.
const THREADS: [u32; 2] = [1, 16];

/// The sizes of stores: small, light, heavy.
fn sizes(setting: &Setting, own: &Options) -> [u64; 3] {
    // A quick run is small already.
    let share = if own.full || setting.options.quick { 1.0 } else { SHARE };
    SIZES_M.map(|millions| setting.scaled((millions * share * 1e6) as u64))
}

/// The limits where memory is short; none if it never is.
fn shortages(setting: &Setting, own: &Options) -> Vec<Shortage> {
    let usual = if setting.options.quick { &RATIOS_QUICK[..] } else { &RATIOS };
    if is_asked(&own.memory, &Memory::Short) { own.short.shortages(usual, &setting.dir) } else { Vec::new() }
}

/// True if a server can be measured so.
fn can(cell: &Cell, own: &Subject) -> bool {
    // Other dialects have other directives.
    let is_redis = own.dialect == Dialect::Redis;
    let has_maxmemory = is_redis && own.product == Product::RedisServer && cell.part == Part::Load;
    own.has_log(cell.model.persistence())
        && (!cell.shortens || own.dialect.rewrites())
        && (cell.part != Part::Compression || (is_redis && cell.compression().is_some()))
        && (cell.part != Part::Fsync || is_redis)
        && (cell.limit().is_none_or(|limit| limit.by != Means::Maxmemory) || has_maxmemory)
}

/// The cells: loads by memory, threads and model, then starts by size and kind of file; servers by turns.
pub(super) fn cells(setting: &Setting, own: &Options) -> Vec<Cell> {
    let [small, light, heavy] = sizes(setting, own);
    let quick = setting.options.quick;
    let mut cells = Vec::new();
    let mut add = |cell: Cell| {
        let Cell { part, model, memory, .. } = &cell;
        if is_asked(&own.only, part) && is_asked(&own.models, model) && is_asked(&own.memory, memory) {
            let of = |own: &Subject| {
                let cell = Cell { is_tarn: own.product == Product::Tarn, peer: own.peer, ..cell };
                can(&cell, own).then_some(cell)
            };
            cells.extend(setting.servers.iter().filter_map(of));
        }
    };
    let base = Cell {
        part: Part::Load,
        is_tarn: true,
        peer: None,
        model: Model::NoSave,
        shortens: false,
        threads: THREADS[1],
        records: if quick { small } else { light },
        memory: Memory::Ample,
        shortage: None,
        compresses: false,
        incremental_fsync: false,
        values: Values::Random,
        ycsb: Requests::WholeRecords,
        quick,
    };
    for threads in THREADS {
        Model::ALL.into_iter().for_each(|model| add(Cell { model, threads, ..base }));
    }
    // The cost of shortening the log can be seen where it is written most.
    let logs = || Model::ALL.into_iter().filter(|model| model.logs());
    logs().for_each(|model| add(Cell { model, shortens: true, ..base }));
    let short = |limit: Shortage, of: Cell| Cell { memory: Memory::Short, shortage: Some(limit), ..of };
    let (shortages, heavy) = (shortages(setting, own), if quick { small } else { heavy });
    for limit in &shortages {
        Model::ALL.into_iter().for_each(|model| add(short(*limit, Cell { model, records: heavy, ..base })));
    }
    let mut sizes = if quick { vec![small] } else { vec![small, light, heavy] };
    sizes.dedup();
    let ample = sizes.iter().map(|&records| Cell { part: Part::Recovery, records, ..base });
    // The study compares starts at the size that fits one of its machines.
    let starts =
        ample.chain(shortages.iter().map(|limit| short(*limit, Cell { part: Part::Recovery, ..base })));
    let kinds = [(Model::Snapshot, false), (Model::LogPeriodical, true), (Model::LogPeriodical, false)];
    let of_kinds = |of: Cell| kinds.map(|(model, shortens)| Cell { model, shortens, ..of });
    let others = [Part::Inserts, Part::Cold].map(|part| Cell { part, ..base });
    starts.chain(others).flat_map(of_kinds).for_each(&mut add);
    for values in Values::ALL {
        for model in [Model::Snapshot, Model::LogPeriodical] {
            let of = Cell { part: Part::Compression, model, values, ..base };
            [false, true].into_iter().for_each(|compresses| add(Cell { compresses, ..of }));
        }
    }
    for (model, shortens) in [(Model::Snapshot, false), (Model::LogPeriodical, true)] {
        let of = Cell { part: Part::Fsync, model, shortens, ..base };
        [false, true].into_iter().for_each(|incremental_fsync| add(Cell { incremental_fsync, ..of }));
    }
    cells
}
