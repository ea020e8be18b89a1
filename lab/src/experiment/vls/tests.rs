//! Tests targets and reports with made-up results.

#![allow(clippy::unwrap_used)]

use clap::{Args, FromArgMatches};

use super::cell::{
    Cell, FULL, Figures, Measured, Moment, Opening, Part, Reference, Remset, Turns, Variant, Work,
};
use super::{Options, Vls, plan};
use crate::error::LabError;
use crate::experiment::contract::{check, draw};
use crate::experiment::{Experiment, ResultsOf, Wanted};
use crate::setting::{self, Setting};

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

#[test]
fn two_parts_alone_need_servers() {
    let command = setting::Options::augment_args(clap::Command::new("vls"));
    let options = setting::Options::from_arg_matches(&command.get_matches_from(["vls"])).unwrap();
    let setting = Setting::of(Vec::new(), options).unwrap();
    let starts = |only: &[Part]| {
        let own = Options { only: only.to_vec(), ..Options::default() };
        Vls::new(setting.clone(), own).starts_servers()
    };
    assert!(starts(&[]) && starts(&[Part::Separate, Part::Served]) && starts(&[Part::References]));
    assert!(!starts(&[Part::Separate, Part::Alone]));
    // A measurement of all stores lacks none, whatever is installed here.
    let of = |what: &str| Reference { what: what.to_owned(), query: String::new(), seconds: Vec::new() };
    let references = ["postgresql, psql", "duckdb, in process"].map(of).to_vec();
    let whole = Figures { references, ..Figures::default() };
    let vls = Vls::new(setting.clone(), Options::default());
    assert!(
        !vls.lacks(&cell(Part::References, FULL), &whole) && !vls.lacks(&cell(Part::Alone, FULL), &whole)
    );
}

#[test]
fn the_papers_load_has_ten_writers_and_a_thread_for_each_query() {
    let of = |own: &Options| plan::over_a_server(cell(Part::Served, FULL), own, 5, &[10_000, 100_000]);
    let cells = of(&Options::default());
    let load = |own: &Cell| (own.writers, own.rate, own.share_percent, own.queries, own.threads);
    let loads: Vec<_> = cells.iter().map(load).collect();
    let by_share = |share| [(10, 10_000, share, 1, 1), (10, 10_000, share, 8, 8)];
    assert_eq!(loads, [by_share(100), by_share(5)].concat());
    assert_eq!(of(&Options { full: true, queries: vec![2], ..Options::default() }).len(), 4);
}

#[test]
fn repeats_have_whiskers_which_are_explained() {
    let turn = |updates_per_s| Measured { updates_per_s, rows_per_s: 1e6, ..Measured::default() };
    let page = |turns: &[Measured]| {
        let variants = vec![Turns { variant: Variant::Vls, turns: turns.to_vec() }];
        let own = Figures { variants, ..Figures::default() };
        check::page::<Vls>(
            &ResultsOf::<Vls>::invented(Vls::NAME, &[(cell(Part::Updates, FULL), own)]),
            Wanted::default(),
        )
    };
    let several = page(&[turn(10.0), turn(30.0), turn(20.0)]);
    let chart = &check::charts(&several)[0];
    assert_eq!(chart["series"][0]["data"][0], 20.0, "{chart}");
    assert_eq!(chart["series"][0]["whiskers"], serde_json::json!([[0, 10.0, 30.0]]), "{chart}");
    assert!(several.contains("from the least to the greatest of its repeats"), "{several}");
    let one = page(&[turn(10.0)]);
    assert_eq!(check::charts(&one)[0]["series"][0]["whiskers"], serde_json::json!([]));
    assert!(!one.contains("from the least to the greatest of its repeats"), "{one}");
}

#[test]
fn a_report_of_full_measurements_refuses_quick_ones() {
    let results = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/results/vls.jsonl");
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("vls.html");
    let drawn = |wanted| draw::<Vls>(results.as_ref(), &out, wanted);
    let Err(LabError::Arguments(why)) = drawn(Wanted { quick: false, full: true }) else {
        panic!("quick measurements are drawn as full ones")
    };
    assert!(why.ends_with("has measurements of --quick only"), "{why}");
    assert!(!out.exists());
    drawn(Wanted::default()).unwrap();
    assert!(std::fs::read_to_string(&out).unwrap().contains("small and short (--quick)"));
}
