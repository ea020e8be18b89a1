//! Tests the report and the targets with changed results.

use clap::{Args, FromArgMatches};

use super::cell::{Cell, Part, Variant};
use super::{Options, Store, can, measure, plan};
use crate::dialect::Dialect;
use crate::experiment::contract::{check, html};
use crate::experiment::{Experiment, ResultsOf, Wanted};
use crate::ledger::{Blame, Cause};
use crate::setting::{self, Setting};

const RECORDED: &str = include_str!("../../../tests/results/store.jsonl");
const QUICK: Wanted = Wanted { quick: true, full: false };

#[test]
fn the_newest_line_of_a_cell_counts_and_quick_ones_stay_apart() {
    let mut results: ResultsOf<Store> = check::read(RECORDED, Store::NAME);
    results.lines.retain(|line| line.cell.part == Part::Latency && line.cell.variant == Variant::TarnFull);
    results.lines.truncate(1);
    let add = |results: &mut ResultsOf<Store>, quick: bool, p999_us: f64| {
        let mut line = results.lines[0].clone();
        (line.cell.quick, line.figures.course.during_all.p999_us) = (quick, p999_us);
        results.lines.push(line);
    };
    let slow = results.lines[0].figures.course.without_all.p999_us * 5.0;
    add(&mut results, true, slow);
    assert_eq!(check::judged::<Store>(&results, QUICK, "p99.9"), [false]);
    add(&mut results, true, slow / 5.0);
    add(&mut results, false, slow);
    assert_eq!(check::judged::<Store>(&results, QUICK, "p99.9"), [true]);
}

#[test]
fn measurements_of_other_requests_are_left_out() {
    let all: ResultsOf<Store> = check::read(RECORDED, Store::NAME);
    let mut lines: Vec<&str> = RECORDED.lines().collect();
    let before = lines[0].replacen(r#""ycsb":"whole-records","#, "", 1);
    assert_ne!(before, lines[0]);
    lines[0] = &before;
    let rest: ResultsOf<Store> = check::read(&lines.join("\n"), Store::NAME);
    assert_eq!(rest.lines.len(), all.lines.len() - 1);
}

/// The experiment where no server is installed.
fn asked(words: &[&str]) -> (Setting, Options) {
    let command = Options::augment_args(setting::Options::augment_args(clap::Command::new("store")));
    let found = command.get_matches_from([&["store"], words].concat());
    let own = Options::from_arg_matches(&found).expect("the options are valid");
    let options = setting::Options::from_arg_matches(&found).expect("the options are valid");
    (Setting::of(Vec::new(), options).expect("there is a directory for temporary files"), own)
}

#[test]
fn the_published_store_needs_no_server_and_takes_part_where_it_can() {
    let of = |words: &[&str]| {
        let (setting, own) = asked(words);
        let cells = Store::new(setting, own).plan().expect("there is a plan");
        cells.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let cells = of(&["--sizes", "1", "--scale", "0.001", "--variants", "published-hourglass"]);
    let figures = [10, 20, 30, 40, 50]
        .map(|updates| format!("figures: published-hourglass, 1 000 records, {updates} % updates"));
    let others = ["latency", "overwrite"].map(|part| format!("{part}: published-hourglass, 1 000 records"));
    assert_eq!(cells, [&others[..1], &figures, &others[1..]].concat());
    assert!(of(&["--only", "figures"]).iter().all(|cell| cell.contains("published-")));
    assert!(of(&["--only", "giants,time,saturated"]).is_empty());
    assert!(of(&["--only", "figures", "--servers", "tarn"]).is_empty());
    assert!(!of(&["--servers", "tarn", "--variants", "published-piggyback"]).is_empty());
}

#[test]
fn the_sizes_are_those_of_the_paper_with_full_and_a_quarter_of_most_without() {
    let of = |words: &[&str]| {
        let (setting, own) = asked(words);
        let sizes = plan::sizes(&setting, &own);
        let figure_15 = plan::figure_15(&setting, &sizes).map(|data| data.count);
        (sizes.iter().map(|data| data.count / 1000).collect::<Vec<_>>(), figure_15)
    };
    assert_eq!(of(&["--full"]), (vec![1000, 2000, 4000, 8000, 16_000], Some(8_000_000)));
    assert_eq!(of(&[]), (vec![250, 500, 1000, 2000], Some(2_000_000)));
    assert_eq!(of(&["--sizes", "12,16"]), (vec![12_000, 16_000], Some(12_000_000)));
    assert_eq!(of(&["--full", "--scale", "0.001"]), (vec![1, 2, 4, 8, 16], Some(8000)));
    assert_eq!(of(&["--quick"]), (vec![2, 20], Some(20_000)));
    assert_eq!(of(&["--quick", "--sizes", "1,0.25,0.5"]), (vec![2, 10], Some(10_000)));
}

#[test]
fn a_peer_measures_what_it_can_hold() {
    let of = |dialect: Dialect| {
        let (setting, own) = asked(&["--quick"]);
        let data = plan::sizes(&setting, &own).into_iter().chain(plan::giants(&setting, &own));
        let (parts, who) = ([Part::Overwrite, Part::Giants], [(Variant::RedisServer, None)]);
        let cells = data.flat_map(|data| plan::cells(&setting, data, false, &who, &parts));
        let cells = cells.filter(|cell| can(cell, dialect));
        let mut names: Vec<_> = cells.map(|cell| cell.data.kind.name()).collect();
        names.dedup();
        names
    };
    assert_eq!(of(Dialect::Redis), ["records", "lists", "hash500", "hash10k", "hash5m", "string"]);
    assert_eq!(of(Dialect::Tarantool)[..2], ["records", "hash500"]);
    assert!(!of(Dialect::Tarantool).contains(&"hash10k"));
    assert_eq!(of(Dialect::Kvrocks), ["lists", "hash500", "hash10k", "hash5m", "string"]);
}

#[test]
fn the_number_of_requests_or_time_ends_the_figures() {
    let of = |full: bool, operations: Option<u64>, seconds: Option<f64>| {
        let own = Options { full, operations, ..Options::default() };
        (measure::operations(&own, seconds), measure::is_timed(&own, seconds))
    };
    assert_eq!(of(false, None, None), (None, true));
    assert_eq!(of(true, None, None), (Some(4_000_000), false));
    assert_eq!(of(true, None, Some(3.0)), (None, true));
    assert_eq!(of(false, Some(7), None), (Some(7), false));
    assert_eq!(of(true, Some(7), Some(3.0)), (Some(7), true));
}

#[test]
fn the_causes_of_slow_requests_are_drawn_as_piles_where_there_is_a_ledger() {
    let mut results: ResultsOf<Store> = check::read(RECORDED, Store::NAME);
    results.lines.retain(|line| line.cell.part == Part::Latency && line.cell.variant == Variant::TarnFull);
    results.lines.truncate(1);
    let piles = |results: &ResultsOf<Store>| {
        let charts = check::charts(&html::<Store>(results, QUICK));
        charts.into_iter().filter(|chart| chart["kind"] == "stacked").collect::<Vec<_>>()
    };
    assert!(piles(&results).is_empty());
    let blame = |latch| {
        let causes = Cause::ALL.map(|cause| (cause, 0.0)).into_iter();
        let causes = causes.chain([(Cause::Latch, latch), (Cause::Outside, 250.0)]).collect();
        Some(Blame { causes, requests: 3, ..Blame::default() })
    };
    let course = &mut results.lines[0].figures.course;
    (course.without_slow, course.during_slow) = (blame(0.0), blame(1500.0));
    let [pile] = &piles(&results)[..] else { panic!("a chart for the one size") };
    let series: Vec<_> =
        ["latch", "outside"].iter().zip(pile["series"].as_array().into_iter().flatten()).collect();
    assert_eq!(pile["labels"].as_array().map(Vec::len), Some(2), "{pile}");
    assert!(series.iter().all(|(name, own)| own["name"] == **name && own["color"].is_string()), "{pile}");
    assert_eq!(pile["series"].as_array().map(Vec::len), Some(2), "{pile}");
    assert_eq!(series[0].1["data"], serde_json::json!([0.0, 1500.0]));
}

#[test]
fn the_lines_of_figures_13_to_17_have_a_value_for_each_size_and_each_share_of_updates() {
    let mut results: ResultsOf<Store> = check::read(RECORDED, Store::NAME);
    let is_wanted = |cell: &Cell| cell.part == Part::Figures && cell.variant == Variant::RedisServer;
    results.lines.retain(|line| is_wanted(&line.cell));
    let lists = |results: &ResultsOf<Store>, part: &str, list: &str| -> Vec<Vec<f64>> {
        let rows = Store::rows(results, QUICK);
        let own = rows.iter().filter(|row| row["part"] == part);
        own.map(|row| serde_json::from_value(row[list].clone()).expect("it is a list of numbers")).collect()
    };
    // Recorded are one size and five shares of updates.
    assert_eq!(lists(&results, "figures-by-size", "rates"), [[0.0; 0]]);
    assert_eq!(lists(&results, "figures-by-updates", "longest").concat().len(), 5);
    let mut larger = results.lines[0].clone();
    let course = &mut larger.figures.course;
    (larger.cell.data.count, course.all.rate) = (larger.cell.data.count * 2, course.all.rate / 3.0);
    course.taken.iter_mut().for_each(|taken| taken.seconds *= 4.0);
    results.lines.push(larger);
    let ratio = |list: &str| match lists(&results, "figures-by-size", list)[..] {
        [ref own] if own.len() == 2 => own[1] / own[0],
        ref other => panic!("{other:?}"),
    };
    assert!((ratio("rates") - 1.0 / 3.0).abs() < 1e-9 && (ratio("seconds_a_record") - 2.0).abs() < 1e-9);
}
