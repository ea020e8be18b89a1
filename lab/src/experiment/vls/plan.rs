//! The cells of the experiment.

use super::Options;
use super::cell::{Cell, FULL, Part, Work};
use crate::setting::{Setting, is_asked};

/// Records, in millions.
const SIZE_M: f64 = 1.0;
/// With `--full`: the paper's smaller table as well.
const SIZE_FULL_M: f64 = 10.0;
/// Queries at the same time.
const QUERIES: [usize; 3] = [1, 8, 64];
/// The numbers of queries that begin together, whose kept versions are counted.
const QUERIES_TOGETHER: [usize; 4] = [1, 8, 16, 64];
/// The shares of the records that index scans read, in percent.
const SHARES: [u32; 3] = [5, 10, 25];
/// Threads that update over a server, as in the paper.
const WRITERS_SERVED: usize = 10;
/// Queries at the same time there.
const QUERIES_SERVED: [usize; 2] = [1, 8];
/// Attempted updates a second in an open loop: the paper's default, and the most of the paper.
const RATES: [u32; 2] = [10_000, 100_000];
/// With `--full`: all of the paper's.
const RATES_FULL: [u32; 4] = [10_000, 20_000, 30_000, 100_000];

/// The sizes of stores, smallest first.
pub(super) fn sizes(setting: &Setting, own: &Options) -> Vec<u64> {
    setting.sizes(match (&own.sizes[..], own.full) {
        ([], false) => &[SIZE_M],
        ([], true) => &[SIZE_M, SIZE_FULL_M],
        (own, _) => own,
    })
}

/// The cells, by size: those of a size have one store.
pub(super) fn cells(setting: &Setting, own: &Options) -> Vec<Cell> {
    let quick = setting.options.quick;
    let queries = if quick { &QUERIES[..2] } else { &QUERIES[..] };
    let queries = if own.queries.is_empty() { queries } else { &own.queries };
    let shares = if quick { &SHARES[..1] } else { &SHARES[..] };
    let rates = match (&own.rates[..], own.full) {
        ([], false) => RATES.to_vec(),
        ([], true) => RATES_FULL.to_vec(),
        (own, _) => own.to_vec(),
    };
    let (writers, threads) = (own.writers.unwrap_or(1), own.threads.unwrap_or(1));
    let mut cells = Vec::new();
    for records in sizes(setting, own) {
        for part in Part::ALL.into_iter().filter(|part| is_asked(&own.only, part)) {
            let cell = Cell {
                part,
                records,
                queries: 0,
                share_percent: FULL,
                rate: 0,
                work: Work::Field,
                writers: 1,
                threads: 1,
                quick,
            };
            let with = |queries: usize, share_percent, rate| {
                let threads = threads.clamp(1, queries.max(1));
                Cell { queries, share_percent, rate, writers, threads, ..cell }
            };
            cells.extend(match part {
                Part::Remset | Part::Separate => together(cell, &rates),
                Part::Served => over_a_server(cell, own, shares[0], &rates),
                _ => of_part(cell, with, queries, shares, &rates),
            });
        }
    }
    cells
}

/// Queries that begin together, on one thread, beside one writer, whatever numbers are asked for: so no query
/// is far ahead of the others, and what separate remsets add is the most that there can be.
fn together(cell: Cell, rates: &[u32]) -> Vec<Cell> {
    let counts = if cell.quick { &QUERIES_TOGETHER[..2] } else { &QUERIES_TOGETHER[..] };
    // A closed loop, then the paper's rate for this figure, then the most.
    let mut own = if cell.quick { vec![0] } else { vec![0, rates[0], rates[rates.len() - 1]] };
    own.dedup();
    let of_rate = |rate: u32| counts.iter().map(move |queries| Cell { queries: *queries, rate, ..cell });
    own.into_iter().flat_map(of_rate).collect()
}

/// The paper's load: ten writers and a thread for each query, which reads all or a share by index; at the
/// first rate, or those that are asked for.
pub(super) fn over_a_server(cell: Cell, own: &Options, share: u32, rates: &[u32]) -> Vec<Cell> {
    let counts = if own.queries.is_empty() { &QUERIES_SERVED[..] } else { &own.queries };
    let rates = if own.full || !own.rates.is_empty() { rates } else { &rates[..1] };
    let mut cells = Vec::new();
    for &rate in rates {
        for share_percent in [FULL, share] {
            let writers = WRITERS_SERVED;
            let with = |&queries| Cell { queries, threads: queries, share_percent, rate, writers, ..cell };
            cells.extend(counts.iter().map(with));
        }
    }
    cells
}

/// The cells of the other parts. `with` makes one of queries, a share and a rate.
fn of_part(
    cell: Cell,
    with: impl Fn(usize, u32, u32) -> Cell,
    queries: &[usize],
    shares: &[u32],
    rates: &[u32],
) -> Vec<Cell> {
    let all_shares = std::iter::once(FULL).chain(shares.iter().copied());
    let most = rates[rates.len() - 1];
    let each = |share: u32, rate: u32| queries.iter().map(move |queries| (*queries, share, rate));
    match cell.part {
        Part::Alone => all_shares.map(|share_percent| Cell { queries: 1, share_percent, ..cell }).collect(),
        Part::Updates => all_shares.flat_map(|share| each(share, 0)).map(|(q, s, r)| with(q, s, r)).collect(),
        Part::Latency => {
            let at_first = all_shares.flat_map(|share| each(share, rates[0]));
            let at_others = rates[1..].iter().flat_map(|rate| each(FULL, *rate));
            at_first.chain(at_others).map(|(q, s, r)| with(q, s, r)).collect()
        }
        Part::Masks | Part::Versions => {
            let alone = all_shares.clone().map(|share_percent| Cell { share_percent, ..cell });
            let beside = [(1, FULL, 0), (8, FULL, 0), (1, FULL, most)].into_iter();
            let by_index = shares.iter().map(|share| (8, *share, 0));
            let beside = beside.chain(by_index).map(|(q, s, r)| with(q, s, r));
            let work = |work| Cell { work, ..with(8, shares[0], 0) };
            alone.chain(beside).chain([Work::Move, Work::Mixed].map(work)).collect()
        }
        Part::Moves => {
            let work = |work| [FULL, shares[0]].map(|share| Cell { work, ..with(8, share, 0) });
            [Work::Move, Work::Mixed].into_iter().flat_map(work).collect()
        }
        _ => vec![Cell { share_percent: 0, ..cell }],
    }
}
