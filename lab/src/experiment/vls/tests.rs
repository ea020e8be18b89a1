//! Tests targets and reports with made-up results.

#![allow(clippy::unwrap_used)]

use super::Vls;
use super::cell::{Cell, FULL, Figures, Measured, Moment, Opening, Part, Remset, Turns, Variant, Work};
use crate::experiment::{Experiment, ResultsOf, Wanted};

fn cell(part: Part, share_percent: u32) -> Cell {
    Cell {
        part,
        records: 1_000_000,
        queries: 8,
        share_percent,
        rate: 0,
        work: Work::Field,
        writers: 1,
        threads: 1,
        quick: false,
    }
}

fn pair(live: Measured, vls: Measured) -> Figures {
    let turns = |variant, turn| Turns { variant, turns: vec![turn, turn] };
    let variants = vec![turns(Variant::Live, live), turns(Variant::Vls, vls)];
    Figures { variants, ..Figures::default() }
}

fn kept(shared: u64, apart: u64, left: u64) -> Figures {
    let moments = vec![Moment { ms: 1.0, shared, apart, bytes: 1 }; 2];
    Figures { remset: Remset { moments, left, ..Remset::default() }, ..Figures::default() }
}

#[test]
fn what_is_left_or_stale_is_broken() {
    let of = |figures| [(cell(Part::Remset, FULL), figures)];
    let broken =
        |figures| Vls::broken(&ResultsOf::<Vls>::invented(Vls::NAME, &of(figures)), Wanted::default());
    assert_eq!((broken(kept(1, 8, 0)), broken(kept(1, 8, 1))), (0, 1));
    let stale = Opening { asked: 9, stale: 1, ..Opening::default() };
    assert_eq!(broken(Figures { opening: stale, ..Figures::default() }), 1);
    let turn = Measured { versions_left: 1, ..Measured::default() };
    assert_eq!(broken(pair(turn, turn)), 1);
}
