//! The cells of the experiment.

use super::Options;
use super::cell::{Cell, FULL, Part};
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
/// Attempted updates a second in an open loop: the paper's default, and the most of the paper.
const RATES: [u32; 2] = [10_000, 100_000];

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
    let queries: Vec<usize> = if own.queries.is_empty() { queries.to_vec() } else { own.queries.clone() };
    let shares = if quick { &SHARES[..1] } else { &SHARES[..] };
    let shares: Vec<u32> = std::iter::once(FULL).chain(shares.iter().copied()).collect();
    let mut cells = Vec::new();
    for records in sizes(setting, own) {
        let mut add = |part, queries, share_percent, rate| {
            cells.push(Cell { part, records, queries, share_percent, rate, quick });
        };
        for part in Part::ALL.into_iter().filter(|part| is_asked(&own.only, part)) {
            match part {
                Part::Alone => shares.iter().for_each(|share| add(part, 1, *share, 0)),
                Part::Updates => {
                    for share in &shares {
                        queries.iter().for_each(|queries| add(part, *queries, *share, 0));
                    }
                }
                Part::Latency => {
                    for share in &shares {
                        queries.iter().for_each(|queries| add(part, *queries, *share, RATES[0]));
                    }
                    queries.iter().for_each(|queries| add(part, *queries, FULL, RATES[1]));
                }
                Part::Remset => {
                    let together = if quick { &QUERIES_TOGETHER[..2] } else { &QUERIES_TOGETHER[..] };
                    let rates = if quick { &[0][..] } else { &[0, RATES[1]][..] };
                    for rate in rates {
                        together.iter().for_each(|queries| add(part, *queries, FULL, *rate));
                    }
                }
                Part::Masks => {
                    add(part, 0, FULL, 0);
                    add(part, 1, FULL, 0);
                    add(part, 8, FULL, 0);
                    add(part, 1, FULL, RATES[1]);
                }
                Part::Opening | Part::References => add(part, 0, 0, 0),
            }
        }
    }
    cells
}
