//! The cells of the experiment.

use super::Options;
use super::cell::{Cell, Memory, Model, Part};
use crate::server::{Product, Subject};
use crate::setting::{Setting, is_asked};
use crate::ycsb::Requests;

/// Records of the study, in millions: 1, 4 and 8 GB of raw data.
const SIZES_M: [f64; 3] = [1.0, 4.0, 8.0];
/// The share of that without `--full`.
const SHARE: f64 = 0.04;
/// Client threads of the study.
const THREADS: [u32; 2] = [1, 16];

/// The sizes of stores: small, light, heavy.
fn sizes(setting: &Setting, own: &Options) -> [u64; 3] {
    // A quick run is small already.
    let share = if own.full || setting.options.quick { 1.0 } else { SHARE };
    SIZES_M.map(|millions| setting.scaled((millions * share * 1e6) as u64))
}

/// The cells: loads by memory, threads and model, then starts by size and kind of file; servers by turns.
pub(super) fn cells(setting: &Setting, own: &Options) -> Vec<Cell> {
    let [small, light, heavy] = sizes(setting, own);
    let quick = setting.options.quick;
    let mut cells = Vec::new();
    let mut add = |cell: Cell| {
        let Cell { part, model, memory, .. } = &cell;
        if is_asked(&own.only, part) && is_asked(&own.models, model) && is_asked(&own.memory, memory) {
            let can = |own: &&Subject| {
                own.has_log(model.persistence()) && (!cell.shortens || own.dialect.rewrites())
            };
            let of = |own: &Subject| Cell { is_tarn: own.product == Product::Tarn, peer: own.peer, ..cell };
            cells.extend(setting.servers.iter().filter(can).map(of));
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
        ycsb: Requests::WholeRecords,
        quick,
    };
    for threads in THREADS {
        Model::ALL.into_iter().for_each(|model| add(Cell { model, threads, ..base }));
    }
    // The cost of shortening the log can be seen where it is written most.
    let logs = || Model::ALL.into_iter().filter(|model| model.logs());
    logs().for_each(|model| add(Cell { model, shortens: true, ..base }));
    let heavy = if quick { small } else { heavy };
    for model in Model::ALL {
        add(Cell { model, records: heavy, memory: Memory::Short, ..base });
    }
    let mut sizes = if quick { vec![small] } else { vec![small, light, heavy] };
    sizes.dedup();
    for memory in [Memory::Ample, Memory::Short] {
        for &records in &sizes {
            let of = Cell { part: Part::Recovery, records, memory, ..base };
            add(Cell { model: Model::Snapshot, ..of });
            add(Cell { model: Model::LogPeriodical, shortens: true, ..of });
            add(Cell { model: Model::LogPeriodical, shortens: false, ..of });
        }
    }
    cells
}
