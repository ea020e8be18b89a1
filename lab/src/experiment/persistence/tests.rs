//! Tests the report and the targets with changed results.

use super::Persistence;
use super::cell::Memory;
use crate::experiment::contract::check;
use crate::experiment::{Experiment, ResultsOf, Wanted};

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
    says(&results, &["by a control group", "appendfsync always", "the kernel &lt;ended&gt; it"]);
    results.lines.retain(|line| line.cell.memory == Memory::Ample);
    says(&results, &["<dt>short memory</dt><dd>not measured"]);
    results.notes.push("no <groups>".to_owned());
    says(&results, &["not possible there: no &lt;groups&gt;"]);
}
