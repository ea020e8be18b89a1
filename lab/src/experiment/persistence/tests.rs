//! Tests the report and the targets with changed results.

use super::Persistence;
use super::cell::Memory;
use crate::experiment::contract::check;
use crate::experiment::{Experiment, ResultsOf, Wanted};
use crate::shortage::{Means, Shortage};

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
    results.notes.push("no <groups>".to_owned());
    says(&results, &["not possible there: no &lt;groups&gt;"]);
}

#[test]
fn the_share_of_cores_is_that_of_the_machine_that_measured_it() {
    let mut results: ResultsOf<Persistence> = check::read(RECORDED, Persistence::NAME);
    let judged = |results: &_| check::judged::<Persistence>(results, QUICK, "share of the cores");
    results.lines.iter_mut().for_each(|line| line.figures.cores_busy = 1.6);
    assert_eq!(judged(&results), [true; 3]);
    results.lines.iter_mut().for_each(|line| line.machine["cores"] = 4.into());
    assert_eq!(judged(&results), [false; 3]);
}
