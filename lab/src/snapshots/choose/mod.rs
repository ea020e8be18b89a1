//! `tarn lab choose`: recommends an algorithm for a workload, by the measurements.
//!
//! ```text
//!   results ─► predict: what each algorithm would cost ─► advise: who is ruled out, who is best
//! ```

mod advise;
mod curve;
mod predict;

use std::path::PathBuf;

use tarn_study::Shape;

use super::cell::Results;
use super::compare::data::Study;
use super::study::{Snapshots, scales};
use crate::error::{LabError, Result};
use crate::experiment::{Experiment, Wanted};
use crate::report::{number_cell, table};
use crate::results::nothing_measured;
use advise::{Advice, advise, recommendation};
use predict::Prediction;

/// The workload, and where the measurements are.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub struct Options {
    /// Rows of the array.
    #[arg(long, value_name = "COUNT")]
    pub rows: usize,
    /// Bytes of a row, a multiple of 8.
    #[arg(long, value_name = "BYTES")]
    pub row_bytes: usize,
    /// Updates a second, of whole rows that are chosen uniformly.
    #[arg(long, value_name = "COUNT")]
    pub updates_per_s: u64,
    /// Available memory, such as 4gb.
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub memory: Option<u64>,
    /// The longest time that a client may wait when a snapshot is taken.
    #[arg(long, value_name = "MICROSECONDS")]
    pub latency_us_max: Option<u64>,
    /// Each snapshot must have all rows, and not only the changed ones.
    #[arg(long)]
    pub full_only: bool,
    /// The file of results.
    #[arg(long, value_name = "FILE", default_value = super::RESULTS)]
    pub json: PathBuf,
    /// Use the results of `--quick`; by default the scale of the newest result.
    #[arg(long, conflicts_with = "full")]
    pub quick: bool,
    /// Use the results of `--full`.
    #[arg(long)]
    pub full: bool,
}

impl Options {
    pub(super) fn data_bytes(&self) -> f64 {
        self.rows as f64 * self.row_bytes as f64
    }

    /// Refuses an array that cannot be, and one that nobody updates.
    fn check(&self) -> Result<()> {
        let Shape { rows, .. } = Shape::new(self.rows, self.row_bytes)?;
        if rows.checked_mul(self.row_bytes).is_none() {
            return Err(LabError::Arguments(format!("{rows} rows of {} bytes are too many", self.row_bytes)));
        }
        if self.updates_per_s == 0 {
            let why = "--updates-per-s is 0: an array that nobody updates needs no snapshot";
            return Err(LabError::Arguments(why.to_owned()));
        }
        Ok(())
    }
}

/// Bytes as people write them: `4096`, `4kb`, `4gb`.
fn bytes(text: &str) -> std::result::Result<u64, String> {
    let lower = text.to_ascii_lowercase();
    let digits = lower.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit: u64 = match &lower[digits.len()..] {
        "" | "b" => 1,
        "k" => 1000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        "t" => 1_000_000_000_000,
        "tb" => 1 << 40,
        other => return Err(format!("{other} is no unit; k, kb, m, mb, g, gb, t and tb are")),
    };
    let count: u64 = digits.parse().map_err(|_| format!("{text} is no number of bytes, such as 4gb"))?;
    count.checked_mul(unit).ok_or_else(|| format!("{text} is too much"))
}

/// Advises, on the standard output.
pub fn run(options: &Options) -> Result<()> {
    options.check()?;
    let nothing = || nothing_measured(&options.json, Snapshots::NAME);
    let results = Results::read(&options.json, Snapshots::NAME)?;
    let study = Study::newest(&results, scales(Wanted { quick: options.quick, full: options.full }))
        .ok_or_else(nothing)?;
    let advice = advise(&study, options);
    if advice.predictions.is_empty() {
        return Err(nothing());
    }
    show!(
        "{} rows of {} B: {:.2} GB, {} updates/s; measured: {}, {}",
        options.rows,
        options.row_bytes,
        options.data_bytes() / 1e9,
        options.updates_per_s,
        options.json.display(),
        study.scale.name()
    );
    print(&advice);
    Ok(())
}

fn print(advice: &Advice) {
    let heads = ["", "ns an update", "of a core", "spike µs", "memory MB", "checkpoint s", "ruled out, as"];
    let mut table = table(&heads);
    for Prediction { algorithm, update_ns, core_share, spike_us, spike_grows, memory_bytes, checkpoint_s } in
        &advice.predictions
    {
        let out = advice.ruled_out.iter().filter(|(other, _)| other == algorithm);
        let reasons: Vec<&str> = out.map(|(_, reason)| reason.as_str()).collect();
        let grows = if *spike_grows { ", grows" } else { "" };
        table.add_row(vec![
            algorithm.name().into(),
            number_cell(format!("{update_ns:.0}")),
            number_cell(format!("{:.1} %", core_share * 100.0)),
            number_cell(format!("{spike_us:.0}{grows}")),
            number_cell(format!("{:.0}", memory_bytes / 1e6)),
            number_cell(format!("{checkpoint_s:.2}")),
            reasons.join("; ").into(),
        ]);
    }
    show!("{table}");
    advice.notes.iter().for_each(|note| show!("note: {note}"));
    show!("{}", recommendation(advice.chosen.as_ref()));
}

#[cfg(test)]
mod tests;
