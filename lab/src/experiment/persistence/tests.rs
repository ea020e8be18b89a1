//! Tests the report and the targets with changed results.

#![allow(clippy::unwrap_used)]

use super::Persistence;
use super::cell::{Figures, Memory};
use super::trial::save_rules;
use crate::experiment::contract::check;
use crate::experiment::{Experiment, ResultsOf, Wanted};
use crate::report::LeftOut;
use crate::shortage::{Means, REFUSED, Shortage};

const RECORDED: &str = include_str!("../../../tests/results/persistence.jsonl");
const QUICK: Wanted = Wanted { quick: true, full: false };

#[test]
fn the_page_says_how_memory_was_short_or_why_it_was_not() {
    let mut results: ResultsOf<Persistence> = check::read(RECORDED, Persistence::NAME);
    let says = |results: &_, words: &[&str]| {
        let page = check::page::<Persistence>(results, QUICK);
        words.iter().for_each(|words| assert!(page.contains(words), "{words}"));
    };
    results.lines[0].figures.ended = Some("the kernel <ended> it".to_owned());
    results.lines[0].cell.memory = Memory::Short;
    results.lines[0].cell.shortage = Some(Shortage { percent: 50, by: Means::SwapFile });
    says(
        &results,
        &[
            "by a control group with a swap file: 0.5 x the raw data and 16 MiB",
            "appendfsync always",
            "the kernel &lt;ended&gt; it",
        ],
    );
    // Those of before have another limit.
    says(&results, &["by a control group with the machine's own swap: 0.75 x the raw data"]);
    results.lines.retain(|line| line.cell.memory == Memory::Ample);
    says(&results, &["<dt>short memory</dt><dd>not measured"]);
    results.notes.push("another note".to_owned());
    says(&results, &["<dt>short memory</dt><dd>not measured"]);
    let mut cell = results.lines[0].cell;
    cell.memory = Memory::Short;
    let (what, why) = (cell.to_string(), format!("{REFUSED}: no <groups>"));
    results.left_out.push(LeftOut { cell: Some(cell), what, why, failed: false });
    says(&results, &["<dt>short memory</dt><dd>not possible there: no &lt;groups&gt;"]);
}

#[test]
fn a_start_that_ended_has_no_figures() {
    let ended = Figures { ended: Some("the kernel ended it".to_owned()), kills: 1, ..Figures::default() };
    let value = serde_json::to_value(&ended).unwrap();
    let numbers = value.as_object().unwrap().iter().filter(|(_, own)| own.is_number());
    assert_eq!(numbers.map(|own| &**own.0).collect::<Vec<_>>(), ["kills", "loaded", "errors"]);
    // As a mean of nothing would be one.
    assert!(value.get("usage").is_none());
}

#[test]
fn the_share_of_cores_is_that_of_the_machine_that_measured_it() {
    let mut results: ResultsOf<Persistence> = check::read(RECORDED, Persistence::NAME);
    let judged = |results: &_| check::judged::<Persistence>(results, QUICK, "share of the cores");
    results.lines.iter_mut().for_each(|line| line.figures.cores_busy = Some(1.6));
    assert_eq!(judged(&results), [true; 3]);
    results.lines.iter_mut().for_each(|line| line.machine["cores"] = 4.into());
    assert_eq!(judged(&results), [false; 3]);
}

#[test]
fn the_rules_of_the_study_are_sooner_due_with_fewer_records() {
    let rules = [4_000_000, 8_000_000, 40_000].map(save_rules);
    assert_eq!(rules, ["900 1 300 10 60 1000", "900 1 300 10 60 1000", "9 1 3 10 1 1000"]);
}
