//! The head of the report: place, time and method of the measurement, and the legend.

use super::super::cell::Algorithm;
use super::super::plan::Scale;
use super::data::Study;
use super::looks::look;
use crate::drawing::{escape, utc};

/// The measured quantities and the way in which `ticks.rs`, `flood.rs` and `transactions.rs` measure them.
const QUANTITIES: &[(&str, &str)] = &[
    (
        "tick latency",
        "the update stage of a tick, from when the client begins (when the tick should begin, or when the \
         one before has ended if that was later) until its last update is done; waiting for a cut is part of \
         it. Ticks before half of the time to the first snapshot warm up and do not count.",
    ),
    (
        "quiet, during",
        "a tick is one during a snapshot if it overlaps with the time from the trigger until the checkpoint \
         is durable; else it is quiet.",
    ),
    ("longest from intended start", "from when a tick should have begun until its update stage has ended."),
    ("mean", "over all ticks, quiet or not."),
    (
        "taken phase",
        "from when the client is out until the snapshot is taken; the longest of the snapshots of a run.",
    ),
    (
        "wait at the trigger",
        "the longest that the client waited to be let in again while a snapshot was taken.",
    ),
    (
        "checkpoint",
        "from the end of the taken phase until the checkpoint is durable: traversal, dump and fsync; the \
         median of the snapshots. The first one of PP and HG, which has all rows, does not count.",
    ),
    ("max throughput", "updates a second without idle stages, while snapshots are traversed and not dumped."),
    (
        "memory",
        "the most resident memory of the process, with what a forked child had for itself; the program and \
         the prepared accesses are in it.",
    ),
];

/// The flag of a scale on the command line.
pub const fn flag(scale: Scale) -> &'static str {
    match scale {
        Scale::Quick => " --quick",
        Scale::Default => "",
        Scale::Full => " --full",
    }
}

/// Where, when and how it was measured.
pub fn head(study: &Study<'_>) -> String {
    let own: Vec<_> = study.results.lines.iter().filter(|line| line.seed == study.seed).collect();
    let mut rows = Vec::new();
    let mut row =
        |name: &str, value: String| rows.push(format!("<dt>{name}</dt><dd>{}</dd>", escape(&value)));
    let distinct = |texts: Vec<String>| {
        let mut texts = texts;
        texts.sort();
        texts.dedup();
        texts.join("; ")
    };
    row("machine", distinct(own.iter().map(|line| line.machine_text()).collect()));
    row("commit", distinct(own.iter().map(|line| line.commit.clone()).collect()));
    row("scale", study.scale.name().to_owned());
    row("seed", study.seed.to_string());
    let times = || own.iter().map(|line| line.unix_ms).filter(|ms| *ms > 0);
    if let (Some(first), Some(last)) = (times().min(), times().max()) {
        row("measured", format!("from {} to {}", utc(first), utc(last)));
    }
    let flag = flag(study.scale);
    let path = study.results.path.display();
    row("again by", format!("tarn lab run snapshots{flag} --seed {} --json {path}", study.seed));
    row("drawn by", format!("tarn lab report{} --json {path}", flag));
    let how: Vec<String> = QUANTITIES
        .iter()
        .map(|(name, how)| format!("<dt>{}</dt><dd>{}</dd>", escape(name), escape(how)))
        .collect();
    format!(
        "<dl>{}</dl>\n<details><summary>How each quantity is measured</summary><dl>{}</dl></details>\n{}",
        rows.join("\n"),
        how.join("\n"),
        legend(&Algorithm::PHYSICAL)
    )
}

/// The colours and signs of algorithms.
pub fn legend(algorithms: &[Algorithm]) -> String {
    let signs = algorithms.iter().map(|algorithm| {
        let name = algorithm.name();
        look(*algorithm).legend(name)
    });
    format!("<p class=\"legend\">{}</p>", signs.collect::<Vec<_>>().join("\n"))
}
